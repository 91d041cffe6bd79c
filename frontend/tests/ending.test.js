// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { Answer } from "../answer.js";
import { endingOf, storedEnding } from "../ending.js";
import { contentFrame, ERROR_FRAME, finishFrame } from "./streams.js";

/**
 * @param {(answer: Answer) => void} live
 */
function ended(live) {
  const answer = new Answer();
  answer.connect(0);
  answer.open();
  live(answer);
  return endingOf(answer);
}

const push = (/** @type {Answer} */ answer, /** @type {string} */ text) =>
  answer.push({ kind: "data", text, at: 1 });

/** @type {[string, string, string, (answer: Answer) => void][]} */
const LIVE = [
  ["nothing arrived yet", "waiting", "Waiting", () => {}],
  ["text arrives", "running", "Answering", (answer) => void push(answer, contentFrame("a"))],
  [
    "nothing arrives for long",
    "stalled",
    "Stalled",
    (answer) => {
      answer.stalled = true;
    },
  ],
  [
    "the model ended",
    "complete",
    "Complete",
    (answer) => {
      push(answer, finishFrame("stop"));
      answer.flush(2);
    },
  ],
  [
    "the limit was reached",
    "length",
    "Length limit",
    (answer) => {
      push(answer, finishFrame("length"));
      answer.flush(2);
    },
  ],
  ["the reader stopped it", "stopped", "Stopped", (answer) => answer.stop(2)],
  ["the connection broke", "interrupted", "Interrupted", (answer) => answer.flush(2)],
  ["the engine failed", "error", "Error", (answer) => void push(answer, ERROR_FRAME)],
  ["it was refused", "error", "Error", (answer) => answer.fail({ message: "No.", code: "http_400" }, 2)],
  [
    "the server shut down",
    "interrupted",
    "Interrupted",
    (answer) => answer.fail({ message: "Bye.", code: "server_shutdown" }, 2),
  ],
];
for (const [when, kind, label, live] of LIVE) {
  test(`a live answer is ${label} when ${when}`, () => {
    const ending = ended(live);
    assert.equal(ending.kind, kind);
    assert.equal(ending.label, label);
  });
}

/** @type {[string, string | null, string | null, string, string][]} */
const STORED = [
  ["running", null, null, "running", "Answering"],
  ["done", "stop", "eos", "complete", "Complete"],
  ["done", "stop", "stop_string", "complete", "Complete"],
  ["done", "length", "length", "length", "Length limit"],
  ["done", "length", "context", "length", "Context full"],
  ["stopped", "stop", "client_stop", "stopped", "Stopped"],
  ["stopped", null, "client_disconnect", "stopped", "Stopped"],
  ["failed", null, "engine_error", "error", "Error"],
  ["failed", null, "upstream_error", "error", "Error"],
  ["failed", null, "upstream_truncated", "interrupted", "Interrupted"],
  ["failed", null, "timeout", "interrupted", "Interrupted"],
  ["stopped", null, "server_shutdown", "interrupted", "Interrupted"],
  ["lost", null, "lost", "interrupted", "Interrupted"],
  ["failed", null, "a reason of a later version", "error", "Error"],
];
for (const [state, finish_reason, stop_reason, kind, label] of STORED) {
  test(`a stored answer is ${label} when its row says ${state}, ${stop_reason}`, () => {
    const ending = storedEnding({ state, finish_reason, stop_reason });
    assert.equal(ending.kind, kind);
    assert.equal(ending.label, label);
  });
}

test("says the server's words when an answer failed", () => {
  assert.equal(ended((answer) => void push(answer, ERROR_FRAME)).explanation, "The engine failed.");
});
