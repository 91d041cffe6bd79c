// @ts-check
/**
 * The timeline: deltas, gaps, holds and events over time, to look at, to brush and to walk along with the keyboard.
 *
 * uPlot has the axes, the cursor and the brush; `timeline-painter` draws. What is shown is also in words below it, and
 * in the table.
 */
import uPlot from "uplot";
import { byId } from "../dom.js";
import { TimelinePainter } from "./timeline-painter.js";
import { gapBounds, gapLabel, gapTicks, LEAST_MS } from "./timeline-scale.js";
import { deltaWords, logWords } from "./timeline-words.js";

/** @typedef {import("./delta-log.js").DeltaLog} DeltaLog */
/** @typedef {import("./selection.js").Selection} Selection */
/** @typedef {import("./timeline-painter.js").Mark} Mark */

const HEIGHT = 310;
const AXIS_PX = 58;

export class Timeline {
  #plot = byId("plot", HTMLElement);
  #caption = byId("timeline-caption", HTMLElement);
  #log;
  #marks;
  #selection;
  #announce;
  #onSeek;
  #painter;
  /** @type {uPlot | null} */
  #chart = null;
  #playhead = document.createElement("div");
  #tip = document.createElement("div");
  /** Where the player is; null while there is none. @type {number | null} */
  #position_s = null;
  /** The delta that the keyboard is at. */
  #index = -1;
  /** Where a range chosen with the keyboard began. */
  #anchor = -1;
  /** @type {[number, number] | null} */
  #zoom = null;

