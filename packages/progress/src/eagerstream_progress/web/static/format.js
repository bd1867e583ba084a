// Texts of numbers, values and states.

import { h } from "./dom.js";
import { isContainer } from "./records.js";
import { literal } from "./written.js";

const number = new Intl.NumberFormat("en");

export function count(amount, singular, plural = `${singular}s`) {
  return `${number.format(amount)} ${amount === 1 ? singular : plural}`;
}

export const digits = (amount) => number.format(amount);

export function seconds(time, places = time < 10 ? 2 : 1) {
  if (time < 60) return `${time.toFixed(places)} s`;
  const whole = Math.floor(time);
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

// The words about a gap after which a run was resumed.
export function gapText({ gapS }) {
  return `continued from its journal${gapS === null ? "" : ` after ${seconds(gapS, 1)}`}`;
}

const QUIET_S = 5;

// The words about a silence in the response that is awaited: a model that thinks, or a dead connection. Null if there is none.
export function quietText({ quietSinceS, pingS }, nowS) {
  if (quietSinceS === null || nowS - quietSinceS < QUIET_S) return null;
  const alive = pingS !== null && pingS > quietSinceS ? `, alive ${seconds(nowS - pingS, 0)} ago` : "";
  return `${seconds(nowS - quietSinceS, 0)}${alive}`;
}

// Returns a possibly hostile text with marks for invisible characters and changes of the writing direction. A person
// then approves the text that is really there.
export function visible(text) {
  return text.replace(HIDDEN, "\ufffd").replace(JOINED, "$1\ufffd").replace(SELECTED, (all, letter) => (letter ? all : "\ufffd"));
}

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e00ff}\u{e01f0}-\u{e0fff}]/gu;
// Characters that join or separate letters of other scripts and emoji. After ASCII they only hide something.
const JOINED = /([!-~])[\u200c\u200d]+/g;
// Selects the form of a Chinese character. Others can carry hidden text.
const SELECTED = /(\p{Script=Han})?[\u{e0100}-\u{e01ef}]/gu;

// The same on one line, cut to a length.
export function line(text, longest = 200) {
  const short = text.length > longest ? `${text.slice(0, longest)}…` : text;
  return visible(short).replace(/[\t\n]/g, " ");
}

const PATHS = {
  pencil: "M10.8 2.6l2.6 2.6L5.6 13H3v-2.6zM9 4.4L11.6 7",
  clock: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 4.8V8l2.2 1.6",
  person: "M8 7.6a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6zM2.8 14c.4-2.9 2.5-4.4 5.2-4.4s4.8 1.5 5.2 4.4",
  play: "M4.5 2.8v10.4L13 8z",
  check: "M2.8 8.6l3.4 3.4 7-8",
  cross: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  scissors: "M2.5 4.5a1.8 1.8 0 1 0 3.6 0 1.8 1.8 0 1 0-3.6 0M2.5 11.5a1.8 1.8 0 1 0 3.6 0 1.8 1.8 0 1 0-3.6 0M5.8 5.6L14 12M5.8 10.4L14 4",
  again: "M13 8a5 5 0 1 1-1.6-3.7M13 2v3h-3",
  arrow: "M2.5 8h11M9.5 4l4 4-4 4",
  look: "M1.5 8C3 5 5.3 3.5 8 3.5S13 5 14.5 8C13 11 10.7 12.5 8 12.5S3 11 1.5 8zM8 6a2 2 0 1 0 0 4 2 2 0 0 0 0-4",
};

export function icon(name) {
  return h("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" }, h("path", { d: PATHS[name] }));
}

// The word, the icon and the tone (its colour) of each phase of a call. `statusOf` has those of a run.
export const PHASES = {
  writing: { word: "writing", icon: "pencil", tone: "writing" },
  waiting: { word: "waiting", icon: "clock", tone: "waiting" },
  approval: { word: "needs approval", icon: "person", tone: "approval" },
  running: { word: "running", icon: "play", tone: "running" },
  done: { word: "done", icon: "check", tone: "done" },
  failed: { word: "failed", icon: "cross", tone: "failed" },
  invalid: { word: "invalid", icon: "cross", tone: "failed" },
  cut: { word: "cut off", icon: "scissors", tone: "failed" },
  unrun: { word: "not run", icon: "cross", tone: "void" },
  void: { word: "void", icon: "again", tone: "void" },
};

// A run whose process does not answer.
export const LOST = { word: "no answer", icon: "scissors", tone: "failed" };

const ENDED_WELL = new Set(["completed", "stop_sequence"]);
const ENDED_BADLY = new Set(["error", "refused"]);

export function statusOf(status, hasEnded) {
  if (status === null || status === undefined) {
    return hasEnded ? { word: "no end", icon: "scissors", tone: "failed" } : { word: "running", icon: "play", tone: "running" };
  }
  const word = line(status.replaceAll("_", " "), 40);
  if (ENDED_WELL.has(status)) return { word, icon: "check", tone: "done" };
  if (ENDED_BADLY.has(status)) return { word, icon: "cross", tone: "failed" };
  return { word, icon: "scissors", tone: "waiting" };
}

export function pill({ word, icon: name, tone }) {
  return h("span", { class: "pill", "data-tone": tone }, icon(name), word);
}

// Returns a value as indented JSON of bounded length: the newest items of a long array, the end of a long text. The
// cost depends on the shown part, not on the size of the value.
export function pretty(value, bounds) {
  return visible(indented(value, bounds));
}

function indented(value, { items = 30, chars = 1500, depth = 8 } = {}, indent = "") {
  if (typeof value === "string") {
    if (value.length <= chars) return JSON.stringify(value);
    return `"… ${count(value.length - chars, "character")} earlier …${JSON.stringify(value.slice(-chars)).slice(1)}`;
  }
  if (!isContainer(value)) return literal(value);
  const isArray = Array.isArray(value);
  const [open, close] = isArray ? "[]" : "{}";
  const keys = isArray ? null : Object.keys(value);
  const size = isArray ? value.length : keys.length;
  if (!size) return open + close;
  if (!depth) return `${open} … ${count(size, isArray ? "item" : "field")} … ${close}`;
  const deeper = `${indent}  `;
  const first = Math.max(0, size - items);
  const lines = first ? [`${deeper}… ${count(first, isArray ? "item" : "field")} earlier …`] : [];
  for (let place = first; place < size; place++) {
    const item = isArray ? value[place] : value[keys[place]];
    const name = isArray ? "" : `${JSON.stringify(line(keys[place]))}: `;
    lines.push(`${deeper}${name}${indented(item, { items, chars, depth: depth - 1 }, deeper)}${place < size - 1 ? "," : ""}`);
  }
  return `${open}\n${lines.join("\n")}\n${indent}${close}`;
}
