// The state of a run as a value that never changes. What has not changed since the last one is the same object.

import type { Json, JsonObject } from "./exact.js";
import type { EditRecord, Fault } from "./records.js";
import {
  type Approval, type Block, type Call, type CallPhase, type Gap, type RestartNote, RunReader, type SubRun, type TextBlock, type Turn, phaseOf,
} from "./run.js";
import type { AnyTools, Growing, OtherName } from "./tools.js";

interface BlockState {
  /** The number of the block in the run. */
  readonly block: number;
  /** The API's type of the block. */
  readonly kind: string;
  readonly turn: number;
  /** True if the response of the block was restarted. */
  readonly isVoid: boolean;
  readonly startS: number;
  readonly stopS: number | null;
}

export interface TextState extends BlockState {
  readonly isCall: false;
  readonly text: string;
  /** The block in the API's form, without its text; null until it is complete. */
  readonly content: JsonObject | null;
}

interface CommonState<Name extends string> extends BlockState {
  readonly isCall: true;
  readonly id: string;
  readonly name: Name;
  readonly phase: CallPhase;
  /** Names of the finished fields. */
  readonly finished: ReadonlySet<string>;
  readonly error: string | null;
  readonly approval: Readonly<Approval> | null;
  readonly progress: Json | undefined;
  readonly ran: boolean | null;
  readonly isError: boolean;
  readonly result: Json | undefined;
  readonly subRuns: readonly Readonly<SubRun>[];
  /** The text edits that the tool has told: the files, and the places of the texts in the input. */
  readonly edits: readonly EditRecord[];
}

interface AnyCallState<Name extends string> extends CommonState<Name> {
  /** The input so far; null if there is nothing yet. */
  readonly input: Json;
  /** True if parts of the input are not there: its value stays as it was before them. */
  readonly isOmitted: boolean;
  /** `valid`: the input is complete JSON. Only the tool checks whether it fits the schema. */
  readonly outcome: "valid" | "invalid" | "incomplete" | null;
}

type KnownCallState<Name extends string, Input> = CommonState<Name> & (
  | { readonly outcome: "valid"; readonly isOmitted: false; readonly input: Input }
  | { readonly outcome: "valid"; readonly isOmitted: true; readonly input: Growing<Input> | null }
  | { readonly outcome: "invalid" | "incomplete" | null; readonly isOmitted: boolean; readonly input: Growing<Input> | null }
);

/**
 * A call. With `Tools`, its name tells the type of its input: a growing one, and the exact one if `outcome` is `valid`
 * and `isOmitted` is false.
 */
export type CallState<Tools extends object = AnyTools> = string extends keyof Tools ? AnyCallState<string>
  : { [Name in keyof Tools & string]: KnownCallState<Name, Tools[Name]> }[keyof Tools & string] | AnyCallState<OtherName>;

export interface TurnState<Tools extends object = AnyTools> {
  readonly turn: number;
  readonly blocks: readonly (TextState | CallState<Tools>)[];
  readonly notes: readonly RestartNote[];
  readonly error: Fault | null;
}

export interface RunState<Tools extends object = AnyTools> {
  readonly id: string | null;
  readonly name: string | null;
  readonly model: string | null;
  readonly startedAt: string | null;
  /** The run's status; null until it has ended. */
  readonly status: string | null;
  readonly error: Fault | null;
  readonly isOver: boolean;
  /** Token counts in the API's form. */
  readonly usage: JsonObject;
  /** The option whose bound has ended the run; null if none has. */
  readonly limit: string | null;
  /** The cost of the usage, in the currency of the program; null if it is not counted, and until the run has ended. */
  readonly cost: number | null;
  /** Time of the newest record, in seconds since the start of the run. */
  readonly atS: number;
  /** Time of the request that is answered now, or of what came of its answer last; null between a response and the next request. */
  readonly quietSinceS: number | null;
  /** Time of the API's last sign of life while its model wrote nothing; null before the first. */
  readonly pingS: number | null;
  readonly turns: readonly TurnState<Tools>[];
  /** The gaps after which the run was resumed. */
  readonly gaps: readonly Gap[];
  /** The calls of all turns, without void ones. */
  readonly calls: readonly CallState<Tools>[];
}

/** Makes states of a reader. */
export class Snapshots<Tools extends object = AnyTools> {
  readonly run: RunReader;
  readonly #blocks = new Map<Block, { version: number; state: TextState | CallState }>();
  readonly #turns = new Map<Turn, TurnState>();

  constructor(run: RunReader<Tools>) {
    this.run = run as unknown as RunReader;
  }

  /** Return the state now. The cost depends on what has changed, and on the number of blocks. */
  take(): RunState<Tools> {
    const { id, name, model, startedAt, status, error, isOver, usage, limit, cost, atS, quietSinceS, pingS } = this.run;
    const turns = this.run.turns.map((turn) => this.#turn(turn));
    const calls = this.run.calls.filter((call) => !call.isVoid).map((call) => this.#block(call) as CallState);
    const state: RunState = { id, name, model, startedAt, status, error, isOver, usage, limit, cost, atS, quietSinceS, pingS, turns, calls, gaps: [...this.run.gaps] };
    return state as unknown as RunState<Tools>;
  }

  #turn(turn: Turn): TurnState {
    const known = this.#turns.get(turn);
    const blocks = turn.blocks.map((block) => this.#block(block));
    const isSame = known && known.error === turn.error && known.notes.length === turn.notes.length
      && known.blocks.length === blocks.length && blocks.every((block, place) => block === known.blocks[place]);
    if (isSame) return known;
    const state = { turn: turn.turn, blocks, notes: [...turn.notes], error: turn.error };
    this.#turns.set(turn, state);
    return state;
  }

  #block(block: Block): TextState | CallState {
    const known = this.#blocks.get(block);
    if (known?.version === block.version) return known.state;
    const state = block.isCall ? this.#call(block, known?.state as CallState | undefined) : textState(block);
    this.#blocks.set(block, { version: block.version, state });
    return state;
  }

  #call(call: Call, known: CallState | undefined): CallState {
    const { id, name, isOmitted, outcome, error, approval, progress, ran, isError, result } = call;
    return {
      ...common(call), isCall: true, id, name, isOmitted, outcome, error, approval, progress, ran, isError, result,
      phase: phaseOf(call, this.run),
      input: call.input.value,
      finished: known?.finished.size === call.finished.size ? known.finished : new Set(call.finished),
      subRuns: [...call.subRuns],
      edits: [...call.edits],
    };
  }
}

function textState(block: TextBlock): TextState {
  return { ...common(block), isCall: false, text: String(block.text), content: block.content };
}

function common({ block, kind, turn, isVoid, startS, stopS }: Block): BlockState {
  return { block, kind, turn, isVoid, startS, stopS };
}
