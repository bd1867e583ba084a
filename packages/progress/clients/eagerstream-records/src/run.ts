// The state of one run, built from its records in order. It changes in place; `snapshot.ts` has it as a value.

import { type Json, type JsonObject, isContainer } from "./exact.js";
import { PartialValue, tellPieces } from "./patch.js";
import type { EditRecord, Fault, InputDeltaRecord, PatchOp, RecordType, RunRecord, TextDeltaRecord, ThinkingDeltaRecord } from "./records.js";
import { GrowingText } from "./text.js";
import type { AnyTools, Growing, OtherName } from "./tools.js";

/** The phase of a call. `cut`: it can no longer go on. `unrun`: the run ended before the tool could start. */
export type CallPhase =
  | "writing" | "waiting" | "approval" | "running" | "done" | "failed" | "invalid" | "cut" | "unrun" | "void";

export interface Approval {
  readonly startS: number;
  stopS: number | null;
  approved: boolean | null;
  reason: string | null;
}

export interface SubRun {
  readonly id: string;
  readonly model: string;
  readonly startS: number;
  stopS: number | null;
  status: string | null;
  turns: number;
  usage: JsonObject;
}

/** A restart: the blocks of the turn before the one with the index `before` are void. */
export interface RestartNote {
  readonly reason: string;
  readonly delayS: number;
  readonly before: number;
}

/** A gap: another process continued the run, or the same one later. The times leave it out. */
export interface Gap {
  /** Time of the run at which it continued. */
  readonly atS: number;
  /** Length of the gap; null if the clocks of the processes contradict. */
  readonly gapS: number | null;
  /** Index of the turn before which it is. */
  readonly before: number;
}

export class Turn<Tools extends object = AnyTools> {
  stopS: number | null = null;
  readonly blocks: Block<Tools>[] = [];
  readonly notes: RestartNote[] = [];
  error: Fault | null = null;
  usage: JsonObject | null = null;
  /** Rises with each change of the turn itself. */
  version = 0;

  constructor(readonly turn: number, readonly startS: number) {}
}

class AnyBlock {
  /** True if the response of the block was restarted. */
  isVoid = false;
  stopS: number | null = null;
  /** Rises with each change. */
  version = 0;

  constructor(readonly block: number, readonly kind: string, readonly turn: number, readonly startS: number) {}
}

/** A block that is not a tool call, with its text or thinking. */
export class TextBlock extends AnyBlock {
  readonly isCall = false;
  readonly text = new GrowingText();
  /** The block in the API's form, without its text; null until it is complete. */
  content: JsonObject | null = null;
}

/** A tool call, with its growing input. */
export class Call<Name extends string = string, Input = Json> extends AnyBlock {
  readonly isCall = true;
  readonly input: PartialValue<Input>;
  /** True if the input came at once, without deltas. */
  readonly isWhole: boolean;
  /** The input's text, as it was written. */
  readonly raw = new GrowingText();
  /** Names of the finished fields. */
  readonly finished: Set<string>;
  readonly subRuns: SubRun[] = [];
  /** The text edits that the tool has told: the files, and the places of the texts in the input. */
  readonly edits: EditRecord[] = [];
  /** True if parts of the input are not there: its value stays as it was before them. */
  isOmitted = false;
  bytes = 0;
  fragments = 0;
  firstFragmentS: number | null = null;
  lastFragmentS: number | null = null;
  inputStopS: number | null = null;
  outcome: "valid" | "invalid" | "incomplete" | null = null;
  error: string | null = null;
  approval: Approval | null = null;
  toolStartS: number | null = null;
  toolStopS: number | null = null;
  ran: boolean | null = null;
  isError = false;
  /** The end of its process, if it had not ended before. */
  cutS: number | null = null;
  progress: Json | undefined;
  progressCount = 0;
  result: Json | undefined;

  constructor(
    block: number, kind: string, turn: number, startS: number,
    readonly id: string, readonly name: Name, input: JsonObject | null, readonly number: number,
  ) {
    super(block, kind, turn, startS);
    this.input = new PartialValue(input);
    this.isWhole = input !== null;
    this.finished = new Set(Object.keys(input ?? {}));
  }

  /** The input so far; null if there is nothing yet. It grows in place. */
  get partial(): Input {
    return this.input.live;
  }
}

