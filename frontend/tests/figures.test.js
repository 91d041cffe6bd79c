// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { Answer } from "../answer.js";
import { describe, describePace, formatSeconds, measure, plural } from "../figures.js";
import { contentFrame, finishFrame, USAGE_FRAME } from "./streams.js";

function answerOfThreeTokens() {
  const answer = new Answer();
  answer.connect(10);
  answer.open();
  answer.push({ kind: "data", text: contentFrame("a"), at: 10.25 });
  answer.push({ kind: "data", text: contentFrame("b"), at: 10.5 });
  answer.push({ kind: "data", text: contentFrame("c"), at: 11 });
  return answer;
}

test("measures from sending to the end when the answer is whole", () => {
  const answer = answerOfThreeTokens();
  answer.push({ kind: "data", text: finishFrame("stop"), at: 11.25 });
  answer.push({ kind: "data", text: USAGE_FRAME, at: 11.25 });
  answer.flush(11.25);
  assert.deepEqual(measure(answer, 99), { ttft_visible_s: 0.25, total_s: 1.25, tokens: 3, tokens_per_s: 2 });
});

test("leaves unknown figures null when nothing has arrived", () => {
  const answer = new Answer();
  assert.deepEqual(measure(answer, 5), {
    ttft_visible_s: null,
    total_s: null,
    tokens: null,
    tokens_per_s: null,
  });
  answer.connect(4);
  assert.deepEqual(measure(answer, 5), {
    ttft_visible_s: null,
    total_s: 1,
    tokens: null,
    tokens_per_s: null,
  });
});

test("has no speed when there was one token only", () => {
  const answer = answerOfThreeTokens();
  answer.usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  answer.flush(12);
  assert.equal(measure(answer, 12).tokens_per_s, null);
});

test("describes only what is known", () => {
  const figures = describe({ ttft_visible_s: 0.2514, total_s: 3.456, tokens: null, tokens_per_s: null });
  assert.deepEqual(
    figures.map(({ name, value }) => [name, value]),
    [
      ["TTFT", "251 ms"],
      ["Total", "3.46 s"],
    ],
  );
});

test("shows zero when zero was measured", () => {
  const [figure] = describe({ ttft_visible_s: null, total_s: null, tokens: 0, tokens_per_s: null });
  assert.equal(figure?.value, "0 tokens");
});

test("counts deltas per second while the answer grows", () => {
  assert.equal(describePace(answerOfThreeTokens(), 11.25)[0]?.value, "2 deltas/s");
  assert.deepEqual(describePace(new Answer(), 1), []);
});

for (const [seconds, words] of /** @type {[number, string][]} */ ([
  [0, "0 ms"],
  [0.0004, "0 ms"],
  [0.9994, "999 ms"],
  [0.9996, "1.00 s"],
  [9.994, "9.99 s"],
  [9.996, "10.0 s"],
  [59.94, "59.9 s"],
  [59.96, "1 min 0 s"],
  [125.4, "2 min 5 s"],
])) {
  test(`writes ${words} when ${seconds} seconds passed`, () => assert.equal(formatSeconds(seconds), words));
}

test("writes the singular when there is one", () => {
  assert.equal(plural(1, "token"), "1 token");
  assert.equal(plural(1234, "token"), "1,234 tokens");
});
