// @ts-check
/**
 * The list of messages: questions and answers in order, with the id that the next question answers to.
 */
import { AnswerView } from "./answer-view.js";
import { byId, copyText, part } from "./dom.js";

/** @typedef {import("./chat-client.js").StoredMessage} StoredMessage */

/** How long a copy button says that it copied. */
const COPIED_MS = 1500;

export class Transcript {
  #log = byId("transcript", HTMLElement);
  /** @type {WeakMap<HTMLElement, AnswerView>} */
  #views = new WeakMap();

  /**
   * @param {{ onRetry: (view: AnswerView) => void, onDetails: (view: AnswerView) => void }} actions
   */
  constructor({ onRetry, onDetails }) {
    for (const article of this.#answers()) this.#adopt(article);
    this.#log.addEventListener("click", (event) => {
      const button = event.target instanceof Element ? event.target.closest("[data-action]") : null;
      const article = button?.closest("article");
      if (!(button instanceof HTMLButtonElement) || !article) return;
      const view = this.#views.get(article);
      if (button.dataset.action === "copy") this.#copy(article, button);
      else if (view) onRetry(view);
    });
    const onToggle = (/** @type {Event} */ event) => {
      const article = event.target instanceof HTMLDetailsElement ? event.target.closest("article") : null;
      const view = article ? this.#views.get(article) : undefined;
      if (view?.drawerOpen) onDetails(view);
    };
    // `toggle` does not bubble.
    this.#log.addEventListener("toggle", onToggle, { capture: true });
  }

  /** The id of the last message that the server knows; null in a new conversation. */
  get lastMessageId() {
    return this.#idBefore(null);
  }

  /** True when the server has not yet given every shown message its id. */
  get hasUnknown() {
    return this.#articles().some((article) => !article.dataset.messageId);
  }

  /** True while the server says that a stored answer still runs. */
  get hasRunning() {
    return this.#answers().some((article) => article.dataset.kind === "running");
  }

  /** @param {boolean} busy */
  set busy(busy) {
    this.#log.setAttribute("aria-busy", String(busy));
  }

  /**
   * @param {string} content
   * @returns {HTMLElement}
   */
  addQuestion(content) {
    const article = clone("user-template");
    part(article, "text").textContent = content;
    this.#log.append(article);
    return article;
  }

  /** Remove what the server never took: its text is back in the message box. */
  dropUnknown() {
    for (const article of this.#articles()) if (!article.dataset.messageId) article.remove();
  }

  /** @returns {AnswerView} */
  addAnswer() {
    const article = clone("assistant-template");
    this.#log.append(article);
    return this.#adopt(article);
  }

  /**
   * Find the question that an answer belongs to.
   * @param {AnswerView} view
   */
  questionOf(view) {
    const article = view.article.previousElementSibling;
    if (!(article instanceof HTMLElement) || article.dataset.role !== "user") return null;
    return {
      article,
      id: messageId(article),
      parentId: this.#idBefore(article),
      content: part(article, "text").textContent ?? "",
    };
  }

  /**
   * Bring the shown messages to what the server has stored.
   * @param {StoredMessage[]} messages
   */
  showStored(messages) {
    const stored = new Map(messages.map((message) => [String(message.id), message]));
    for (const article of this.#answers()) {
      const message = stored.get(article.dataset.messageId ?? "");
      const view = this.#views.get(article);
      const live = view?.answer && !view.answer.ended;
      if (message && view && !live) view.showStored(message);
    }
  }

  /** @param {HTMLElement} article */
  #adopt(article) {
    const view = new AnswerView(article);
    this.#views.set(article, view);
    if (article.dataset.state) view.showStoredStream(storedStream(article.dataset));
    return view;
  }

  #articles() {
    return /** @type {HTMLElement[]} */ (Array.from(this.#log.children)).filter(
      (child) => child.dataset.role,
    );
  }

  #answers() {
    return this.#articles().filter((article) => article.dataset.role === "assistant");
  }

  /** @param {HTMLElement | null} article */
  #idBefore(article) {
    const articles = this.#articles();
    const before = article ? articles.slice(0, articles.indexOf(article)) : articles;
    return messageId(before.findLast((each) => each.dataset.messageId));
  }

  /**
   * @param {HTMLElement} article
   * @param {HTMLButtonElement} button
   */
  async #copy(article, button) {
    const text = part(article, "text");
    await copyText(text.textContent ?? "", text);
    button.textContent = "Copied";
    setTimeout(() => {
      button.textContent = "Copy";
    }, COPIED_MS);
  }
}

/**
 * @param {HTMLElement | undefined} article
 * @returns {number | null}
 */
function messageId(article) {
  return article?.dataset.messageId ? Number(article.dataset.messageId) : null;
}

/** @param {string} templateId */
function clone(templateId) {
  const fragment = byId(templateId, HTMLTemplateElement).content.cloneNode(true);
  return /** @type {HTMLElement} */ (/** @type {DocumentFragment} */ (fragment).firstElementChild);
}

/**
 * Read the figures that the server wrote into the markup.
 * @param {DOMStringMap} dataset
 * @returns {import("./chat-client.js").StoredStream}
 */
function storedStream(dataset) {
  const number = (/** @type {string | undefined} */ text) => (text ? Number(text) : null);
  return {
    state: dataset.state ?? "",
    finish_reason: dataset.finishReason || null,
    stop_reason: dataset.stopReason || null,
    ttft_visible_s: number(dataset.ttftVisibleS),
    total_s: number(dataset.totalS),
    tokens: number(dataset.tokens),
    tokens_per_s: number(dataset.tokensPerS),
  };
}
