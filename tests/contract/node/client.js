// What the tests of every client share: where the API is, and the note of streams that were left.

import { appendFileSync } from "node:fs";

export const BASE_URL = needed("API_BASE_URL");
export const API_KEY = needed("API_KEY");

/** @type {{ role: "user", content: string }[]} */
export const MESSAGES = [{ role: "user", content: "hi" }];

export const FIND_PARAMETERS = /** @type {const} */ ({
  type: "object",
  properties: { what: { type: "string" } },
  required: ["what"],
});

/**
 * Note a stream that this client left in the middle; whoever runs the tests looks its record up.
 * @param {string} wireId
 */
export function noteLeft(wireId) {
  appendFileSync(needed("LEFT_STREAMS"), `${wireId}\n`);
}

/**
 * @param {string} name
 * @returns {string}
 */
function needed(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; run these tests through pytest tests/contract`);
  return value;
}
