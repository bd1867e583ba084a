// A growing text with line numbers, and beside each line its state: what a tool has done, runs, and has not reached.
// Only the lines near the visible ones are elements, so that a text of any length stays smooth.

import { caret, h } from "./dom.js";
import { count, digits, line as inLine, pill, visible } from "./format.js";
import { lineState, statementState, TextLines } from "./lines.js";

const VISIBLE_LINES = 22; // as in the style sheet
const NEAR_LINES = 30; // above and below the visible ones
const LINE_CHARS = 1000;
const AWAY_LINES = 3;
const OUTPUT_LINES = 8;
const END_PX = 24;

const TONES = {
  waiting: { icon: "clock", tone: "waiting" },
  running: { icon: "play", tone: "running" },
  done: { icon: "check", tone: "done" },
  failed: { icon: "cross", tone: "failed" },
};

// What is known of each call's listing: its lines, the line at its top, and whether it moves by itself.
const views = new WeakMap();

function viewOf(call, parameter) {
  let view = views.get(call);
  if (view?.parameter !== parameter) {
    view = { ...newView(), parameter, lines: new TextLines(), outputLines: 0 };
    views.set(call, view);
  }
  return view;
}

const newView = () => ({ count: 1, top: 0, visible: VISIBLE_LINES, follows: true, moves: false, setTop: 0 });

// The lines near the visible ones, in a box that scrolls. `rowsOf(first, amount)` returns the elements of lines.
function drawLines(view, label, rowsOf, redraw, ...over) {
  const first = Math.max(1, Math.floor(view.top) + 1 - NEAR_LINES);
  const amount = Math.min(Math.ceil(view.visible) + 2 * NEAR_LINES, view.count - first + 1);
  return h("div", { class: "frame" },
    h("div", {
      class: "scroller", tabindex: "0", role: "group", "aria-label": label,
      on: { scroll: (event) => scrolled(event.currentTarget, view, redraw) },
      drawn: (element) => settle(element, view),
    }, h("div", { class: "sheet" }, h("ol", { style: { top: `calc(var(--row) * ${first - 1})` } }, rowsOf(first, amount)))),
    over);
}

const sizes = (lastNumber, count) => ({ "--digits": String(Math.max(3, String(lastNumber).length)), "--count": String(count) });

// `growing`: the text is still being written. `redraw`: draws the call anew.
export function drawListing(call, progress, { id, growing, redraw }) {
  const text = call.partial[progress.parameter];
  const view = viewOf(call, progress.parameter);
  const { lines } = view;
  lines.read(text);
  view.count = lines.count - (!growing && text.endsWith("\n") ? 1 : 0); // at the end, nothing comes after the last line end
  const total = view.count;
  const state = statementState(progress);
  const name = inLine(progress.parameter, 80);
  place(view, progress, state, growing);
  const rows = (first, amount) => lines.places(text, first, amount).map(([start, end], offset) => {
    const number = first + offset;
    return drawLine(text.slice(start, end), number, total, progress, growing && number === total);
  });
  return h("div", { class: "value listing", style: sizes(total, total) },
    drawLines(view, `${name}, ${count(total, "line")}`, rows, redraw,
      isAway(view, progress, state) && drawAway(text, progress, state, view, growing, redraw)),
    drawState(progress, state, total),
    !progress.isOver && drawOutput(progress, view, id));
}

// A line is cut: at its front while it is being written (`isOpen`), otherwise at its end.
function drawLine(line, number, total, progress, isOpen) {
  const state = lineState(progress, number);
  const hidden = line.length - LINE_CHARS;
  const piece = visible(isOpen ? line.slice(-LINE_CHARS) : line.slice(0, LINE_CHARS));
  const cut = hidden > 0 && h("span", { class: "faint" }, `… ${count(hidden, "character")} …`);
  return h("li", { key: `l${number}`, "data-state": state, "aria-posinset": String(number), "aria-setsize": String(total) },
    h("span", { class: "gutter" }, h("span", { class: "unseen" }, `${wordOf(state, progress)} `), h("span", { class: "number" }, String(number))),
    h("span", { class: "code" }, isOpen && cut, piece, isOpen && caret(), !isOpen && cut));
}

function wordOf(state, progress) {
  if (state === "waiting") return progress.isOver ? "not run" : "not yet run";
  if (state !== "failed") return state;
  return progress.state === "running" ? "stopped" : inLine(progress.state, 40);
}

function drawState(progress, state, total) {
  const { line, endLine, calls } = progress;
  const isWhole = progress.isWhole && state === "done";
  const place = line === endLine ? `Line ${digits(line)}` : `Lines ${digits(line)} to ${digits(endLine)}`;
  const counts = new Map();
  for (const name of calls) counts.set(name, (counts.get(name) ?? 0) + 1);
  const running = [...counts].map(([name, times]) => `${inLine(name, 60)}${times > 1 ? ` ×${times}` : ""}`);
  return h("p", { class: "statement" },
    pill({ ...TONES[state], word: wordOf(state, progress) }),
    h("span", { class: "faint" }, line === 0 || isWhole ? count(total, "line") : total >= endLine ? `${place} of ${digits(total)}` : place),
    running.length > 0 && h("span", { class: "calls" }, h("span", { class: "unseen" }, "Running calls: "), running.join(", ")));
}

