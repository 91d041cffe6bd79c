// @ts-check
/**
 * An answer's figures, for live answers and stored ones alike: measured values in, labelled words out.
 *
 * Each figure carries its definition, because the tools of this field disagree on them. Unknown is left out,
 * never shown as zero.
 */

/** @typedef {import("./answer.js").Answer} Answer */
/** @typedef {{ name: string, value: string, definition: string }} Figure */
/**
 * The stored figures, named as the server's record has them.
 * @typedef {{
 *   ttft_visible_s: number | null, total_s: number | null, tokens: number | null, tokens_per_s: number | null,
 * }} Measured
 */

/**
 * Measure a live answer as the reader sees it: from sending to text on this page.
 * @param {Answer} answer
 * @param {number} now
 * @returns {Measured}
 */
export function measure(answer, now) {
  const { startedAt, firstDeltaAt, endedAt, usage } = answer;
  const end = endedAt ?? now;
  const decode_s = firstDeltaAt === null ? 0 : end - firstDeltaAt;
  const tokens = usage?.completion_tokens ?? null;
  return {
    ttft_visible_s: startedAt === null || firstDeltaAt === null ? null : firstDeltaAt - startedAt,
    total_s: startedAt === null ? null : end - startedAt,
    tokens,
    tokens_per_s: tokens !== null && tokens > 1 && decode_s > 0 ? (tokens - 1) / decode_s : null,
  };
}

/**
 * Put measured values into words, in the order they become known.
 * @param {Measured} measured
 * @returns {Figure[]}
 */
export function describe({ ttft_visible_s, total_s, tokens, tokens_per_s }) {
  /** @type {Figure[]} */
  const figures = [];
  const add = (/** @type {string} */ name, /** @type {string} */ value, /** @type {string} */ definition) =>
    figures.push({ name, value, definition });
  if (ttft_visible_s !== null)
    add("TTFT", formatSeconds(ttft_visible_s), "Visible time to first token: from sending to the first text");
  if (tokens_per_s !== null)
    add(
      "Speed",
      `${tokens_per_s.toFixed(1)} tokens/s`,
      "Tokens after the first, per second after the first text",
    );
  if (tokens !== null) add("Length", plural(tokens, "token"), "Completion tokens, as the server counts them");
  if (total_s !== null) add("Total", formatSeconds(total_s), "From sending to the last frame");
  return figures;
}

/**
 * The pace of an answer that still grows; tokens are not known before its end, so deltas are counted.
 * @param {Answer} answer
 * @param {number} now
 * @returns {Figure[]}
 */
export function describePace(answer, now) {
  const pace_s = answer.firstDeltaAt === null ? 0 : now - answer.firstDeltaAt;
  if (answer.deltas < 2 || pace_s <= 0) return [];
  const value = `${((answer.deltas - 1) / pace_s).toFixed(0)} deltas/s`;
  return [
    { name: "Pace", value, definition: "Deltas after the first, per second; a delta is one or more tokens" },
  ];
}

/**
 * @param {number} seconds
 * @returns {string}
 */
export function formatSeconds(seconds) {
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.995) return `${seconds.toFixed(2)} s`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

/**
 * @param {number} count
 * @param {string} noun
 */
export function plural(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}
