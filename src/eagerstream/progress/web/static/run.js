// The state of one run, built from its records in order. The page draws only from here.

import { applyPatch } from "./patch.js";

// Kept characters of one text or of one input's raw text; the end of longer ones. An input may have 16 Mi.
const MAX_KEPT_CHARS = 20_000_000;
const CHUNK_CHARS = 8192;

// A text that grows at its end. The cost of reading its end depends on the part that is read.
export class GrowingText {
  #chunks = [];
  length = 0; // in total
  #kept = 0;

  append(text) {
    const last = this.#chunks.length - 1;
    if (last >= 0 && this.#chunks[last].length < CHUNK_CHARS) this.#chunks[last] += text;
    else this.#chunks.push(text);
    this.length += text.length;
    this.#kept += text.length;
    while (this.#kept - this.#chunks[0].length > MAX_KEPT_CHARS) this.#kept -= this.#chunks.shift().length;
  }

  // Counts characters that were not kept for late watchers.
  omit(chars) {
    this.length += chars;
  }

  tail(chars) {
    const pieces = [];
    let missing = chars;
    for (let place = this.#chunks.length - 1; place >= 0 && missing > 0; place--) {
      pieces.unshift(this.#chunks[place].slice(-missing));
      missing -= pieces[0].length;
    }
    return pieces.join("");
  }

  // True if all characters are still there.
  get isWhole() {
    return this.#kept === this.length;
  }

  toString() {
    return this.#chunks.join("");
  }
}

let epochs = 0;

export class RunView {
  constructor() {
    this.epoch = ++epochs; // versions of different views cannot be compared
    this.id = this.name = this.model = this.startedAt = this.status = this.error = null;
    this.turns = []; // {turn, blocks, notes, error, startS, stopS}
    this.blocks = new Map();
    this.calls = [];
    this.atS = 0; // time of the newest record
    this.usage = {};
    this.turnCount = null; // known at the end of the run
    this.ended = false; // also if the log ends without a `run_stop`
    this.seq = 0; // of the newest event: a broken connection continues from there
    this.version = 0;
    this.announcements = [];
  }

  get isOver() {
    return this.status !== null || this.ended;
  }

  feed(record) {
    this.version++;
    this.atS = Math.max(this.atS, record.to_s ?? record.at_s);
    const take = HANDLERS[record.type];
    if (take && Object.hasOwn(HANDLERS, record.type)) take(this, record);
  }

  get turn() {
    if (!this.turns.length) this.turns.push(newTurn(1, this.atS));
    return this.turns.at(-1);
  }

  tell(text) {
    this.announcements.push(text);
  }
}

// The phase of a call, for people.
export function phaseOf(call, run) {
  if (call.isVoid) return "void";
  if (call.outcome === "invalid") return "invalid";
  if (call.outcome === "incomplete") return "cut";
  if (call.toolStopS !== null) return call.isError ? "failed" : "done";
  if (call.toolStartS !== null) return run.isOver ? "cut" : "running";
  if (call.approval && call.approval.stopS === null) return run.isOver ? "cut" : "approval";
  if (call.inputStopS !== null) return run.isOver && call.kind === "tool_use" ? "unrun" : "waiting";
  return run.isOver ? "cut" : "writing";
}

function newTurn(turn, startS) {
  return { turn, startS, stopS: null, blocks: [], notes: [], error: null, usage: null, version: 0 };
}

function addBlock(run, startS, block) {
  const { turn } = run;
  Object.assign(block, { turn: turn.turn, isVoid: false, startS, stopS: null, version: 0 });
  turn.blocks.push(block);
  turn.version++;
  run.blocks.set(block.block, block);
  return block;
}

function voidBlocks(run, atS, why) {
  const { turn } = run;
  for (const block of turn.blocks) {
    if (block.isVoid) continue;
    block.isVoid = true;
    block.stopS ??= atS;
    block.version++;
  }
  turn.notes.push({ ...why, before: turn.blocks.length });
  turn.version++;
}

// Returns the call of a record, and marks its card for redrawing.
function callOf(run, record) {
  const call = run.blocks.get(record.block);
  if (!call?.isCall) return null;
  call.version++;
  return call;
}

const encoder = new TextEncoder();

const HANDLERS = {
  run_start(run, { run: id, started_at, name, model }) {
    Object.assign(run, { id, startedAt: started_at, name, model });
  },
  turn_start(run, { turn, at_s }) {
    run.turns.push(newTurn(turn, at_s));
  },
  message_start(run, { model, restarted, at_s }) {
    run.model = model ?? run.model;
    if (restarted) voidBlocks(run, at_s, { reason: "the response restarted", delayS: 0 });
  },
  block_start(run, { block, kind, at_s }) {
    addBlock(run, at_s, { block, kind, isCall: false, text: new GrowingText(), content: null });
  },
  text_delta(run, { block, text, omitted_chars }) {
    growText(run, block, text, omitted_chars);
  },
  thinking_delta(run, { block, thinking, omitted_chars }) {
    growText(run, block, thinking, omitted_chars);
  },
  block_stop(run, { block: number, content, at_s }) {
    const block = run.blocks.get(number);
    if (!block) return;
    Object.assign(block, { content, stopS: at_s });
    block.version++;
    const call = content?.tool_use_id && run.calls.find((other) => other.id === content.tool_use_id && !other.isVoid);
    if (!call) return;
    call.version++; // the result of a tool that ran on the server
    call.toolStopS = at_s;
    call.isError = content.is_error === true || /error/.test(content.content?.type ?? "");
    call.result = content.content ?? content;
  },
  input_start(run, { block, id, name, kind, input, at_s }) {
    const call = addBlock(run, at_s, { block, id, name, kind, isCall: true });
    Object.assign(call, {
      number: run.calls.length + 1, partial: input, isWhole: input !== null, raw: new GrowingText(), bytes: 0, fragments: 0,
      isOmitted: false, finished: new Set(Object.keys(input ?? {})), firstFragmentS: null, lastFragmentS: null, inputStopS: null,
      outcome: null, error: null, approval: null, toolStartS: null, toolStopS: null, ran: null, isError: false,
      progress: undefined, progressCount: 0, result: undefined, subRuns: [],
    });
    run.calls.push(call);
    run.tell(`${name}: input is being written`);
  },
  input_delta(run, { block, fragment, patch, finished, count, at_s, to_s, omitted_chars }) {
    const call = callOf(run, { block });
    if (!call) return;
    call.bytes += (omitted_chars ?? 0) + encoder.encode(fragment).length;
    call.fragments += count ?? 1;
    call.firstFragmentS ??= at_s;
    call.lastFragmentS = to_s ?? at_s;
    call.isOmitted ||= omitted_chars > 0;
    if (call.isOmitted) {
      call.raw.omit((omitted_chars ?? 0) + fragment.length); // the next fragments do not fit the kept ones
      return;
    }
    call.raw.append(fragment);
    try {
      call.partial = applyPatch(call.partial, patch);
    } catch {
      call.error = "The records of this value do not fit together."; // for example, a file that was edited
    }
    for (const name of finished) call.finished.add(name);
  },
  input_stop(run, { block, outcome, error, at_s }) {
    const call = callOf(run, { block });
    if (!call) return;
    Object.assign(call, { outcome, error: error ?? call.error, inputStopS: at_s, stopS: at_s });
    if (outcome === "valid") for (const name of Object.keys(call.partial ?? {})) call.finished.add(name);
    else run.tell(`${call.name}: ${outcome === "invalid" ? "input is invalid" : "input was cut off"}`);
  },
  message_stop(run, { usage }) {
    run.turn.usage = usage;
    run.usage = run.turns.reduce((sum, turn) => addUsage(sum, turn.usage), {});
  },
  tool_start(run, record) {
    const call = callOf(run, record);
    if (!call) return;
    call.toolStartS = record.at_s;
    run.tell(`${call.name}: running`);
  },
  tool_progress(run, record) {
    const call = callOf(run, record);
    if (!call) return;
    call.progress = record.value;
    call.progressCount++;
  },
  sub_run_start(run, { block, run: id, model, at_s }) {
    const call = callOf(run, { block });
    call?.subRuns.push({ id, model, startS: at_s, stopS: null, status: null, turns: 0, usage: {} });
  },
  sub_run_stop(run, { block, run: id, status, turns, usage, at_s }) {
    const subRun = callOf(run, { block })?.subRuns.find((other) => other.id === id);
    if (subRun) Object.assign(subRun, { status, turns, usage, stopS: at_s });
  },
  approval_start(run, record) {
    const call = callOf(run, record);
    if (!call) return;
    call.approval = { startS: record.at_s, stopS: null, approved: null, reason: null, sent: false, problem: null };
    run.tell(`${call.name} waits for your decision`);
  },
  approval_stop(run, record) {
    const call = callOf(run, record);
    if (!call?.approval) return;
    Object.assign(call.approval, { stopS: record.at_s, approved: record.approved, reason: record.reason });
    run.tell(`${call.name}: ${record.approved ? "approved" : "rejected"}`);
  },
  tool_stop(run, record) {
    const call = callOf(run, record);
    if (!call) return;
    Object.assign(call, { toolStopS: record.at_s, ran: record.ran, isError: record.is_error, result: record.content });
    run.tell(`${call.name}: ${record.is_error ? "failed" : "done"}`);
  },
  turn_stop(run, { error, at_s }) {
    Object.assign(run.turn, { error, stopS: at_s });
    run.turn.version++;
  },
  restarted(run, { reason, delay_s, at_s }) {
    voidBlocks(run, at_s, { reason, delayS: delay_s });
    run.tell("The response was interrupted and restarts");
  },
  run_stop(run, { status, turns, usage, error }) {
    Object.assign(run, { status, error, turnCount: turns, usage });
    touchAll(run);
    run.tell(`The run has ended: ${status}`);
  },
};

export function touchAll(run) {
  run.version++;
  for (const turn of run.turns) turn.version++;
  for (const block of run.blocks.values()) block.version++;
}

function growText(run, number, text, omitted) {
  const block = run.blocks.get(number);
  if (!block || block.isCall) return;
  block.text.omit(omitted ?? 0);
  block.text.append(text);
  block.version++;
}

// All tokens of a run: input, input from or for the cache, and output.
export function tokensOf(usage) {
  const counts = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];
  return counts.reduce((sum, name) => sum + (Number.isSafeInteger(usage?.[name]) ? usage[name] : 0), 0);
}

function addUsage(sum, usage) {
  const total = { ...sum };
  for (const [name, count] of Object.entries(usage ?? {})) {
    if (typeof count === "number") total[name] = (total[name] ?? 0) + count;
  }
  return total;
}
