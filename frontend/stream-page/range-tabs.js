// @ts-check
/**
 * The tabs whose rows come from the server or are made by range: frames, tokens, characters. Each begins to read when
 * it is first looked at, and goes on when asked for more.
 */
import { byId, copyText, textElement } from "../dom.js";
import { characterRows } from "./characters.js";
import { duration } from "./delta-log.js";
import { visibleNodes } from "./visible.js";

/** @typedef {import("./characters.js").CharacterRow} CharacterRow */
/** @typedef {import("./delta-log.js").DeltaLog} DeltaLog */
/** @typedef {import("./record-client.js").RecordClient} RecordClient */

const CHARACTERS = 300;

export class FramesTab {
  #client;
  #announce;
  #more = byId("more-frames", HTMLButtonElement);

  /**
   * @param {RecordClient} client
   * @param {(words: string) => void} announce
   */
  constructor(client, announce) {
    this.#client = client;
    this.#announce = announce;
    const curl = byId("curl", HTMLElement);
    byId("copy-curl", HTMLButtonElement).addEventListener("click", async () => {
      await copyText(curl.textContent ?? "", curl);
      announce("The curl command is on the clipboard.");
    });
    byId("copy-fixture", HTMLButtonElement).addEventListener("click", () => this.#copyFixture());
  }

  async read(first = 0) {
    const { next, frames } = await this.#client.frames(first);
    const rows = frames.map(([at_s, text]) => {
      const code = textElement("code", "", "frame");
      code.append(...visibleNodes(text, { whitespace: false }));
      return tableRow([duration(at_s), `${text.length}`, code], 2);
    });
    byId("frame-rows", HTMLElement).append(...rows);
    offerMore(this.#more, next, (from) => this.read(from));
  }

  async #copyFixture() {
    const fixture = textElement("pre", await this.#client.fixture(), "visually-hidden");
    document.body.append(fixture);
    await copyText(fixture.textContent ?? "", fixture);
    fixture.remove();
    this.#announce("The frames are on the clipboard as a test fixture.");
  }
}

export class TokensTab {
  #client;
  #more = byId("more-tokens", HTMLButtonElement);
  /** @type {number | null} */
  #last_s = null;

  /** @param {RecordClient} client */
  constructor(client) {
    this.#client = client;
  }

  async read(first = 0) {
    const { next, ids, made_s, texts } = await this.#client.tokens(first);
    const note = byId("tokens-note", HTMLElement);
    if (ids.length === 0 && first === 0) note.textContent = "This backend keeps no token ids.";
    else if (!texts)
      note.textContent = "No tokenizer for these ids is loaded in this process, so they stay numbers.";
    const rows = ids.map((id, i) => {
      const at_s = made_s[i] ?? null;
      const gap = at_s === null || this.#last_s === null ? "–" : duration(at_s - this.#last_s);
      this.#last_s = at_s;
      const row = tableRow([`${first + i}`, `${id}`, spelling(texts?.[i]), duration(at_s) || "–", gap], 2);
      for (const place of [3, 4]) row.children[place]?.classList.add("number");
      return row;
    });
    byId("token-rows", HTMLElement).append(...rows);
    offerMore(this.#more, next, (from) => this.read(from));
  }
}

export class CharactersTab {
  #log;
  #rows = byId("character-rows", HTMLElement);
  #more = byId("more-characters", HTMLButtonElement);
  #flaggedOnly = byId("flagged-only", HTMLInputElement);
  /** @type {CharacterRow[]} */
  #characters = [];

  /** @param {DeltaLog} log */
  constructor(log) {
    this.#log = log;
    this.#flaggedOnly.addEventListener("change", () => this.#show(0));
  }

  /** Take apart what is loaded. */
  fill() {
    this.#characters = [...characterRows(this.#log.text, this.#log.seq)];
    /** @type {Map<string, number>} */
    const counts = new Map();
    for (const { flags } of this.#characters)
      for (const flag of flags) counts.set(flag, (counts.get(flag) ?? 0) + 1);
    const flagged =
      [...counts].map(([flag, count]) => `${count} × ${flag}`).join("; ") || "Nothing is flagged";
    const codePoints = this.#characters.reduce((sum, row) => sum + row.codePoints.length, 0);
    byId("characters-summary", HTMLElement).textContent =
      `${this.#characters.length} graphemes, ${codePoints} code points. ${flagged}.`;
    this.#show(0);
  }

  /** @param {number} from */
  #show(from) {
    const chosen = this.#flaggedOnly.checked
      ? this.#characters.filter(({ flags }) => flags.length)
      : this.#characters;
    if (from === 0) this.#rows.replaceChildren();
    this.#rows.append(...chosen.slice(from, from + CHARACTERS).map(characterRow));
    const next = from + CHARACTERS < chosen.length ? from + CHARACTERS : null;
    offerMore(this.#more, next, (place) => this.#show(place));
  }
}

/** @param {CharacterRow} row */
function characterRow({ grapheme, seq, codePoints, bytes, flags }) {
  const shown = textElement("code", "", "grapheme");
  shown.dir = "auto";
  shown.append(...visibleNodes(grapheme, { whitespace: true }));
  const marks = document.createElement("span");
  marks.append(...flags.flatMap((flag) => [textElement("span", flag, "flag"), " "]));
  return tableRow(
    [`${seq}`, shown, textElement("code", codePoints.join(" ")), textElement("code", bytes), marks],
    1,
  );
}

/** @param {{ text: string } | { hex: string } | undefined} token */
function spelling(token) {
  if (!token) return "–";
  const code = textElement("code", "hex" in token ? `bytes ${token.hex}` : "", "delta");
  if ("text" in token) code.append(...visibleNodes(token.text, { whitespace: true }));
  return code;
}

/**
 * @param {(string | Node)[]} cells
 * @param {number} numbers how many of the first cells are numbers
 */
function tableRow(cells, numbers) {
  const row = document.createElement("tr");
  for (const [i, content] of cells.entries()) {
    const cell = document.createElement("td");
    if (i < numbers) cell.className = "number";
    cell.append(content);
    row.append(cell);
  }
  return row;
}

/**
 * @param {HTMLButtonElement} button
 * @param {number | null} next
 * @param {(from: number) => void} read
 */
function offerMore(button, next, read) {
  button.hidden = next === null;
  button.onclick = () => next !== null && read(next);
}
