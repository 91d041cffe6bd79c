// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { Answer } from "../answer.js";
import { readFrames } from "../frame-reader.js";
import { bytesStream, readCases } from "./streams.js";

const clock = () => 1;
const encoder = new TextEncoder();

/** @param {Uint8Array[]} chunks */
async function framesOf(chunks) {
  const frames = [];
  for await (const frame of readFrames(bytesStream(chunks), { clock })) frames.push(frame);
  return frames;
}

/** @param {Uint8Array[]} chunks */
async function dataOf(chunks) {
  return (await framesOf(chunks)).filter(({ kind }) => kind === "data").map(({ text }) => text);
}

for (const { id, source, chunks, data, end } of readCases("event_stream.jsonl")) {
  const parts = chunks.map((hex) => new Uint8Array(Buffer.from(hex, "hex")));
  const whole = new Uint8Array(Buffer.concat(parts));

  test(`reads the expected data when the chunks are as met: ${id} (${source})`, async () => {
    assert.deepEqual(await dataOf(parts), data);
  });

  test(`reads the expected data when cut at every byte: ${id} (${source})`, async () => {
    for (let cut = 0; cut <= whole.length; cut += 1)
      assert.deepEqual(await dataOf([whole.slice(0, cut), whole.slice(cut)]), data, `cut at ${cut}`);
    assert.deepEqual(await dataOf(Array.from(whole, (byte) => Uint8Array.of(byte))), data, "byte by byte");
  });

  if (end === "raw") continue;
  test(`ends as ${end} when an answer takes the frames: ${id} (${source})`, async () => {
    const answer = new Answer();
    answer.connect(0);
    answer.open();
    for (const frame of await framesOf(parts)) if (!answer.push(frame)) break;
    answer.flush(1);
    assert.equal(answer.phase, end);
  });
}

test("yields comments as comments when the server keeps the connection alive", async () => {
  const frames = await framesOf([encoder.encode(": keep-alive\n\ndata: x\n\n")]);
  assert.deepEqual(frames, [
    { kind: "comment", text: "keep-alive", at: 1 },
    { kind: "data", text: "x", at: 1 },
  ]);
});

test("hears of bytes when no frame is complete", async () => {
  let heard = 0;
  const body = bytesStream([encoder.encode("data: {"), encoder.encode('"a"')]);
  for await (const _ of readFrames(body, {
    clock,
    onBytes: () => {
      heard += 1;
    },
  }))
    assert.fail("no frame is complete");
  assert.equal(heard, 2);
});

test("lets go of the connection when the reader leaves early", async () => {
  const left = new Promise((resolve) => {
    const body = new ReadableStream({
      start: (controller) => controller.enqueue(encoder.encode("data: [DONE]\n\n")),
      cancel: resolve,
    });
    (async () => {
      for await (const _ of readFrames(body, { clock })) break;
    })();
  });
  await left;
});
