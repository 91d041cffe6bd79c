// @ts-check
/**
 * Draws the timeline on uPlot's canvas, by hand where uPlot has no such shape: ticks, holds, percentiles, marks.
 *
 * Every cause of a hold has a lane and a pattern of its own, so that colour is never all there is. Colours come from the
 * page's style sheet, as they are when it is drawn.
 */
import { duration, percentile } from "./delta-log.js";
import { LEAST_MS, labelRows } from "./timeline-scale.js";
import { causesOf } from "./timeline-words.js";

/** @typedef {import("./delta-log.js").DeltaLog} DeltaLog */
/** @typedef {import("uplot")} uPlot */
/** @typedef {{ kind: string, name: string, at_s: number }} Mark */

const LANE_PX = 16;
const LABEL_PX = 15;
const LABEL_ROWS = 4;
/** What uPlot keeps below and above the plot before it has measured it. */
const AROUND_PX = 34;
const END_KINDS = new Set(["disconnect", "stop", "cancelled", "failed"]);

export class TimelinePainter {
  #log;
  #marks;
  #styled;
  /** Gaps in seconds, ascending. @type {number[]} */
  #sorted_s = [];
  /** Causes that occur, each with a lane. @type {string[]} */
  lanes = [];

  /**
   * @param {DeltaLog} log
   * @param {Mark[]} marks
   * @param {Element} styled where the colours' variables are looked up
   */
  constructor(log, marks, styled) {
    this.#log = log;
    this.#marks = marks;
    this.#styled = styled;
  }

