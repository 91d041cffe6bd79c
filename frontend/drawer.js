// @ts-check
/**
 * The details of one answer: its ids, what was held back and why, and the raw frames as they arrived.
 *
 * Built only while open. Frames are appended, never drawn again: a long answer has thousands.
 */
import { textElement } from "./dom.js";
import { describe, formatSeconds, plural } from "./figures.js";

/** @typedef {import("./chat-client.js").StoredStream} StoredStream */
/** @typedef {import("./frame-reader.js").Frame} Frame */

/** @type {Record<string, string>} */
const HOLD_CAUSES = {
  utf8: "bytes of an incomplete character",
  context: "text that the next token could still change",
  stop: "the possible beginning of a stop string",
};

export class Drawer {
  #body;
  #ids = document.createElement("dl");
  #record = document.createElement("div");
  #framesNote = textElement("p", "Raw frames are kept only by the page that received them.", "note");
  #frames = document.createElement("pre");
  #shownFrames = 0;

  /** @param {HTMLElement} body */
  constructor(body) {
    this.#body = body;
    this.#ids.className = "facts";
    this.#frames.className = "frames";
    this.#frames.tabIndex = 0;
    this.#frames.hidden = true;
    this.#frames.setAttribute("aria-label", "Raw frames");
  }

  /**
   * @param {Record<string, string | null>} ids
   */
  open(ids) {
    this.#ids.replaceChildren();
    for (const [name, value] of Object.entries(ids))
      if (value) this.#ids.append(textElement("dt", name), textElement("dd", value));
    const heading = textElement("h3", "Raw frames");
    this.#body.replaceChildren(this.#ids, this.#record, heading, this.#framesNote, this.#frames);
  }

  /** @param {StoredStream} stream as the server recorded it */
  showRecord(stream) {
    const figures = document.createElement("dl");
    figures.className = "facts";
    for (const { name, value, definition } of describe(stream)) {
      const term = textElement("dt", `${name}, by the server`);
      term.title = definition;
      figures.append(term, textElement("dd", value));
    }
    this.#record.replaceChildren(figures, textElement("h3", "Held back"), holdList(stream.holds ?? {}));
  }

  /**
   * @param {Frame[]} frames
   * @param {number} startedAt
   */
  showFrames(frames, startedAt) {
    if (frames.length < this.#shownFrames) {
      // A retry began a new stream.
      this.#frames.replaceChildren();
      this.#shownFrames = 0;
    }
    if (frames.length === this.#shownFrames) return;
    const lines = frames.slice(this.#shownFrames).map((frame) => frameLine(frame, startedAt));
    this.#frames.append(lines.join(""));
    this.#frames.hidden = false;
    this.#framesNote.hidden = true;
    this.#shownFrames = frames.length;
  }
}

/**
 * @param {Frame} frame
 * @param {number} startedAt
 */
function frameLine({ kind, text, at }, startedAt) {
  const offset = `+${(at - startedAt).toFixed(3)} s`.padStart(11);
  return `${offset}  ${kind === "comment" ? ": " : "data: "}${text}\n`;
}

/** @param {Record<string, import("./chat-client.js").Hold>} holds */
function holdList(holds) {
  const list = document.createElement("ul");
  list.className = "holds";
  for (const [cause, { count, size, total_s, longest_s }] of Object.entries(holds)) {
    if (!count) continue;
    const unit = cause === "utf8" ? "byte" : "character";
    const time =
      total_s === null || longest_s === null
        ? ""
        : `, ${formatSeconds(total_s)} in all, ${formatSeconds(longest_s)} at most`;
    const words = `${plural(count, "time")}: ${HOLD_CAUSES[cause] ?? cause} (${plural(size, unit)}${time})`;
    list.append(textElement("li", words));
  }
  return list.hasChildNodes()
    ? list
    : textElement("p", "Nothing: every token could be shown at once.", "note");
}
