// The turns of a run as a list of items: headings, notes, texts, and each call as a growing card.

import { diffOf } from "./diff.js";
import { caret, h } from "./dom.js";
import { count, digits, gapText, icon, line, PHASES, pill, pretty, seconds, visible } from "./format.js";
import { lineProgress } from "./lines.js";
import { drawDiff, drawListing } from "./listing.js";
import { isContainer, phaseOf, stringify } from "./records.js";
import { tokensOf } from "./run.js";
import { drawTake, whole } from "./take.js";
import { indented, literal, quoted } from "./written.js";

const SHORT_CHARS = 280; // maximum length of a text shown in its field's line
const BLOCK_CHARS = 1600; // shown characters of a longer text
const REPLY_CHARS = 6000;
const NEWEST_ITEMS = 6;
const ALL_ITEMS = 500; // maximum number of items shown as a list: all of more are shown as text
const INSPECTED_CHARS = 12_000;
const MAX_FIELDS = 40;
const MAX_BLOCKS = 20;
const NOTE_PX = 50; // the usual height of a heading, a note or a short text, and of a card
const CALL_PX = 180;
const CANCELLABLE = new Set(["writing", "waiting", "running"]);

// Returns what the list shows, in order: {key, guessPx, draw}. If the reader looks for something, only what he finds.
// `ui`: the parts that the reader has opened. isOpen(key), toggle(key, block), setOpen(key, isOpen), redraw(call),
// canShow(run id), tabStop(call), canAct(), decide(call, approved, reason), cancelCall(call), announce(text).
export function itemsOf(run, finder, ui) {
  const items = [];
  const add = (key, draw, guessPx = NOTE_PX) => items.push({ key, guessPx, draw });
  const isAll = !finder.isActive;
  const addGaps = (place) => run.gaps.forEach((gap, number) => isAll && gap.before === place && add(`g${number}`, () => drawGap(gap, `g${number}`)));
  run.turns.forEach((turn, place) => {
    addGaps(place);
    const before = items.length;
    const addNotes = (to) => turn.notes.forEach((note, number) => isAll && note.before === to && add(`n${place}.${number}`, () => drawNote(note, `n${place}.${number}`)));
    turn.blocks.forEach((block, blockPlace) => {
      addNotes(blockPlace);
      if (!isAll && !finder.finds(block, run)) return;
      if (block.isCall) add(`call-${block.block}`, () => drawCall(block, run, ui), CALL_PX);
      else if (block.text.length || !block.kind.includes("thinking")) add(`x${block.block}`, () => drawBlock(block, run, ui));
    });
    addNotes(turn.blocks.length);
    if (isAll && turn.error) add(`e${place}`, () => h("p", { class: "problem", key: `e${place}` }, icon("cross"), line(turn.error.text ?? turn.error.type, 600)));
    // After a gap, a turn may come a second time.
    if (isAll || items.length > before) items.splice(before, 0, { key: `t${place}`, guessPx: NOTE_PX, draw: () => h("h2", { key: `t${place}` }, `Turn ${digits(turn.turn)}`) });
  });
  addGaps(run.turns.length);
  return items;
}

function drawGap(gap, key) {
  return h("p", { class: "note gap", key }, icon("again"), gapText(gap));
}

function drawNote(note, key) {
  const wait = note.delayS ? `, after ${seconds(note.delayS)}` : "";
  return h("p", { class: "note", key }, icon("again"), `Restarted${wait}: ${line(note.reason, 300)}. The parts above are void.`);
}

function drawBlock(block, run, ui) {
  const key = `x${block.block}`;
  const props = { key, version: `${run.epoch}.${block.version}`, "data-void": block.isVoid };
  if (block.kind === "text") {
    return h("div", { ...props, class: "prose reply" }, () => grown(block.text, REPLY_CHARS, block, ui, key));
  }
  const isThinking = block.kind.includes("thinking");
  const open = { open: ui.isOpen(`${key}-open`), on: { toggle: (event) => ui.setOpen(`${key}-open`, event.currentTarget.open) } };
  return h("details", { ...props, ...open, class: "thinking" }, () => isThinking
    ? [h("summary", null, "Thinking ", h("span", { class: "faint" }, count(block.text.length, "character"))),
      h("div", { class: "prose" }, grown(block.text, REPLY_CHARS, block, ui, key))]
    : [h("summary", null, line(block.kind, 60)),
      h("pre", { tabindex: "0" }, pretty(block.content ?? {}, { items: 20, chars: 800 }))]);
}

