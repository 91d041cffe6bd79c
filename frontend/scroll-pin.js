// @ts-check
/**
 * Keeps the newest text in view until the reader scrolls up; a pill leads back when something was missed.
 */

/** Within this many pixels of the end, the reader is at the end. */
const NEAR_PX = 48;

export class ScrollPin {
  #scroller;
  #pill;
  #pinned = true;
  #lastTop = 0;

  /**
   * @param {HTMLElement} scroller
   * @param {HTMLElement} pill
   */
  constructor(scroller, pill) {
    this.#scroller = scroller;
    this.#pill = pill;
    scroller.addEventListener("scroll", () => this.#onScroll(), { passive: true });
    pill.addEventListener("click", () => this.pin());
    // A drawer that opens or a rotated phone changes heights without any new text.
    new ResizeObserver(() => this.#pinned && this.#toEnd()).observe(scroller);
  }

  /** Text was added. */
  follow() {
    if (this.#pinned) this.#toEnd();
    else if (this.#gap() > NEAR_PX) this.#pill.hidden = false;
  }

  /** Go to the end and stay there. */
  pin() {
    this.#pinned = true;
    this.#toEnd();
  }

  #toEnd() {
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#lastTop = this.#scroller.scrollTop;
    this.#pill.hidden = true;
  }

  #gap() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    return scrollHeight - scrollTop - clientHeight;
  }

  #onScroll() {
    const top = this.#scroller.scrollTop;
    // Only a move upwards is the reader's: growing text fires scroll events too, but never goes up.
    if (top < this.#lastTop && this.#gap() > NEAR_PX) this.#pinned = false;
    else if (this.#gap() <= NEAR_PX) this.#pinned = true;
    if (this.#pinned) this.#pill.hidden = true;
    this.#lastTop = top;
  }
}
