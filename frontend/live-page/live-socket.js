// @ts-check
/**
 * The live page's websocket: opened, kept open, opened again after a failure, later and later.
 *
 * Each message is the whole state, so nothing is lost by a gap. A connection without news for `SILENT_MS` is dead: the
 * server says something every five seconds.
 */

/** @typedef {"connecting" | "open" | "waiting" | "refused"} SocketState */

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;
const SILENT_MS = 12_000;
/** The server's word for a viewer who has no rights (any more). */
const NO_RIGHTS = 4403;

/**
 * How long to wait before the next attempt; the chance keeps many pages from coming back in the same moment.
 * @param {number} failures attempts that failed in a row, from 1
 * @param {number} chance from 0 to 1
 */
export function waitMs(failures, chance) {
  const longest = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (failures - 1));
  return Math.round(longest * (0.5 + chance / 2));
}

export class LiveSocket {
  #url;
  #onNews;
  #onState;
  /** @type {WebSocket | null} */
  #socket = null;
  #failures = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /**
   * @param {{ url: string, onNews: (text: string) => void, onState: (state: SocketState) => void }} options
   */
  constructor({ url, onNews, onState }) {
    this.#url = url;
    this.#onNews = onNews;
    this.#onState = onState;
  }

  /** Open it now, whatever was waited for. */
  open() {
    this.close();
    this.#onState("connecting");
    const socket = new WebSocket(this.#url);
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => {
      this.#failures = 0;
      this.#onState("open");
      this.#watch(socket);
      this.#onNews(data);
    });
    socket.addEventListener("close", ({ code }) => {
      if (this.#socket === socket) this.#comeBackLater(code);
    });
    this.#watch(socket);
  }

  /** Close it for good, or until `open`; a page with an open socket is not kept by the back/forward cache. */
  close() {
    clearTimeout(this.#timer);
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  /** @param {WebSocket} socket */
  #watch(socket) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#socket === socket && this.#comeBackLater(0), SILENT_MS);
  }

  /** @param {number} code */
  #comeBackLater(code) {
    this.close();
    if (code === NO_RIGHTS) {
      this.#onState("refused");
      return;
    }
    this.#failures += 1;
    this.#onState("waiting");
    this.#timer = setTimeout(() => this.open(), waitMs(this.#failures, Math.random()));
  }
}
