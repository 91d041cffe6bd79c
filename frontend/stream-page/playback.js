// @ts-check
/**
 * Where a replay is: a clock in, a position in the stream's own seconds out. No DOM, no timers.
 */

export class Playback {
  /** Seconds of the stream per second of the clock. */
  #speed = 1;
  /** The position when the clock was last looked at. */
  #position_s;
  /** The clock when it was last looked at; null while paused. @type {number | null} */
  #since = null;

  /** @param {number} length_s when the stream's last frame was sent */
  constructor(length_s) {
    this.length_s = length_s;
    this.#position_s = length_s;
  }

  get playing() {
    return this.#since !== null;
  }

  /**
   * Go on from here, or from the beginning when this is the end.
   * @param {number} now seconds of any clock that only grows
   */
  play(now) {
    if (this.#position_s >= this.length_s) this.#position_s = 0;
    this.#since = now;
  }

  /** @param {number} now */
  pause(now) {
    this.at(now);
    this.#since = null;
  }

  /**
   * @param {number} position_s
   * @param {number} now
   */
  seek(position_s, now) {
    this.#position_s = Math.min(Math.max(position_s, 0), this.length_s);
    if (this.playing) this.#since = now;
  }

  /**
   * @param {number} speed
   * @param {number} now
   */
  setSpeed(speed, now) {
    this.at(now);
    this.#speed = speed;
  }

  /**
   * The stream turned out to be longer; a replay that stands at its end stays there.
   * @param {number} length_s
   */
  extend(length_s) {
    if (length_s <= this.length_s) return;
    if (!this.playing && this.#position_s >= this.length_s) this.#position_s = length_s;
    this.length_s = length_s;
  }

  /** The position now; a replay that reaches its end is paused there. @param {number} now */
  at(now) {
    if (this.#since === null) return this.#position_s;
    this.#position_s += (now - this.#since) * this.#speed;
    this.#since = now;
    if (this.#position_s >= this.length_s) {
      this.#position_s = this.length_s;
      this.#since = null;
    }
    return this.#position_s;
  }
}
