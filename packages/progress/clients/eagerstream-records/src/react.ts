// A hook for React, from 18 on.

import { useMemo, useRef, useSyncExternalStore } from "react";
import { type FollowOptions, follow } from "./follow.js";
import type { OnAppend } from "./run.js";
import { type FollowedRun, type RunSource, RunStore } from "./store.js";
import type { AnyTools } from "./tools.js";

export type { FollowedRun, RunSource } from "./store.js";
export type { CallState, RunState, TextState, TurnState } from "./snapshot.js";
export type { AnyTools, Growing, OtherName } from "./tools.js";

/**
 * Follow a run, and render it as it grows: `const { run, connection } = useRun("/watch/events?run=ID")`.
 *
 * It reconnects after a lost connection, renders at most once per frame, and closes the connection on unmount. Parts of
 * the state that have not changed are the same objects as before, down to the parts of a growing input: `memo` works.
 *
 * `useRun<Tools>` types the inputs: `Tools` has the type of the input of each tool by its name. `eagerstream types` writes it.
 *
 * @param source The URL for `follow`; null follows nothing. Or a function that opens the messages, for example
 *   `(signal) => startRun("/runs", asked, { signal })`: keep the function itself from render to render.
 * @param options For `follow`; and `onAppend`, which gets the pieces of texts in inputs, as they come. A new URL or token opens a new connection, another change of the options does not.
 */
export function useRun<Tools extends object = AnyTools>(
  source: string | URL | RunSource | null, options: Omit<FollowOptions, "after" | "signal" | "stays"> & { readonly onAppend?: OnAppend<Tools> } = {},
): FollowedRun<Tools> {
  const key = source instanceof URL ? String(source) : source;
  const onAppend = useRef(options.onAppend);
  onAppend.current = options.onAppend;
  const store = useMemo(() => {
    const open: RunSource = typeof key === "function" ? key : (signal, after) => follow(key!, { ...options, signal, after });
    return new RunStore<Tools>(open, { onAppend: (...piece) => onAppend.current?.(...piece) });
  }, [key, options.token]);
  return useSyncExternalStore(key === null ? subscribeToNothing : store.subscribe, store.getSnapshot, store.getSnapshot);
}

const subscribeToNothing = (): (() => void) => () => undefined;
