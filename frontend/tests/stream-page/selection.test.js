// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { Selection } from "../../stream-page/selection.js";

test("a range is put in order, and told once", () => {
  const selection = new Selection();
  /** @type {unknown[]} */
  const heard = [];
  selection.watch((range, by) => heard.push([range, by]));
  selection.set({ first: 5, last: 2 }, "table");
  selection.set({ first: 2, last: 5 }, "form");
  selection.set(null, "form");
  assert.deepEqual(heard, [
    [{ first: 2, last: 5 }, "table"],
    [null, "form"],
  ]);
});

test("the words name what is selected", () => {
  const selection = new Selection();
  assert.equal(selection.words, "the whole stream");
  selection.set({ first: 3, last: 3 }, "");
  assert.equal(selection.words, "delta 3");
  selection.set({ first: 3, last: 4 }, "");
  assert.equal(selection.words, "deltas 3–4");
});