// The box keeps the largest height that it had, so that what is below stays in its place.
function drawOutput(progress, view, id) {
  if (!progress.output && !view.outputLines) return null;
  const output = visible(progress.output.replace(/\r\n/g, "\n").replace(/\n$/, ""));
  view.outputLines = Math.min(OUTPUT_LINES, Math.max(view.outputLines, output.split("\n").length));
  return h("div", { class: "output" },
    h("h4", { id: `${id}-output` }, "Output"),
    h("pre", { tabindex: "0", pin: true, role: "group", "aria-labelledby": `${id}-output`, style: { "--lines": String(view.outputLines) } }, output));
}

// --- a diff -----------------------------------------------------------------------------------------------------------

const diffViews = new WeakMap();
const CHANGES = { same: "", removed: "removed ", added: "added ", pending: "being replaced ", heading: "" };

// `growing`: the new text is still being written. `redraw`: draws the call anew.
export function drawDiff(call, diff, { growing, redraw }) {
  if (!diffViews.has(call)) diffViews.set(call, newView());
  const view = diffViews.get(call);
  view.count = diff.count;
  const most = Math.max(0, view.count - view.visible);
  if (view.follows && growing) view.top = diff.newest - view.visible + AWAY_LINES;
  view.top = Math.max(0, Math.min(view.top, most));
  const rows = (first, amount) => diff.rows(first, amount).map((row, offset) => drawDiffLine(row, first + offset, diff, growing));
  return h("div", { class: "value listing diff", style: sizes(diff.lastNumber, view.count) },
    h("p", { class: "statement" },
      h("span", { class: "path" }, inLine(diff.path, 400)),
      h("span", { class: "added" }, `+${digits(diff.added)}`, h("span", { class: "unseen" }, " lines added, ")),
      h("span", { class: "removed" }, `\u2212${digits(diff.removed)}`, h("span", { class: "unseen" }, " lines removed"))),
    view.count > 0 && drawLines(view, `Diff of ${inLine(diff.path, 80)}, ${count(view.count, "line")}`, rows, redraw));
}

function drawDiffLine({ change, number, text, isOpen }, place, diff, growing) {
  const isNewest = growing && (isOpen || (change === "pending" && place === diff.newest));
  return h("li", { key: `d${place}`, "data-state": change, "aria-posinset": String(place), "aria-setsize": String(diff.count) },
    h("span", { class: "gutter" }, h("span", { class: "unseen" }, CHANGES[change]), h("span", { class: "number" }, number === null ? "" : String(number))),
    h("span", { class: "code" }, visible(text), isNewest && caret()));
}

// --- the visible part -------------------------------------------------------------------------------------------------

// Moves the top: to the end while the text grows, then to the statement. After a scroll by the reader it stays.
function place(view, progress, state, growing) {
  const most = Math.max(0, view.count - view.visible);
  if (view.follows && growing) view.top = most;
  else if (view.follows && (state === "running" || state === "failed") && !isInside(view, progress)) {
    view.top = progress.line - 1 - Math.floor(view.visible / 3);
  }
  view.top = Math.max(0, Math.min(view.top, most));
}

const isInside = (view, { line, endLine }) => line <= view.top + view.visible - 0.5 && endLine > view.top + 0.5;

const isAway = (view, progress, state) =>
  (state === "running" || state === "failed") && progress.line <= view.count && !isInside(view, progress);

// Shows the first lines of the statement over the others, if it is not among them. A click goes there.
function drawAway(text, progress, state, view, growing, redraw) {
  const { line, endLine } = progress;
  const shown = view.lines.places(text, line, Math.min(AWAY_LINES, endLine - line + 1));
  const go = (event) => {
    event.currentTarget.previousElementSibling.focus({ preventScroll: true }); // the button will be removed
    view.follows = !growing;
    view.moves = true;
    view.top = Math.max(0, line - 1 - Math.floor(view.visible / 3));
    redraw();
  };
  return h("button", { type: "button", class: "away", "data-state": state, "data-place": line > view.top ? "below" : "above", on: { click: go } },
    h("span", { class: "unseen" }, "Go to the statement: "),
    shown.map(([start, end], offset) => h("span", { class: "line", "data-state": state, key: `a${line + offset}` },
      h("span", { class: "gutter" }, h("span", { class: "number" }, String(line + offset))),
      h("span", { class: "code" }, visible(text.slice(start, Math.min(end, start + 200)))))));
}

// Puts the scroll position where the drawn lines are, unless the reader has put it elsewhere.
function settle(element, view) {
  const rowPx = rowHeight(element, view);
  if (view.follows || view.moves) element.scrollTop = view.top * rowPx;
  view.moves = false;
  view.setTop = element.scrollTop;
  view.visible = parseFloat(getComputedStyle(element).maxHeight) / rowPx || VISIBLE_LINES;
}

function scrolled(element, view, redraw) {
  if (Math.abs(element.scrollTop - view.setTop) < 2) return; // by `settle`
  view.setTop = element.scrollTop;
  view.top = element.scrollTop / rowHeight(element, view);
  view.follows = element.scrollHeight - element.scrollTop - element.clientHeight < END_PX;
  redraw();
}

function rowHeight(element, view) {
  return element.firstElementChild.getBoundingClientRect().height / view.count || 20;
}
