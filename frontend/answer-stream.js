// @ts-check
/**
 * Carries one answer from the question to its end: asks, retries, reads frames, watches for silence.
 *
 * It retries by itself only while the reader has seen nothing, and only what may pass (429, 503, no network).
 * Stop and leaving are two signals: Stop posts first and reads on for the figures, leaving aborts at once.
 */
import { RequestFailed } from "./chat-client.js";
import { readFrames } from "./frame-reader.js";

/** @typedef {import("./answer.js").Answer} Answer */
/** @typedef {import("./chat-client.js").ChatClient} ChatClient */
/** @typedef {import("./chat-client.js").Question} Question */

/** Waits before the automatic retries, in seconds; a longer Retry-After wins, up to `LONGEST_WAIT_S`. */
const RETRY_WAITS_S = [0.5, 2];
const LONGEST_WAIT_S = 10;
/** How long a stopped stream may still deliver its usage frame. */
const TAIL_S = 1;

export class AnswerStream {
  #abort = new AbortController();
  #client;
  #clock;
  #stallAfterS;
  #onAccepted;
  #onChange;
  #lastBytesAt = 0;

  /**
   * @param {{
   *   client: ChatClient, answer: Answer, newId: () => string, clock: () => number, stallAfterS: number,
   *   onAccepted: (headers: Headers) => void, onChange: () => void,
   * }} parts
   */
  constructor({ client, answer, newId, clock, stallAfterS, onAccepted, onChange }) {
    this.answer = answer;
    this.newId = newId;
    this.streamId = "";
    this.#client = client;
    this.#clock = clock;
    this.#stallAfterS = stallAfterS;
    this.#onAccepted = onAccepted;
    this.#onChange = onChange;
  }

  /**
   * Ask and read to the end; never raises, the answer says how it went.
   * @param {Question} question
   */
  async run(question) {
    const { answer } = this;
    const watch = setInterval(() => this.#watch(), (this.#stallAfterS * 1000) / 10);
    try {
      for (const wait_s of [...RETRY_WAITS_S, null]) {
        const failure = await this.#attempt(question);
        if (!failure) break;
        if (wait_s === null || !failure.retryable || answer.ended) {
          answer.fail(failure.error, this.#clock());
          break;
        }
        await this.#sleep(Math.min(Math.max(wait_s, failure.retryAfterS), LONGEST_WAIT_S));
      }
    } finally {
      clearInterval(watch);
      this.#abort.abort();
      this.#onChange();
    }
  }

  /**
   * The reader pressed Stop: nothing more is shown. The post goes first, so that the record says who stopped it.
   * @param {number} seenChars
   */
  async stop(seenChars) {
    if (this.answer.ended) return;
    const accepted = this.answer.phase === "streaming";
    this.answer.stop(this.#clock());
    this.#onChange();
    await this.#client.stop(this.streamId, seenChars, "stop");
    if (accepted) setTimeout(() => this.#abort.abort(), TAIL_S * 1000);
    else this.#abort.abort();
  }

  /**
   * The page goes away: a page in the back/forward cache keeps its connections, so abort; post for the proxies that
   * keep an abort to themselves.
   * @param {number} seenChars
   */
  leave(seenChars) {
    if (this.answer.ended) return;
    this.answer.stop(this.#clock());
    this.#abort.abort();
    this.#client.stop(this.streamId, seenChars, "leave");
    this.#onChange();
  }

  /**
   * One request; returns why it failed, or null when the answer needs no further one.
   * @param {Question} question
   * @returns {Promise<RequestFailed | null>}
   */
  async #attempt(question) {
    const { answer } = this;
    if (answer.ended) return null;
    this.streamId = this.newId();
    answer.connect(this.#clock());
    this.#lastBytesAt = this.#clock();
    this.#onChange();
    try {
      const response = await this.#client.ask(this.streamId, question, this.#abort.signal);
      answer.requestId = response.headers.get("x-request-id");
      answer.open();
      this.#onAccepted(response.headers);
      await this.#read(response.body);
      return null;
    } catch (cause) {
      return this.#diagnose(cause);
    }
  }

  /** @param {ReadableStream<Uint8Array>} body */
  async #read(body) {
    const { answer } = this;
    const onBytes = () => {
      this.#lastBytesAt = this.#clock();
      answer.stalled = false;
    };
    for await (const frame of readFrames(body, { clock: this.#clock, onBytes })) {
      const more = answer.push(frame);
      this.#onChange();
      if (!more) break;
    }
    answer.flush(this.#clock());
  }

  /**
   * @param {unknown} cause
   * @returns {RequestFailed | null}
   */
  #diagnose(cause) {
    const { answer } = this;
    if (cause instanceof RequestFailed) {
      answer.requestId = cause.requestId;
      return cause;
    }
    if (answer.ended || this.#abort.signal.aborted) return null;
    if (answer.phase === "connecting")
      return new RequestFailed({ message: String(cause), code: "request_failed" });
    // The connection broke in mid-answer: only the reader may ask again, for the server has stored this one.
    answer.flush(this.#clock());
    return null;
  }

  #watch() {
    const silent = this.#clock() - this.#lastBytesAt > this.#stallAfterS;
    if (this.answer.ended || silent === this.answer.stalled) return;
    this.answer.stalled = silent;
    this.#onChange();
  }

  /** @param {number} seconds */
  #sleep(seconds) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, seconds * 1000);
      this.#abort.signal.addEventListener("abort", () => {
        clearTimeout(timer);
        resolve(undefined);
      });
    });
  }
}
