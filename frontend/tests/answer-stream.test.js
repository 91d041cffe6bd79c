// @ts-check
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { afterEach, beforeEach, test } from "node:test";
import { Answer } from "../answer.js";
import { AnswerStream } from "../answer-stream.js";
import { ChatClient, newStreamId } from "../chat-client.js";
import { contentFrame, finishFrame, ROLE_FRAME, USAGE_FRAME } from "./streams.js";

/** @typedef {import("node:http").IncomingMessage} IncomingMessage */
/** @typedef {import("node:http").ServerResponse} ServerResponse */
/** @typedef {(response: ServerResponse, request: IncomingMessage) => void} Reply */

const QUESTION = { conversation_id: null, parent_id: null, content: "hi", model: "default" };

/** What the server does with each request in turn; the last reply is repeated. @type {Reply[]} */
let replies;
/** @type {{ url: string, body: string, headers: import("node:http").IncomingHttpHeaders }[]} */
let requests;
/** @type {import("node:http").Server} */
let server;
/** @type {ChatClient} */
let client;

beforeEach(async () => {
  requests = [];
  server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    requests.push({ url: request.url ?? "", body, headers: request.headers });
    if (request.url === "/stop") return void response.writeHead(204).end();
    const asked = requests.filter(({ url }) => url === "/stream").length;
    replies[Math.min(asked, replies.length) - 1]?.(response, request);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  const root = `http://127.0.0.1:${port}`;
  client = new ChatClient(
    {
      conversation_id: null,
      stream_url: `${root}/stream`,
      stop_url: `${root}/stop`,
      ready_url: `${root}/readyz`,
      keep_alive_s: 15,
    },
    "csrf-token",
  );
});

afterEach(() => {
  server.closeAllConnections();
  server.close();
});

/**
 * @param {{ stallAfterS?: number, onChange?: (answer: Answer) => void }} [options]
 */
function makeStream({ stallAfterS = 60, onChange = () => {} } = {}) {
  const answer = new Answer();
  /** @type {Headers[]} */
  const accepted = [];
  const stream = new AnswerStream({
    client,
    answer,
    newId: newStreamId,
    clock: () => performance.now() / 1000,
    stallAfterS,
    onAccepted: (headers) => accepted.push(headers),
    onChange: () => onChange(answer),
  });
  return { answer, stream, accepted };
}

/**
 * @param {string[]} frames
 * @returns {Reply}
 */
function streaming(frames, { end = true } = {}) {
  return (response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream; charset=utf-8", "x-request-id": "req_1" });
    response.write(frames.map((text) => `data: ${text}\n\n`).join(""));
    if (end) response.end();
  };
}

/**
 * @param {number} status
 * @param {string} code
 * @returns {Reply}
 */
function refusing(status, code, headers = {}) {
  return (response) => {
    response.writeHead(status, { "Content-Type": "application/json", "x-request-id": "req_2", ...headers });
    response.end(JSON.stringify({ error: { message: "Not now.", type: "server_error", param: null, code } }));
  };
}

const WHOLE = streaming([ROLE_FRAME, contentFrame("Hello"), finishFrame("stop"), USAGE_FRAME, "[DONE]"]);

/** @param {(answer: Answer) => boolean} condition */
function whenAnswer(condition) {
  /** @type {(answer: Answer) => void} */
  let onChange = () => {};
  const met = new Promise((resolve) => {
    onChange = (answer) => condition(answer) && resolve(undefined);
  });
  return { met, onChange: (/** @type {Answer} */ answer) => onChange(answer) };
}

test("asks once and reads to the end when all goes well", async () => {
  replies = [WHOLE];
  const { answer, stream, accepted } = makeStream();
  await stream.run(QUESTION);
  assert.equal(answer.phase, "done");
  assert.equal(answer.text, "Hello");
  assert.equal(answer.requestId, "req_1");
  assert.equal(accepted.length, 1);
  assert.equal(requests.length, 1);
  assert.deepEqual(JSON.parse(requests[0]?.body ?? ""), { stream_id: stream.streamId, ...QUESTION });
  assert.equal(requests[0]?.headers["x-csrftoken"], "csrf-token");
});

for (const status of [429, 503]) {
  test(`asks again by itself, as a new stream, when the server says ${status}`, async () => {
    replies = [refusing(status, "rate_limit_exceeded"), WHOLE];
    const { answer, stream } = makeStream();
    await stream.run(QUESTION);
    assert.equal(answer.phase, "done");
    const ids = requests.map(({ body }) => JSON.parse(body).stream_id);
    assert.equal(new Set(ids).size, 2);
  });
}

test("asks again by itself when the connection is refused once", async () => {
  replies = [(_, request) => request.socket.destroy(), WHOLE];
  const { answer, stream } = makeStream();
  await stream.run(QUESTION);
  assert.equal(answer.phase, "done");
  assert.equal(requests.length, 2);
});

test("gives up with the server's words when it stays busy", async () => {
  replies = [refusing(429, "rate_limit_exceeded")];
  const { answer, stream } = makeStream();
  await stream.run(QUESTION);
  assert.equal(answer.phase, "failed");
  assert.equal(answer.error?.code, "rate_limit_exceeded");
  assert.equal(answer.requestId, "req_2");
  assert.equal(requests.length, 3);
});

