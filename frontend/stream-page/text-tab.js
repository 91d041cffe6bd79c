// @ts-check
/**
 * The whole text with each delta in a span of its own: inline, because a box would break the shaping of scripts.
 */
import { byId } from "../dom.js";
import { duration } from "./delta-log.js";
import { visibleNodes } from "./visible.js";

/** @typedef {import("./delta-log.js").DeltaLog} DeltaLog */
/** @typedef {import("./selection.js").Selection} Selection */

export class TextTab {
  #log;
  #selection;
  #shown = 0;
  #wanted = false;
  #pre = document.getElementById("whole-text");

  /**
   * @param {DeltaLog} log
   * @param {Selection} selection
   */
  constructor(log, selection) {
    this.#log = log;
    this.#selection = selection;
    if (!this.#pre) return;
    const boundaries = byId("show-boundaries", HTMLInputElement);
    boundaries.addEventListener("change", () =>
      this.#pre?.classList.toggle("boundaries", boundaries.checked),
    );
    byId("text-tools", HTMLElement).hidden = false;
    this.#pre.classList.add("boundaries");
    selection.watch(() => this.#mark());
  }

  /** The tab is looked at: what the server wrote is replaced by the same text in spans. */
  fill() {
    this.#wanted = true;
    this.grow();
  }

  /** More of the log is there. */
  grow() {
    if (!this.#wanted || !this.#pre || this.#log.length === this.#shown) return;
    if (this.#shown === 0) this.#pre.replaceChildren();
    const spans = [];
    for (let i = this.#shown; i < this.#log.length; i++) spans.push(this.#span(i));
    this.#pre.append(...spans);
    this.#shown = this.#log.length;
    this.#mark();
  }

  /** @param {number} i */
  #span(i) {
    const span = document.createElement("span");
    span.className = "piece";
    const gap = this.#log.gap_s[i] === null ? "" : `, gap ${duration(this.#log.gap_s[i])}`;
    span.title = `delta ${this.#log.seq[i]}, ${duration(this.#log.sent_s[i])}${gap}`;
    const { text } = this.#log;
    const [before, after] = [text[i - 1]?.slice(-1), text[i + 1]?.slice(0, 1)];
    span.append(...visibleNodes(text[i] ?? "", { whitespace: false, before, after }));
    return span;
  }

  #mark() {
    const { range } = this.#selection;
    const spans = this.#shown ? (this.#pre?.children ?? []) : [];
    for (let i = 0; i < spans.length; i++) {
      const seq = this.#log.seq[i] ?? 0;
      spans[i]?.classList.toggle("selected", range !== null && seq >= range.first && seq <= range.last);
    }
  }
}