  /** More of the log is there. */
  measure() {
    this.#sorted_s = this.#log.sortedGaps;
    this.lanes = causesOf(this.#log).map(({ cause }) => cause);
  }

  get longestMs() {
    return Math.max((this.#sorted_s.at(-1) ?? 0) * 1000, 1);
  }

  /**
   * The room above the gaps for labels and below them for lanes, in CSS pixels.
   * @param {uPlot} chart
   * @param {number} chartHeight
   */
  bands(chart, chartHeight) {
    const height = chart.bbox ? chart.bbox.height / devicePixelRatio : chartHeight - AROUND_PX;
    return { height, above: LABEL_ROWS * LABEL_PX + 6, below: this.lanes.length * LANE_PX + 6 };
  }

  /** @param {string} variable */
  color(variable) {
    return getComputedStyle(this.#styled).getPropertyValue(variable).trim() || "#888";
  }

  /** @param {uPlot} chart */
  paint(chart) {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    // uPlot leaves the alignment of its axes' labels behind.
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    this.#paintGaps(chart);
    this.#paintHolds(chart);
    const labels = this.#paintPercentiles(chart);
    this.#paintMarks(chart);
    for (const { label, x, y } of labels) this.#label(ctx, label, x, y, this.color("--timeline-percentile"));
    ctx.restore();
  }

  /** @param {uPlot} chart */
  #paintGaps({ ctx, bbox, valToPos, scales }) {
    const ratio = devicePixelRatio;
    const bottom = bbox.top + bbox.height - (this.lanes.length * LANE_PX + 6) * ratio;
    const log = this.#log;
    const begin = log.countAt((scales.x?.min ?? 0) - 1e-9);
    const end = log.countAt(scales.x?.max ?? 0);
    // Where ticks would run together they fade, and the dots at their tops show how the gaps are spread.
    const alpha = Math.min(1, Math.max(0.05, bbox.width / ratio / (end - begin) / 4));
    ctx.strokeStyle = ctx.fillStyle = this.color("--timeline-gap");
    ctx.lineWidth = Math.max(1, 1.25 * ratio);
    ctx.beginPath();
    for (let i = begin; i < end; i++) {
      const x = valToPos(log.sent_s[i] ?? 0, "x", true);
      const gap_s = log.gap_s[i];
      const top =
        typeof gap_s === "number" ? valToPos(Math.max(gap_s * 1000, LEAST_MS), "y", true) : bottom - 8;
      ctx.moveTo(x, bottom);
      ctx.lineTo(x, Math.min(top, bottom - 3 * ratio));
      if (typeof gap_s === "number") ctx.fillRect(x - ratio, top - ratio, 2 * ratio, 2 * ratio);
    }
    ctx.globalAlpha = alpha;
    ctx.stroke();
    ctx.globalAlpha = 1;
  }

  /** @param {uPlot} chart */
  #paintHolds({ ctx, bbox, valToPos }) {
    const ratio = devicePixelRatio;
    const lanes = this.lanes;
    const top = bbox.top + bbox.height - lanes.length * LANE_PX * ratio;
    for (const [lane, cause] of lanes.entries()) {
      ctx.fillStyle = pattern(ctx, cause, this.color(`--record-${cause}`));
      ctx.strokeStyle = this.color(`--record-${cause}`);
      ctx.lineWidth = ratio;
      const y = top + lane * LANE_PX * ratio + 2 * ratio;
      for (const [seq, held] of this.#log.holds) {
        const sent_s = this.#log.sent_s[this.#log.indexOf(seq)] ?? 0;
        for (const hold of held) {
          if (hold.cause !== cause) continue;
          const right = valToPos(sent_s, "x", true);
          const left = Math.min(valToPos(sent_s - (hold.held_s ?? 0), "x", true), right - 3 * ratio);
          ctx.fillRect(left, y, right - left, (LANE_PX - 4) * ratio);
          ctx.strokeRect(left, y, right - left, (LANE_PX - 4) * ratio);
        }
      }
      this.#label(ctx, cause, bbox.left + 3 * ratio, y + 9 * ratio, this.color("--body-fg"));
    }
  }

  /** The lines of p50 and p95, and their labels, to be written over all else. @param {uPlot} chart */
  #paintPercentiles({ ctx, bbox, valToPos }) {
    const ratio = devicePixelRatio;
    const right = bbox.left + bbox.width;
    const labels = [];
    let free = Number.POSITIVE_INFINITY;
    for (const [fraction, words, dash] of /** @type {[number, string, number[]][]} */ ([
      [0.5, "p50", []],
      [0.95, "p95", [6, 4]],
    ])) {
      const gap = percentile(this.#sorted_s, fraction);
      if (gap === null) continue;
      const y = valToPos(Math.max(gap * 1000, LEAST_MS), "y", true);
      ctx.strokeStyle = this.color("--timeline-percentile");
      ctx.lineWidth = 1.5 * ratio;
      ctx.setLineDash(dash.map((length) => length * ratio));
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(right, y);
      ctx.stroke();
      // Close together, the higher percentile's label goes above the lower one's.
      free = Math.min(y - 3 * ratio, free - 13 * ratio);
      const label = `${words} ${duration(gap)}`;
      labels.push({ label, x: right - ctx.measureText(label).width - 4 * ratio, y: free });
    }
    ctx.setLineDash([]);
    return labels;
  }

  /** @param {uPlot} chart */
  #paintMarks({ ctx, bbox, valToPos }) {
    const ratio = devicePixelRatio;
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    const right = bbox.left + bbox.width;
    const placed = this.#marks.map(({ kind, name, at_s }) => {
      const x = Math.round(valToPos(at_s, "x", true));
      const width = ctx.measureText(name).width + 8 * ratio;
      // At the right edge the label goes to the left of its line.
      return { kind, name, line: x, x: x + width > right ? x - width : x, width };
    });
    const rows = labelRows([...placed], LABEL_ROWS);
    for (const [i, { kind, name, line, x }] of placed.entries()) {
      const y = bbox.top + ((rows[i] ?? 0) + 1) * LABEL_PX * ratio - 3 * ratio;
      ctx.strokeStyle = this.color(END_KINDS.has(kind) ? "--timeline-end" : "--timeline-mark");
      ctx.lineWidth = ratio;
      ctx.setLineDash(kind === "finish" ? [] : [2 * ratio, 2 * ratio]);
      ctx.beginPath();
      ctx.moveTo(line + 0.5, y - 8 * ratio);
      ctx.lineTo(line + 0.5, bbox.top + bbox.height);
      ctx.stroke();
      this.#label(ctx, name, x + 4 * ratio, y, this.color("--body-fg"));
    }
    ctx.setLineDash([]);
  }

  /**
   * @param {CanvasRenderingContext2D} ctx
   * @param {string} words
   * @param {number} x
   * @param {number} y
   * @param {string} color
   */
  #label(ctx, words, x, y, color) {
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.lineWidth = 4 * devicePixelRatio;
    ctx.strokeStyle = this.color("--body-bg");
    ctx.lineJoin = "round";
    ctx.setLineDash([]);
    ctx.strokeText(words, x, y);
    ctx.fillStyle = color;
    ctx.fillText(words, x, y);
  }
}

/**
 * A fill that is told apart without colour: solid, striped, dotted.
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} cause
 * @param {string} color
 */
function pattern(ctx, cause, color) {
  if (cause === "utf8") return color;
  const size = 6 * devicePixelRatio;
  const tile = new OffscreenCanvas(size, size);
  const pen = /** @type {OffscreenCanvasRenderingContext2D} */ (tile.getContext("2d"));
  pen.strokeStyle = pen.fillStyle = color;
  pen.lineWidth = 1.6 * devicePixelRatio;
  if (cause === "context") {
    for (const shift of [-size, 0, size]) {
      pen.moveTo(shift, size);
      pen.lineTo(shift + size, 0);
    }
    pen.stroke();
  } else {
    pen.arc(size / 2, size / 2, size / 4, 0, 2 * Math.PI);
    pen.fill();
  }
  return ctx.createPattern(tile, "repeat") ?? color;
}
