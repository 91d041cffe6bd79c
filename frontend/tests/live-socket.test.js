// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { waitMs } from "../live-page/live-socket.js";

test("waits get longer up to fifteen seconds, and chance takes up to half of one", () => {
  assert.deepEqual(
    [1, 2, 3, 4, 5, 6, 7, 50].map((failures) => waitMs(failures, 1)),
    [500, 1000, 2000, 4000, 8000, 15_000, 15_000, 15_000],
  );
  assert.equal(waitMs(1, 0), 250);
  assert.equal(waitMs(6, 0), 7500);
});
