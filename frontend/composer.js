// @ts-check
/**
 * The message box and the one button that is Send or Stop. Keys in, `onSend` and `onStop` out; the draft is kept.
 */
import { byId } from "./dom.js";

export class Composer {
  #form = byId("composer", HTMLFormElement);
  #prompt = byId("prompt", HTMLTextAreaElement);
  #button = byId("send", HTMLButtonElement);
  #label = byId("send-label", HTMLElement);
  #draftKey;

  /**
   * @param {{ onSend: (content: string) => void, onStop: () => void, draftKey: string }} options
   */
  constructor({ onSend, onStop, draftKey }) {
    this.#draftKey = `streamsite.draft.${draftKey}`;
    this.restore(readDraft(this.#draftKey));
    this.#prompt.addEventListener("input", () => this.#onInput());
    this.#prompt.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || isComposing(event)) return;
      event.preventDefault();
      if (!this.#busy) this.#send(onSend);
    });
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.#busy) onStop();
      else this.#send(onSend);
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !isComposing(event) && this.#busy) onStop();
    });
  }

  get #busy() {
    return this.#button.dataset.mode === "stop";
  }

  /** While an answer grows, the button stops it; the next message can be written meanwhile. @param {boolean} busy */
  set busy(busy) {
    this.#button.dataset.mode = busy ? "stop" : "send";
    this.#label.textContent = busy ? "Stop" : "Send";
    this.#update();
  }

  /**
   * Put a text back that could not be sent, unless the reader has begun another.
   * @param {string} draft
   */
  restore(draft) {
    if (this.#prompt.value === "") this.#prompt.value = draft;
    this.#onInput();
  }

  /**
   * Empty the box if it still holds this text: a retry has sent it.
   * @param {string} content
   */
  discard(content) {
    if (this.#prompt.value === content) this.#prompt.value = "";
    this.#onInput();
  }

  focus() {
    this.#prompt.focus();
  }

  /** @param {(content: string) => void} onSend */
  #send(onSend) {
    const content = this.#prompt.value;
    if (content.trim() === "") return;
    this.#prompt.value = "";
    this.#onInput();
    onSend(content);
  }

  #onInput() {
    writeDraft(this.#draftKey, this.#prompt.value);
    this.#update();
    if (CSS.supports("field-sizing", "content")) return;
    this.#prompt.style.height = "auto";
    this.#prompt.style.height = `${this.#prompt.scrollHeight}px`;
  }

  #update() {
    const disabled = !this.#busy && this.#prompt.value.trim() === "";
    // A button that is disabled under the keyboard's focus drops it.
    if (disabled && document.activeElement === this.#button) this.#prompt.focus();
    this.#button.disabled = disabled;
  }
}

/**
 * True while an input method is at work: its Enter chooses a candidate. Safari says so by key code 229 only.
 * @param {KeyboardEvent} event
 */
function isComposing(event) {
  return event.isComposing || event.keyCode === 229;
}

/** @param {string} key */
function readDraft(key) {
  try {
    return sessionStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

/**
 * @param {string} key
 * @param {string} draft
 */
function writeDraft(key, draft) {
  try {
    if (draft) sessionStorage.setItem(key, draft);
    else sessionStorage.removeItem(key);
  } catch {
    // Storage may be full or forbidden; the draft then lasts as long as the page.
  }
}
