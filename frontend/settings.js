// @ts-check
/**
 * The settings panel and the model picker: what people typed in, request fields out; kept between visits.
 *
 * An empty field is left out of the request, so that the model's own default holds.
 */
import { byId, part } from "./dom.js";

const STORAGE_KEY = "streamsite.settings";
const NUMBERS = ["temperature", "top_p", "max_tokens", "seed"];
const MOST_STOP_STRINGS = 4;

export class Settings {
  #form = byId("settings", HTMLFormElement);
  #toggle = byId("settings-toggle", HTMLButtonElement);
  #stop = byId("stop", HTMLTextAreaElement);
  #model = byId("model", HTMLSelectElement);

  constructor() {
    this.#restore();
    this.#toggle.addEventListener("click", () => this.#show(this.#form.hidden === true));
    this.#form.addEventListener("input", () => this.#save());
    // The reset event comes before the fields are empty; a microtask would too.
    this.#form.addEventListener("reset", () => setTimeout(() => this.#save()));
    this.#form.addEventListener("submit", (event) => event.preventDefault());
    this.#model.addEventListener("change", () => {
      this.#save();
      this.#showModelCard();
    });
    for (const card of modelCards()) linkOrigin(card);
    this.#showModelCard();
  }

  /** The request fields; null when a field is wrong, which the panel then shows. */
  read() {
    this.#checkStopStrings();
    if (!this.#form.checkValidity()) {
      this.#show(true);
      this.#form.reportValidity();
      return null;
    }
    return { model: this.#model.value, ...requestFields(new FormData(this.#form)) };
  }

  /** @param {boolean} visible */
  #show(visible) {
    this.#form.hidden = !visible;
    this.#toggle.setAttribute("aria-expanded", String(visible));
  }

  #checkStopStrings() {
    const tooMany = stopStrings(this.#stop.value).length > MOST_STOP_STRINGS;
    this.#stop.setCustomValidity(tooMany ? `At most ${MOST_STOP_STRINGS} stop strings are possible.` : "");
  }

  #showModelCard() {
    for (const card of modelCards()) card.hidden = card.dataset.model !== this.#model.value;
  }

  #save() {
    this.#checkStopStrings();
    const values = { model: this.#model.value, ...Object.fromEntries(new FormData(this.#form)) };
    this.#toggle.classList.toggle("is-set", Object.keys(requestFields(new FormData(this.#form))).length > 0);
    try {
      localStorage.setItem(STORAGE_KEY, JSON.stringify(values));
    } catch {
      // Storage may be full or forbidden; the settings then last as long as the page.
    }
  }

  #restore() {
    const values = savedValues();
    if (Array.from(this.#model.options).some((option) => option.value === values.model))
      this.#model.value = values.model ?? "";
    for (const control of this.#form.elements) {
      if (!(control instanceof HTMLInputElement || control instanceof HTMLTextAreaElement)) continue;
      control.value = values[control.name] ?? "";
    }
    this.#toggle.classList.toggle("is-set", Object.keys(requestFields(new FormData(this.#form))).length > 0);
  }
}

/**
 * @param {FormData} form
 * @returns {Record<string, unknown>}
 */
export function requestFields(form) {
  /** @type {Record<string, unknown>} */
  const fields = {};
  for (const name of NUMBERS) {
    const text = String(form.get(name) ?? "").trim();
    if (text !== "") fields[name] = Number(text);
  }
  const system = String(form.get("system") ?? "").trim();
  if (system) fields.system = system;
  const stop = stopStrings(String(form.get("stop") ?? ""));
  if (stop.length) fields.stop = stop;
  return fields;
}

/**
 * Split a text into stop strings, one a line; a backslash and n stand for a line break inside one.
 * @param {string} text
 * @returns {string[]}
 */
export function stopStrings(text) {
  return text
    .split(/\r?\n/)
    .filter((line) => line !== "")
    .map((line) => line.replaceAll("\\n", "\n"));
}

/** @returns {Record<string, string>} */
function savedValues() {
  try {
    return JSON.parse(localStorage.getItem(STORAGE_KEY) ?? "") ?? {};
  } catch {
    return {};
  }
}

function modelCards() {
  return /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".model-card"));
}

/** @param {HTMLElement} card */
function linkOrigin(card) {
  if (!card.querySelector('[data-part="origin"]')) return;
  const origin = part(card, "origin");
  const text = origin.textContent ?? "";
  if (!text.startsWith("https://")) return;
  const link = document.createElement("a");
  link.href = text;
  link.rel = "noopener noreferrer";
  link.target = "_blank";
  link.textContent = text.slice("https://".length);
  origin.replaceChildren(link);
}
