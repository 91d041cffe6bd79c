// @ts-check
/**
 * A stream's deltas as far as they are loaded: ranges of columns in, gaps, percentiles and places out. No DOM.
 *
 * Ranges come in order. A sequence number that no range holds is a hole: no gap is measured across it.
 */

/** @typedef {{ cause: string, size: number, held_s: number | null }} Hold */
/**
 * A range as the server sends it; `text` is absent for those who may not see it.
 * @typedef {{
 *   next_seq: number | null, running: boolean, seq: number[], sent_s: number[], made_s: (number | null)[], first_token: number[],
 *   end_token: number[], chars: number[], holds: [number, string, number, number | null][], text?: string[],
 *   tool_calls?: [number, string, string][],
 * }} DeltaColumns
 */
/** @typedef {{ first: number, last: number }} SeqRange both ends included */

export class DeltaLog {
  /** @type {number[]} */
  seq = [];
  /** @type {number[]} */
  sent_s = [];
  /** @type {number[]} */
  firstToken = [];
  /** @type {number[]} */
  endToken = [];
  /** @type {number[]} */
  chars = [];
  /** @type {string[]} */
  text = [];
  /** Seconds since the delta before; null for the first one and after a hole. @type {(number | null)[]} */
  gap_s = [];
  /** By sequence number. @type {Map<number, Hold[]>} */
  holds = new Map();

  /** Pieces of tool calls as words, by sequence number. @type {Map<number, string>} */
  toolCalls = new Map();

  get length() {
    return this.seq.length;
  }

  /** All gaps in seconds, ascending. */
  get sortedGaps() {
    return this.gap_s.filter((gap) => gap !== null).sort((a, b) => a - b);
  }

  /** @param {DeltaColumns} columns */
  push(columns) {
    for (const [i, seq] of columns.seq.entries()) {
      const sent_s = columns.sent_s[i] ?? 0;
      const follows = this.seq.at(-1) === seq - 1;
      this.gap_s.push(follows ? sent_s - (this.sent_s.at(-1) ?? 0) : null);
      this.seq.push(seq);
      this.sent_s.push(sent_s);
      this.firstToken.push(columns.first_token[i] ?? 0);
      this.endToken.push(columns.end_token[i] ?? 0);
      this.chars.push(columns.chars[i] ?? 0);
      if (columns.text) this.text.push(columns.text[i] ?? "");
    }
    for (const [seq, cause, size, held_s] of columns.holds) {
      const held = this.holds.get(seq) ?? [];
      held.push({ cause, size, held_s });
      this.holds.set(seq, held);
    }
    for (const [seq, name, piece] of columns.tool_calls ?? [])
      this.toolCalls.set(seq, `${this.toolCalls.get(seq) ?? ""}${name && `${name} `}${piece}`);
  }

  /** Count the deltas sent up to and including this time. @param {number} at_s */
  countAt(at_s) {
    return upperBound(this.sent_s, at_s);
  }

  /** The place of the first delta whose number is not below `seq`. @param {number} seq */
  indexOf(seq) {
    return upperBound(this.seq, seq - 1);
  }

  /**
   * The deltas sent within a span of time; null when there are none.
   * @param {number} from_s
   * @param {number} to_s
   * @returns {SeqRange | null}
   */
  between(from_s, to_s) {
    const end = this.countAt(to_s);
    let begin = this.countAt(from_s);
    while (begin > 0 && (this.sent_s[begin - 1] ?? 0) >= from_s) begin -= 1;
    if (begin >= end) return null;
    return {
      first: /** @type {number} */ (this.seq[begin]),
      last: /** @type {number} */ (this.seq[end - 1]),
    };
  }

  /** Positions of the tokens that a delta accounts for, as words; "" when it came with none. @param {number} i */
  tokens(i) {
    const first = this.firstToken[i] ?? 0;
    const last = (this.endToken[i] ?? 0) - 1;
    if (last < first) return "";
    return first === last ? `${first}` : `${first}–${last}`;
  }
}

/**
 * Percentile by linear interpolation, as numpy does; null for no values.
 * @param {number[]} sorted
 * @param {number} fraction
 */
export function percentile(sorted, fraction) {
  if (sorted.length === 0) return null;
  const place = (sorted.length - 1) * fraction;
  const low = sorted[Math.floor(place)] ?? 0;
  const high = sorted[Math.ceil(place)] ?? low;
  return low + (high - low) * (place - Math.floor(place));
}

/**
 * Seconds as staff read them, as the server writes them: milliseconds below one second, never a zero that is not one.
 * @param {number | null | undefined} value
 */
export function duration(value) {
  if (value === null || value === undefined) return "";
  const ms = value * 1000;
  if (value >= 1) return `${value.toFixed(2)} s`;
  if (ms >= 100) return `${ms.toFixed(0)} ms`;
  if (ms >= 0.1 || ms === 0) return ms === 0 ? "0 ms" : `${ms.toFixed(1)} ms`;
  return `${Number(ms.toPrecision(1))} ms`;
}

/** What the size of a hold counts. @param {string} cause */
export function sizeUnit(cause) {
  return cause === "utf8" ? "byte" : "character";
}

/**
 * @param {number[]} ascending
 * @param {number} value
 */
function upperBound(ascending, value) {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (/** @type {number} */ (ascending[middle]) <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}
