// Compiles only if the types of the package are complete and exact. Line by line as a user would write it.

import { type InputDeltaRecord, type Json, type RunMessage, type RunRecord, RunReader, applyPatch, follow, startRun } from "eagerstream-records";
import { useRun } from "eagerstream-records/react";

export function textOf(record: RunRecord): string | null {
  switch (record.type) {
    case "text_delta":
      return record.text;
    case "run_stop":
      return record.error?.text ?? record.status;
    // @ts-expect-error: there is no such type of record
    case "surprise":
      return null;
    default:
      return null;
  }
}

export async function watch(): Promise<RunReader> {
  const run = new RunReader();
  for await (const message of follow("/watch/events?run=1", { token: "secret" })) {
    if (message.type === "records") for (const record of message.records) run.feed(record);
    // @ts-expect-error: only messages with records have them
    message.records;
  }
  return run;
}

export const apply = (value: Json, { patch }: InputDeltaRecord): Json => applyPatch(value, patch);
export const source = (signal: AbortSignal): AsyncIterable<RunMessage> => startRun("/runs", { question: "How?" }, { signal });

export function useStatus(url: string | null): string {
  const { run, connection } = useRun(url);
  // @ts-expect-error: the state is not to be changed
  run.calls.push;
  // @ts-expect-error: connections are in no other state
  if (connection === "lost") return "";
  return `${run.status} ${run.calls.map((call) => call.phase).join()}`;
}

// @ts-expect-error: an option with an error in its name
follow("/events", { tokn: "secret" });
