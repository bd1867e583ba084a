// The turns of a run: texts, and each call as a growing card.

import { caret, h } from "./dom.js";
import { count, digits, gapText, icon, line, PHASES, pill, pretty, seconds, visible } from "./format.js";
import { lineProgress } from "./lines.js";
import { drawListing } from "./listing.js";
import { isContainer, phaseOf, stringify } from "./records.js";
import { tokensOf } from "./run.js";
import { indented, literal, quoted } from "./written.js";

const SHORT_CHARS = 280; // maximum length of a text shown in its field's line
const BLOCK_CHARS = 1600; // shown characters of a longer text
const REPLY_CHARS = 6000;
const ALL_CHARS = 200_000; // maximum length after "show all"
const NEWEST_ITEMS = 6;
const ALL_ITEMS = 500;
const MAX_FIELDS = 40;
const MAX_CARDS = 400;
const CANCELLABLE = new Set(["writing", "waiting", "running"]);

// `ui`: the parts that the reader has opened. isOpen(key), toggle(key, block), redraw(call), canShow(run id),
// tabStop(call), canAct(), decide(call, approved, reason), cancelCall(call).
export function drawTurns(run, ui) {
  const firstShown = run.calls.at(-MAX_CARDS)?.block ?? 0;
  const gaps = (place) => run.gaps.filter((gap) => gap.before === place).map(drawGap);
  // After a gap, a turn may come a second time.
  const turns = run.turns.map((turn, place) => [...gaps(place),
    h("section", { class: "turn", key: `t${place}`, "aria-label": `Turn ${turn.turn}` },
      h("h2", null, `Turn ${turn.turn}`),
      turn.blocks.flatMap((block, place) => [
        ...turn.notes.filter((note) => note.before === place).map(drawNote),
        block.block < firstShown ? null : block.isCall ? drawCall(block, run, ui) : drawBlock(block, run, ui),
      ]),
      turn.notes.filter((note) => note.before === turn.blocks.length).map(drawNote),
      turn.error && h("p", { class: "problem" }, icon("cross"), line(turn.error.text ?? turn.error.type, 600)))]);
  return [...turns.flat(), ...gaps(run.turns.length)];
}

function drawGap(gap, place) {
  return h("p", { class: "note gap", key: `g${gap.before}.${place}` }, icon("again"), gapText(gap));
}

function drawNote(note) {
  const wait = note.delayS ? `, after ${seconds(note.delayS)}` : "";
  return h("p", { class: "note" }, icon("again"), `Restarted${wait}: ${line(note.reason, 300)}. The parts above are void.`);
}

function drawBlock(block, run, ui) {
  const key = `x${block.block}`;
  const props = { key, version: `${run.epoch}.${block.version}`, "data-void": block.isVoid };
  if (block.kind.includes("thinking")) {
    const size = block.text.length;
    if (!size) return null;
    return h("details", { ...props, class: "thinking" }, () => [
      h("summary", null, "Thinking ", h("span", { class: "faint" }, count(size, "character"))),
      h("div", { class: "prose" }, grown(block.text, REPLY_CHARS, block, ui, key))]);
  }
  if (block.kind === "text") {
    return h("div", { ...props, class: "prose reply" }, () => grown(block.text, REPLY_CHARS, block, ui, key));
  }
  return h("details", { ...props, class: "thinking" }, () => [
    h("summary", null, line(block.kind, 60)),
    h("pre", { tabindex: "0" }, pretty(block.content ?? {}, { items: 20, chars: 800 }))]);
}

// A text of the response: its end, or all of it on request.
function grown(text, shown, block, ui, key) {
  const isOpen = ui.isOpen(key);
  const chars = isOpen ? ALL_CHARS : shown;
  return [
    text.length > chars && h("span", { class: "faint" }, `… ${count(text.length - chars, "character")} earlier\n`),
    visible(text.tail(chars)),
    block.stopS === null && caret(),
    text.length > shown && showAll(isOpen, ui, key, block)];
}

function showAll(isOpen, ui, key, block) {
  return h("button", { type: "button", class: "quiet", "aria-expanded": String(isOpen), on: { click: () => ui.toggle(key, block) } },
    isOpen ? "show less" : "show all");
}

// --- calls -----------------------------------------------------------------------------------------------------------

