// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { buildFiles, staleFiles } from "../build.js";

test("a rebuild gives the committed bytes", async () => {
  assert.deepEqual(await staleFiles(), [], 'run "npm run build" and commit what it writes');
});

test("the licences of the bundled libraries ship beside the scripts", async () => {
  const files = await buildFiles();
  assert.deepEqual([...files.keys()].sort(), [
    "static/generation/LICENSES.txt",
    "static/generation/chat.css",
    "static/generation/chat.js",
    "static/generation/live-page.js",
    "static/generation/stream-page.css",
    "static/generation/stream-page.js",
  ]);
  const licences = files.get("static/generation/LICENSES.txt") ?? "";
  assert.match(licences, /^eventsource-parser 4\.1\.3, bundled into chat\.js\n[\s\S]*MIT License/m);
  assert.match(licences, /^uplot 1\.6\.32, bundled into stream-page\.js\n[\s\S]*MIT License/m);
});
