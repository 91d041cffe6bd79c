// @ts-check
/**
 * One answer's article: an `Answer` or a stored message in, text nodes, badge and figures out.
 *
 * Text only ever grows by appending to one text node, so shaping, selection and copying survive each delta.
 */
import { part, textElement } from "./dom.js";
import { Drawer } from "./drawer.js";
import { endingOf, storedEnding } from "./ending.js";
import { describe, describePace, measure } from "./figures.js";
import { GraphemeReveal } from "./grapheme-reveal.js";

/** @typedef {import("./answer.js").Answer} Answer */
/** @typedef {import("./chat-client.js").StoredMessage} StoredMessage */
/** @typedef {import("./chat-client.js").StoredStream} StoredStream */
/** @typedef {import("./ending.js").Ending} Ending */
/** @typedef {import("./figures.js").Figure} Figure */

/** Endings after which the last button says "Retry": the text is not what the reader asked for. */
const RETRY_KINDS = new Set(["error", "interrupted", "stalled"]);

export class AnswerView {
  /** Code points the reader was shown, as Python counts characters. */
  seenChars = 0;
  /** @type {Answer | null} */
  answer = null;
  #reveal = new GraphemeReveal();
  /** UTF-16 units of the answer's text already pushed to the reveal. */
  #pushed = 0;
  #textNode = document.createTextNode("");
  #drawer;

  /** @param {HTMLElement} article */
  constructor(article) {
    this.article = article;
    this.#drawer = new Drawer(part(article, "drawer-body"));
  }

  get requestId() {
    return this.answer?.requestId ?? this.article.dataset.requestId ?? null;
  }

  get drawerOpen() {
    return /** @type {HTMLDetailsElement} */ (part(this.article, "drawer")).open;
  }

  /**
   * Begin to show a live answer; the article must be empty.
   * @param {Answer} answer
   */
  follow(answer) {
    this.answer = answer;
    part(this.article, "text").replaceChildren(this.#textNode);
    part(this.article, "drawer").hidden = false;
  }

  /**
   * Draw the followed answer as it is at `now`; called at most once per animation frame.
   * @param {number} now
   */
  render(now) {
    const { answer } = this;
    if (!answer) return;
    this.#renderText(answer);
    const ending = endingOf(answer);
    this.#renderEnding(ending, answer.text !== "");
    const pace = answer.ended ? [] : describePace(answer, now);
    this.#renderFigures([...pace, ...describe(measure(answer, now))]);
    this.#renderFailure(answer.error);
    if (this.drawerOpen) this.#drawer.showFrames(answer.frames, answer.startedAt ?? now);
  }

  /**
   * Show what the server has stored; it replaces whatever the page thought.
   * @param {StoredMessage} message
   */
  showStored({ content, stream }) {
    this.answer = null;
    const text = part(this.article, "text");
    if (text.textContent !== content) text.textContent = content;
    if (stream) this.showStoredStream(stream);
  }

  /** @param {StoredStream} stream */
  showStoredStream(stream) {
    const ending = storedEnding(stream);
    const failed = ending.kind === "error";
    this.#renderEnding(ending, part(this.article, "text").textContent !== "");
    this.#renderFigures(describe(stream));
    this.#renderFailure(failed ? { message: `${ending.explanation}.`, code: stream.stop_reason } : null);
    part(this.article, "drawer").hidden = false;
  }

  /**
   * Fill the drawer that was just opened.
   * @param {Record<string, string | null>} ids
   * @param {number} now
   */
  openDrawer(ids, now) {
    this.#drawer.open(ids);
    if (this.answer) this.#drawer.showFrames(this.answer.frames, this.answer.startedAt ?? now);
  }

  /** @param {StoredStream} stream */
  showRecord(stream) {
    this.#drawer.showRecord(stream);
  }

  /** @param {Answer} answer */
  #renderText(answer) {
    // What came in after the last frame before a stop was never seen, and the stop said so to the server.
    if (answer.phase === "stopped") return;
    let text = this.#reveal.push(answer.text.slice(this.#pushed));
    this.#pushed = answer.text.length;
    if (answer.ended) text += this.#reveal.flush();
    if (text === "") return;
    this.#textNode.appendData(text);
    this.seenChars += Array.from(text).length;
  }

  /**
   * @param {Ending} ending
   * @param {boolean} hasText
   */
  #renderEnding({ kind, label, explanation }, hasText) {
    if (this.article.dataset.ending === `${kind} ${label}`) return;
    this.article.dataset.ending = `${kind} ${label}`;
    this.article.dataset.kind = kind;
    const badge = part(this.article, "badge");
    badge.textContent = label;
    badge.title = explanation;
    badge.hidden = false;
    const running = kind === "running" || kind === "waiting";
    part(this.article, "actions").hidden = running;
    button(this.article, "copy").hidden = !hasText;
    button(this.article, "retry").textContent = RETRY_KINDS.has(kind) ? "Retry" : "Regenerate";
  }

  /** @param {Figure[]} figures */
  #renderFigures(figures) {
    part(this.article, "figures").replaceChildren(
      ...figures.map(({ name, value, definition }) => {
        const figure = document.createElement("div");
        figure.title = definition;
        figure.append(textElement("dt", name), textElement("dd", value));
        return figure;
      }),
    );
  }

  /** @param {import("./answer.js").AnswerError | null} error */
  #renderFailure(error) {
    const failure = part(this.article, "failure");
    failure.hidden = !error;
    if (!error) return;
    const facts = [error.code, this.requestId && `request ${this.requestId}`].filter(Boolean).join(" · ");
    failure.replaceChildren(error.message, " ", textElement("span", facts, "failure-facts"));
  }
}

/**
 * @param {HTMLElement} article
 * @param {"copy" | "retry"} action
 */
function button(article, action) {
  return /** @type {HTMLButtonElement} */ (article.querySelector(`[data-action="${action}"]`));
}
