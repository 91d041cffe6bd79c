// @ts-check
/**
 * Decides how much of a growing text is safe to look at: pieces in, text that will not change its shape out.
 *
 * Naively, "👩" is painted and turns into "👩‍🔬" one delta later, and न turns into नि. So the last grapheme cluster
 * waits for what follows it, and in joining scripts the last word does, because its letters reshape.
 * Text comes out in order, nothing is lost: all pushes and the flush joined are the input.
 */

const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** Arabic and its kin: a letter's shape depends on the next letter. ZWJ, ZWNJ and marks belong to the word. */
const JOINING_TAIL =
  /[\p{scx=Arab}\p{scx=Syrc}\p{scx=Mong}\p{scx=Nkoo}\p{scx=Adlm}\p{scx=Rohg}\p{M}\u200c\u200d]+$/u;
const JOINING_LETTER = /[\p{sc=Arab}\p{sc=Syrc}\p{sc=Mong}\p{sc=Nkoo}\p{sc=Adlm}\p{sc=Rohg}]/u;

/** Longer than any cluster or word people write; hostile text (a thousand accents) must not wait for ever. */
const LONGEST_HOLD = 64;

export class GraphemeReveal {
  /** Text pushed but not yet revealed; it always begins at a cluster boundary. */
  #held = "";

  /**
   * Take a piece and return what may be shown now; "" while everything waits.
   * @param {string} piece
   */
  push(piece) {
    this.#held += piece;
    return this.#release(safeLength(this.#held));
  }

  /** Return what still waits: at the end of the text the last cluster is complete. */
  flush() {
    return this.#release(this.#held.length);
  }

  /** @param {number} length */
  #release(length) {
    const text = this.#held.slice(0, length);
    this.#held = this.#held.slice(length);
    return text;
  }
}

/**
 * Count the UTF-16 units of `text` that come before its last cluster, or before its last joining word.
 * @param {string} text
 */
function safeLength(text) {
  if (text === "") return 0;
  const cluster = segmenter.segment(text).containing(text.length - 1)?.index ?? 0;
  const held = Math.min(cluster, joiningWordStart(text));
  if (text.length - held <= LONGEST_HOLD) return held;
  return text.length - cluster <= LONGEST_HOLD ? cluster : text.length;
}

/** @param {string} text */
function joiningWordStart(text) {
  // Only the tail can matter; a regular expression over the whole of a long piece would cost for nothing.
  const from = Math.max(0, text.length - 2 * LONGEST_HOLD);
  const match = JOINING_TAIL.exec(text.slice(from));
  return match && JOINING_LETTER.test(match[0]) ? from + match.index : text.length;
}
