// @ts-check
/**
 * The table of running streams: a row a stream, kept while the stream runs, so that focus and selection stay.
 *
 * Model, source and text are hostile: they are only ever text.
 */
import { textElement } from "../dom.js";
import { formatSeconds } from "../figures.js";
import { keepChildren } from "./keep-children.js";

/**
 * @typedef {{
 *   id: number, model: string, source: string, state: string, age_s: number, deltas: number, tokens: number,
 *   tail: string | null,
 * }} RunningStream
 * @typedef {{ state: HTMLElement, age: HTMLElement, deltas: HTMLElement, tokens: HTMLElement, tail: HTMLElement }} Cells
 * @typedef {{ row: HTMLElement, cells: Cells, stop: HTMLButtonElement | null }} Line
 */

const WORDS = { queued: "queued", prefill: "waiting for text", streaming: "streaming" };

export class RunningTable {
  #body;
  #streamUrl;
  #canRead;
  #onStop;
  /** @type {Map<number, Line>} */
  #lines = new Map();

  /**
   * @param {HTMLElement} body
   * @param {{ streamUrl: (id: number) => string, canRead: boolean, onStop: ((id: number) => void) | null }} options
   */
  constructor(body, { streamUrl, canRead, onStop }) {
    this.#body = body;
    this.#streamUrl = streamUrl;
    this.#canRead = canRead;
    this.#onStop = onStop;
  }

  /** @param {RunningStream[]} streams in the order to show them */
  show(streams) {
    const running = new Set(streams.map(({ id }) => id));
    for (const id of this.#lines.keys()) if (!running.has(id)) this.#lines.delete(id);
    const rows = streams.map((stream) => {
      const line = this.#lines.get(stream.id) ?? this.#add(stream);
      fill(line, stream);
      return line.row;
    });
    keepChildren(this.#body, rows);
  }

  /**
   * Mark a stream as being stopped, or as running on.
   * @param {number} id
   * @param {boolean} stopping
   */
  markStopping(id, stopping) {
    const stop = this.#lines.get(id)?.stop;
    if (!stop) return;
    stop.setAttribute("aria-disabled", String(stopping));
    stop.textContent = stopping ? "Stopping" : "Stop";
  }

  /**
   * @param {RunningStream} stream
   * @returns {Line}
   */
  #add({ id, model, source }) {
    const row = document.createElement("tr");
    row.dataset.stream = String(id);
    const head = document.createElement("th");
    head.scope = "row";
    const link = document.createElement("a");
    link.href = this.#streamUrl(id);
    link.textContent = String(id);
    head.append(link);
    /** @type {Cells} */
    const cells = {
      state: textElement("td", ""),
      age: textElement("td", "", "number"),
      deltas: textElement("td", "", "number"),
      tokens: textElement("td", "", "number"),
      tail: document.createElement("bdi"),
    };
    row.append(head, cells.state, textElement("td", model), textElement("td", source));
    row.append(cells.age, cells.deltas, cells.tokens);
    if (this.#canRead) {
      const cell = textElement("td", "", "tail");
      cell.append(cells.tail);
      row.append(cell);
    }
    const stop = this.#onStop && this.#stopButton(id, row);
    const line = { row, cells, stop };
    this.#lines.set(id, line);
    return line;
  }

  /**
   * @param {number} id
   * @param {HTMLElement} row
   */
  #stopButton(id, row) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Stop";
    button.setAttribute("aria-label", `Stop stream ${id}`);
    // Not `disabled`, which would drop the keyboard's focus.
    button.addEventListener("click", () => {
      if (button.getAttribute("aria-disabled") !== "true") this.#onStop?.(id);
    });
    const cell = document.createElement("td");
    cell.append(button);
    row.append(cell);
    return button;
  }
}

/**
 * @param {Line} line
 * @param {RunningStream} stream
 */
function fill({ cells }, { state, age_s, deltas, tokens, tail }) {
  set(cells.state, WORDS[/** @type {keyof typeof WORDS} */ (state)] ?? state);
  set(cells.age, age_s < 60 ? `${age_s.toFixed(1)} s` : formatSeconds(age_s));
  set(cells.deltas, String(deltas));
  // A backend that does not know its tokens has none, however much it has said.
  set(cells.tokens, tokens || !deltas ? String(tokens) : "–");
  set(cells.tail, tail ?? "");
}

/**
 * Write only what changed, so that a reader's selection survives.
 * @param {HTMLElement} element
 * @param {string} text
 */
export function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