function drawCall(call, run, ui) {
  const id = `call-${call.block}`;
  const phase = phaseOf(call, run);
  const lines = phase === "approval" ? null : lineProgress(call, call.toolStopS !== null || call.isVoid || run.isOver);
  return h("article", {
    key: id, id, version: `${run.epoch}.${call.version}.${call.subRuns.filter((subRun) => ui.canShow(subRun.id)).length}.${ui.canAct()}`, class: "call", tabindex: ui.tabStop(call) ? "0" : "-1", "data-tone": PHASES[phase].tone,
    "data-phase": phase, "data-void": call.isVoid, "aria-labelledby": `${id}-name ${id}-phase`,
  }, () => [
    h("header", null,
      h("h3", { id: `${id}-name` }, line(call.name, 80)),
      h("span", { id: `${id}-phase`, class: "phase" }, pill(PHASES[phase]),
        phase === "running" && call.inputStopS === null && [" ", pill(PHASES.writing)]),
      h("p", { class: "facts" }, facts(call)),
      CANCELLABLE.has(phase) && ui.canAct() && h("button", { type: "button", class: "cancel", key: "cancel", disabled: call.cancelling?.sent === true,
        on: { click: () => ui.cancelCall(call) } }, icon("cross"), h("span", { class: "word" }, "Cancel"), h("span", { class: "unseen" }, ` ${line(call.name, 80)}`)),
      h("button", { type: "button", class: "inspect", "aria-expanded": String(ui.isOpen(`${id}-inspector`)),
        on: { click: () => ui.toggle(`${id}-inspector`, call) } }, icon("look"), h("span", { class: "word" }, "Inspect"), h("span", { class: "unseen" }, ` ${line(call.name, 80)}`))),
    call.approval?.approved === false && h("p", { class: "note" }, icon("cross"), `Rejected${call.approval.reason ? `: ${line(call.approval.reason, 400)}` : "."}`),
    phase === "approval" ? drawInput(call) : drawFields(call, phase, ui, lines),
    call.error && h("p", { class: "problem" }, icon("cross"), line(call.error, 400)),
    call.cancelling?.problem && CANCELLABLE.has(phase) && h("p", { class: "problem", role: "alert" }, icon("cross"), call.cancelling.problem),
    phase === "approval" && drawApproval(call, id, ui), // after the input that it is about
    call.progressCount > 0 && call.toolStopS === null && !lines && h("div", { class: "outcome" },
      h("h4", null, icon("play"), "Progress", call.progressCount > 1 && h("span", { class: "faint" }, digits(call.progressCount))),
      drawValue(call.progress, { key: `${id}-progress`, block: call, ui, growing: call.toolStopS === null, depth: 2 })),
    call.subRuns.length > 0 && drawSubRuns(call, ui),
    call.result !== undefined && drawResult(call, id, ui),
    ui.isOpen(`${id}-inspector`) && drawInspector(call, id, ui)]);
}

function facts(call) {
  const writingS = (call.lastFragmentS ?? 0) - (call.firstFragmentS ?? 0);
  const parts = [];
  if (call.bytes) parts.push(count(call.bytes, "byte"), count(call.fragments, "fragment"));
  if (call.bytes && writingS > 0.05 && call.inputStopS === null) parts.push(`${digits(Math.round(call.bytes / writingS))} bytes/s`);
  if (call.stopS !== null) parts.push(`written in ${seconds(call.stopS - call.startS)}`);
  if (call.toolStartS !== null && call.toolStopS !== null) parts.push(`ran ${seconds(call.toolStopS - call.toolStartS)}`);
  if (call.kind !== "tool_use") parts.push(call.kind === "mcp_tool_use" ? "MCP server" : "runs on the server");
  return parts.map((part, place) => h("span", { key: place }, part));
}

function drawApproval(call, id, ui) {
  const { sent, problem } = call.approval;
  const lacking = whatLacks(call);
  const submit = (approved) => () => ui.decide(call, approved, document.getElementById(`${id}-reason`)?.value.trim());
  return h("div", { class: "approval", role: "group", "aria-labelledby": `${id}-question` },
    h("p", { id: `${id}-question` }, icon("person"), `May ${quoted(call.name).slice(1, -1)} run with this input?`),
    lacking && h("p", { class: "problem" }, `It cannot be approved here: ${lacking}`),
    h("label", { for: `${id}-reason` }, "Reason ", h("span", { class: "faint" }, "(optional, sent to the model on a rejection)")),
    h("input", { id: `${id}-reason`, type: "text", maxlength: "1000", autocomplete: "off", disabled: sent }),
    h("div", { class: "buttons" },
      h("button", { type: "button", class: "approve", disabled: sent || lacking !== null, on: { click: submit(true) } }, icon("check"), "Approve"),
      h("button", { type: "button", class: "reject", disabled: sent, on: { click: submit(false) } }, icon("cross"), "Reject")),
    problem && h("p", { class: "problem", role: "alert" }, problem));
}

