// The state of a run as a value that never changes. What has not changed since the last one is the same object.

import type { Json, JsonObject } from "./exact.js";
import type { Fault } from "./records.js";
import {
  type Approval, type Block, type Call, type CallPhase, type Gap, type RestartNote, RunReader, type SubRun, type TextBlock, type Turn, phaseOf,
} from "./run.js";

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

export interface CallState extends BlockState {
  readonly isCall: true;
  readonly id: string;
  readonly name: string;
  readonly phase: CallPhase;
  /** The input so far; null if there is nothing yet. */
  readonly input: Json;
  /** Names of the finished fields. */
  readonly finished: ReadonlySet<string>;
  /** True if parts of the input are no longer kept: its value stays as it was before them. */
  readonly isOmitted: boolean;
  readonly outcome: "valid" | "invalid" | "incomplete" | null;
  readonly error: string | null;
  readonly approval: Readonly<Approval> | null;
  readonly progress: Json | undefined;
  readonly ran: boolean | null;
  readonly isError: boolean;
  readonly result: Json | undefined;
  readonly subRuns: readonly Readonly<SubRun>[];
}

export interface TurnState {
  readonly turn: number;
  readonly blocks: readonly (TextState | CallState)[];
  readonly notes: readonly RestartNote[];
  readonly error: Fault | null;
}

export interface RunState {
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
  readonly turns: readonly TurnState[];
  /** The gaps after which the run was resumed. */
  readonly gaps: readonly Gap[];
  /** The calls of all turns, without void ones. */
  readonly calls: readonly CallState[];
}

/** Makes states of a reader. */
export class Snapshots {
  readonly #run: RunReader;
  readonly #blocks = new Map<Block, { version: number; state: TextState | CallState }>();
  readonly #turns = new Map<Turn, TurnState>();

  constructor(run: RunReader) {
    this.#run = run;
  }

  /** Return the state now. The cost depends on what has changed, and on the number of blocks. */
  take(): RunState {
    const { id, name, model, startedAt, status, error, isOver, usage, limit, cost, atS, quietSinceS, pingS } = this.#run;
    const turns = this.#run.turns.map((turn) => this.#turn(turn));
    const calls = this.#run.calls.filter((call) => !call.isVoid).map((call) => this.#block(call) as CallState);
    return { id, name, model, startedAt, status, error, isOver, usage, limit, cost, atS, quietSinceS, pingS, turns, calls, gaps: [...this.#run.gaps] };
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
      phase: phaseOf(call, this.#run),
      input: call.input.value,
      finished: known?.finished.size === call.finished.size ? known.finished : new Set(call.finished),
      subRuns: [...call.subRuns],
    };
  }
}

function textState(block: TextBlock): TextState {
  return { ...common(block), isCall: false, text: String(block.text), content: block.content };
}

function common({ block, kind, turn, isVoid, startS, stopS }: Block): BlockState {
  return { block, kind, turn, isVoid, startS, stopS };
}
