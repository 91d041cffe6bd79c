// @ts-check
/** Streams of bytes for tests, and the shared cases of what servers send. */
import { readFileSync } from "node:fs";

/**
 * @param {Uint8Array[]} chunks
 * @returns {ReadableStream<Uint8Array>}
 */
export function bytesStream(chunks) {
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
}

/**
 * @param {string} name
 * @returns {{ id: string, source: string, chunks: string[], data: string[], end: string }[]}
 */
export function readCases(name) {
  const text = readFileSync(new URL(`./data/${name}`, import.meta.url), "utf8");
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}

/**
 * A content frame as the server sends it.
 * @param {string} content
 */
export function contentFrame(content) {
  return JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: null }], usage: null });
}

/** @param {string} reason */
export function finishFrame(reason) {
  return JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: reason }], usage: null });
}

export const ROLE_FRAME = JSON.stringify({
  choices: [{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }],
  usage: null,
});
export const USAGE_FRAME = JSON.stringify({
  choices: [],
  usage: { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 },
});
export const ERROR_FRAME = JSON.stringify({
  error: { message: "The engine failed.", type: "server_error", param: null, code: "engine_error" },
});
