// @ts-check
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { characterRows } from "../../stream-page/characters.js";

/** @param {string} text */
const flags = (text) => [...characterRows([text], [1])].flatMap((row) => row.flags);

test("a grapheme is told with its code points and bytes", () => {
  assert.deepEqual(
    [...characterRows(["né", "👩\u200d🔬!"], [1, 2])].map(({ grapheme, seq, codePoints, bytes }) => [
      grapheme,
      seq,
      codePoints.join(" "),
      bytes,
    ]),
    [
      ["n", 1, "U+006E", "6e"],
      ["é", 1, "U+00E9", "c3 a9"],
      ["👩\u200d🔬", 2, "U+1F469 U+200D U+1F52C", "f0 9f 91 a9 e2 80 8d f0 9f 94 ac"],
      ["!", 2, "U+0021", "21"],
    ],
  );
});

test("a grapheme that was sent in parts is told so", () => {
  const rows = [...characterRows(["a", "e", "\u0301", "", "b"], [3, 4, 5, 6, 7])];
  assert.deepEqual(
    rows.map(({ grapheme, seq }) => [grapheme, seq]),
    [
      ["a", 3],
      ["e\u0301", 4],
      ["b", 7],
    ],
  );
  assert.deepEqual(
    rows[1]?.flags,
    ["combining mark", "cut between deltas", "not NFC"].sort((a, b) => order(a) - order(b)),
  );
});

/** @param {string} flag */
const order = (flag) => ["combining mark", "not NFC", "cut between deltas"].indexOf(flag);

describe("flags", () => {
  /** @type {[string, string[]][]} */
  const cases = [
    ["plain text, é 你 \n\t", []],
    ["\ufffd", ["U+FFFD, replacement character"]],
    ["\ud800", ["lone surrogate"]],
    ["\u202e", ["bidi control"]],
    ["\u200b", ["zero width"]],
    ["\ufeff", ["zero width"]],
    ["❤\ufe0f", ["combining mark", "variation selector"]],
    ["\x1b", ["control"]],
    ["\r", ["control"]],
    ["\u00a0", ["unusual space"]],
    ["\u3164", ["invisible"]],
    ["\u00ad", ["invisible"]],
    ["\ue000", ["private use"]],
    ["\u0378", ["unassigned"]],
    ["\u212b", ["not NFC"]],
  ];
  for (const [text, expected] of cases)
    test(`${JSON.stringify(text)} has ${expected.join(", ") || "none"}`, () => {
      assert.deepEqual(flags(text), expected);
    });
});

test("a lone surrogate has no bytes", () => {
  assert.equal([...characterRows(["\ud800"], [1])][0]?.bytes, "none");
});
