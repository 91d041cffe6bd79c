// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { Playback } from "../../stream-page/playback.js";

test("it stands at the end until it is played, and then begins", () => {
  const playback = new Playback(10);
  assert.equal(playback.at(0), 10);
  playback.play(100);
  assert.equal(playback.at(100), 0);
  assert.equal(playback.at(102.5), 2.5);
});

test("it pauses where it is, and goes on from there", () => {
  const playback = new Playback(10);
  playback.play(0);
  playback.pause(3);
  assert.equal(playback.at(50), 3);
  playback.play(60);
  assert.equal(playback.at(61), 4);
});

test("a change of speed holds from then on", () => {
  const playback = new Playback(10);
  playback.play(0);
  playback.setSpeed(4, 1);
  assert.equal(playback.at(2), 5);
  playback.setSpeed(0.25, 2);
  assert.equal(playback.at(6), 6);
});

test("seeking while it plays goes on from the new place", () => {
  const playback = new Playback(10);
  playback.play(0);
  playback.seek(7, 5);
  assert.equal(playback.at(6), 8);
  playback.seek(-3, 6);
  assert.equal(playback.at(6), 0);
});

test("it pauses at its end", () => {
  const playback = new Playback(1);
  playback.play(0);
  assert.equal(playback.at(5), 1);
  assert.equal(playback.playing, false);
});

test("it stays at the end when the stream grows, and in the middle when it is there", () => {
  const playback = new Playback(0);
  playback.extend(5);
  assert.equal(playback.at(0), 5);
  playback.seek(2, 0);
  playback.extend(9);
  playback.extend(3);
  assert.equal(playback.at(0), 2);
  assert.equal(playback.length_s, 9);
});
