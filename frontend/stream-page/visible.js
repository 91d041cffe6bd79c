// @ts-check
/**
 * Strangers' text made visible, as the server's `visible` does: what nobody could see becomes a marked escape.
 *
 * In: any text. Out: segments, or nodes of them. Segments drop and reorder nothing.
 */

/** White space, default ignorables, controls, lone surrogates: what paints nothing of its own. */
const UNSEEN = /[\p{Cc}\p{Cs}\p{White_Space}\p{Default_Ignorable_Code_Point}\ufff9-\ufffb]/gu;
/** @type {Record<string, string>} */
const MARKS = { " ": "·", "\n": "⏎", "\t": "⇥" };
/** @type {Record<string, string>} */
const NAMES = { " ": "space", "\n": "line feed", "\t": "tab", "\r": "carriage return" };

/**
 * Without `whitespace`, ordinary white space stays as it is. `before` and `after` are what is shown on either side: a
 * joiner at the edge of a delta works on them.
 * @typedef {{ whitespace: boolean, before?: string, after?: string }} Options
 */
/** @typedef {{ text: string, name: string }} Segment `name` is "" for text as it is */

/**
 * @param {string} text
 * @param {Options} options
 * @returns {Segment[]}
 */
export function visibleSegments(text, { whitespace, before = "", after = "" }) {
  /** @type {Segment[]} */
  const segments = [];
  let end = 0;
  for (const match of text.matchAll(UNSEEN)) {
    const [character] = match;
    if (
      (!whitespace && /[ \n\t\p{Zs}]/u.test(character)) ||
      shapes(before + text + after, before.length + match.index)
    )
      continue;
    if (match.index > end) segments.push({ text: text.slice(end, match.index), name: "" });
    segments.push({
      text: MARKS[character] ?? escaped(character),
      name: NAMES[character] ?? codePoint(character),
    });
    end = match.index + character.length;
  }
  if (end < text.length) segments.push({ text: text.slice(end), name: "" });
  return segments;
}

/**
 * @param {string} text
 * @param {Options} options
 * @returns {Node[]}
 */
export function visibleNodes(text, options) {
  return visibleSegments(text, options).map((segment) => {
    if (!segment.name) return document.createTextNode(segment.text);
    const mark = document.createElement("span");
    mark.className = "unseen";
    mark.title = segment.name;
    mark.textContent = segment.text;
    return mark;
  });
}

/** @param {string} character */
export function codePoint(character) {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** @param {string} character */
function escaped(character) {
  const code = character.codePointAt(0) ?? 0;
  return code < 0xa0 ? `\\x${code.toString(16).padStart(2, "0")}` : codePoint(character);
}

/**
 * Whether an unseen character is at work on its neighbours: a joiner inside a word or emoji, a variation selector.
 * @param {string} text
 * @param {number} index
 */
function shapes(text, index) {
  const character = text[index] ?? "";
  if (/[\ufe00-\ufe0f]/.test(character)) return index > 0;
  if (character !== "\u200c" && character !== "\u200d") return false;
  const [before, after] = [text[index - 1], text[index + 1]];
  return before !== undefined && after !== undefined && /\P{ASCII}/u.test(before + after);
}
