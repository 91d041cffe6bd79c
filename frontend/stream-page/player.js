// @ts-check
/**
 * Plays a stored answer again with its own timing, through the chat page's own `Answer` and `AnswerView`.
 *
 * Forwards, deltas are pushed as they once arrived; backwards, the answer begins anew and is pushed up to there. At the
 * end it is shown as the chat page shows a stored message.
 */
import { Answer } from "../answer.js";
import { AnswerView } from "../answer-view.js";
import { byId } from "../dom.js";
import { duration } from "./delta-log.js";
import { Playback } from "./playback.js";

/** @typedef {import("./delta-log.js").DeltaLog} DeltaLog */
/** @typedef {import("../chat-client.js").StoredStream} StoredStream */

/** Redraws per second for readers who asked for less motion. */
const CALM_HZ = 4;

const clock = () => performance.now() / 1000;

export class Player {
  #log;
  #stored;
  #onPosition;
  #playback;
  /** Deltas that the answer has. */
  #pushed = 0;
  #answer = new Answer();
  /** @type {AnswerView | null} */
  #view = null;
  #ended = false;
  #drawnAt = 0;
  #playButton = byId("play", HTMLButtonElement);
  #scrub = byId("scrub", HTMLInputElement);
  #calm = matchMedia("(prefers-reduced-motion: reduce)");

  /**
   * @param {DeltaLog} log
   * @param {StoredStream} stored
   * @param {number} length_s
   * @param {(at_s: number) => void} onPosition
   */
  constructor(log, stored, length_s, onPosition) {
    this.#log = log;
    this.#stored = stored;
    this.#onPosition = onPosition;
    this.#playback = new Playback(length_s);
    this.#playButton.addEventListener("click", () => this.toggle());
    byId("step-back", HTMLButtonElement).addEventListener("click", () => this.step(-1));
    byId("step-on", HTMLButtonElement).addEventListener("click", () => this.step(1));
    this.#scrub.addEventListener("input", () =>
      this.seek((this.#scrub.valueAsNumber / 1000) * this.#playback.length_s),
    );
    const speed = byId("speed", HTMLSelectElement);
    speed.addEventListener("change", () => this.#playback.setSpeed(Number(speed.value), clock()));
    byId("player", HTMLElement).hidden = false;
    this.#begin();
  }

  toggle() {
    if (this.#playback.playing) this.#playback.pause(clock());
    else this.#playback.play(clock());
    this.#tick();
  }

  /** Go to the next delta, or the one before. @param {1 | -1} direction */
  step(direction) {
    this.#playback.pause(clock());
    const at = this.#playback.at(clock());
    const count = this.#log.countAt(at);
    const { sent_s } = this.#log;
    if (direction > 0) this.seek(sent_s[count] ?? this.#playback.length_s);
    else if (this.#ended) this.seek(sent_s.at(-1) ?? 0);
    // Deltas that were sent at the same instant are one step.
    else this.seek(sent_s[this.#log.countAt((sent_s[count - 1] ?? 0) - 1e-9) - 1] ?? 0);
  }

  /** @param {number} at_s */
  seek(at_s) {
    this.#playback.seek(at_s, clock());
    this.#draw(this.#playback.at(clock()));
  }

  /** More of the log is there. */
  grow() {
    // A stream that runs, or whose process was lost, has no total time.
    this.#playback.extend(this.#log.sent_s.at(-1) ?? 0);
    this.#begin();
    this.#draw(this.#playback.at(clock()));
  }

  #tick() {
    const at = this.#playback.at(clock());
    const due = !this.#calm.matches || clock() - this.#drawnAt >= 1 / CALM_HZ || !this.#playback.playing;
    if (due) this.#draw(at);
    if (this.#playback.playing) requestAnimationFrame(() => this.#tick());
  }

  #begin() {
    const template = byId("answer-template", HTMLTemplateElement);
    const article = /** @type {HTMLElement} */ (template.content.firstElementChild?.cloneNode(true));
    this.#answer = new Answer();
    this.#answer.connect(0);
    this.#answer.open();
    this.#view = new AnswerView(article);
    this.#view.follow(this.#answer);
    this.#pushed = 0;
    this.#ended = false;
    byId("answer", HTMLElement).replaceChildren(article);
  }

  /** @param {number} at_s */
  #draw(at_s) {
    if (at_s >= this.#playback.length_s) this.#drawEnd();
    else this.#drawAt(at_s);
    this.#drawnAt = clock();
    this.#showControls(at_s);
  }

  #drawEnd() {
    if (this.#ended) return;
    this.#ended = true;
    const content = this.#log.text.join("");
    this.#view?.showStored({ id: 0, role: "assistant", content, stream: this.#stored });
  }

  /** @param {number} at_s */
  #drawAt(at_s) {
    const count = this.#log.countAt(at_s);
    if (this.#ended || count < this.#pushed) this.#begin();
    for (; this.#pushed < count; this.#pushed++) {
      const chunk = { choices: [{ delta: { content: this.#log.text[this.#pushed] } }] };
      const at = this.#log.sent_s[this.#pushed] ?? 0;
      this.#answer.push({ kind: "data", text: JSON.stringify(chunk), at });
    }
    this.#view?.render(at_s);
  }

  /** @param {number} at_s */
  #showControls(at_s) {
    const { length_s, playing } = this.#playback;
    this.#playButton.textContent = playing ? "Pause" : "Play";
    this.#scrub.value = `${Math.round((at_s / Math.max(length_s, 1e-9)) * 1000)}`;
    this.#scrub.setAttribute("aria-valuetext", `${duration(at_s)}, ${this.#log.countAt(at_s)} deltas`);
    byId("position", HTMLElement).textContent = `${at_s.toFixed(2)} / ${length_s.toFixed(2)} s`;
    this.#onPosition(at_s);
  }
}