/** A call of a reader: of one of the tools, or of another one. */
export type CallOf<Tools extends object = AnyTools> = string extends keyof Tools ? Call
  : { [Name in keyof Tools & string]: Call<Name, Growing<Tools[Name]> | null> }[keyof Tools & string] | Call<OtherName>;

export type Block<Tools extends object = AnyTools> = TextBlock | CallOf<Tools>;

/**
 * Called for each piece of a text in an input, as it comes: append it, or begin anew if it is the start of the text
 * there. So an editor follows the text without comparing it.
 *
 * @param path The JSON pointer of the text in the input, for example `/files/0/body`.
 */
export type OnAppend<Tools extends object = AnyTools> = (call: CallOf<Tools>, path: string, text: string, isStart: boolean) => void;

let epochs = 0;

/**
 * Builds the state of a run. Records and fields that this version does not know are ignored.
 *
 * With `Tools`, the types of the inputs of the tools by their names, the name of a call tells the type of its input.
 */
export class RunReader<Tools extends object = AnyTools> {
  /** Versions of different readers cannot be compared. */
  readonly epoch = ++epochs;
  readonly turns: Turn<Tools>[] = [];
  readonly blocks = new Map<number, Block<Tools>>();
  readonly calls: CallOf<Tools>[] = [];
  /** The latest call with each id. */
  readonly callById = new Map<string, CallOf<Tools>>();
  readonly gaps: Gap[] = [];
  id: string | null = null;
  name: string | null = null;
  model: string | null = null;
  startedAt: string | null = null;
  /** The run's status; null until it has ended. */
  status: string | null = null;
  error: Fault | null = null;
  /** Time of the newest record, in seconds since the start of the run. */
  atS = 0;
  /** Time of the request that is answered now, or of what came of its answer last; null between a response and the next request. */
  quietSinceS: number | null = null;
  /** Time of the API's last sign of life while its model wrote nothing; null before the first. */
  pingS: number | null = null;
  usage: JsonObject = {};
  /** The token counts of each turn, by its number. */
  readonly usageOf = new Map<number, JsonObject>();
  /** Number of complete responses; null until the run has ended. */
  turnCount: number | null = null;
  /** The option whose bound has ended the run; null if none has. */
  limit: string | null = null;
  /** The cost of the usage, in the currency of the program; null if it is not counted, and until the run has ended. */
  cost: number | null = null;
  /** True if no more records come, also if the last one is no `run_stop`. */
  ended = false;
  /** `seq` of the last message: set it if you want to continue there. */
  seq = 0;
  version = 0;
  readonly #onAppend: OnAppend | undefined;

  constructor({ onAppend }: { readonly onAppend?: OnAppend<Tools> | undefined } = {}) {
    this.#onAppend = onAppend as OnAppend | undefined;
  }

  /** Tell of the pieces of texts that a patch has brought. */
  tell(call: Call, patch: readonly PatchOp[]): void {
    const onAppend = this.#onAppend;
    if (onAppend) tellPieces(patch, (...piece) => onAppend(call, ...piece));
  }

  get isOver(): boolean {
    return this.status !== null || this.ended;
  }

  /**
   * Take the next record.
   *
   * @throws TypeError if a field of its type is missing or has another form.
   */
  feed(record: RunRecord): void {
    this.version++;
    this.atS = Math.max(this.atS, ("to_s" in record ? record.to_s : undefined) ?? record.at_s);
    if (OF_RESPONSES.test(record.type)) this.quietSinceS = this.atS;
    if (Object.hasOwn(HANDLERS, record.type)) (HANDLERS[record.type] as Handler<RunRecord>)(this as unknown as RunReader, record);
  }

  /** No more records come. */
  end(): void {
    this.ended = true;
    touchAll(this as unknown as RunReader);
  }

  /** The current turn. */
  get turn(): Turn<Tools> {
    if (!this.turns.length) this.turns.push(new Turn(1, this.atS));
    return this.turns.at(-1)!;
  }

  /** Return the call of a block; null if there is none. */
  callOf(block: number): CallOf<Tools> | null {
    const call = this.blocks.get(block) as Block | undefined;
    return call?.isCall ? (call as CallOf<Tools>) : null;
  }
}

