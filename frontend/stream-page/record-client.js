// @ts-check
/**
 * Reads a stored stream by range from the page's own addresses, and sends reviews.
 */

/** @typedef {import("./delta-log.js").DeltaColumns} DeltaColumns */
/** @typedef {{ deltas: string, frames: string, fixture: string, tokens: string, review: string }} Urls */
/** @typedef {{ next: number | null, frames: [number, string][] }} FrameRange */
/**
 * @typedef {{ next: number | null, ids: number[], made_s: number[],
 *   texts: ({ text: string } | { hex: string })[] | null }} TokenRange
 */

/** A running stream is stored four times a second; staff who watch one page need no more than this. */
const REREAD_MS = 1000;

export class RecordClient {
  #urls;
  #signal;

  /**
   * @param {Urls} urls
   * @param {AbortSignal} signal ends every read when the page is left
   */
  constructor(urls, signal) {
    this.#urls = urls;
    this.#signal = signal;
  }

  /**
   * Read all deltas, one range after the other; those of a stream that runs as they are stored, until it ends.
   * @returns {AsyncGenerator<DeltaColumns>}
   */
  async *deltas() {
    let first = 1;
    while (true) {
      /** @type {DeltaColumns} */
      const columns = await this.#json(`${this.#urls.deltas}?first_seq=${first}`);
      yield columns;
      first = columns.next_seq ?? (columns.seq.at(-1) ?? first - 1) + 1;
      if (columns.next_seq !== null) continue;
      if (!columns.running) return;
      await new Promise((resolve) => setTimeout(resolve, REREAD_MS));
    }
  }

  /** @param {number} first @returns {Promise<FrameRange>} */
  frames(first) {
    return this.#json(`${this.#urls.frames}?first=${first}`);
  }

  /** @param {number} first @returns {Promise<TokenRange>} */
  tokens(first) {
    return this.#json(`${this.#urls.tokens}?first=${first}`);
  }

  async fixture() {
    return (await this.#get(this.#urls.fixture)).text();
  }

  /**
   * Append a review.
   * @param {FormData} form
   * @returns {Promise<{ html: string } | { error: string }>}
   */
  async review(form) {
    const response = await fetch(this.#urls.review, { method: "POST", body: form, signal: this.#signal });
    if (response.headers.get("content-type")?.startsWith("application/json")) return response.json();
    return { error: `The server answered ${response.status}. Reload the page and try again.` };
  }

  /** @param {string} url */
  async #json(url) {
    return (await this.#get(url)).json();
  }

  /** @param {string} url */
  async #get(url) {
    const response = await fetch(url, { signal: this.#signal });
    // A session that ended is redirected to the login page.
    if (!response.ok || response.redirected)
      throw new Error(`The server answered ${response.status} for ${url}.`);
    return response;
  }
}
