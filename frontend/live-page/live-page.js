// @ts-check
/**
 * The live page: shows each state that the server sends, and stops streams.
 *
 * Screen readers hear of the connection and of stops only; the figures are there to be read when wanted.
 */
import { byId, part, textElement } from "../dom.js";
import { formatSeconds } from "../figures.js";
import { keepChildren } from "./keep-children.js";
import { LiveSocket } from "./live-socket.js";
import { RunningTable, set } from "./running-table.js";

/** @typedef {import("./live-socket.js").SocketState} SocketState */
/** @typedef {{ n: number, p50_s: number | null, p95_s: number | null, p99_s: number | null }} Percentiles */
/**
 * @typedef {{
 *   processes: number, running: number, queued: number, started: number, tokens_per_s: number, errors: number,
 *   ttft: Percentiles, gaps: Percentiles, ends: Record<string, number>, more: number,
 *   streams: import("./running-table.js").RunningStream[],
 * }} LiveState
 */

/** @type {Record<SocketState, string>} */
const CONNECTION = {
  connecting: "Connecting",
  open: "Connected",
  waiting: "Not connected; the figures below are old. Trying again",
  refused: "Your account may not see this page any more. Log in again",
};
/** A stop of another process's stream is only asked for; the button comes back if nothing came of it. */
const STOP_AGAIN_MS = 8000;

class LivePage {
  #root = byId("content-main", HTMLElement);
  #table = new RunningTable(part(this.#root, "streams"), {
    streamUrl: (id) => this.#url("stream", id),
    canRead: "canRead" in this.#root.dataset,
    onStop: "canStop" in this.#root.dataset ? (id) => this.#stop(id) : null,
  });
  /** @type {Map<string, { item: HTMLElement, count: HTMLElement, bar: HTMLMeterElement }>} */
  #ends = new Map();
  #socket = new LiveSocket({
    url: socketUrl(this.#root.dataset.socket ?? ""),
    onNews: (text) => this.#show(JSON.parse(text)),
    onState: (state) => this.#showConnection(state),
  });

  start() {
    addEventListener("pagehide", () => this.#socket.close());
    addEventListener("pageshow", ({ persisted }) => persisted && this.#socket.open());
    addEventListener("online", () => this.#socket.open());
    this.#socket.open();
  }

  /** @param {SocketState} state */
  #showConnection(state) {
    const connection = byId("connection", HTMLElement);
    if (connection.dataset.state === state) return;
    connection.dataset.state = state;
    this.#root.classList.toggle("stale", state !== "open");
    set(byId("connection-words", HTMLElement), CONNECTION[state]);
  }

  /** @param {LiveState} state */
  #show(state) {
    const words = {
      running: String(state.running),
      processes: `${state.processes} ${state.processes === 1 ? "process" : "processes"}`,
      queued: String(state.queued),
      started: String(state.started),
      tokens: String(state.tokens_per_s),
      errors: String(state.errors),
      more: state.more > 0 ? `the newest; ${state.more} more run` : "",
    };
    for (const [name, text] of Object.entries(words)) set(part(this.#root, name), text);
    this.#showPercentiles("ttft", state.ttft);
    this.#showPercentiles("gaps", state.gaps);
    this.#showEnds(state.ends);
    this.#table.show(state.streams);
    part(this.#root, "no-streams").hidden = state.streams.length > 0;
  }

  /**
   * @param {string} name
   * @param {Percentiles} percentiles
   */
  #showPercentiles(name, { p50_s, p95_s, p99_s, n }) {
    const cells = part(this.#root, name).querySelectorAll("td");
    const words = [p50_s, p95_s, p99_s].map((value) => (value === null ? "–" : formatShort(value)));
    for (const [at, text] of [...words, String(n)].entries()) {
      const cell = cells[at];
      if (cell) set(cell, text);
    }
  }

  /** @param {Record<string, number>} ends the most frequent first */
  #showEnds(ends) {
    const all = Object.values(ends).reduce((sum, count) => sum + count, 0);
    const items = Object.entries(ends).map(([reason, times]) => {
      const { item, count, bar } = this.#ends.get(reason) ?? this.#addEnd(reason);
      set(count, String(times));
      bar.max = all;
      bar.value = times;
      return item;
    });
    keepChildren(part(this.#root, "ends"), items);
    part(this.#root, "no-ends").hidden = items.length > 0;
  }

  /** @param {string} reason */
  #addEnd(reason) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = `${this.#root.dataset.list}?stop_reason__exact=${encodeURIComponent(reason)}`;
    link.textContent = reason.replaceAll("_", " ");
    const count = textElement("span", "", "number");
    const bar = document.createElement("meter");
    bar.setAttribute("aria-hidden", "true");
    item.append(link, count, bar);
    const end = { item, count, bar };
    this.#ends.set(reason, end);
    return end;
  }

  /** @param {number} id */
  async #stop(id) {
    this.#table.markStopping(id, true);
    set(byId("said", HTMLElement), `Stopping stream ${id}`);
    const message = await this.#askToStop(id);
    if (message === null) {
      setTimeout(() => this.#table.markStopping(id, false), STOP_AGAIN_MS);
      return;
    }
    this.#table.markStopping(id, false);
    set(byId("said", HTMLElement), message);
    set(byId("connection-words", HTMLElement), message);
  }

  /**
   * Ask the server to stop a stream; null when it will, else why it will not.
   * @param {number} id
   */
  async #askToStop(id) {
    const token = this.#root.querySelector("[name=csrfmiddlewaretoken]");
    try {
      const response = await fetch(this.#url("stop", id), {
        method: "POST",
        headers: { "X-CSRFToken": token instanceof HTMLInputElement ? token.value : "" },
        signal: AbortSignal.timeout(STOP_AGAIN_MS),
      });
      if (response.ok || response.status === 404) return null;
      return `Stream ${id} was not stopped: the server answered ${response.status}.`;
    } catch {
      return `Stream ${id} was not stopped: the server could not be reached.`;
    }
  }

  /**
   * @param {"stream" | "stop"} name
   * @param {number} id
   */
  #url(name, id) {
    return (this.#root.dataset[name] ?? "").replace("/0/", `/${id}/`);
  }
}

/**
 * Gaps may be of less than a millisecond, which must not read as none.
 * @param {number} seconds
 */
function formatShort(seconds) {
  const ms = seconds * 1000;
  return ms < 10 ? `${Number(ms.toPrecision(2))} ms` : formatSeconds(seconds);
}

/** @param {string} path */
function socketUrl(path) {
  const url = new URL(path, location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url.href;
}

new LivePage().start();
