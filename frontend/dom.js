// @ts-check
/**
 * Typed look-ups in the page's own markup. Absent markup is a bug of ours, so it fails at once and by name.
 */

/**
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} type
 * @returns {T}
 */
export function byId(id, type) {
  const element = document.getElementById(id);
  if (!(element instanceof type)) throw new Error(`The page has no ${type.name} #${id}.`);
  return element;
}

/**
 * Find the part of a message or card that its markup names with `data-part`.
 * @param {ParentNode} root
 * @param {string} name
 * @returns {HTMLElement}
 */
export function part(root, name) {
  const element = root.querySelector(`[data-part="${name}"]`);
  if (!(element instanceof HTMLElement)) throw new Error(`The markup has no part "${name}".`);
  return element;
}

/**
 * Make an element that holds text, and only text.
 * @param {string} tag
 * @param {string} text
 * @param {string} [className]
 */
export function textElement(tag, text, className = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

/**
 * Copy text; the clipboard API is missing on plain http addresses other than localhost.
 * @param {string} text
 * @param {HTMLElement} shown the element that shows the text, selected where the browser cannot copy
 */
export async function copyText(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    getSelection()?.selectAllChildren(shown);
    document.execCommand("copy");
  }
}
