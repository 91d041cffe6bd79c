// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { visibleSegments } from "../../stream-page/visible.js";

/** The cases of the server's own test, so that both show a text alike. @type {[string, [string, string][]][]} */
const CASES = [
  ["", []],
  ["plain", [["plain", ""]]],
  [
    "a b",
    [
      ["a", ""],
      ["·", "space"],
      ["b", ""],
    ],
  ],
  [
    "a\n",
    [
      ["a", ""],
      ["⏎", "line feed"],
    ],
  ],
  ["\t", [["⇥", "tab"]]],
  ["\r", [["\\x0d", "carriage return"]]],
  [
    "a\0b",
    [
      ["a", ""],
      ["\\x00", "U+0000"],
      ["b", ""],
    ],
  ],
  [
    "\x1b[31m",
    [
      ["\\x1b", "U+001B"],
      ["[31m", ""],
    ],
  ],
  ["\x9b", [["\\x9b", "U+009B"]]],
  [
    "\u202etxt",
    [
      ["U+202E", "U+202E"],
      ["txt", ""],
    ],
  ],
  ["\u00a0", [["U+00A0", "U+00A0"]]],
  ["\u200b", [["U+200B", "U+200B"]]],
  ["\ufeff", [["U+FEFF", "U+FEFF"]]],
  ["\u2028", [["U+2028", "U+2028"]]],
  ["\u{e0041}", [["U+E0041", "U+E0041"]]],
  ["\ud800", [["U+D800", "U+D800"]]],
  ["नमस्ते", [["नमस्ते", ""]]],
  ["👨\u200d👩\u200d👧", [["👨\u200d👩\u200d👧", ""]]],
  [
    "\u200d👩",
    [
      ["U+200D", "U+200D"],
      ["👩", ""],
    ],
  ],
  [
    "a\u200cb",
    [
      ["a", ""],
      ["U+200C", "U+200C"],
      ["b", ""],
    ],
  ],
  ["❤\ufe0f", [["❤\ufe0f", ""]]],
  ["\ufe0f", [["U+FE0F", "U+FE0F"]]],
];

for (const [text, expected] of CASES)
  test(`${JSON.stringify(text)} is made visible`, () => {
    const segments = visibleSegments(text, { whitespace: true });
    assert.deepEqual(
      segments.map(({ text, name }) => [text, name]),
      expected,
    );
  });

test("ordinary white space stays when not asked for", () => {
  assert.deepEqual(visibleSegments("a b\n\tc\u3000d", { whitespace: false }), [
    { text: "a b\n\tc\u3000d", name: "" },
  ]);
});

test("a joiner or selector at the edge stays when it works on what is beside it", () => {
  const whitespace = false;
  assert.deepEqual(visibleSegments("\u200d👩", { whitespace, before: "👨" }), [
    { text: "\u200d👩", name: "" },
  ]);
  assert.deepEqual(visibleSegments("\ufe0f", { whitespace, before: "❤" }), [{ text: "\ufe0f", name: "" }]);
  assert.equal(visibleSegments("\u200d", { whitespace, before: "a", after: "b" })[0]?.text, "U+200D");
});
