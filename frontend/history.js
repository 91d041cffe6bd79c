// @ts-check
/**
 * The list of conversations and the address bar: each conversation has its own URL from its first answer on.
 */
import { byId, textElement } from "./dom.js";

const TITLE_CHARS = 60;

export class History {
  #nav = byId("history", HTMLElement);
  #list = byId("history-list", HTMLElement);
  #toggle = byId("history-toggle", HTMLButtonElement);

  constructor() {
    this.#toggle.addEventListener("click", () => this.#show(!this.#visible));
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.#visible) return;
      this.#show(false);
      this.#toggle.focus();
    });
    document.addEventListener("click", (event) => {
      const target = /** @type {Node} */ (event.target);
      if (this.#visible && !this.#nav.contains(target) && !this.#toggle.contains(target)) this.#show(false);
    });
  }

  /**
   * The new conversation of this page has an id: put it into the address and on top of the list.
   * @param {string} conversationId
   * @param {string} question its first question, which becomes its title
   */
  add(conversationId, question) {
    const url = `/c/${conversationId}/`;
    // Replaced, not pushed: going back must leave the page, not show the empty one.
    history.replaceState(null, "", url);
    const title = shorten(question);
    document.title = `${title} · Streamsite`;
    byId("title", HTMLElement).textContent = title;
    document.getElementById("history-empty")?.remove();
    const link = /** @type {HTMLAnchorElement} */ (textElement("a", title));
    link.href = url;
    link.dir = "auto";
    link.setAttribute("aria-current", "page");
    const item = document.createElement("li");
    item.append(link);
    this.#list.prepend(item);
  }

  get #visible() {
    return this.#toggle.getAttribute("aria-expanded") === "true";
  }

  /** On wide screens the list is always there; this is the narrow screen's sheet. @param {boolean} visible */
  #show(visible) {
    this.#toggle.setAttribute("aria-expanded", String(visible));
    this.#nav.classList.toggle("is-open", visible);
  }
}

/**
 * Make a title as the server does, so that a reload changes nothing.
 * @param {string} text
 */
function shorten(text) {
  const characters = Array.from(text.trim().replace(/\s+/g, " "));
  return characters.length > TITLE_CHARS
    ? `${characters.slice(0, TITLE_CHARS - 1).join("")}…`
    : characters.join("");
}
