// Parts that all connections share: messages that can be closed at any time, and pauses.

import type { RunMessage } from "./messages.js";

/** The messages as they come. Leaving the loop, `close` and the signal close the connection at once. */
export interface Following extends AsyncIterableIterator<RunMessage, undefined> {
  close(): void;
}

/** The longest time that a timer of JavaScript can wait: with a longer one, it does not wait at all. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

// Wakes up early if the network is back.
export function pause(delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", fail);
      globalThis.removeEventListener?.("online", done);
      resolve();
    };
    const fail = (): void => {
      done();
      reject(signal.reason);
    };
    const timer = setTimeout(done, Math.min(delayMs, MAX_TIMER_MS));
    if (signal.aborted) return fail();
    signal.addEventListener("abort", fail);
    globalThis.addEventListener?.("online", done);
  });
}

/** Return the messages of a generator. The iteration ends as soon as it is told to, also while it waits. */
export function closable(
  start: (signal: AbortSignal) => AsyncGenerator<RunMessage, undefined>, outer?: AbortSignal,
): Following {
  const controller = new AbortController();
  const generator = start(controller.signal);
  const abort = (): void => controller.abort(outer?.reason);
  let isClosed = false;
  const release = (): void => outer?.removeEventListener("abort", abort);
  if (outer?.aborted) abort();
  else outer?.addEventListener("abort", abort);
  return {
    async next() {
      try {
        if (isClosed) return { done: true, value: undefined };
        controller.signal.throwIfAborted();
        const result = await generator.next();
        if (isClosed) return { done: true, value: undefined };
        if (result.done) release();
        return result;
      } catch (error) {
        release();
        if (isClosed) return { done: true, value: undefined };
        throw error;
      }
    },
    async return() {
      this.close();
      return { done: true, value: undefined };
    },
    close() {
      isClosed = true;
      release();
      controller.abort();
      void generator.return(undefined).catch(() => undefined);
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
