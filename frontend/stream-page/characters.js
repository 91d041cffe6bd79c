// @ts-check
/**
 * A text taken apart: graphemes with their code points, UTF-8 bytes and whatever about them may mislead. No DOM.
 */
import { codePoint } from "./visible.js";

/** @typedef {{ grapheme: string, seq: number, codePoints: string[], bytes: string, flags: string[] }} CharacterRow */

const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });
const encoder = new TextEncoder();

/** @type {[string, RegExp][]} */
const FLAGS = [
  ["U+FFFD, replacement character", /\ufffd/u],
  ["lone surrogate", /[\ud800-\udfff]/u],
  ["bidi control", /\p{Bidi_Control}/u],
  ["zero width", /[\u200b-\u200d\u2060\ufeff]/u],
  ["combining mark", /\p{M}/u],
  ["variation selector", /\p{Variation_Selector}/u],
  ["tag character", /[\u{e0020}-\u{e007f}]/u],
  ["control", /[^\P{Cc}\n\t]/u],
  ["unusual space", /[^\P{White_Space}\x20\n\t\r]/u],
  [
    "invisible",
    /(?![\u200b-\u200d\u2060\ufeff\u{e0020}-\u{e007f}\p{M}\p{Bidi_Control}])\p{Default_Ignorable_Code_Point}/u,
  ],
  ["private use", /\p{Co}/u],
  ["unassigned", /\p{Cn}/u],
];

/**
 * Take the joined deltas apart. A grapheme that lies in several deltas is told so: it was on the wire in parts.
 * @param {string[]} pieces
 * @param {number[]} seqs sequence number of each piece
 * @returns {Generator<CharacterRow>}
 */
export function* characterRows(pieces, seqs) {
  let piece = 0;
  let pieceEnd = pieces[0]?.length ?? 0;
  for (const { segment, index } of segmenter.segment(pieces.join(""))) {
    while (piece + 1 < pieces.length && index >= pieceEnd) {
      piece += 1;
      pieceEnd += pieces[piece]?.length ?? 0;
    }
    const flags = flagsOf(segment);
    if (index + segment.length > pieceEnd) flags.push("cut between deltas");
    yield {
      grapheme: segment,
      seq: seqs[piece] ?? 0,
      codePoints: Array.from(segment, codePoint),
      bytes: bytesOf(segment),
      flags,
    };
  }
}

/** @param {string} grapheme */
function flagsOf(grapheme) {
  const flags = FLAGS.filter(([, pattern]) => pattern.test(grapheme)).map(([name]) => name);
  if (grapheme.normalize("NFC") !== grapheme) flags.push("not NFC");
  return flags;
}

/** UTF-8 in hex; a lone surrogate has none. @param {string} grapheme */
function bytesOf(grapheme) {
  return Array.from(grapheme, (character) =>
    /[\ud800-\udfff]/u.test(character)
      ? "none"
      : Array.from(encoder.encode(character), (byte) => byte.toString(16).padStart(2, "0")).join(" "),
  ).join(" ");
}
