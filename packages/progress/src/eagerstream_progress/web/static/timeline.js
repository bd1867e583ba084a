// The timeline: the times of writing, of running, and of their overlap.

import { h } from "./dom.js";
import { count, gapText, line, PHASES, seconds } from "./format.js";
import { isContainer, phaseOf } from "./records.js";
import { literal } from "./written.js";

const STEPS_S = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600];
const ROW_PX = 27; // as in the style sheet
const NEAR_ROWS = 20; // drawn above and below the visible ones
const BAR_PART = 0.0015; // of the chart: what is narrower and touches another bar is not seen
const TURN_PART = 0.02; // of the chart: the least between two lines of turns
const ARGUMENT_CHARS = 60;
const narrow = matchMedia("(max-width: 760px)");

// `calls`: those with a row. `view`: {top, visible} of the rows, which this changes. `openCall(call)`, `redraw()`.
export function drawTimeline(run, calls, nowS, view, { openCall, redraw }) {
  const first = Math.max(0, Math.min(Math.floor(view.top), calls.length - view.visible) - NEAR_ROWS);
  const rows = calls.slice(first, first + view.visible + 2 * NEAR_ROWS);
  const space = (key, count) => count > 0 && h("li", { key, class: "space", "aria-hidden": "true", style: { height: `${count * ROW_PX}px` } });
  const endS = Math.max(nowS, 0.5);
  const percent = (time) => `${((Math.min(time, endS) / endS) * 100).toFixed(3)}%`;
  const place = (from, to) => ({ left: percent(from), width: `${(((to - from) / endS) * 100).toFixed(3)}%` });
  const most = narrow.matches ? 4 : 8;
  const stepS = STEPS_S.find((step) => endS / step <= most) ?? Math.ceil(endS / most);
  const ticks = [];
  for (let at = 0; at <= endS * 0.985; at += stepS) ticks.push(at);

  return h("section", { class: "timeline", "aria-labelledby": "timeline-heading", key: "timeline" },
    h("h2", { id: "timeline-heading" }, "Timeline"),
    h("p", { class: "summary" }, summary(run, nowS)),
    h("div", { class: "chart" },
      h("div", { class: "grid", "aria-hidden": "true" },
        ticks.map((at) => h("span", { class: "tick", style: { left: percent(at) } }, axisLabel(at, stepS))),
        apart(run.turns.slice(1).map(({ startS }) => ({ startS, stopS: startS })), endS, TURN_PART).map(({ startS }) => h("span", { class: "turn-line", style: { left: percent(startS) } })),
        run.gaps.map((gap, place) => h("span", { key: `g${place}`, class: "gap-line", title: gapText(gap), style: { left: percent(gap.atS) } })),
        !run.isOver && h("span", { class: "now", style: { left: percent(nowS) } })),
      h("ol", { class: "rows", tabindex: "0", pin: true, "aria-label": "Calls in the order in which they were written",
        drawn: (element) => { view.visible = Math.ceil(element.clientHeight / ROW_PX) || view.visible; },
        on: { scroll: (event) => {
          view.top = event.currentTarget.scrollTop / ROW_PX;
          redraw();
        } } },
        h("li", { key: "model" },
          h("span", { class: "label" }, "model"),
          h("span", { class: "track", "aria-hidden": "true" },
            apart([...run.blocks.values()].map((block) => ({ block, startS: block.startS, stopS: block.stopS ?? (run.isOver ? endS : nowS) })), endS)
              .map(({ block, startS, stopS }) => h("span", { key: `b${block.block}`, class: "bar model", "data-kind": modelKind(block), "data-void": block.isVoid, style: place(startS, stopS) }))),
          h("span", { class: "unseen" }, "text, thinking and inputs, as the model wrote them")),
        space("above", first),
        rows.map((call, offset) => drawRow(call, run, nowS, place, openCall, { at: first + offset + 2, of: calls.length + 1 })),
        space("below", calls.length - first - rows.length))),
    h("ul", { class: "legend", "aria-hidden": "true" },
      [["writing", "input written"], ["approval", "waits for a person"], ["running", "tool runs"], ["overlap", "runs while its input is written"]]
        .map(([kind, word]) => h("li", null, h("span", { class: "swatch", "data-kind": kind }), word))));
}

// Spans without those that would be drawn on the one before: however many there are, the chart has room for few.
function apart(spans, endS, part = BAR_PART) {
  let drawnS = -1;
  return spans.filter(({ startS, stopS }) => {
    if (stopS <= drawnS) return false;
    drawnS = Math.max(stopS, startS + endS * part);
    return true;
  });
}

