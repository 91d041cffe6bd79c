// @ts-check
/**
 * Reads a server-sent event stream: bytes in, timed frames out, however the network cut them.
 *
 * Comments come out too: they are never data, but the details drawer shows them. An event that the end of the
 * stream cuts off is dropped, as the standard says, so it can never pass for a whole one.
 */
import { createParser } from "eventsource-parser";

/**
 * One event's data, or one comment; `at` is when it was read, in seconds.
 * @typedef {{ kind: "data" | "comment", text: string, at: number }} Frame
 */

/**
 * Yield the frames of `body` until it ends; `onBytes` hears of every read, complete frame or not.
 * @param {ReadableStream<Uint8Array>} body
 * @param {{ clock: () => number, onBytes?: () => void }} options
 * @returns {AsyncGenerator<Frame, void, void>}
 */
export async function* readFrames(body, { clock, onBytes = () => {} }) {
  /** @type {Frame[]} */
  const complete = [];
  const parser = createParser({
    onEvent: (event) => complete.push({ kind: "data", text: event.data, at: clock() }),
    onComment: (comment) => complete.push({ kind: "comment", text: comment, at: clock() }),
  });
  const reader = body.pipeThrough(textDecoder()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onBytes();
      parser.feed(value);
      yield* complete.splice(0);
    }
  } finally {
    // A consumer that leaves early must let go of the connection too; after the end this does nothing.
    reader.cancel().catch(() => {});
  }
}

/** @returns {ReadableWritablePair<string, Uint8Array>} */
function textDecoder() {
  // The DOM types give the writable side BufferSource, which tsc does not accept for a stream of Uint8Array.
  return /** @type {ReadableWritablePair<string, any>} */ (new TextDecoderStream());
}