// Returns the reason why the input cannot be shown completely; null if it can.
function whatLacks(call) {
  if (call.inputStopS === null) return "its input is still being written.";
  if (call.isOmitted || !call.raw.isWhole) return "parts of its input are no longer kept, so it cannot be shown completely.";
  return null;
}

// The input to approve, complete and as it was written: not folded, rounded or sorted. Invisible characters are escaped.
function drawInput(call) {
  if (whatLacks(call)) return null;
  call.shown ??= indented(call.raw.length ? call.raw.toString() : stringify(call.partial ?? {}));
  return h("pre", { class: "exact", tabindex: "0", role: "group", "aria-label": "Input, complete" }, call.shown);
}

function drawFields(call, phase, ui, lines) {
  const { partial } = call;
  if (partial === null || partial === undefined) return phase === "writing" && h("p", { class: "faint" }, "nothing yet", caret());
  if (!isContainer(partial) || Array.isArray(partial)) {
    return drawValue(partial, { key: `f${call.block}`, block: call, ui, growing: phase === "writing", depth: 2 });
  }
  const names = Object.keys(partial);
  if (!names.length) return h("p", { class: "faint" }, "no fields");
  const shown = names.slice(-MAX_FIELDS);
  if (lines && !shown.includes(lines.parameter)) shown.unshift(lines.parameter);
  return h("ul", { class: "fields" },
    shown.map((name) => {
      const isDone = call.finished.has(name);
      const isGrowing = !isDone && phase !== "cut" && phase !== "invalid" && phase !== "void";
      return h("li", { key: `f${name}`, "data-done": isDone },
        h("span", { class: "mark" }, isDone ? icon("check") : icon(isGrowing ? "pencil" : "scissors"),
          h("span", { class: "unseen" }, isDone ? "finished" : isGrowing ? "growing" : "unfinished")),
        h("span", { class: "name" }, line(name, 80)),
        name === lines?.parameter ? drawListing(call, lines, { id: `call-${call.block}`, growing: isGrowing && call.inputStopS === null, redraw: () => ui.redraw(call) })
          : drawValue(partial[name], { key: `${call.block}/${name}`, block: call, ui, growing: isGrowing, depth: 2 }));
    }),
    names.length > MAX_FIELDS && h("li", { class: "faint" }, `${count(names.length - MAX_FIELDS, "earlier field")}`));
}

// A value of bounded length: the end of a growing text, the start of a finished one.
function drawValue(value, { key, block, ui, growing, depth }) {
  if (typeof value === "string") return drawText(value, { key, block, ui, growing });
  if (!isContainer(value)) return h("span", { class: "value literal" }, literal(value));
  const isArray = Array.isArray(value);
  const names = isArray ? null : Object.keys(value);
  const size = isArray ? value.length : names.length;
  const isOpen = ui.isOpen(key);
  const shown = isOpen ? ALL_ITEMS : NEWEST_ITEMS;
  const first = depth ? Math.max(0, size - shown) : size;
  const places = Array.from({ length: size - first }, (_, offset) => first + offset);
  return h("div", { class: "value container" },
    h("span", { class: "faint" }, count(size, isArray ? "item" : "field"), first > 0 && depth ? `, the newest ${digits(size - first)}` : ""),
    size > NEWEST_ITEMS && depth > 0 && showAll(isOpen, ui, key, block),
    places.length > 0 && h(isArray ? "ol" : "ul", { start: isArray ? String(first + 1) : null },
      places.map((place) => {
        const name = isArray ? place : names[place];
        const inner = { key: `${key}/${name}`, block, ui, growing: growing && place === size - 1, depth: depth - 1 };
        return h("li", { key: `i${name}` }, !isArray && h("span", { class: "name" }, line(name, 60)), drawValue(isArray ? value[place] : value[name], inner));
      })));
}

