// @ts-check
/**
 * One answer's life as the page sees it: idle → connecting → streaming → done | stopped | failed | truncated.
 *
 * Frames in; phase, text, figures and error out. No network, no DOM. An error frame outranks finish_reason, which
 * outranks `[DONE]`, which outranks the end of the connection: an answer is never done unless the server said why.
 */

/** @typedef {import("./frame-reader.js").Frame} Frame */
/** @typedef {"idle" | "connecting" | "streaming" | "done" | "stopped" | "failed" | "truncated"} Phase */
/** @typedef {{ prompt_tokens: number, completion_tokens: number, total_tokens: number }} Usage */
/** @typedef {{ message: string, code: string | null, type?: string | null, param?: string | null }} AnswerError */

const ENDED = new Set(["done", "stopped", "failed", "truncated"]);

export class Answer {
  /** @type {Phase} */
  phase = "idle";
  /** What the server sent so far; after a stop it no longer grows. */
  text = "";
  /** @type {string | null} */
  finishReason = null;
  /** @type {Usage | null} */
  usage = null;
  /** @type {AnswerError | null} */
  error = null;
  /** @type {string | null} */
  requestId = null;
  /** True while the connection is open but has been silent for too long. */
  stalled = false;
  /** Number of content deltas; a delta is not a token. */
  deltas = 0;
  /** Seconds of the caller's clock; null until it happened. @type {number | null} */
  startedAt = null;
  /** @type {number | null} */
  firstDeltaAt = null;
  /** @type {number | null} */
  endedAt = null;
  /** @type {Frame[]} */
  frames = [];

  get ended() {
    return ENDED.has(this.phase);
  }

  /**
   * The request goes out; a retry calls it again and keeps the first start, because that is when the reader sent.
   * @param {number} at
   */
  connect(at) {
    this.startedAt ??= at;
    this.phase = "connecting";
    this.error = null;
    this.frames = [];
  }

  /** The server accepted the request and its frames follow. */
  open() {
    if (this.phase === "connecting") this.phase = "streaming";
  }

  /**
   * Take a frame; returns false once nothing that follows can matter.
   * @param {Frame} frame
   */
  push(frame) {
    this.frames.push(frame);
    if (frame.kind === "comment") return true;
    if (frame.text === "[DONE]") return false;
    const chunk = parseChunk(frame.text);
    if ("error" in chunk) this.#pushError(chunk.error, frame.at);
    else this.#pushChunk(chunk, frame.at);
    return true;
  }

  /**
   * The frames ended, with `[DONE]` or without.
   * @param {number} at
   */
  flush(at) {
    this.#end(this.finishReason ? "done" : "truncated", at);
  }

  /**
   * The reader pressed Stop or left; text that still arrives is not taken, a usage frame is.
   * @param {number} at
   */
  stop(at) {
    this.#end("stopped", at);
  }

  /**
   * The request was refused or the connection could not be made.
   * @param {AnswerError} error
   * @param {number} at
   */
  fail(error, at) {
    if (!this.ended) this.error = error;
    this.#end("failed", at);
  }

  /**
   * @param {AnswerError} error
   * @param {number} at
   */
  #pushError(error, at) {
    if (this.phase !== "streaming") return;
    this.error = error;
    this.#end("failed", at);
  }

  /**
   * @param {Chunk} chunk
   * @param {number} at
   */
  #pushChunk(chunk, at) {
    this.usage = chunk.usage ?? this.usage;
    const choice = chunk.choices?.[0];
    if (!choice || this.phase !== "streaming") return;
    const content = choice.delta?.content;
    if (content) {
      this.text += content;
      this.deltas += 1;
      this.firstDeltaAt ??= at;
    }
    this.finishReason = choice.finish_reason ?? this.finishReason;
  }

  /**
   * @param {Phase} phase
   * @param {number} at
   */
  #end(phase, at) {
    if (this.ended) return;
    this.phase = phase;
    this.endedAt = at;
    this.stalled = false;
  }
}

/**
 * The parts of a `chat.completion.chunk` that the page reads; some servers send `choices: null`.
 * @typedef {{
 *   choices?: { delta?: { content?: string | null }, finish_reason?: string | null }[] | null,
 *   usage?: Usage | null,
 * }} Chunk
 */

/**
 * @param {string} text
 * @returns {Chunk | { error: AnswerError }}
 */
function parseChunk(text) {
  try {
    const chunk = JSON.parse(text);
    if (chunk !== null && typeof chunk === "object") return chunk.error ? { error: chunk.error } : chunk;
  } catch {
    // Falls through: not JSON is as wrong as JSON that is no object.
  }
  return { error: { message: "The server sent a frame that is not a JSON object.", code: "bad_frame" } };
}
