// @ts-check
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { DeltaLog, duration, percentile } from "../../stream-page/delta-log.js";

/**
 * @param {[number, number][]} deltas sequence number and time of each
 * @param {[number, string, number, number | null][]} holds
 */
function columns(deltas, holds = []) {
  return {
    next_seq: null,
    running: false,
    seq: deltas.map(([seq]) => seq),
    sent_s: deltas.map(([, sent_s]) => sent_s),
    made_s: deltas.map(() => null),
    first_token: deltas.map(([seq]) => 2 * seq),
    end_token: deltas.map(([seq]) => 2 * seq + (seq % 3)),
    chars: deltas.map(() => 1),
    text: deltas.map(([seq]) => `${seq}`),
    holds,
  };
}

describe("the log", () => {
  test("measures gaps across ranges, and never across a hole", () => {
    const log = new DeltaLog();
    log.push(
      columns([
        [1, 0.5],
        [2, 0.75],
      ]),
    );
    log.push(
      columns([
        [3, 1.75],
        [7, 2],
      ]),
    );
    assert.deepEqual(log.gap_s, [null, 0.25, 1, null]);
    assert.deepEqual(log.text, ["1", "2", "3", "7"]);
  });

  test("keeps holds by sequence number", () => {
    const log = new DeltaLog();
    log.push(
      columns(
        [[1, 0.5]],
        [
          [1, "utf8", 2, 0.1],
          [1, "stop", 3, null],
        ],
      ),
    );
    assert.deepEqual(log.holds.get(1), [
      { cause: "utf8", size: 2, held_s: 0.1 },
      { cause: "stop", size: 3, held_s: null },
    ]);
  });

  test("joins the pieces of tool calls that came with one delta", () => {
    const log = new DeltaLog();
    log.push({
      ...columns([[1, 0.5]]),
      tool_calls: [
        [1, "weather", ""],
        [1, "", "{}"],
      ],
    });
    assert.equal(log.toolCalls.get(1), "weather {}");
  });

  test("finds deltas by time and by number", () => {
    const log = new DeltaLog();
    log.push(
      columns([
        [1, 0.5],
        [2, 0.5],
        [3, 1],
        [7, 2],
      ]),
    );
    assert.deepEqual(
      [0, 0.5, 0.9, 1, 5].map((at) => log.countAt(at)),
      [0, 2, 2, 3, 4],
    );
    assert.deepEqual(
      [1, 3, 4, 7, 8].map((seq) => log.indexOf(seq)),
      [0, 2, 3, 3, 4],
    );
    assert.deepEqual(log.between(0.5, 1.5), { first: 1, last: 3 });
    assert.deepEqual(log.between(1.5, 9), { first: 7, last: 7 });
    assert.equal(log.between(1.1, 1.9), null);
  });

  test("names token positions, both ends included", () => {
    const log = new DeltaLog();
    log.push(
      columns([
        [1, 0],
        [2, 0],
        [3, 0],
      ]),
    );
    assert.deepEqual([log.tokens(0), log.tokens(1), log.tokens(2)], ["2", "4–5", ""]);
  });
});

test("percentiles are interpolated as numpy does", () => {
  assert.equal(percentile([1, 2, 3, 10], 0.5), 2.5);
  assert.equal(percentile([1, 2, 3, 10], 0.95)?.toFixed(6), "8.950000");
  assert.equal(percentile([4], 0.95), 4);
  assert.equal(percentile([], 0.5), null);
});

test("durations are written as the server writes them", () => {
  const written = [null, 0, 0.00001234, 0.0123, 0.25, 1, 12.345].map(duration);
  assert.deepEqual(written, ["", "0 ms", "0.01 ms", "12.3 ms", "250 ms", "1.00 s", "12.35 s"]);
});
