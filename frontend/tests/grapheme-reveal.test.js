// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { GraphemeReveal } from "../grapheme-reveal.js";

const TEXTS = {
  Latin: "Tea, please — naïve cafés.",
  Devanagari: "नमस्ते! क्षत्रिय चाय तैयार है।",
  Bengali: "চা প্রস্তুত আছে",
  Tamil: "தேநீர் தயார்",
  Thai: "น้ำชาพร้อมแล้ว",
  "Hangul jamo": "\u1112\u1161\u11ab\u1100\u1173\u11af",
  Arabic: "الشاي جاهز يا صديقي",
  Hebrew: "הַתֵּה מוּכָן",
  "emoji families": "👩‍👩‍👧‍👦 and 👩🏽‍🔬!",
  flags: "🇫🇷🇩🇪🇯🇵 🏴󠁧󠁢󠁳󠁣󠁴󠁿",
  keycaps: "1️⃣2️⃣#️⃣",
  "line ends": "one\r\ntwo\n\nthree",
};

/**
 * Push code point by code point; returns every text that was on the screen, last the whole.
 * @param {string} text
 */
function screens(text) {
  const reveal = new GraphemeReveal();
  const shown = [""];
  for (const character of text) shown.push(`${shown.at(-1)}${reveal.push(character)}`);
  shown.push(`${shown.at(-1)}${reveal.flush()}`);
  return shown;
}

/** @param {string} text */
function boundaries(text) {
  const starts = Array.from(
    new Intl.Segmenter(undefined, { granularity: "grapheme" }).segment(text),
    (s) => s.index,
  );
  return new Set([...starts, text.length]);
}

for (const [name, text] of Object.entries(TEXTS)) {
  test(`shows only whole clusters when text grows by code points: ${name}`, () => {
    const whole = boundaries(text);
    for (const shown of screens(text)) assert.ok(whole.has(shown.length), `cut inside a cluster: "${shown}"`);
  });

  test(`shows the whole text when it ends: ${name}`, () => {
    assert.equal(screens(text).at(-1), text);
  });
}

test("holds exactly the last cluster when Latin text arrives", () => {
  const reveal = new GraphemeReveal();
  assert.equal(reveal.push("tea"), "te");
  assert.equal(reveal.push("\u0301s"), "a\u0301");
  assert.equal(reveal.flush(), "s");
});

test("waits for the vowel sign when a Devanagari letter came alone", () => {
  const reveal = new GraphemeReveal();
  assert.equal(reveal.push("न"), "");
  assert.equal(reveal.push("ि"), "");
  assert.equal(reveal.push(" "), "नि");
});

test("waits for the second half when a flag came half", () => {
  const reveal = new GraphemeReveal();
  assert.equal(reveal.push("🇫"), "");
  assert.equal(reveal.push("🇷"), "");
  assert.equal(reveal.push("🇩"), "🇫🇷");
  assert.equal(reveal.flush(), "🇩");
});

test("holds the whole last word when the script joins its letters", () => {
  const reveal = new GraphemeReveal();
  assert.equal(reveal.push("الش"), "");
  assert.equal(reveal.push("اي "), "الشاي");
  assert.equal(reveal.push("جا"), " ");
  assert.equal(reveal.flush(), "جا");
});

test("does not wait for ever when a cluster or a word never ends", () => {
  const marks = new GraphemeReveal();
  let shown = marks.push("a");
  for (let i = 0; i < 200; i += 1) shown += marks.push("\u0301");
  assert.ok(shown.length >= 130, `only ${shown.length} units shown`);
  const word = new GraphemeReveal();
  assert.equal(word.push("ب".repeat(200)), "ب".repeat(199));
});

test("shows all but the last cluster when one piece is long", () => {
  const piece = "x".repeat(100_000);
  assert.equal(new GraphemeReveal().push(piece), piece.slice(1));
});

test("reveals nothing when an empty piece is pushed", () => {
  assert.equal(new GraphemeReveal().push(""), "");
  assert.equal(new GraphemeReveal().flush(), "");
});
