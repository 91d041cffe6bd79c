// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { Answer } from "../answer.js";
import { contentFrame, ERROR_FRAME, finishFrame, ROLE_FRAME, USAGE_FRAME } from "./streams.js";

/**
 * An answer that took these data frames, at 1, 2, 3… seconds, after it was asked for at 0.
 * @param {string[]} frames
 */
function streamed(frames) {
  const answer = new Answer();
  answer.connect(0);
  answer.open();
  frames.forEach((text, index) => void answer.push({ kind: "data", text, at: index + 1 }));
  return answer;
}

const A_WHOLE = [ROLE_FRAME, contentFrame("Hel"), contentFrame("lo"), finishFrame("stop"), USAGE_FRAME];

test("goes from idle to done when everything arrives", () => {
  const answer = new Answer();
  assert.equal(answer.phase, "idle");
  answer.connect(0);
  assert.equal(answer.phase, "connecting");
  answer.open();
  assert.equal(answer.phase, "streaming");
  for (const text of A_WHOLE) assert.equal(answer.push({ kind: "data", text, at: 1 }), true);
  assert.equal(answer.push({ kind: "data", text: "[DONE]", at: 2 }), false);
  answer.flush(3);
  assert.equal(answer.phase, "done");
  assert.equal(answer.text, "Hello");
  assert.equal(answer.finishReason, "stop");
  assert.equal(answer.usage?.completion_tokens, 3);
  assert.equal(answer.endedAt, 3);
});

test("does not count the role frame when the first delta is timed", () => {
  assert.equal(streamed([ROLE_FRAME]).firstDeltaAt, null);
  assert.equal(streamed(A_WHOLE).firstDeltaAt, 2);
  assert.equal(streamed(A_WHOLE).deltas, 2);
});

/** @type {[string, string[], string][]} */
const ENDS = [
  ["a finish frame and no [DONE]", [contentFrame("a"), finishFrame("length")], "done"],
  ["no finish frame", [contentFrame("a")], "truncated"],
  ["[DONE] without a finish frame", [contentFrame("a"), "[DONE]"], "truncated"],
  ["nothing at all", [], "truncated"],
  ["an error frame", [contentFrame("a"), ERROR_FRAME], "failed"],
  ["an error frame after the finish frame", [contentFrame("a"), finishFrame("stop"), ERROR_FRAME], "failed"],
  ["an error frame before a finish frame", [ERROR_FRAME, finishFrame("stop")], "failed"],
  ["a frame that is not JSON", [contentFrame("a"), "<html>"], "failed"],
  ["a frame that is JSON but no object", ["null"], "failed"],
];
for (const [what, frames, phase] of ENDS) {
  test(`ends as ${phase} when there was ${what}`, () => {
    const answer = streamed(frames);
    answer.flush(9);
    assert.equal(answer.phase, phase);
  });
}

test("keeps the partial text and the error's words when an error frame comes", () => {
  const answer = streamed([contentFrame("part"), ERROR_FRAME]);
  assert.equal(answer.text, "part");
  assert.equal(answer.error?.code, "engine_error");
  assert.equal(answer.error?.message, "The engine failed.");
});

test("takes no more text but the usage when it was stopped", () => {
  const answer = streamed([contentFrame("seen")]);
  answer.stop(5);
  for (const text of [contentFrame(" unseen"), finishFrame("stop"), USAGE_FRAME])
    answer.push({ kind: "data", text, at: 6 });
  answer.flush(7);
  assert.equal(answer.phase, "stopped");
  assert.equal(answer.text, "seen");
  assert.equal(answer.endedAt, 5);
  assert.equal(answer.usage?.completion_tokens, 3);
});

test("stays stopped when an error frame follows the stop", () => {
  const answer = streamed([contentFrame("seen")]);
  answer.stop(5);
  answer.push({ kind: "data", text: ERROR_FRAME, at: 6 });
  answer.fail({ message: "late", code: "network" }, 7);
  assert.equal(answer.phase, "stopped");
  assert.equal(answer.error, null);
});

test("keeps the first start when it connects again", () => {
  const answer = new Answer();
  answer.connect(1);
  answer.connect(4);
  assert.equal(answer.startedAt, 1);
});

test("tolerates choices that are null or empty", () => {
  const answer = streamed(['{"choices":null}', '{"choices":[]}', contentFrame("a"), finishFrame("stop")]);
  answer.flush(9);
  assert.equal(answer.phase, "done");
});

test("keeps comments among the frames when the server sends them", () => {
  const answer = streamed([]);
  assert.equal(answer.push({ kind: "comment", text: "keep-alive", at: 1 }), true);
  assert.deepEqual(answer.frames, [{ kind: "comment", text: "keep-alive", at: 1 }]);
  assert.equal(answer.phase, "streaming");
});
