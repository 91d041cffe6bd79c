// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { DeltaLog } from "../../stream-page/delta-log.js";
import { causesOf, deltaWords, logWords } from "../../stream-page/timeline-words.js";

/**
 * @param {number[]} sent_s
 * @param {[number, string, number, number | null][]} holds
 */
function logOf(sent_s, holds = []) {
  const log = new DeltaLog();
  const zeros = sent_s.map(() => 0);
  log.push({
    next_seq: null,
    running: false,
    seq: sent_s.map((_, i) => i + 1),
    sent_s,
    made_s: sent_s.map(() => null),
    first_token: zeros,
    end_token: zeros,
    chars: zeros,
    holds,
  });
  return log;
}

test("a log is told with its gaps and holds", () => {
  const log = logOf(
    [0.25, 0.5, 1.5],
    [
      [3, "stop", 2, 0.5],
      [3, "utf8", 1, null],
      [2, "stop", 2, 0.125],
    ],
  );
  assert.equal(
    logWords(log),
    "3 deltas, the last after 1.50 s. Gaps: median 625 ms, 95th percentile 962 ms, longest 1.00 s before delta 3. " +
      "Held back: 1 by utf8, 2 by stop.",
  );
  assert.deepEqual(
    causesOf(log).map(({ cause }) => cause),
    ["utf8", "stop"],
  );
});

test("a log of one delta has no gaps", () => {
  assert.equal(logWords(logOf([0.25])), "1 delta, the last after 250 ms. Nothing was held back.");
  assert.equal(logWords(logOf([])), "No deltas were sent.");
});

test("a delta is told with its gap and what held it", () => {
  const log = logOf(
    [0.25, 0.5],
    [
      [2, "stop", 2, 0.125],
      [2, "utf8", 1, null],
    ],
  );
  assert.equal(deltaWords(log, 0), "Delta 1 at 250 ms");
  assert.equal(deltaWords(log, 1), "Delta 2 at 500 ms, gap 250 ms, held by stop 125 ms, held by utf8");
});
