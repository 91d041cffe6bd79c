// @ts-check
/**
 * Labels, scores and comments: a key, a click or the form in, an appended review and the server's new list out.
 */
import { byId } from "../dom.js";

/** @typedef {import("./record-client.js").RecordClient} RecordClient */
/** @typedef {import("./selection.js").Selection} Selection */

export class Reviews {
  #client;
  #selection;
  #announce;
  #form = /** @type {HTMLFormElement | null} */ (document.getElementById("review-form"));
  #list = byId("review-list", HTMLElement);

  /**
   * @param {RecordClient} client
   * @param {Selection} selection
   * @param {(words: string) => void} announce
   */
  constructor(client, selection, announce) {
    this.#client = client;
    this.#selection = selection;
    this.#announce = announce;
    this.#list.addEventListener("click", (event) => this.#selectRangeOf(event));
    if (!this.#form) return;
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#add("");
    });
    for (const button of this.#labels)
      button.addEventListener("click", () => this.#add(button.dataset.label ?? ""));
    selection.watch(() => {
      byId("review-about", HTMLElement).textContent = selection.words;
    });
  }

  /** Give the label of a key; whether there is one. @param {string} key */
  press(key) {
    const button = /^[1-5]$/.test(key) ? this.#labels[Number(key) - 1] : undefined;
    button?.click();
    return button !== undefined;
  }

  get #labels() {
    return /** @type {HTMLButtonElement[]} */ ([...(this.#form?.querySelectorAll("[data-label]") ?? [])]);
  }

  /** @param {string} label */
  async #add(label) {
    const form = /** @type {HTMLFormElement} */ (this.#form);
    const review = new FormData(form);
    const { range } = this.#selection;
    if (label) {
      // A label by its key or button stands alone; a comment being written stays in the form.
      review.set("label", label);
      review.delete("score");
      review.delete("comment");
    }
    if (range) {
      review.set("first_seq", `${range.first}`);
      review.set("last_seq", `${range.last}`);
    }
    const answer = await this.#client
      .review(review)
      .catch(() => ({ error: "The server could not be reached." }));
    const error = byId("review-error", HTMLElement);
    error.hidden = !("error" in answer);
    if ("error" in answer) {
      error.textContent = answer.error;
      return;
    }
    // Rendered and escaped by the server's own template, as when the page is loaded.
    const fresh = new DOMParser().parseFromString(answer.html, "text/html").body;
    this.#list.replaceChildren(...fresh.childNodes);
    if (!label) form.reset();
    this.#announce(label ? `Labelled ${this.#selection.words} “${label}”.` : "Review added.");
  }

  /** @param {MouseEvent} event */
  #selectRangeOf(event) {
    const button = /** @type {HTMLElement} */ (event.target).closest("[data-select]");
    const row = /** @type {HTMLElement | null} */ (button?.closest("[data-first-seq]") ?? null);
    if (!row) return;
    this.#selection.set({ first: Number(row.dataset.firstSeq), last: Number(row.dataset.lastSeq) }, "review");
    byId("timeline-heading", HTMLElement).scrollIntoView();
  }
}
