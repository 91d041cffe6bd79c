// @ts-check
/**
 * The timeline in words, for a reader who does not see it: the whole log in a sentence or two, one delta in one. No DOM.
 */
import { plural } from "../figures.js";
import { duration, percentile } from "./delta-log.js";

/** @typedef {import("./delta-log.js").DeltaLog} DeltaLog */

const CAUSES = ["utf8", "context", "stop"];

/** @param {DeltaLog} log */
export function logWords(log) {
  if (log.length === 0) return "No deltas were sent.";
  const count = `${plural(log.length, "delta")}, the last after ${duration(log.sent_s.at(-1))}.`;
  const causes = causesOf(log).map(({ cause, deltas }) => `${deltas} by ${cause}`);
  const held = causes.length ? `Held back: ${causes.join(", ")}.` : "Nothing was held back.";
  return [count, gapWords(log), held].filter(Boolean).join(" ");
}

/**
 * @param {DeltaLog} log
 * @param {number} i its place in the log
 */
export function deltaWords(log, i) {
  const seq = log.seq[i] ?? 0;
  const gap = log.gap_s[i] === null ? "" : `, gap ${duration(log.gap_s[i])}`;
  const holds = (log.holds.get(seq) ?? []).map(({ cause, held_s }) =>
    `, held by ${cause} ${duration(held_s)}`.trimEnd(),
  );
  return `Delta ${seq} at ${duration(log.sent_s[i])}${gap}${holds.join("")}`;
}

/**
 * The causes that occur, in the order of the pipeline, and how many deltas each held.
 * @param {DeltaLog} log
 */
export function causesOf(log) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const held of log.holds.values())
    for (const cause of new Set(held.map((hold) => hold.cause)))
      counts.set(cause, (counts.get(cause) ?? 0) + 1);
  return [...counts]
    .map(([cause, deltas]) => ({ cause, deltas }))
    .sort((a, b) => CAUSES.indexOf(a.cause) - CAUSES.indexOf(b.cause));
}

/** @param {DeltaLog} log */
function gapWords(log) {
  const sorted = log.sortedGaps;
  const longest = sorted.at(-1);
  if (longest === undefined) return "";
  const [median, p95] = [percentile(sorted, 0.5), percentile(sorted, 0.95)].map(duration);
  const before = log.seq[log.gap_s.indexOf(longest)];
  return `Gaps: median ${median}, 95th percentile ${p95}, longest ${duration(longest)} before delta ${before}.`;
}