/** @type {[string, Reply, string][]} */
const NOT_RETRIED = [
  ["the request is wrong", refusing(400, "bad_temperature"), "bad_temperature"],
  ["the server failed", refusing(500, "server_error"), "server_error"],
  [
    "a page comes instead of an error body",
    (response) => void response.writeHead(403, { "Content-Type": "text/html" }).end("<h1>CSRF</h1>"),
    "http_403",
  ],
  [
    "a page comes instead of a stream",
    (response) => void response.writeHead(200, { "Content-Type": "text/html" }).end("<h1>Sign in</h1>"),
    "not_a_stream",
  ],
];
for (const [when, reply, code] of NOT_RETRIED) {
  test(`fails at once when ${when}`, async () => {
    replies = [reply, WHOLE];
    const { answer, stream } = makeStream();
    await stream.run(QUESTION);
    assert.equal(answer.phase, "failed");
    assert.equal(answer.error?.code, code);
    assert.equal(requests.length, 1);
  });
}

test("is truncated and not asked again when the connection breaks in mid-answer", async () => {
  const { met, onChange } = whenAnswer(({ text }) => text === "Hel");
  replies = [
    (response, request) => {
      streaming([contentFrame("Hel")], { end: false })(response, request);
      met.then(() => request.socket.destroy());
    },
    WHOLE,
  ];
  const { answer, stream } = makeStream({ onChange });
  await stream.run(QUESTION);
  assert.equal(answer.phase, "truncated");
  assert.equal(answer.text, "Hel");
  assert.equal(requests.length, 1);
});

test("posts what was seen and reads on for the usage when the reader stops", async () => {
  const { met, onChange } = whenAnswer(({ text }) => text === "Hel");
  /** @type {ServerResponse | undefined} */
  let open;
  replies = [
    (response, request) => {
      open = response;
      streaming([contentFrame("Hel")], { end: false })(response, request);
    },
  ];
  const { answer, stream } = makeStream({ onChange });
  const run = stream.run(QUESTION);
  await met;
  await stream.stop(3);
  const stop = requests.find(({ url }) => url === "/stop");
  assert.deepEqual(Object.fromEntries(new URLSearchParams(stop?.body)), {
    stream_id: stream.streamId,
    seen_chars: "3",
    reason: "stop",
  });
  assert.equal(stop?.headers["x-csrftoken"], "csrf-token");
  open?.end(
    [contentFrame("lo"), finishFrame("stop"), USAGE_FRAME, "[DONE]"].map((f) => `data: ${f}\n\n`).join(""),
  );
  await run;
  assert.equal(answer.phase, "stopped");
  assert.equal(answer.text, "Hel");
  assert.equal(answer.usage?.completion_tokens, 3);
});

for (const act of /** @type {const} */ (["stop", "leave"])) {
  test(`closes the connection when the reader's ${act} gets no end from the server`, async () => {
    const { met, onChange } = whenAnswer(({ text }) => text === "Hel");
    const closed = new Promise((resolve) => {
      replies = [
        (response, request) => {
          request.socket.on("close", resolve);
          streaming([contentFrame("Hel")], { end: false })(response, request);
        },
      ];
    });
    const { answer, stream } = makeStream({ onChange });
    const run = stream.run(QUESTION);
    await met;
    stream[act](3);
    await Promise.all([run, closed]);
    assert.equal(answer.phase, "stopped");
  });
}

test("stops before the headers are here when the reader is quick", async () => {
  const asked = new Promise((resolve) => {
    replies = [() => resolve(undefined)];
  });
  const { answer, stream } = makeStream();
  const run = stream.run(QUESTION);
  await asked;
  await stream.stop(0);
  await run;
  assert.equal(answer.phase, "stopped");
  assert.equal(requests.filter(({ url }) => url === "/stop").length, 1);
});

test("stops waiting for a retry when the reader stops", async () => {
  replies = [refusing(429, "rate_limit_exceeded", { "Retry-After": "10" })];
  const { answer, stream } = makeStream();
  const run = stream.run(QUESTION);
  while (requests.length === 0) await new Promise((resolve) => setImmediate(resolve));
  await stream.stop(0);
  await run;
  assert.equal(answer.phase, "stopped");
  assert.equal(requests.filter(({ url }) => url === "/stream").length, 1);
});

test("is stalled when the connection is silent, and no longer when a comment comes", async () => {
  const stalled = whenAnswer((answer) => answer.stalled);
  const revived = whenAnswer(
    (answer) => !answer.stalled && answer.frames.some(({ kind }) => kind === "comment"),
  );
  /** @type {ServerResponse | undefined} */
  let open;
  replies = [
    (response, request) => {
      open = response;
      streaming([contentFrame("Hel")], { end: false })(response, request);
    },
  ];
  const onChange = (/** @type {Answer} */ answer) => {
    stalled.onChange(answer);
    revived.onChange(answer);
  };
  const { answer, stream } = makeStream({ stallAfterS: 0.1, onChange });
  const run = stream.run(QUESTION);
  await stalled.met;
  assert.equal(answer.ended, false);
  open?.write(": keep-alive\n\n");
  await revived.met;
  stream.leave(3);
  await run;
});

test("makes ids that are version 4 UUIDs, and not twice the same", () => {
  assert.match(newStreamId(), /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.notEqual(newStreamId(), newStreamId());
});