/** Return the phase of a call. */
export function phaseOf(call: Call<string, unknown>, run: { readonly isOver: boolean }): CallPhase {
  if (call.isVoid) return "void";
  if (call.outcome === "invalid") return "invalid";
  if (call.outcome === "incomplete") return "cut";
  if (call.toolStopS !== null) return call.isError ? "failed" : "done";
  if (call.cutS !== null) return "cut";
  const phase = call.toolStartS !== null ? "running" : call.approval?.stopS === null ? "approval" : call.inputStopS === null ? "writing" : "waiting";
  if (!run.isOver) return phase;
  if (phase !== "waiting") return "cut";
  return call.kind === "tool_use" ? "unrun" : phase;
}

// After the stop of a message or a turn, nothing is awaited: their handlers say so.
const OF_RESPONSES = /^(turn|message|block|input)_st(art|op)$|_delta$/;

type Handler<Record> = (run: RunReader, record: Record) => void;

// A handler for records about a call. Those about another block are ignored.
function ofCall<Record extends { readonly block: number }>(act: (call: Call, record: Record, run: RunReader) => void): Handler<Record> {
  return (run, record) => {
    const call = run.callOf(record.block);
    if (!call) return;
    call.version++;
    act(call, record, run);
  };
}

// Each type of the schema has a handler: the compiler complains if one is missing.
const HANDLERS: { readonly [Type in RecordType]: Handler<Extract<RunRecord, { type: Type }>> } = {
  run_start(run, { run: id, started_at, name, model }) {
    Object.assign(run, { id, startedAt: started_at, name, model });
  },
  run_resumed(run, { gap_s, at_s }) {
    Object.assign(run, { status: null, error: null, turnCount: null, quietSinceS: null });
    run.gaps.push({ atS: at_s, gapS: gap_s, before: run.turns.length });
    for (const block of run.blocks.values()) {
      block.stopS ??= at_s;
      if (block.isCall && block.toolStopS === null) block.cutS ??= at_s;
    }
    touchAll(run);
  },
  turn_start(run, { turn, at_s }) {
    run.turns.push(new Turn(turn, at_s));
  },
  message_start(run, { model, restarted, at_s }) {
    run.model = model ?? run.model;
    if (restarted) voidBlocks(run, at_s, { reason: "the response restarted", delayS: 0 });
  },
  block_start(run, { block, kind, at_s }) {
    addBlock(run, new TextBlock(block, kind, run.turn.turn, at_s));
  },
  text_delta: growText,
  thinking_delta: growText,
  block_stop(run, { block: number, content, at_s }) {
    const block = run.blocks.get(number);
    if (!block) return;
    Object.assign(block, { content, stopS: at_s });
    block.version++;
    const id = content["tool_use_id"];
    const call = typeof id === "string" ? run.callById.get(id) : undefined;
    if (!call || call.isVoid) return;
    const inner = content["content"]; // the result of a tool that ran on the server
    const type = isContainer(inner) && !Array.isArray(inner) ? (inner as JsonObject)["type"] : null;
    const isError = content["is_error"] === true || (typeof type === "string" && type.includes("error"));
    Object.assign(call, { toolStopS: at_s, isError, result: inner ?? content });
    call.version++;
  },
  input_start(run, { block, id, name, kind, input, at_s }) {
    const call = new Call(block, kind, run.turn.turn, at_s, id, name, input, run.calls.length + 1);
    addBlock(run, call);
    run.calls.push(call);
    run.callById.set(id, call);
    if (input !== null) run.tell(call, [{ op: "add", path: "", value: input }]);
  },
  input_delta: ofCall(growInput),
  input_stop: ofCall((call, { outcome, error, at_s }) => {
    Object.assign(call, { outcome, error: error ?? call.error, inputStopS: at_s, stopS: at_s });
    if (outcome === "valid" && isContainer(call.partial)) for (const name of Object.keys(call.partial)) call.finished.add(name);
  }),
  edit: ofCall((call, record) => call.edits.push(record)),
  message_stop(run, { usage }) {
    const { turn } = run;
    turn.usage = usage;
    turn.version++;
    run.quietSinceS = null;
    // After a gap, a turn may come a second time. Its counts replace those of the first.
    run.usage = addUsage(addUsage(run.usage, run.usageOf.get(turn.turn), -1), usage);
    run.usageOf.set(turn.turn, usage);
  },
  tool_start: ofCall((call, { at_s }) => {
    call.toolStartS = at_s;
  }),
  tool_progress: ofCall((call, { value }) => {
    call.progress = value;
    call.progressCount++;
  }),
  sub_run_start: ofCall((call, { run: id, model, at_s }) => {
    call.subRuns.push({ id, model, startS: at_s, stopS: null, status: null, turns: 0, usage: {} });
  }),
  sub_run_stop: ofCall((call, { run: id, status, turns, usage, at_s }) => {
    const place = call.subRuns.findIndex((other) => other.id === id);
    if (place >= 0) call.subRuns[place] = { ...call.subRuns[place]!, status, turns, usage, stopS: at_s };
  }),
  approval_start: ofCall((call, { at_s }) => {
    call.approval = { startS: at_s, stopS: null, approved: null, reason: null };
  }),
  approval_stop: ofCall((call, { approved, reason, at_s }) => {
    if (call.approval) call.approval = { ...call.approval, stopS: at_s, approved, reason };
  }),
  tool_stop: ofCall((call, { ran, is_error, content, at_s }) => {
    Object.assign(call, { toolStopS: at_s, ran, isError: is_error, result: content });
  }),
  turn_stop(run, { error, at_s }) {
    Object.assign(run.turn, { error, stopS: at_s });
    run.quietSinceS = null;
    run.turn.version++;
  },
  restarted(run, { reason, delay_s, at_s }) {
    voidBlocks(run, at_s, { reason, delayS: delay_s });
    run.quietSinceS = at_s + delay_s;
  },
  ping(run, { at_s }) {
    run.pingS = at_s;
  },
  unknown() {
    // an event of the API that the library does not know, either
  },
  run_stop(run, { status, turns, usage, error, limit, cost }) {
    Object.assign(run, { status, error, turnCount: turns, usage, quietSinceS: null, limit: limit ?? null, cost: cost ?? null });
    touchAll(run);
  },
};

