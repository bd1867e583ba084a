// The messages of the `events` endpoint.

import { type Json, type JsonObject, isContainer, parse } from "./exact.js";
import type { RunRecord } from "./records.js";

/** A message of the `events` endpoint, or the state of the connection to it. */
export type RunMessage =
  /** Records in order. If `snapshot` is true, they do not continue the earlier ones: discard those. */
  | { readonly type: "records"; readonly snapshot: boolean; readonly records: readonly RunRecord[]; readonly seq: number }
  /** The list of runs, whenever it changes. */
  | { readonly type: "runs"; readonly runs: readonly RunSummary[] }
  /** The age of a live run. */
  | { readonly type: "clock"; readonly elapsedS: number }
  /** All records of the run were read. */
  | { readonly type: "end" }
  /** The server does not keep the run, or no longer. */
  | { readonly type: "gone" }
  | { readonly type: "connection"; readonly state: "connecting" | "live" }
  /** `failures`: attempts in a row that got no response. */
  | { readonly type: "connection"; readonly state: "reconnecting"; readonly failures: number };

/** A run in the list of runs. */
export interface RunSummary {
  readonly id: string;
  readonly name: string | null;
  readonly started_at: string | null;
  readonly model: string | null;
  readonly status: string | null;
  readonly ended: boolean;
  /** True if a call waits for a person. */
  readonly asks: boolean;
  /** True if the program takes messages for it, and can cancel it. */
  readonly acts: boolean;
  /** True if the process that has the run does not answer. It may be dead, or it will go on later. */
  readonly lost: boolean;
}

/**
 * Return the message of a server-sent event; null if this version does not know it.
 *
 * @throws SyntaxError if it is no message of this endpoint.
 */
export function read(event: string, data: string, seq: number): RunMessage | null {
  switch (event) {
    case "records": {
      const { snapshot, records } = objectOf(parse(data));
      check(Number.isSafeInteger(seq));
      return { type: "records", snapshot: snapshot === true, records: listOf(records).map(recordOf), seq };
    }
    case "runs":
      return { type: "runs", runs: listOf(parse(data)).map(objectOf) as unknown as readonly RunSummary[] };
    case "clock":
      return { type: "clock", elapsedS: Number(objectOf(parse(data))["elapsed_s"]) };
    case "end":
    case "gone":
      return { type: event };
    default:
      return null; // "dropped" too: the server closes the connection, and the next one begins with a snapshot
  }
}

/**
 * Return a value as a record, if it has what all records have. The rest depends on its type.
 *
 * @throws SyntaxError if it is none.
 */
export function recordOf(value: Json): RunRecord {
  const { type, seq, at_s } = objectOf(value);
  check(typeof type === "string" && typeof seq === "number" && typeof at_s === "number");
  return value as unknown as RunRecord;
}

function objectOf(value: Json): JsonObject {
  check(isContainer(value) && !Array.isArray(value));
  return value as JsonObject;
}

function listOf(value: Json | undefined): readonly Json[] {
  check(Array.isArray(value));
  return value as readonly Json[];
}

function check(isRight: boolean): void {
  if (!isRight) throw new SyntaxError("the server sent no record");
}
