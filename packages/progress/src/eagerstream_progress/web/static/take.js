// Copies and downloads of what the page shows, and long texts of which all is there.

import { caret, h } from "./dom.js";
import { visible } from "./format.js";

const CHUNK_CHARS = 16_384;
const CHECKED_CHARS = 8;

// All of a text, in pieces: the browser lays out only those that are visible. A piece ends after a line, if it has one.
export function whole(text, isGrowing) {
  const pieces = [];
  for (let start = 0; start < text.length;) {
    const end = endOf(text, start);
    const isLast = end === text.length;
    const from = start;
    pieces.push(h("div", { key: `p${from}`, class: "piece", version: `${end}.${isLast && isGrowing}.${text.slice(end - CHECKED_CHARS, end)}` },
      () => [visible(text.slice(from, end)), isLast && isGrowing && caret()]));
    start = end;
  }
  return pieces;
}

function endOf(text, start) {
  const most = start + CHUNK_CHARS;
  if (most >= text.length) return text.length;
  const end = text.lastIndexOf("\n", most - 1) + 1;
  if (end > start) return end;
  const unit = text.charCodeAt(most);
  return unit >= 0xdc00 && unit <= 0xdfff ? most - 1 : most; // no half of a pair
}

// Buttons that copy a text and save it as a file. `text` is called at the press: it may be long.
export function drawTake(what, name, text, announce) {
  return h("span", { class: "take" },
    navigator.clipboard && h("button", { type: "button", class: "quiet", key: "copy", on: { click: () => copy(text(), announce) } }, "copy", h("span", { class: "unseen" }, ` ${what}`)),
    h("button", { type: "button", class: "quiet", key: "save", on: { click: () => save(name, text()) } }, "download", h("span", { class: "unseen" }, ` ${what}`)));
}

async function copy(text, announce) {
  try {
    await navigator.clipboard.writeText(text);
    announce("Copied");
  } catch {
    announce("The browser does not allow to copy");
  }
}

function save(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name.replace(/[^\w.-]+/g, "_").slice(0, 100);
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