const encoder = new TextEncoder();

function growInput(call: Call, { fragment, patch, finished, count, at_s, to_s, omitted_chars = 0 }: InputDeltaRecord, run: RunReader): void {
  call.bytes += omitted_chars + encoder.encode(fragment).length;
  call.fragments += count ?? 1;
  call.firstFragmentS ??= at_s;
  call.lastFragmentS = to_s ?? at_s;
  call.isOmitted ||= omitted_chars > 0;
  if (call.isOmitted) {
    call.raw.omit(omitted_chars + fragment.length); // the next fragments do not fit the kept ones
    return;
  }
  call.raw.append(fragment);
  try {
    call.input.apply(patch);
  } catch {
    call.isOmitted = true;
    call.error = "The records do not fit together."; // for example, a file that was edited
    return;
  }
  // A field whose key comes twice begins again.
  for (const { op, path } of patch) if (op === "replace") call.finished.delete(path.slice(1));
  for (const name of finished) call.finished.add(name);
  run.tell(call, patch);
}

function growText(run: RunReader, record: TextDeltaRecord | ThinkingDeltaRecord): void {
  const block = run.blocks.get(record.block);
  if (!block || block.isCall) return;
  block.text.omit(record.omitted_chars ?? 0);
  block.text.append(record.type === "text_delta" ? record.text : record.thinking);
  block.version++;
}

function addBlock(run: RunReader, block: Block): void {
  run.turn.blocks.push(block);
  run.turn.version++;
  run.blocks.set(block.block, block);
}

function voidBlocks(run: RunReader, atS: number, why: { reason: string; delayS: number }): void {
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

// The phase of each call depends on whether the run is over.
function touchAll(run: RunReader): void {
  run.version++;
  for (const turn of run.turns) turn.version++;
  for (const block of run.blocks.values()) block.version++;
}

function addUsage(sum: JsonObject, usage: JsonObject | undefined, sign = 1): JsonObject {
  const total = new Map(Object.entries(sum)); // any name may be one of JavaScript's own
  for (const [name, count] of Object.entries(usage ?? {})) {
    if (typeof count === "number") total.set(name, ((total.get(name) as number | undefined) ?? 0) + sign * count);
  }
  return Object.fromEntries(total);
}
