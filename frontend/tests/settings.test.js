// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { requestFields, stopStrings } from "../settings.js";

/** @param {Record<string, string>} values */
function form(values) {
  const data = new FormData();
  for (const [name, value] of Object.entries(values)) data.set(name, value);
  return data;
}

test("leaves a field out when it is empty", () => {
  assert.deepEqual(
    requestFields(form({ temperature: "", top_p: " ", max_tokens: "", seed: "", system: " ", stop: "" })),
    {},
  );
});

test("keeps zero when zero was typed", () => {
  assert.deepEqual(requestFields(form({ temperature: "0", seed: "0" })), { temperature: 0, seed: 0 });
});

test("sends numbers, texts and stop strings when they were typed", () => {
  const fields = requestFields(
    form({
      temperature: "0.7",
      top_p: "0.9",
      max_tokens: "64",
      seed: "-1",
      system: " Be kind. ",
      stop: "END\n###",
    }),
  );
  assert.deepEqual(fields, {
    temperature: 0.7,
    top_p: 0.9,
    max_tokens: 64,
    seed: -1,
    system: "Be kind.",
    stop: ["END", "###"],
  });
});

for (const [text, strings] of /** @type {[string, string[]][]} */ ([
  ["", []],
  ["END", ["END"]],
  [" two words ", [" two words "]],
  ["a\r\nb\n\nc", ["a", "b", "c"]],
  ["\\n\\n", ["\n\n"]],
])) {
  test(`reads ${JSON.stringify(strings)} when ${JSON.stringify(text)} was typed`, () => {
    assert.deepEqual(stopStrings(text), strings);
  });
}
