// The timeline: the times of writing, of running, and of their overlap.

import { h } from "./dom.js";
import { count, gapText, line, PHASES, seconds } from "./format.js";
import { phaseOf } from "./records.js";

const STEPS_S = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600];
const MAX_ROWS = 300;
const narrow = matchMedia("(max-width: 760px)");

export function drawTimeline(run, nowS, openCall) {
  const rows = run.calls.slice(-MAX_ROWS);
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
        run.turns.slice(1).map((turn) => h("span", { class: "turn-line", style: { left: percent(turn.startS) } })),
        run.gaps.map((gap, place) => h("span", { key: `g${place}`, class: "gap-line", title: gapText(gap), style: { left: percent(gap.atS) } })),
        !run.isOver && h("span", { class: "now", style: { left: percent(nowS) } })),
      h("ol", { class: "rows", tabindex: "0", "aria-label": "Calls in the order in which they were written" },
        h("li", { key: "model" },
          h("span", { class: "label" }, "model"),
          h("span", { class: "track", "aria-hidden": "true" },
            [...run.blocks.values()].map((block) =>
              h("span", { key: `b${block.block}`, class: "bar model", "data-kind": modelKind(block), "data-void": block.isVoid,
                style: place(block.startS, block.stopS ?? (run.isOver ? endS : nowS)) }))),
          h("span", { class: "unseen" }, "text, thinking and inputs, as the model wrote them")),
        rows.map((call) => drawRow(call, run, nowS, place, openCall)))),
    h("ul", { class: "legend", "aria-hidden": "true" },
      [["writing", "input written"], ["approval", "waits for a person"], ["running", "tool runs"], ["overlap", "runs while its input is written"]]
        .map(([kind, word]) => h("li", null, h("span", { class: "swatch", "data-kind": kind }), word))));
}

function modelKind(block) {
  if (block.isCall) return "call";
  return block.kind.includes("thinking") ? "thinking" : "text";
}

function drawRow(call, run, nowS, place, openCall) {
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
  return h("li", { key: `c${call.block}`, "data-void": call.isVoid },
    h("button", { type: "button", class: "label", on: { click: () => openCall(call) } }, line(call.name, 60)),
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

function intersection(these, those) {
  return these.flatMap(([from, to]) =>
    those.map(([start, stop]) => [Math.max(from, start), Math.min(to, stop)]).filter(([start, stop]) => stop > start));
}

const length = (spans) => spans.reduce((sum, [from, to]) => sum + to - from, 0);
