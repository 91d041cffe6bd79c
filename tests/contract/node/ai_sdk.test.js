// A second real client, which parses the stream with code of its own: the Vercel AI SDK.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, streamText, tool } from "ai";
import { API_KEY, BASE_URL, FIND_PARAMETERS, MESSAGES, noteLeft } from "./client.js";

const provider = createOpenAICompatible({
  name: "streamsite",
  baseURL: BASE_URL,
  apiKey: API_KEY,
  includeUsage: true,
});
const find = tool({
  description: "Find a thing",
  inputSchema: jsonSchema(/** @type {import("ai").JSONSchema7} */ (/** @type {unknown} */ (FIND_PARAMETERS))),
});

/** @param {string} name */
function asked(name) {
  return { model: provider(name), messages: MESSAGES, maxRetries: 0 };
}

describe("text", () => {
  test("streams with its usage and its end", async () => {
    const result = streamText(asked("default"));
    const pieces = [];
    for await (const piece of result.textStream) pieces.push(piece);
    assert.deepEqual(pieces, ["Hello", ", ", "world", "!"]);
    assert.equal(await result.finishReason, "stop");
    const usage = await result.usage;
    assert.deepEqual([usage.inputTokens, usage.outputTokens], [9, 4]);
  });

  test("comes whole", async () => {
    const result = await generateText({ ...asked("default"), maxOutputTokens: 2 });
    assert.deepEqual([result.text, result.finishReason], ["Hello, ", "length"]);
  });

  test("goes on from a bare prompt", async () => {
    const result = streamText({ model: provider.completionModel("default"), prompt: "Say", maxRetries: 0 });
    assert.equal(await result.text, "Hello, world!");
  });

  test("is waited for through a long silence", async () => {
    assert.equal(await streamText(asked("scripted-silent")).text, "at last");
  });
});

describe("tools", () => {
  test("are called in a stream", async () => {
    const result = streamText({ ...asked("scripted-tools"), tools: { find } });
    assert.equal(await result.finishReason, "tool-calls");
    assert.deepEqual(
      (await result.toolCalls).map((call) => [call.toolName, call.input]),
      [
        ["find", { what: "tea" }],
        ["find", { what: "चाय" }],
      ],
    );
  });

  test("are called in a whole answer", async () => {
    const result = await generateText({ ...asked("scripted-tools"), tools: { find } });
    assert.deepEqual(
      result.toolCalls.map((call) => call.input),
      [{ what: "tea" }, { what: "चाय" }],
    );
  });
});

describe("ends", () => {
  test("aborting ends the generation", async () => {
    const abort = new AbortController();
    const result = streamText({
      ...asked("scripted-slow"),
      abortSignal: abort.signal,
      includeRawChunks: true,
      onError: () => {},
    });
    for await (const part of result.fullStream) {
      if (part.type !== "raw" || abort.signal.aborted) continue;
      noteLeft(/** @type {{ id: string }} */ (part.rawValue).id);
      abort.abort();
    }
    assert.ok(abort.signal.aborted);
  });

  test("error before the first byte is told with its words", async () => {
    await assert.rejects(generateText(asked("none")), /There is no model 'none'/);
  });

  test("error in mid-stream is told and never a clean end", async () => {
    /** @type {unknown[]} */
    const errors = [];
    const result = streamText({
      ...asked("scripted-failing"),
      onError: ({ error }) => void errors.push(error),
    });
    let text = "";
    for await (const piece of result.textStream) text += piece;
    assert.equal(text, "one two ");
    assert.equal(errors.length, 1);
    assert.match(JSON.stringify(errors[0]) + String(errors[0]), /The script fails here/);
    assert.equal(await result.finishReason, "error");
  });
});
