// @ts-check
/**
 * How an answer ended, in one badge: a live answer's phase or a stored stream's reasons in, a kind and words out.
 *
 * complete, stopped, length, interrupted and error never share a badge: a reader must see at a glance whether the
 * text is all there, and if not, whose doing that was.
 */

/** @typedef {import("./answer.js").Answer} Answer */
/** @typedef {"waiting" | "running" | "stalled" | "complete" | "stopped" | "length" | "interrupted" | "error"} EndingKind */
/** @typedef {{ kind: EndingKind, label: string, explanation: string }} Ending */
/** @typedef {{ state: string, finish_reason: string | null, stop_reason: string | null }} StoredEnding */

/** @type {Ending} */
const RUNNING = { kind: "running", label: "Answering", explanation: "The answer is still being generated" };
/** @type {Ending} */
const WAITING = { kind: "waiting", label: "Waiting", explanation: "No text has arrived yet" };
/** @type {Ending} */
const STALLED = {
  kind: "stalled",
  label: "Stalled",
  explanation: "Nothing has arrived for a while, not even a sign of life",
};
/** @type {Ending} */
const COMPLETE = { kind: "complete", label: "Complete", explanation: "The model ended its answer" };
/** @type {Ending} */
const STOPPED = { kind: "stopped", label: "Stopped", explanation: "You stopped this answer" };
/** @type {Ending} */
const LENGTH = { kind: "length", label: "Length limit", explanation: "The answer reached the token limit" };
/** @type {Ending} */
const TRUNCATED = {
  kind: "interrupted",
  label: "Interrupted",
  explanation: "The connection ended before the server said that the answer is whole",
};
/** @type {Ending} */
const ERROR = { kind: "error", label: "Error", explanation: "The answer failed" };

/** Stored stop reasons; `interrupted` is what neither the reader nor the model wanted. @type {Record<string, Ending>} */
const BY_STOP_REASON = {
  eos: COMPLETE,
  stop_token: COMPLETE,
  stop_string: { ...COMPLETE, explanation: "The answer reached a stop string" },
  length: LENGTH,
  context: { kind: "length", label: "Context full", explanation: "The model's context is full" },
  client_stop: STOPPED,
  client_disconnect: {
    ...STOPPED,
    explanation: "The page was left or lost its connection, so the answer was stopped",
  },
  timeout: { ...TRUNCATED, explanation: "The answer took longer than the server allows" },
  server_shutdown: { ...TRUNCATED, explanation: "The server was shut down" },
  upstream_truncated: { ...TRUNCATED, explanation: "The model's server broke off" },
  lost: { ...TRUNCATED, explanation: "The server went away in mid-answer" },
  upstream_error: { ...ERROR, explanation: "The model's server failed" },
  engine_error: { ...ERROR, explanation: "The engine failed" },
};

/** @type {Record<string, Ending>} */
const BY_STATE = { running: RUNNING, done: COMPLETE, stopped: STOPPED, failed: ERROR, lost: TRUNCATED };

/** @type {Record<string, Ending>} */
const BY_FINISH_REASON = {
  stop: COMPLETE,
  length: LENGTH,
  content_filter: {
    kind: "interrupted",
    label: "Filtered",
    explanation: "A content filter ended the answer",
  },
};

/**
 * @param {Answer} answer
 * @returns {Ending}
 */
export function endingOf(answer) {
  switch (answer.phase) {
    case "done":
      return BY_FINISH_REASON[answer.finishReason ?? ""] ?? COMPLETE;
    case "stopped":
      return STOPPED;
    case "truncated":
      return TRUNCATED;
    case "failed":
      // An error frame's code is the stop reason where the server has one.
      return {
        ...(BY_STOP_REASON[answer.error?.code ?? ""] ?? ERROR),
        explanation: answer.error?.message ?? "",
      };
    default:
      if (answer.stalled) return STALLED;
      return answer.firstDeltaAt === null ? WAITING : RUNNING;
  }
}

/**
 * @param {StoredEnding} stored
 * @returns {Ending}
 */
export function storedEnding({ state, finish_reason, stop_reason }) {
  if (state === "running") return RUNNING;
  const ending = BY_STOP_REASON[stop_reason ?? ""] ?? BY_FINISH_REASON[finish_reason ?? ""];
  return ending ?? BY_STATE[state] ?? TRUNCATED;
}
