// @ts-check
/**
 * The chat page: joins composer, settings, transcript and stream, and follows the page's own life.
 *
 * At most one answer grows at a time. Leaving the page ends it: a page in the back/forward cache keeps its
 * connections, and the server would go on generating for nobody.
 */
import { Answer } from "./answer.js";
import { AnswerStream } from "./answer-stream.js";
import { ChatClient, newStreamId } from "./chat-client.js";
import { Composer } from "./composer.js";
import { byId } from "./dom.js";
import { endingOf } from "./ending.js";
import { plural } from "./figures.js";
import { History } from "./history.js";
import { watchReadiness } from "./readiness.js";
import { ScrollPin } from "./scroll-pin.js";
import { Settings } from "./settings.js";
import { Transcript } from "./transcript.js";

/** @typedef {import("./answer-view.js").AnswerView} AnswerView */
/** @typedef {import("./chat-client.js").PageConfig} PageConfig */
/** @typedef {{ stream: AnswerStream, view: AnswerView, ticker: ReturnType<typeof setInterval> }} Current */
/** @typedef {{ content: string | null, parentId: number | null, article: HTMLElement, draft: string }} Asked */

/** A server that is alive sends at least a comment per keep-alive interval; the half covers a slow network. */
const STALL_INTERVALS = 2.5;
/** How often the elapsed time is drawn anew between deltas. */
const TICK_MS = 200;
const REREAD_MS = 700;

const clock = () => performance.now() / 1000;

