// Parts that all connections share: messages that can be closed at any time, and pauses.

import type { RunMessage } from "./messages.js";

/** The messages as they come. Leaving the loop, `close` and the signal close the connection at once. */
export interface Following extends AsyncIterableIterator<RunMessage, undefined> {
  close(): void;
}

/** The longest time that a timer of JavaScript can wait: with a longer one, it does not wait at all. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** Wait, or until the network is back. It rejects with the signal's reason. */
export async function pause(delayMs: number, signal: AbortSignal): Promise<void> {
  const over = new AbortController(); // removes the listeners
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    await new Promise<unknown>((resolve, reject) => {
      signal.throwIfAborted();
      timer = setTimeout(resolve, Math.min(delayMs, MAX_TIMER_MS));
      signal.addEventListener("abort", () => reject(signal.reason), over);
      globalThis.addEventListener?.("online", resolve, over);
    });
  } finally {
    clearTimeout(timer);
    over.abort();
  }
}

/** Return the messages of a generator. The iteration ends as soon as it is told to, also while it waits. */
export function closable(
  start: (signal: AbortSignal) => AsyncGenerator<RunMessage, undefined>, outer?: AbortSignal,
): Following {
  const controller = new AbortController();
  const { signal } = controller;
  const generator = start(signal);
  const abort = (): void => controller.abort(outer?.reason);
  if (outer?.aborted) abort();
  else outer?.addEventListener("abort", abort, { signal }); // removed when the iteration ends
  let isClosed = false;
  const close = (): void => {
    isClosed = true;
    controller.abort();
    void generator.return(undefined).catch(() => undefined);
  };
  const end = { done: true, value: undefined } as const;
  return {
    async next() {
      try {
        signal.throwIfAborted();
        const result = await generator.next();
        if (!isClosed && !result.done) return result;
      } catch (error) {
        if (!isClosed) {
          close();
          throw error;
        }
      }
      close();
      return end;
    },
    async return() {
      close();
      return end;
    },
    close,
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
