// @ts-check
/**
 * The arithmetic of the timeline: heights on a logarithmic scale, lanes for holds, rows for labels. No DOM.
 */

/** Gaps below this are drawn as this, in milliseconds: a logarithm has no zero. */
export const LEAST_MS = 0.1;

/**
 * Bounds of the logarithmic axis such that everything drawn lies between a band for labels and one for lanes.
 * @param {number} longestMs
 * @param {{ height: number, above: number, below: number }} pixels
 * @returns {[number, number]}
 */
export function gapBounds(longestMs, { height, above, below }) {
  const low = Math.log10(LEAST_MS);
  const high = Math.log10(Math.max(longestMs, 1));
  const perPixel = (high - low) / Math.max(height - above - below, 1);
  return [10 ** (low - below * perPixel), 10 ** (high + above * perPixel)];
}

/** Powers of ten, in milliseconds, from the least gap to the longest. @param {number} longestMs */
export function gapTicks(longestMs) {
  const ticks = [];
  for (let tick = LEAST_MS; tick <= Math.max(longestMs, 1) * 1.0001; tick *= 10) ticks.push(tick);
  return ticks;
}

/** @param {number} ms */
export function gapLabel(ms) {
  return ms >= 999.9 ? `${Math.round(ms / 1000)} s` : `${Number(ms.toPrecision(1))} ms`;
}

/**
 * Give each label the first row in which it hides none before it; the last row takes what fits nowhere.
 * @param {{ x: number, width: number }[]} labels from left to right
 * @param {number} rows
 * @returns {number[]}
 */
export function labelRows(labels, rows) {
  /** Where the last label of each row ends. */
  const ends = new Array(rows).fill(Number.NEGATIVE_INFINITY);
  return labels.map(({ x, width }) => {
    const free = ends.findIndex((end) => end < x);
    const row = free === -1 ? rows - 1 : free;
    ends[row] = x + width;
    return row;
  });
}