  /**
   * @param {{ log: DeltaLog, marks: Mark[], selection: Selection, announce: (words: string) => void,
   *   onSeek: (at_s: number) => void }} parts
   */
  constructor({ log, marks, selection, announce, onSeek }) {
    this.#log = log;
    this.#marks = marks;
    this.#selection = selection;
    this.#announce = announce;
    this.#onSeek = onSeek;
    this.#painter = new TimelinePainter(log, marks, this.#plot);
    this.#playhead.className = "playhead";
    this.#playhead.hidden = true;
    this.#tip.className = "tip";
    this.#tip.hidden = true;
    this.#plot.addEventListener("keydown", (event) => this.#walk(event));
    selection.watch((_, by) => by !== "timeline" && this.#drawSelection());
    const redraw = () => this.#chart?.redraw(false);
    new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    new ResizeObserver(() => this.#fit()).observe(this.#plot);
  }

  /** More of the log is there. */
  grow() {
    const log = this.#log;
    this.#painter.measure();
    this.#caption.textContent = logWords(log);
    if (log.length === 0) return;
    byId("timeline", HTMLElement).hidden = false;
    const data = this.#columns();
    if (this.#chart) this.#chart.setData(data);
    else this.#draw(data);
  }

  /** @param {number} at_s */
  showPosition(at_s) {
    this.#position_s = at_s;
    const chart = this.#chart;
    if (!chart) return;
    const left = chart.valToPos(at_s, "x");
    // Not `clientWidth`: that would lay the page out again at every frame.
    this.#playhead.hidden = left < 0 || left > chart.bbox.width / devicePixelRatio + 1;
    this.#playhead.style.transform = `translateX(${left}px)`;
  }

  /** Show only the selected deltas, or everything again. @param {boolean} zoomed */
  zoom(zoomed) {
    const { range } = this.#selection;
    const log = this.#log;
    this.#zoom = null;
    if (zoomed && range) {
      const from = log.sent_s[log.indexOf(range.first)] ?? 0;
      const to = log.sent_s[log.indexOf(range.last + 1) - 1] ?? from;
      const margin = Math.max((to - from) * 0.03, 0.001);
      this.#zoom = [from - margin, to + margin];
    }
    this.#chart?.setData(this.#columns());
  }

  /** @returns {uPlot.AlignedData} */
  #columns() {
    const gaps = this.#log.gap_s.map((gap) => (gap === null ? null : Math.max(gap * 1000, LEAST_MS)));
    return [this.#log.sent_s, gaps];
  }

  /** @param {uPlot.AlignedData} data */
  #draw(data) {
    const font = "11px system-ui, sans-serif";
    const stroke = () => this.#painter.color("--body-quiet-color");
    const grid = { stroke: () => this.#painter.color("--hairline-color"), width: 1 };
    this.#chart = new uPlot(
      {
        width: this.#plot.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        padding: [4, 20, 0, 0],
        scales: {
          x: { time: false, range: () => this.#zoom ?? [0, this.#end] },
          y: {
            distr: 3,
            range: (chart) => gapBounds(this.#painter.longestMs, this.#painter.bands(chart, HEIGHT)),
          },
        },
        axes: [
          {
            stroke,
            font,
            grid,
            ticks: grid,
            size: 30,
            values: (_, splits) => splits.map((at) => `${Number(at.toFixed(4))} s`),
          },
          {
            stroke,
            font,
            grid,
            ticks: grid,
            size: AXIS_PX,
            splits: () => gapTicks(this.#painter.longestMs),
            filter: (_, splits) => splits,
            values: (_, splits) => splits.map(gapLabel),
          },
        ],
        series: [{}, { paths: () => null, points: { show: false } }],
        cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { show: false } },
        hooks: {
          draw: [(chart) => this.#painter.paint(chart)],
          setScale: [(_, scale) => scale === "x" && this.#follow()],
          setSelect: [(chart) => this.#brushed(chart)],
          setCursor: [(chart) => this.#point(chart)],
        },
      },
      data,
      this.#plot,
    );
    this.#chart.over.append(this.#playhead, this.#tip);
    // A drag's own click is uPlot's.
    this.#chart.over.addEventListener("click", () => this.#clicked());
  }

  get #end() {
    const marks = this.#marks.map(({ at_s }) => at_s);
    return Math.max(this.#log.sent_s.at(-1) ?? 0, ...marks, 0.001) * 1.02;
  }

  #fit() {
    const width = this.#plot.clientWidth;
    if (!this.#chart || width === this.#chart.width || width === 0) return;
    this.#chart.setSize({ width, height: HEIGHT });
    this.#drawSelection();
  }

  /** @param {uPlot} chart */
  #brushed(chart) {
    const { left, width } = chart.select;
    if (width === 0) return;
    const range = this.#log.between(chart.posToVal(left, "x"), chart.posToVal(left + width, "x"));
    this.#selection.set(range, "timeline");
    this.#announce(`Selected ${this.#selection.words}.`);
  }

  #clicked() {
    // uPlot took the selection's rectangle away when the button went down.
    this.#drawSelection();
    const chart = this.#chart;
    if (chart) this.#onSeek(chart.posToVal(chart.cursor.left ?? 0, "x"));
  }

  /** @param {uPlot} chart */
  #point(chart) {
    const { left = -1, idx } = chart.cursor;
    this.#tip.hidden = left < 0 || idx === null || idx === undefined;
    if (this.#tip.hidden) return;
    this.#tip.textContent = deltaWords(this.#log, Number(idx));
    this.#tip.classList.toggle("tip-left", left > chart.over.clientWidth / 2);
    this.#tip.style.transform = `translateX(${left}px)`;
  }

  /** Put what lies over the canvas where its scale has it now. */
  #follow() {
    this.#drawSelection();
    if (this.#position_s !== null) this.showPosition(this.#position_s);
  }

  #drawSelection() {
    const chart = this.#chart;
    if (!chart) return;
    const { range } = this.#selection;
    const log = this.#log;
    const from = range ? chart.valToPos(log.sent_s[log.indexOf(range.first)] ?? 0, "x") - 2 : 0;
    const to = range ? chart.valToPos(log.sent_s[log.indexOf(range.last + 1) - 1] ?? 0, "x") + 2 : 0;
    chart.setSelect(
      { left: from, width: range ? to - from : 0, top: 0, height: chart.over.clientHeight },
      false,
    );
  }

  /** @param {KeyboardEvent} event */
  #walk(event) {
    const last = this.#log.length - 1;
    /** @type {Record<string, number>} */
    const places = {
      ArrowRight: this.#index + 1,
      ArrowLeft: this.#index - 1,
      PageDown: this.#index + 50,
      PageUp: this.#index - 50,
      Home: 0,
      End: last,
    };
    const place = places[event.key];
    if (event.key === "Escape") this.#selection.set(null, "keyboard");
    else if (event.key === "Enter") this.#onSeek(this.#log.sent_s[Math.max(this.#index, 0)] ?? 0);
    else if (place === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    else this.#goTo(Math.min(Math.max(place, 0), last), event.shiftKey);
    event.preventDefault();
    event.stopPropagation();
  }

  /**
   * @param {number} index
   * @param {boolean} selecting
   */
  #goTo(index, selecting) {
    if (!selecting) this.#anchor = -1;
    else if (this.#anchor < 0) this.#anchor = Math.max(this.#index, 0);
    this.#index = index;
    const chart = this.#chart;
    chart?.setCursor({ left: chart.valToPos(this.#log.sent_s[index] ?? 0, "x"), top: 10 });
    if (selecting) {
      const [first, last] = [this.#log.seq[this.#anchor] ?? 1, this.#log.seq[index] ?? 1];
      this.#selection.set({ first, last }, "keyboard");
    }
    this.#announce(selecting ? `Selected ${this.#selection.words}.` : `${deltaWords(this.#log, index)}.`);
  }
}
