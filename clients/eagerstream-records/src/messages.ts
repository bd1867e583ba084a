// The messages of the `events` endpoint.

import { type Json, parse } from "./exact.js";
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
  | { readonly type: "connection"; readonly state: "connecting" | "live" | "reconnecting" };

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
}

/**
 * Return the message of a server-sent event; null if this version does not know it.
 *
 * @throws SyntaxError if it is no message of this endpoint.
 */
export function read(event: string, data: string, seq: number): RunMessage | null {
  switch (event) {
    case "records": {
      const { snapshot, records } = parse(data) as unknown as { snapshot: boolean; records: readonly RunRecord[] };
      if (!Array.isArray(records) || !Number.isSafeInteger(seq)) throw new SyntaxError("the server sent no records");
      return { type: "records", snapshot: snapshot === true, records, seq };
    }
    case "runs":
      return { type: "runs", runs: parse(data) as unknown as readonly RunSummary[] };
    case "clock":
      return { type: "clock", elapsedS: (parse(data) as { readonly [name: string]: Json })["elapsed_s"] as number };
    case "end":
    case "gone":
      return { type: event };
    default:
      return null; // "dropped" too: the server closes the connection, and the next one begins with a snapshot
  }
}
