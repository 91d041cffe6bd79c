// @ts-check
/**
 * The range of deltas that table, timeline, text and reviews are about; null means the whole stream. No DOM.
 */

/** @typedef {import("./delta-log.js").SeqRange} SeqRange */
/** @typedef {(range: SeqRange | null, by: string) => void} Watcher */

export class Selection {
  /** @type {SeqRange | null} */
  range = null;
  /** @type {Watcher[]} */
  #watchers = [];

  /** @param {Watcher} watcher told of every change and of who made it */
  watch(watcher) {
    this.#watchers.push(watcher);
  }

  /**
   * @param {SeqRange | null} range its ends in any order
   * @param {string} by who chose it
   */
  set(range, by) {
    const next = range && {
      first: Math.min(range.first, range.last),
      last: Math.max(range.first, range.last),
    };
    if (next?.first === this.range?.first && next?.last === this.range?.last) return;
    this.range = next;
    for (const watcher of this.#watchers) watcher(next, by);
  }

  get words() {
    if (!this.range) return "the whole stream";
    const { first, last } = this.range;
    return first === last ? `delta ${first}` : `deltas ${first}–${last}`;
  }
}
