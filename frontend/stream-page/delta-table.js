// @ts-check
/**
 * The table of deltas: a page of the selected ones at a time, because thousands of rows take a browser seconds.
 */
import { byId, textElement } from "../dom.js";
import { plural } from "../figures.js";
import { duration, sizeUnit } from "./delta-log.js";
import { visibleNodes } from "./visible.js";

/** @typedef {import("./delta-log.js").DeltaLog} DeltaLog */
/** @typedef {import("./delta-log.js").SeqRange} SeqRange */
/** @typedef {import("./selection.js").Selection} Selection */

const ROWS = 200;

export class DeltaTable {
  #log;
  #selection;
  /** Place in the log of the first row shown. */
  #from = 0;
  /** What the table is limited to. @type {SeqRange | null} */
  #filter = null;
  /** Where a range chosen by hand began. @type {number | null} */
  #anchor = null;
  #rows = byId("delta-rows", HTMLElement);
  #earlier = byId("deltas-earlier", HTMLButtonElement);
  #later = byId("deltas-later", HTMLButtonElement);

  /**
   * @param {DeltaLog} log
   * @param {Selection} selection
   */
  constructor(log, selection) {
    this.#log = log;
    this.#selection = selection;
    this.#earlier.addEventListener("click", () => this.#show(this.#from - ROWS));
    this.#later.addEventListener("click", () => this.#show(this.#from + ROWS));
    this.#rows.addEventListener("click", (event) => this.#choose(event));
    this.#rows.addEventListener("keydown", (event) => this.#move(event));
    // A range chosen in the table itself is marked there; one chosen elsewhere is all that the table shows.
    selection.watch((range, by) => {
      if (by === "table") return this.#mark(range);
      this.#filter = range;
      this.#anchor = null;
      this.#show(0);
    });
  }

  /** More of the log is there. */
  grow() {
    if (this.#rows.childElementCount < ROWS) this.#show(this.#from);
    else this.#showPages();
  }

  /** The places of the first delta to show and of the one after the last. */
  get #bounds() {
    const range = this.#filter;
    if (!range) return { begin: 0, end: this.#log.length };
    return { begin: this.#log.indexOf(range.first), end: this.#log.indexOf(range.last + 1) };
  }

  /** @param {number} from */
  #show(from) {
    const { begin, end } = this.#bounds;
    this.#from = Math.max(begin, Math.min(from, end - 1));
    const rows = [];
    for (let i = this.#from; i < Math.min(this.#from + ROWS, end); i++) rows.push(this.#row(i));
    this.#rows.replaceChildren(...rows);
    byId("deltas", HTMLElement).scrollTop = 0;
    this.#mark(this.#filter ? null : this.#selection.range);
    this.#showPages();
  }

  /** @param {SeqRange | null} range */
  #mark(range) {
    for (const row of this.#rows.children) {
      const seq = Number(row.querySelector("button")?.dataset.seq);
      row.classList.toggle("selected", range !== null && seq >= range.first && seq <= range.last);
    }
  }

  #showPages() {
    const { begin, end } = this.#bounds;
    const last = Math.min(this.#from + ROWS, end);
    byId("delta-pages", HTMLElement).hidden = end === begin;
    byId("deltas-shown", HTMLElement).textContent =
      `Deltas ${this.#log.seq[this.#from] ?? 0}–${this.#log.seq[last - 1] ?? 0} (${last - this.#from} of ${end - begin})`;
    this.#earlier.disabled = this.#from <= begin;
    this.#later.disabled = last >= end;
  }

  /** @param {number} i */
  #row(i) {
    const log = this.#log;
    const row = document.createElement("tr");
    const seq = log.seq[i] ?? 0;
    const button = textElement("button", `${seq}`, "link");
    button.dataset.seq = `${seq}`;
    /** @type {HTMLButtonElement} */ (button).type = "button";
    button.title = "Select this delta; with Shift, up to this delta";
    // One of the rows is reached by Tab, the others by arrow keys.
    button.tabIndex = i === this.#from ? 0 : -1;
    row.append(
      cell(button),
      cell(duration(log.sent_s[i])),
      cell(duration(log.gap_s[i]) || "–"),
      cell(log.tokens(i) || "–"),
    );
    row.append(
      log.text.length ? this.#textCell(log.text[i] ?? "", log.toolCalls.get(seq)) : cell(`${log.chars[i]}`),
      this.#holdCell(seq),
    );
    return row;
  }

  /**
   * @param {string} text
   * @param {string | undefined} toolCall
   */
  #textCell(text, toolCall) {
    const code = document.createElement("code");
    code.className = "delta";
    code.dir = "auto";
    code.append(...visibleNodes(text, { whitespace: true }));
    const data = document.createElement("td");
    data.append(code);
    if (toolCall !== undefined) {
      const call = textElement("code", "", "delta");
      call.append(...visibleNodes(toolCall, { whitespace: false }));
      data.append(textElement("span", "tool call", "flag"), " ", call);
    }
    return data;
  }

  /** @param {number} seq */
  #holdCell(seq) {
    const data = document.createElement("td");
    for (const { cause, size, held_s } of this.#log.holds.get(seq) ?? []) {
      const hold = textElement("span", "", "hold");
      const held = held_s === null ? "" : `, ${duration(held_s)}`;
      hold.append(
        textElement("span", cause, `cause cause-${cause}`),
        ` ${plural(size, sizeUnit(cause))}${held}`,
      );
      data.append(hold);
    }
    return data;
  }

  /** @param {KeyboardEvent} event */
  #move(event) {
    const buttons = [...this.#rows.querySelectorAll("button")];
    const at = buttons.indexOf(/** @type {HTMLButtonElement} */ (event.target));
    const last = buttons.length - 1;
    /** @type {Record<string, number>} */
    const places = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: last };
    const to = places[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const next = buttons[Math.max(0, Math.min(to, last))];
    if (!next) return;
    this.#stopAt(next);
    next.focus();
  }

  /** @param {HTMLElement} stop */
  #stopAt(stop) {
    for (const button of this.#rows.querySelectorAll("button")) {
      button.tabIndex = button === stop ? 0 : -1;
    }
  }

  /** @param {MouseEvent} event */
  #choose(event) {
    const button = /** @type {HTMLElement} */ (event.target).closest("[data-seq]");
    if (!(button instanceof HTMLElement)) return;
    this.#stopAt(button);
    const seq = Number(button.dataset.seq);
    if (!event.shiftKey || this.#anchor === null) this.#anchor = seq;
    this.#selection.set({ first: this.#anchor, last: seq }, "table");
  }
}

/** @param {string | Node} content */
function cell(content) {
  const data = document.createElement("td");
  data.className = "number";
  data.append(content);
  return data;
}
