// @ts-check
/**
 * The page of one stream in the admin: reads the log by range and ties timeline, table, player, tabs and reviews
 * together through one selection. What it shows is strangers' text: text nodes only.
 */
import { byId } from "../dom.js";
import { DeltaLog } from "./delta-log.js";
import { DeltaTable } from "./delta-table.js";
import { Player } from "./player.js";
import { CharactersTab, FramesTab, TokensTab } from "./range-tabs.js";
import { RecordClient } from "./record-client.js";
import { Reviews } from "./reviews.js";
import { Selection } from "./selection.js";
import { Tabs } from "./tabs.js";
import { TextTab } from "./text-tab.js";
import { Timeline } from "./timeline.js";

/**
 * @typedef {{
 *   urls: import("./record-client.js").Urls, content: boolean, delta_count: number, length_s: number,
 *   marks: import("./timeline.js").Mark[], stored: import("../chat-client.js").StoredStream,
 * }} PageConfig
 */

class StreamPage {
  /** @type {PageConfig} */
  #config = JSON.parse(byId("stream-page-config", HTMLElement).textContent ?? "");
  #life = new AbortController();
  #client = new RecordClient(this.#config.urls, this.#life.signal);
  #log = new DeltaLog();
  #selection = new Selection();
  #announce = (/** @type {string} */ words) => {
    byId("stream-status", HTMLElement).textContent = words;
  };
  /** @type {Player | null} */
  #player = null;
  #timeline = new Timeline({
    log: this.#log,
    marks: this.#config.marks,
    selection: this.#selection,
    announce: this.#announce,
    onSeek: (at_s) => this.#player?.seek(at_s),
  });
  #table = new DeltaTable(this.#log, this.#selection);
  #tabs = new Tabs(/** @type {HTMLElement} */ (document.querySelector('[role="tablist"]')));
  #reviews = new Reviews(this.#client, this.#selection, this.#announce);
  /** @type {TextTab | null} */
  #text = null;

  async start() {
    addEventListener("pagehide", (event) => event.persisted || this.#life.abort());
    addEventListener("keydown", (event) => this.#press(event));
    this.#followRange();
    const loaded = this.#load();
    if (this.#config.content) this.#startContent(loaded);
    this.#tabs.begin();
    await loaded;
  }

  /** @param {Promise<void>} loaded */
  #startContent(loaded) {
    const { stored, length_s } = this.#config;
    this.#player = new Player(this.#log, stored, length_s, (at_s) => this.#timeline.showPosition(at_s));
    this.#text = new TextTab(this.#log, this.#selection);
    const frames = new FramesTab(this.#client, this.#announce);
    const tokens = new TokensTab(this.#client);
    const characters = new CharactersTab(this.#log);
    this.#tabs.onFirstShown("text", () => this.#text?.fill());
    this.#tabs.onFirstShown("frames", () => frames.read());
    this.#tabs.onFirstShown("tokens", () => tokens.read());
    this.#tabs.onFirstShown("characters", () => loaded.then(() => characters.fill()));
  }

  async #load() {
    const note = byId("timeline-loading", HTMLElement);
    try {
      for await (const columns of this.#client.deltas()) {
        this.#log.push(columns);
        note.textContent = this.#progress(columns);
        byId("deltas", HTMLElement).hidden = this.#log.length === 0;
        byId("range", HTMLFormElement).hidden = this.#log.length === 0;
        if (columns.seq.length === 0 && this.#log.length > 0) continue;
        for (const part of [this.#timeline, this.#table, this.#text, this.#player]) part?.grow();
      }
    } catch (error) {
      if (this.#life.signal.aborted) return;
      note.textContent = `Not all deltas could be loaded: ${error instanceof Error ? error.message : error}`;
    }
  }

  /** @param {import("./delta-log.js").DeltaColumns} columns */
  #progress({ next_seq, running }) {
    if (next_seq !== null) return `loading: ${this.#log.length} of ${this.#config.delta_count} deltas`;
    if (running) return `running: ${this.#log.length} deltas so far`;
    return this.#config.stored.state === "running" ? "ended: reload the page for its figures" : "";
  }

  /** The range as numbers: the way without a mouse, and the words for what was brushed. */
  #followRange() {
    const first = byId("range-first", HTMLInputElement);
    const last = byId("range-last", HTMLInputElement);
    const clear = byId("range-clear", HTMLButtonElement);
    const zoom = byId("range-zoom", HTMLButtonElement);
    byId("range", HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      const from = first.valueAsNumber || 1;
      this.#selection.set({ first: from, last: last.valueAsNumber || from }, "form");
    });
    clear.addEventListener("click", () => {
      this.#selection.set(null, "form");
      this.#timeline.zoom(false);
    });
    zoom.addEventListener("click", () => this.#timeline.zoom(true));
    this.#selection.watch((range) => {
      first.value = range ? `${range.first}` : "";
      last.value = range ? `${range.last}` : "";
      clear.disabled = zoom.disabled = range === null;
      byId("range-words", HTMLElement).textContent = range ? `Selected: ${this.#selection.words}` : "";
    });
  }

  /** @param {KeyboardEvent} event */
  #press(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.altKey || event.ctrlKey || event.metaKey || (event.repeat && !event.key.startsWith("Arrow")))
      return;
    if (target.closest("input, textarea, select, [contenteditable]")) return;
    const onControl = target.closest("button, a, summary") !== null;
    const playing = this.#player !== null && this.#tabs.shown === "rendered";
    if (event.key === "j") document.getElementById("older-stream")?.click();
    else if (event.key === "k") document.getElementById("newer-stream")?.click();
    else if (event.key === " " && playing && !onControl) this.#player?.toggle();
    else if (event.key === "ArrowLeft" && playing) this.#player?.step(-1);
    else if (event.key === "ArrowRight" && playing) this.#player?.step(1);
    else if (!this.#reviews.press(event.key)) return;
    event.preventDefault();
  }
}

new StreamPage().start();
