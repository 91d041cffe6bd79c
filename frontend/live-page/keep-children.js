// @ts-check
/**
 * Make these the children of an element, in this order.
 *
 * Moving an element takes the focus and the selection out of it: those in place stay untouched, and the one that has
 * the focus is never moved.
 * @param {HTMLElement} parent
 * @param {HTMLElement[]} children
 */
export function keepChildren(parent, children) {
  const kept = new Set(/** @type {Element[]} */ (children));
  for (const child of [...parent.children]) {
    if (!kept.has(child)) child.remove();
  }
  let place = parent.firstElementChild;
  for (const child of children) {
    if (child.contains(document.activeElement)) {
      // Those before it come back behind it.
      while (place && place !== child) {
        const next = place.nextElementSibling;
        place.remove();
        place = next;
      }
    }
    if (place === child) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
}