// The first argument of a call, which tells it from others of its tool.
function argumentOf({ partial }) {
  if (!isContainer(partial) || Array.isArray(partial)) return "";
  for (const name in partial) return isContainer(partial[name]) ? "" : typeof partial[name] === "string" ? line(partial[name], ARGUMENT_CHARS) : literal(partial[name]);
  return "";
}

function modelKind(block) {
  if (block.isCall) return "call";
  return block.kind.includes("thinking") ? "thinking" : "text";
}

function drawRow(call, run, nowS, place, openCall, { at, of }) {
  const phase = phaseOf(call, run);
  const writtenS = call.stopS ?? nowS;
  const bars = [h("span", { key: "writing", class: "bar", "data-kind": "writing", style: place(call.startS, writtenS) })];
  const told = [`written from ${seconds(call.startS)} ${call.stopS === null ? "on" : `to ${seconds(call.stopS)}`}`];
  if (call.approval) {
    const stopS = call.approval.stopS ?? call.cutS ?? (run.isOver ? writtenS : nowS);
    bars.push(h("span", { key: "approval", class: "bar", "data-kind": "approval", style: place(call.approval.startS, stopS) }));
    told.push(`waited for a person from ${seconds(call.approval.startS)} ${call.approval.stopS === null ? "on" : `to ${seconds(stopS)}`}`);
  }
  if (call.toolStartS !== null) {
    const stopS = call.toolStopS ?? call.cutS ?? nowS;
    bars.push(h("span", { key: "running", class: "bar", "data-kind": "running", style: place(call.toolStartS, stopS) }));
    told.push(`ran from ${seconds(call.toolStartS)} ${call.toolStopS === null ? "on" : `to ${seconds(stopS)}`}`);
    const overlapS = Math.min(writtenS, stopS) - call.toolStartS;
    if (overlapS > 0) {
      bars.push(h("span", { key: "overlap", class: "bar", "data-kind": "overlap", style: place(call.toolStartS, call.toolStartS + overlapS) }));
      told.push(`${seconds(overlapS)} of it while its input was being written`);
    }
  }
  return h("li", { key: `c${call.block}`, "data-void": call.isVoid, "aria-posinset": String(at), "aria-setsize": String(of) },
    h("button", { type: "button", class: "label", on: { click: () => openCall(call) } }, line(call.name, 60), h("span", { class: "faint" }, ` ${argumentOf(call)}`)),
    h("span", { class: "track", "aria-hidden": "true" }, bars),
    h("span", { class: "unseen" }, `${PHASES[phase].word}, ${told.join(", ")}`));
}

function axisLabel(at, stepS) {
  if (at === 0) return "0 s";
  if (at < 60 || stepS < 1) return at.toFixed(stepS < 1 ? 1 : 0);
  return `${Math.floor(at / 60)}:${String(Math.round(at % 60)).padStart(2, "0")}`;
}

function summary(run, nowS) {
  const calls = run.calls.filter((call) => !call.isVoid);
  const written = union([...run.blocks.values()].map((block) => [block.startS, block.stopS ?? nowS]));
  const ran = union(calls.filter((call) => call.toolStartS !== null).map((call) => [call.toolStartS, call.toolStopS ?? call.cutS ?? nowS]));
  if (!ran.length) return `No ${run.calls.length ? "tool has run" : "call"}${run.isOver ? "" : " yet"}.`;
  const overlapS = length(intersection(written, ran));
  const isAll = length(ran) - overlapS < 0.005;
  const both = overlapS > 0.005 ? `, ${isAll ? "all" : seconds(overlapS)} of it while the model was still writing` : "";
  const voids = run.calls.length - calls.length;
  return `${count(calls.length, "call")}. Tools ran for ${seconds(length(ran))}${both}.${voids ? ` ${count(voids, "call")} void.` : ""}`;
}

function union(spans) {
  const joined = [];
  for (const [from, to] of spans.sort((one, other) => one[0] - other[0])) {
    const last = joined.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else joined.push([from, to]);
  }
  return joined;
}

// Both are sorted, and the spans of each are apart.
function intersection(these, those) {
  const both = [];
  for (let one = 0, other = 0; one < these.length && other < those.length;) {
    const [from, to] = these[one];
    const [start, stop] = those[other];
    if (Math.min(to, stop) > Math.max(from, start)) both.push([Math.max(from, start), Math.min(to, stop)]);
    if (to < stop) one++;
    else other++;
  }
  return both;
}

const length = (spans) => spans.reduce((sum, [from, to]) => sum + to - from, 0);
