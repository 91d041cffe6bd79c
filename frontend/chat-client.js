// @ts-check
/**
 * The page's requests to its server: the streamed answer, stop, the stored conversation, readiness.
 *
 * Every refusal, be it an OpenAI error body, a login page or a dead network, comes out as one `RequestFailed`
 * that says whether trying again by itself may help.
 */

/** @typedef {import("./answer.js").AnswerError} AnswerError */
/**
 * What the server told the page about itself (`page_config`).
 * @typedef {{
 *   conversation_id: string | null, stream_url: string, stop_url: string, ready_url: string, keep_alive_s: number,
 * }} PageConfig
 */
/**
 * One question, as `/chat/stream/` takes it; no content and a user message as parent: answer that one again.
 * @typedef {{
 *   conversation_id: string | null, parent_id: number | null, content: string | null, model: string,
 *   [setting: string]: unknown,
 * }} Question
 */
/**
 * @typedef {{ state: string, finish_reason: string | null, stop_reason: string | null } &
 *   import("./figures.js").Measured & { holds?: Record<string, Hold> }} StoredStream
 */
/** @typedef {{ count: number, size: number, total_s: number | null, longest_s: number | null }} Hold */
/** @typedef {{ id: number, role: string, content: string, stream: StoredStream | null }} StoredMessage */
/** @typedef {{ state: string, message: string }} Readiness */

/** Statuses that say "not now" rather than "not like this". */
const RETRYABLE = new Set([429, 503]);

export class RequestFailed extends Error {
  /**
   * @param {AnswerError} error
   * @param {{ status?: number | null, requestId?: string | null, retryable?: boolean, retryAfterS?: number }} [facts]
   */
  constructor(error, { status = null, requestId = null, retryable = false, retryAfterS = 0 } = {}) {
    super(error.message);
    this.error = error;
    this.status = status;
    this.requestId = requestId;
    this.retryable = retryable;
    this.retryAfterS = retryAfterS;
  }
}

export class ChatClient {
  #config;
  #csrfToken;

  /**
   * @param {PageConfig} config
   * @param {string} csrfToken
   */
  constructor(config, csrfToken) {
    this.#config = config;
    this.#csrfToken = csrfToken;
  }

  /**
   * Ask; the response is a stream of frames for sure, or `RequestFailed` is raised.
   * @param {string} streamId made by the page, so that Stop works before the headers are here
   * @param {Question} question
   * @param {AbortSignal} signal
   * @returns {Promise<Response & { body: ReadableStream<Uint8Array> }>}
   */
  async ask(streamId, question, signal) {
    const response = await reach(this.#config.stream_url, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-CSRFToken": this.#csrfToken },
      body: JSON.stringify({ stream_id: streamId, ...question }),
      signal,
    });
    if (!response.ok) throw await refusal(response);
    if (!response.body || !hasContentType(response, "text/event-stream")) throw notAStream(response);
    return /** @type {Response & { body: ReadableStream<Uint8Array> }} */ (response);
  }

  /**
   * End a stream on the server: some proxies do not pass an abort on. Resolves whatever comes back.
   * @param {string} streamId
   * @param {number} seenChars code points the reader saw, so that the stored text can be clamped to them
   * @param {"stop" | "leave"} reason
   */
  async stop(streamId, seenChars, reason) {
    const fields = new URLSearchParams({ stream_id: streamId, seen_chars: String(seenChars), reason });
    if (!("keepalive" in Request.prototype)) {
      fields.set("csrfmiddlewaretoken", this.#csrfToken);
      navigator.sendBeacon(this.#config.stop_url, fields);
      return;
    }
    try {
      await fetch(this.#config.stop_url, {
        method: "POST",
        headers: { "X-CSRFToken": this.#csrfToken },
        body: fields,
        keepalive: true,
        signal: AbortSignal.timeout(5000),
      });
    } catch {
      // The abort that follows every stop is the second way; there is no third.
    }
  }

  /**
   * @param {string} conversationId
   * @param {AbortSignal} signal
   * @returns {Promise<{ messages: StoredMessage[] }>}
   */
  async readConversation(conversationId, signal) {
    const response = await reach(`/chat/state/${conversationId}/`, { signal });
    if (!response.ok) throw await refusal(response);
    return response.json();
  }

  /**
   * @param {AbortSignal} signal
   * @returns {Promise<Readiness>}
   */
  async readReadiness(signal) {
    const response = await reach(this.#config.ready_url, { signal });
    const body = await response.json();
    const waiting = Object.values(body.backends ?? {}).find((backend) => backend.state === body.status);
    return { state: body.status, message: waiting?.message ?? "" };
  }
}

/**
 * Make a random UUID; `crypto.randomUUID` is missing on plain http addresses other than localhost.
 * @returns {string}
 */
export function newStreamId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/**
 * @param {string} url
 * @param {RequestInit} init
 */
async function reach(url, init) {
  try {
    return await fetch(url, init);
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    throw new RequestFailed(
      { message: "The server cannot be reached.", code: "network" },
      { retryable: true },
    );
  }
}

/** @param {Response} response */
async function refusal(response) {
  const facts = {
    status: response.status,
    requestId: response.headers.get("x-request-id"),
    retryable: RETRYABLE.has(response.status),
    retryAfterS: Number(response.headers.get("Retry-After")) || 0,
  };
  const error = hasContentType(response, "application/json") ? await errorBody(response) : null;
  return new RequestFailed(
    error ?? { message: `The server answered ${response.status}.`, code: `http_${response.status}` },
    facts,
  );
}

/** @param {Response} response */
function notAStream(response) {
  const message = response.redirected
    ? "The server sent another page instead of an answer. Reload; you may have to sign in."
    : "The server's answer is not a stream.";
  return new RequestFailed(
    { message, code: "not_a_stream" },
    { status: response.status, requestId: response.headers.get("x-request-id") },
  );
}

/**
 * @param {Response} response
 * @returns {Promise<AnswerError | null>}
 */
async function errorBody(response) {
  try {
    const { error } = await response.json();
    return typeof error?.message === "string" ? error : null;
  } catch {
    return null;
  }
}

/**
 * @param {Response} response
 * @param {string} type
 */
function hasContentType(response, type) {
  return (response.headers.get("Content-Type") ?? "").toLowerCase().startsWith(type);
}
