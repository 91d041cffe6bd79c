// The official client for Node against the real server.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import OpenAI from "openai";
import { API_KEY, BASE_URL, FIND_PARAMETERS, MESSAGES, noteLeft } from "./client.js";

const client = new OpenAI({ baseURL: BASE_URL, apiKey: API_KEY, maxRetries: 0 });
const FIND = /** @type {const} */ ({
  type: "function",
  function: { name: "find", description: "Find a thing", parameters: FIND_PARAMETERS },
});

/**
 * @template T
 * @param {AsyncIterable<T>} stream
 * @returns {Promise<T[]>}
 */
async function all(stream) {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
}

describe("chat", () => {
  test("raw iterator gives the text and the usage", async () => {
    const chunks = await all(
      await client.chat.completions.create({
        model: "default",
        messages: MESSAGES,
        stream: true,
        stream_options: { include_usage: true },
      }),
    );
    assert.equal(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join(""), "Hello, world!");
    assert.equal(chunks.at(-2)?.choices[0]?.finish_reason, "stop");
    assert.equal(chunks.at(-1)?.usage?.total_tokens, 13);
  });

  test("stream helper gives the final completion", async () => {
    const stream = client.chat.completions.stream({ model: "default", messages: MESSAGES });
    /** @type {string[]} */
    const deltas = [];
    stream.on("content", (delta) => deltas.push(delta));
    assert.equal(await stream.finalContent(), "Hello, world!");
    assert.deepEqual(deltas.filter(Boolean), ["Hello", ", ", "world", "!"]);
    assert.equal((await stream.finalChatCompletion()).choices[0]?.finish_reason, "stop");
  });

  test("whole answer is the same", async () => {
    const whole = await client.chat.completions.create({ model: "default", messages: MESSAGES });
    assert.equal(whole.choices[0]?.message.content, "Hello, world!");
    assert.equal(whole.usage?.completion_tokens, 4);
  });

  test("stop and length are told", async () => {
    const stopped = await client.chat.completions.create({
      model: "default",
      messages: MESSAGES,
      stop: ["wor"],
    });
    assert.deepEqual(
      [stopped.choices[0]?.message.content, stopped.choices[0]?.finish_reason],
      ["Hello, ", "stop"],
    );
    const cut = await client.chat.completions.create({ model: "default", messages: MESSAGES, max_tokens: 1 });
    assert.deepEqual([cut.choices[0]?.message.content, cut.choices[0]?.finish_reason], ["Hello", "length"]);
  });

  test("several answers are told apart", async () => {
    const stream = client.chat.completions.stream({ model: "default", messages: MESSAGES, n: 2 });
    const final = await stream.finalChatCompletion();
    assert.deepEqual(
      final.choices.map((choice) => [choice.index, choice.message.content, choice.finish_reason]),
      [
        [0, "Hello, world!", "stop"],
        [1, "Hello, world!", "stop"],
      ],
    );
  });

  test("log-probabilities come with their text", async () => {
    const stream = client.chat.completions.stream({
      model: "default",
      messages: MESSAGES,
      logprobs: true,
      top_logprobs: 1,
    });
    const final = await stream.finalChatCompletion();
    const entries = final.choices[0]?.logprobs?.content ?? [];
    assert.deepEqual(
      entries.map((entry) => [entry.token, entry.logprob, entry.top_logprobs[0]?.token]),
      ["Hello", ", ", "world", "!"].map((token) => [token, 0, token]),
    );
  });

  test("tool calls are joined by the helper and come whole", async () => {
    const request = { model: "scripted-tools", messages: MESSAGES, tools: [FIND] };
    const final = await client.chat.completions.stream(request).finalChatCompletion();
    const whole = await client.chat.completions.create(request);
    for (const completion of [final, whole]) {
      const choice = completion.choices[0];
      assert.equal(choice?.finish_reason, "tool_calls");
      assert.equal(choice?.message.content, "Let me see.");
      assert.deepEqual(
        (choice?.message.tool_calls ?? []).map((call) =>
          call.type === "function" ? JSON.parse(call.function.arguments) : call,
        ),
        [{ what: "tea" }, { what: "चाय" }],
      );
    }
  });
});

describe("completions", () => {
  test("text streams", async () => {
    const chunks = await all(
      await client.completions.create({ model: "default", prompt: "Say", stream: true }),
    );
    assert.equal(chunks.map((chunk) => chunk.choices[0]?.text ?? "").join(""), "Hello, world!");
    assert.equal(chunks.at(-1)?.choices[0]?.finish_reason, "stop");
  });

  test("each prompt has its answers", async () => {
    const whole = await client.completions.create({
      model: "default",
      prompt: ["a", "b"],
      n: 2,
      max_tokens: 1,
    });
    assert.deepEqual(
      whole.choices.map((choice) => [choice.index, choice.text, choice.finish_reason]),
      [0, 1, 2, 3].map((index) => [index, "Hello", "length"]),
    );
  });
});

describe("silence", () => {
  test("a long prefill and its keep-alive comments do no harm", async () => {
    const stream = client.chat.completions.stream({ model: "scripted-silent", messages: MESSAGES });
    assert.equal(await stream.finalContent(), "at last");
  });
});

describe("ends", () => {
  test("aborting the request ends the generation", async () => {
    const abort = new AbortController();
    const stream = await client.chat.completions.create(
      { model: "scripted-slow", messages: MESSAGES, stream: true },
      { signal: abort.signal },
    );
    for await (const chunk of stream) {
      noteLeft(chunk.id);
      abort.abort();
      break;
    }
  });

  test("aborting the helper ends the generation", async () => {
    const stream = client.chat.completions.stream({ model: "scripted-slow", messages: MESSAGES });
    stream.on("chunk", (chunk) => {
      if (stream.aborted) return;
      noteLeft(chunk.id);
      stream.abort();
    });
    await assert.rejects(stream.done(), OpenAI.APIUserAbortError);
  });

  test("error before the first byte is the client's own exception", async () => {
    await assert.rejects(
      client.chat.completions.create({ model: "none", messages: MESSAGES, stream: true }),
      (error) => error instanceof OpenAI.NotFoundError && error.code === "model_not_found",
    );
    await assert.rejects(
      client.chat.completions.create({ model: "default", messages: MESSAGES, n: 9 }),
      (error) => error instanceof OpenAI.BadRequestError && error.param === "n",
    );
  });

  test("error in mid-stream is raised and never a clean end", async () => {
    const stream = await client.chat.completions.create({
      model: "scripted-failing",
      messages: MESSAGES,
      stream: true,
    });
    /** @type {(string | null | undefined)[]} */
    const texts = [];
    await assert.rejects(
      async () => {
        for await (const chunk of stream) texts.push(chunk.choices[0]?.delta.content);
      },
      (error) => error instanceof OpenAI.APIError && error.code === "engine_error",
    );
    assert.deepEqual(texts, ["", "one ", "two "]);
  });
});

test("models are listed", async () => {
  const ids = (await all(client.models.list())).map((model) => model.id);
  assert.ok(ids.includes("scripted"));
});