class ChatPage {
  #config = /** @type {PageConfig} */ (JSON.parse(byId("page-config", HTMLScriptElement).text));
  #client = new ChatClient(this.#config, csrfToken());
  #settings = new Settings();
  #history = new History();
  #scroll = new ScrollPin(byId("scroller", HTMLElement), byId("new-text", HTMLElement));
  #transcript = new Transcript({
    onRetry: (view) => this.#retry(view),
    onDetails: (view) => this.#showDetails(view),
  });
  #composer = new Composer({
    onSend: (content) => this.#send(content),
    onStop: () => this.#stop(),
    draftKey: this.#config.conversation_id ?? "new",
  });
  /** @type {Current | null} */
  #current = null;
  /** Ends the page's background reads when it is left. */
  #life = new AbortController();
  /** @type {Set<AnswerView>} */
  #undrawn = new Set();

  start() {
    for (const example of document.querySelectorAll("[data-prompt]")) {
      const { prompt } = /** @type {HTMLElement} */ (example).dataset;
      example.addEventListener("click", () => {
        // First, for sending removes the examples, and the keyboard's focus with them.
        this.#composer.focus();
        this.#send(prompt ?? "");
      });
    }
    addEventListener("pagehide", () => this.#leave());
    addEventListener("pageshow", (event) => event.persisted && this.#comeBack());
    if (this.#transcript.lastMessageId !== null) this.#scroll.pin();
    this.#beginBackground();
  }

  /** @param {string} content */
  #send(content) {
    if (this.#current) return;
    this.#transcript.dropUnknown();
    const parentId = this.#transcript.lastMessageId;
    this.#ask({ content, parentId, article: this.#transcript.addQuestion(content), draft: content });
  }

  /** @param {AnswerView} view */
  #retry(view) {
    if (this.#current?.view === view) this.#stop();
    const question = this.#transcript.questionOf(view);
    if (this.#current || !question) return;
    view.article.remove();
    const { id, parentId, content, article } = question;
    if (id) return this.#ask({ content: null, parentId: id, article, draft: "" });
    this.#composer.discard(content);
    this.#ask({ content, parentId, article, draft: content });
  }

  /** @param {Asked} asked */
  #ask({ content, parentId, article, draft }) {
    const settings = this.#settings.read();
    if (!settings) {
      article.remove();
      this.#composer.restore(draft);
      return;
    }
    document.getElementById("welcome")?.remove();
    const view = this.#transcript.addAnswer();
    const answer = new Answer();
    view.follow(answer);
    const stream = new AnswerStream({
      client: this.#client,
      answer,
      newId: newStreamId,
      clock,
      stallAfterS: STALL_INTERVALS * this.#config.keep_alive_s,
      onAccepted: (headers) => this.#accept(headers, article, view),
      onChange: () => this.#draw(view),
    });
    const ticker = setInterval(() => this.#draw(view), TICK_MS);
    this.#current = { stream, view, ticker };
    this.#setBusy(true);
    this.#scroll.pin();
    this.#announce("Waiting for the answer.");
    const question = {
      conversation_id: this.#config.conversation_id,
      parent_id: parentId,
      content,
      ...settings,
    };
    stream.run(question).then(() => {
      // Refused before the server stored anything: the text goes back where it was written.
      if (!article.dataset.messageId) this.#composer.restore(draft);
    });
  }

  /**
   * The server has stored the question and named everything.
   * @param {Headers} headers
   * @param {HTMLElement} article
   * @param {AnswerView} view
   */
  #accept(headers, article, view) {
    const conversationId = headers.get("x-conversation-id");
    article.dataset.messageId = headers.get("x-user-message-id") ?? article.dataset.messageId ?? "";
    view.article.dataset.messageId = headers.get("x-assistant-message-id") ?? "";
    if (!conversationId || conversationId === this.#config.conversation_id) return;
    this.#config.conversation_id = conversationId;
    this.#history.add(conversationId, article.querySelector(".text")?.textContent ?? "");
  }

  #stop() {
    if (!this.#current) return;
    const { stream, view } = this.#current;
    stream.stop(view.seenChars);
    this.#settle();
  }

  /** @param {AnswerView} view */
  #draw(view) {
    if (view.answer?.ended) {
      // At once: a hidden page has no animation frames, and its answer must be whole all the same.
      view.render(clock());
      this.#scroll.follow();
      if (this.#current?.view === view) this.#settle();
      return;
    }
    if (this.#undrawn.size === 0) requestAnimationFrame(() => this.#drawAll());
    this.#undrawn.add(view);
  }

  #drawAll() {
    const now = clock();
    for (const view of this.#undrawn) view.render(now);
    this.#undrawn.clear();
    this.#scroll.follow();
  }

  /** The answer has ended: the button is Send again. */
  #settle() {
    const answer = this.#current?.view.answer;
    if (!this.#current || !answer?.ended) return;
    clearInterval(this.#current.ticker);
    this.#current = null;
    this.#setBusy(false);
    const { label, explanation } = endingOf(answer);
    const tokens = answer.usage ? ` ${plural(answer.usage.completion_tokens, "token")}.` : "";
    this.#announce(`${label}. ${explanation}.${tokens}`);
  }

  /** @param {boolean} busy */
  #setBusy(busy) {
    this.#composer.busy = busy;
    this.#transcript.busy = busy;
  }

  /** @param {string} words */
  #announce(words) {
    byId("status", HTMLElement).textContent = words;
  }

  /** @param {AnswerView} view */
  async #showDetails(view) {
    const { messageId } = view.article.dataset;
    view.openDrawer({ Message: messageId ?? null, Request: view.requestId }, clock());
    if (!messageId || !this.#config.conversation_id || (view.answer && !view.answer.ended)) return;
    const messages = await this.#readMessages();
    const stream = messages.find(({ id }) => String(id) === messageId)?.stream;
    if (stream) view.showRecord(stream);
  }

  #leave() {
    if (this.#current) {
      this.#current.stream.leave(this.#current.view.seenChars);
      this.#settle();
    }
    this.#life.abort();
  }

  /** Restored from the back/forward cache: what the server stored is the truth now. */
  #comeBack() {
    if (this.#transcript.hasUnknown) return location.reload();
    this.#life = new AbortController();
    this.#beginBackground();
    this.#reread();
  }

  #beginBackground() {
    watchReadiness(this.#client, this.#life.signal);
    if (this.#transcript.hasRunning) this.#reread();
  }

  /** Read the conversation until the server says that nothing in it runs any more. */
  async #reread() {
    const { signal } = this.#life;
    do {
      this.#transcript.showStored(await this.#readMessages());
      if (this.#transcript.hasRunning) await new Promise((resolve) => setTimeout(resolve, REREAD_MS));
    } while (this.#transcript.hasRunning && !signal.aborted);
  }

  async #readMessages() {
    const { conversation_id } = this.#config;
    if (!conversation_id) return [];
    try {
      return (await this.#client.readConversation(conversation_id, this.#life.signal)).messages;
    } catch {
      // What the page shows stays as it is; the reader loses nothing but an update.
      return [];
    }
  }
}

function csrfToken() {
  return /** @type {HTMLMetaElement} */ (document.querySelector('meta[name="csrf-token"]')).content;
}

new ChatPage().start();