// A text of the response: its end, or all of it on request.
function grown(text, shown, block, ui, key) {
  const isGrowing = block.stopS === null;
  if (ui.isOpen(key)) return [whole(String(text), isGrowing), below(text, block, ui, key, true)];
  return [
    text.length > shown && h("span", { class: "faint" }, `… ${count(text.length - shown, "character")} earlier\n`),
    visible(text.tail(shown)),
    isGrowing && caret(),
    below(text, block, ui, key, text.length > shown)];
}

function below(text, block, ui, key, isLong) {
  if (block.stopS === null ? !isLong : text.length <= SHORT_CHARS) return null;
  return h("span", { class: "below", key: "below" },
    isLong && showAll(ui.isOpen(key), ui, key, block),
    block.stopS !== null && drawTake("this text", `text-${block.block}.txt`, () => String(text), ui.announce));
}

function showAll(isOpen, ui, key, block) {
  return h("button", { type: "button", class: "quiet", "aria-expanded": String(isOpen), on: { click: () => ui.toggle(key, block) } },
    isOpen ? "show less" : "show all");
}

// --- calls -----------------------------------------------------------------------------------------------------------

function drawCall(call, run, ui) {
  const id = `call-${call.block}`;
  const phase = phaseOf(call, run);
  const diff = diffOf(call);
  const lines = phase === "approval" || diff ? null : lineProgress(call, call.toolStopS !== null || call.isVoid || run.isOver);
  return h("article", {
    key: id, id, version: `${run.epoch}.${call.version}.${call.subRuns.filter((subRun) => ui.canShow(subRun.id)).length}.${ui.canAct()}.${ui.tabStop(call)}`, class: "call", tabindex: ui.tabStop(call) ? "0" : "-1", "data-tone": PHASES[phase].tone,
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
    call.approval && call.approval.approved !== null && drawDecision(call.approval),
    diff && phase === "approval" && drawDiff(call, diff, { growing: false, redraw: () => ui.redraw(call) }),
    phase === "approval" ? drawInput(call) : drawFields(call, phase, ui, lines, diff),
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

function drawDecision({ approved, reason, startS, stopS }) {
  const what = `${approved ? "Approved" : "Rejected"}${stopS === null ? "" : ` after ${seconds(stopS - startS)}`}`;
  return h("p", { class: "note decision", "data-approved": approved }, icon(approved ? "check" : "cross"), `${what}${reason ? `: ${line(reason, 400)}` : ""}`);
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

function drawFields(call, phase, ui, lines, diff) {
  const { partial } = call;
  if (partial === null || partial === undefined) return phase === "writing" && h("p", { class: "faint" }, "nothing yet", caret());
  if (!isContainer(partial) || Array.isArray(partial)) {
    return drawValue(partial, { key: `f${call.block}`, block: call, ui, growing: phase === "writing", depth: 2 });
  }
  // The diff is shown in place of the texts that it has.
  const change = diff && Object.keys(partial).find((name) => diff.parameters.has(name));
  const names = Object.keys(partial).filter((name) => name === change || !diff?.parameters.has(name));
  if (!names.length) return h("p", { class: "faint" }, "no fields");
  const key = `f${call.block}`;
  const isOpen = ui.isOpen(key);
  if (isOpen && names.length > ALL_ITEMS) return drawAll(partial, { key, block: call, ui });
  const shown = isOpen ? names : names.slice(-MAX_FIELDS);
  const listed = lines?.parameter ?? change;
  if (listed && !shown.includes(listed)) shown.unshift(listed);
  return h("ul", { class: "fields" },
    shown.map((name) => {
      const isDone = name === change ? [...diff.parameters].every((each) => call.finished.has(each)) : call.finished.has(name);
      const isGrowing = !isDone && phase !== "cut" && phase !== "invalid" && phase !== "void";
      return h("li", { key: `f${name}`, "data-done": isDone },
        h("span", { class: "mark" }, isDone ? icon("check") : icon(isGrowing ? "pencil" : "scissors"),
          h("span", { class: "unseen" }, isDone ? "finished" : isGrowing ? "growing" : "unfinished")),
        h("span", { class: "name" }, name === change ? "changes" : line(name, 80)),
        name === change ? drawDiff(call, diff, { growing: isGrowing && call.inputStopS === null, redraw: () => ui.redraw(call) }) : name === lines?.parameter ? drawListing(call, lines, { id: `call-${call.block}`, growing: isGrowing && call.inputStopS === null, redraw: () => ui.redraw(call) })
          : drawValue(partial[name], { key: `${call.block}/${name}`, block: call, ui, growing: isGrowing, depth: 2 }));
    }),
    names.length > MAX_FIELDS && h("li", { key: "fields", class: "more" }, h("span", { class: "faint" }, isOpen ? count(names.length, "field") : count(names.length - MAX_FIELDS, "earlier field")),
      showAll(isOpen, ui, key, call)));
}

// All of a value that is too large for a list, as JSON.
function drawAll(value, { key, block, ui }) {
  return h("div", { class: "value" },
    h("pre", { class: "whole", tabindex: "0", role: "group", "aria-label": "value" }, whole(indented(stringify(value)), false)),
    h("span", { class: "below" }, showAll(true, ui, key, block)));
}

// A value of bounded length: the end of a growing text, the start of a finished one.
function drawValue(value, { key, block, ui, growing, depth }) {
  if (typeof value === "string") return drawText(value, { key, block, ui, growing });
  if (!isContainer(value)) return h("span", { class: "value literal" }, literal(value));
  const isArray = Array.isArray(value);
  const names = isArray ? null : Object.keys(value);
  const size = isArray ? value.length : names.length;
  const isOpen = ui.isOpen(key);
  if (isOpen && size > ALL_ITEMS && !growing) return drawAll(value, { key, block, ui });
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
  const bound = isBlock ? BLOCK_CHARS : SHORT_CHARS;
  const isOpen = ui.isOpen(key) && text.length > bound;
  const hidden = text.length - bound;
  if (!isBlock) return h("span", { class: "value text" }, visible(text), growing && caret());
  const cut = hidden > 0 && h("span", { class: "faint" }, `… ${count(hidden, "character")} …`);
  const shown = isOpen ? whole(text, growing)
    : growing ? [cut, cut && "\n", visible(text.slice(-bound)), caret()]
    : [visible(text.slice(0, bound)), cut];
  return h("div", { class: "value" },
    h("pre", { class: isOpen ? "whole" : null, tabindex: "0", pin: growing || !isOpen, role: "group", "aria-label": "text" }, shown),
    text.length > bound && h("span", { class: "below" }, h("span", { class: "faint" }, count(text.length, "character")), showAll(isOpen, ui, key, block),
      !growing && drawTake("this text", `${nameOf(block)}.txt`, () => text, ui.announce)));
}

const nameOf = (block) => `${block.isCall ? block.name : block.kind}-${block.block}`;

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
  const all = Array.isArray(call.result) ? call.result : [call.result];
  const key = `${id}-results`;
  const blocks = ui.isOpen(key) ? all : all.slice(0, MAX_BLOCKS);
  return h("div", { class: "outcome", "data-error": call.isError },
    h("h4", null, icon(call.isError ? "cross" : "arrow"), name),
    h("div", { class: "value" }, blocks.map((block, place) => {
      const given = { key: `${id}-result-${place}`, block: call, ui, growing: false, depth: 3 };
      if (typeof block === "string" || block?.type === "text") return drawValue(block.text ?? block, given);
      return block?.type === "image" ? h("p", { class: "faint" }, "an image") : drawValue(block, given);
    }), all.length > MAX_BLOCKS && h("p", { class: "below" }, h("span", { class: "faint" }, count(all.length, "block")), showAll(ui.isOpen(key), ui, key, call))));
}

function drawInspector(call, id, ui) {
  const key = `${id}-all`;
  const isOpen = ui.isOpen(key);
  const written = () => (call.isWhole ? stringify(call.partial) : call.raw.toString());
  const length = call.isWhole ? 0 : call.raw.length;
  const isGrowing = call.inputStopS === null;
  const hidden = isOpen || call.isWhole ? 0 : Math.max(0, length - INSPECTED_CHARS);
  const value = isContainer(call.partial) ? call.partial : null;
  return h("div", { class: "inspector", role: "group", "aria-label": `Input of ${line(call.name, 80)}` },
    h("div", null,
      h("h4", null, "Raw text ", h("span", { class: "faint" }, count(length, "character"))),
      h("pre", { tabindex: "0", pin: true, role: "group", "aria-label": "Raw text" }, isOpen ? whole(written(), isGrowing) : [
        hidden > 0 && h("span", { class: "faint" }, `… ${count(hidden, "character")} earlier …\n`),
        visible(call.isWhole ? written() : call.raw.tail(INSPECTED_CHARS)), isGrowing && caret()])),
    h("div", null,
      h("h4", null, call.outcome === "valid" ? "Value" : "Partial value"),
      h("pre", { tabindex: "0", pin: true, role: "group", "aria-label": "Value" },
        value === null ? "" : isOpen && !isGrowing ? whole(indented(stringify(value)), false) : pretty(value))),
    h("p", { class: "below" }, length > 1500 && showAll(isOpen, ui, key, call),
      drawTake("this input", `${nameOf(call)}.json`, written, ui.announce),
      h("span", { class: "faint" }, call.id ? line(call.id, 80) : "")));
}
