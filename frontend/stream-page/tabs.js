// @ts-check
/**
 * Tabs as the ARIA practices have them: one of them in the tab order, arrows move, the address remembers.
 *
 * Without this script all panels are there, one below the other.
 */
import { byId } from "../dom.js";

/** Before a panel's id in the address. An id alone would make the browser scroll there, past the top of the page. */
const NAMED = "#tab=";

export class Tabs {
  #tabs;
  /** @type {Map<string, () => void>} */
  #firstShown = new Map();

  /** @param {HTMLElement} tablist */
  constructor(tablist) {
    this.#tabs = /** @type {HTMLElement[]} */ ([...tablist.querySelectorAll('[role="tab"]')]);
    for (const tab of this.#tabs) tab.addEventListener("click", () => this.show(panelId(tab)));
    tablist.addEventListener("keydown", (event) => this.#move(event));
    tablist.hidden = false;
  }

  /**
   * Do something when a panel is shown for the first time.
   * @param {string} id
   * @param {() => void} fill
   */
  onFirstShown(id, fill) {
    this.#firstShown.set(id, fill);
  }

  /** Show the panel that the address names, or the first one. */
  begin() {
    const named = location.hash.slice(NAMED.length);
    this.show(
      this.#tabs.some((tab) => panelId(tab) === named)
        ? named
        : panelId(/** @type {HTMLElement} */ (this.#tabs[0])),
    );
  }

  get shown() {
    return this.#tabs.map(panelId).find((id) => !byId(id, HTMLElement).hidden) ?? "";
  }

  /** @param {string} id */
  show(id) {
    for (const tab of this.#tabs) {
      const chosen = panelId(tab) === id;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      byId(panelId(tab), HTMLElement).hidden = !chosen;
    }
    history.replaceState(history.state, "", NAMED + id);
    this.#firstShown.get(id)?.();
    this.#firstShown.delete(id);
  }

  /** @param {KeyboardEvent} event */
  #move(event) {
    const at = this.#tabs.indexOf(/** @type {HTMLElement} */ (event.target));
    const count = this.#tabs.length;
    /** @type {Record<string, number>} */
    const places = {
      ArrowRight: (at + 1) % count,
      ArrowLeft: (at + count - 1) % count,
      Home: 0,
      End: count - 1,
    };
    const tab = this.#tabs[places[event.key] ?? -1];
    if (at < 0 || !tab) return;
    event.preventDefault();
    event.stopPropagation();
    tab.focus();
    this.show(panelId(tab));
  }
}

/** @param {HTMLElement} tab */
function panelId(tab) {
  return tab.getAttribute("aria-controls") ?? "";
}
