// @ts-check
/**
 * The "model loading" notice: asks the server every two seconds until the model is ready or has failed.
 */
import { byId } from "./dom.js";

/** @typedef {import("./chat-client.js").ChatClient} ChatClient */
/** @typedef {import("./chat-client.js").Readiness} Readiness */

const POLL_MS = 2000;

/**
 * @param {ChatClient} client
 * @param {AbortSignal} signal
 */
export async function watchReadiness(client, signal) {
  const notice = byId("model-state", HTMLElement);
  while (notice.dataset.state !== "ready" && !signal.aborted) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    try {
      show(notice, await client.readReadiness(signal));
    } catch {
      // The server restarts or the page leaves; the next round tells.
    }
  }
}

/**
 * @param {HTMLElement} notice
 * @param {Readiness} readiness
 */
function show(notice, { state, message }) {
  const words = state === "failed" ? "The model could not be loaded" : "Model loading";
  notice.dataset.state = state;
  notice.hidden = state === "ready";
  byId("model-state-text", HTMLElement).textContent = message ? `${words}: ${message}` : words;
}
