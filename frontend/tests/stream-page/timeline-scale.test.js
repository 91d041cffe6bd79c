// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { gapBounds, gapLabel, gapTicks, labelRows } from "../../stream-page/timeline-scale.js";

test("all gaps lie between the lanes and the labels", () => {
  const [low, high] = gapBounds(1000, { height: 300, above: 60, below: 40 });
  /** @param {number} ms */
  const y = (ms) => (300 * (Math.log10(ms) - Math.log10(low))) / (Math.log10(high) - Math.log10(low));
  assert.equal(y(0.1).toFixed(6), "40.000000");
  assert.equal(y(1000).toFixed(6), "240.000000");
});

test("ticks are powers of ten up to the longest gap", () => {
  assert.deepEqual(gapTicks(450).map(gapLabel), ["0.1 ms", "1 ms", "10 ms", "100 ms"]);
  assert.deepEqual(gapTicks(1000).map(gapLabel).at(-1), "1 s");
});

test("labels that would hide one another get rows of their own", () => {
  const labels = [0, 1, 2, 3, 200].map((x) => ({ x, width: 50 }));
  assert.deepEqual(labelRows(labels, 3), [0, 1, 2, 2, 0]);
});