function drawText(text, { key, block, ui, growing }) {
  const isBlock = text.length > SHORT_CHARS || text.includes("\n");
  const isOpen = ui.isOpen(key);
  const bound = isBlock ? BLOCK_CHARS : SHORT_CHARS;
  const chars = isOpen ? ALL_CHARS : bound;
  const hidden = text.length - chars;
  const piece = visible(hidden <= 0 ? text : growing || isOpen ? text.slice(-chars) : text.slice(0, chars));
  const cut = hidden > 0 && h("span", { class: "faint" }, `… ${count(hidden, "character")} …`);
  const atFront = growing || isOpen;
  if (!isBlock) return h("span", { class: "value text" }, piece, growing && caret());
  return h("div", { class: "value" },
    h("pre", { tabindex: "0", pin: true, role: "group", "aria-label": "text" }, atFront && cut, atFront && cut && "\n", piece, growing && caret(), !atFront && cut),
    text.length > bound && h("span", { class: "below" }, h("span", { class: "faint" }, count(text.length, "character")), showAll(isOpen, ui, key, block)));
}

// The runs that the tool started; with a link to each that this page can show, too.
function drawSubRuns(call, ui) {
  const first = Math.max(0, call.subRuns.length - ALL_ITEMS);
  return h("div", { class: "outcome sub-runs" },
    h("h4", null, icon("play"), call.subRuns.length > 1 ? `Runs ${digits(call.subRuns.length)}` : "Run"),
    h("ul", null, call.subRuns.slice(first).map((subRun) => {
      const model = line(subRun.model, 80);
      const facts = [subRun.stopS === null ? "running" : subRun.status === "running" ? "left open" : line(subRun.status, 40)];
      if (subRun.stopS !== null) {
        facts.push(count(subRun.turns, "turn"), count(tokensOf(subRun.usage), "token"), seconds(subRun.stopS - subRun.startS));
      }
      return h("li", { key: subRun.id },
        ui.canShow(subRun.id) ? h("a", { href: `#run=${encodeURIComponent(subRun.id)}` }, model) : model,
        h("span", { class: "faint" }, `  ${facts.join(" · ")}`));
    })));
}

function drawResult(call, id, ui) {
  const name = call.ran === false ? "Not run" : call.isError ? "Error" : "Result";
  const blocks = typeof call.result === "string" ? [call.result] : Array.isArray(call.result) ? call.result.slice(0, 20) : [call.result];
  return h("div", { class: "outcome", "data-error": call.isError },
    h("h4", null, icon(call.isError ? "cross" : "arrow"), name),
    h("div", { class: "value" }, blocks.map((block, place) => {
      const given = { key: `${id}-result-${place}`, block: call, ui, growing: false, depth: 3 };
      if (typeof block === "string" || block?.type === "text") return drawValue(block.text ?? block, given);
      return block?.type === "image" ? h("p", { class: "faint" }, "an image") : drawValue(block, given);
    })));
}

function drawInspector(call, id, ui) {
  const key = `${id}-all`;
  const isOpen = ui.isOpen(key);
  const chars = isOpen ? ALL_CHARS : 12_000;
  const raw = call.isWhole ? stringify(call.partial) : call.raw.tail(chars);
  const hidden = call.isWhole ? 0 : call.raw.length - raw.length;
  return h("div", { class: "inspector", role: "group", "aria-label": `Input of ${line(call.name, 80)}` },
    h("div", null,
      h("h4", null, "Raw text ", h("span", { class: "faint" }, count(call.raw.length, "character"))),
      h("pre", { tabindex: "0", pin: true, role: "group", "aria-label": "Raw text" },
        hidden > 0 && h("span", { class: "faint" }, `… ${count(hidden, "character")} earlier …\n`), visible(raw), call.inputStopS === null && caret())),
    h("div", null,
      h("h4", null, call.outcome === "valid" ? "Value" : "Partial value"),
      h("pre", { tabindex: "0", pin: true, role: "group", "aria-label": "Value" },
        call.partial === null || call.partial === undefined ? "" : pretty(call.partial, isOpen ? { items: 2000, chars: 50_000, depth: 40 } : undefined).slice(-ALL_CHARS))),
    h("p", { class: "below" }, call.raw.length > 1500 && showAll(isOpen, ui, key, call),
      h("span", { class: "faint" }, call.id ? line(call.id, 80) : "")));
}
