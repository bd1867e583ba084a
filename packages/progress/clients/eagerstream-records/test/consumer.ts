// Compiles only if the types of the package are complete and exact. Line by line as a user would write it.

import { type InputDeltaRecord, type Json, type RunMessage, type RunRecord, RunReader, RunStore, applyPatch, follow, phaseOf, startRun } from "eagerstream-records";
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

// --- the types of the inputs ---

interface MakeFile {
  readonly filename: string;
  readonly kind: "text" | "code";
  readonly lines: readonly { readonly text: string; readonly size: [number, number] }[];
  readonly options?: { readonly encoding: string } | null;
}

interface Tools {
  readonly make_file: MakeFile;
  readonly count: { readonly to: number };
}

export function useFile(url: string): string | undefined {
  const { run } = useRun<Tools>(url, { onAppend: (call, path) => void (call.name === "count" && call.partial?.to?.toFixed() + path) });
  for (const call of run.calls) {
    switch (call.name) {
      case "make_file": {
        // @ts-expect-error: there may be no input yet
        call.input.filename;
        // @ts-expect-error: it may have no filename yet
        const name: string = call.input?.filename;
        // @ts-expect-error: it may be cut off
        const kind: MakeFile["kind"] | undefined = call.input?.kind;
        // @ts-expect-error: a growing line may have no text yet
        call.input?.lines?.[0]?.text.length;
        // @ts-expect-error: there is no such field
        call.input?.file_name;
        if (call.outcome !== "valid" || call.isOmitted) return call.input?.lines?.[0]?.text ?? name ?? kind;
        const file: MakeFile = call.input;
        return file.filename + call.input.lines[0]?.size[0];
      }
      case "count":
        // @ts-expect-error: that is a field of another tool
        call.input?.filename;
        return call.input?.to?.toFixed();
      // @ts-expect-error: there is no such tool
      case "mkae_file":
        break;
      default: {
        const input: Json = call.input; // any other tool
        // @ts-expect-error: nothing is known of it
        call.input.filename;
        return `${call.name.length} ${input}`;
      }
    }
  }
  const reader = new RunReader<Tools>();
  const call = reader.calls.at(-1);
  if (call?.name === "make_file") {
    // @ts-expect-error: it may have no filename yet
    const name: string = call.partial?.filename;
    return phaseOf(call, reader) + name;
  }
  const store = new RunStore<Tools>(source);
  const shown = store.getSnapshot().run.turns[0]?.blocks[0];
  return shown?.isCall && shown.name === "count" ? String(shown.input?.to) : undefined;
}

export function useAny(url: string): Json {
  const call = useRun(url).run.calls[0];
  // @ts-expect-error: nothing is known of it
  call?.input.filename;
  return call?.name === "make_file" ? call.input : null;
}
