// A followed run as an external store, as `useSyncExternalStore` of React and stores of other libraries take it.

import type { RunMessage } from "./messages.js";
import { type OnAppend, RunReader } from "./run.js";
import { type RunState, Snapshots } from "./snapshot.js";
import type { AnyTools } from "./tools.js";

/** Opens the messages of a run, after the message with the number `after`. They end if the signal is aborted. */
export type RunSource = (signal: AbortSignal, after: number) => AsyncIterable<RunMessage>;

/** `idle`: nobody subscribes. `ended`: all records were read. `gone`: the run is not kept. `failed`: see `error`. */
export type Connection = "idle" | "connecting" | "live" | "reconnecting" | "ended" | "gone" | "failed";

export interface FollowedRun<Tools extends object = AnyTools> {
  readonly run: RunState<Tools>;
  readonly connection: Connection;
  /** The error that ended the connection, for example an `HTTPError`; null if there is none. */
  readonly error: unknown;
}

const MAX_WAIT_MS = 100; // a page that is hidden has no frames

/**
 * A run that is followed as long as somebody subscribes. Later subscribers continue after the last record.
 *
 * Subscribers are told at most once per frame, however many records come.
 */
export class RunStore<Tools extends object = AnyTools> {
  readonly #open: RunSource;
  readonly #options: { readonly onAppend?: OnAppend<Tools> | undefined };
  readonly #listeners = new Set<() => void>();
  #snapshots: Snapshots<Tools>;
  #connection: Connection = "idle";
  #error: unknown = null;
  #shown: FollowedRun<Tools>;
  #controller: AbortController | null = null;
  #cancelFrame: (() => void) | null = null;

  /** @param options `onAppend`: see `OnAppend`. After a snapshot, all texts begin anew. */
  constructor(open: RunSource, options: { readonly onAppend?: OnAppend<Tools> | undefined } = {}) {
    this.#open = open;
    this.#options = options;
    this.#snapshots = new Snapshots(new RunReader<Tools>(options));
    this.#shown = this.#take();
  }

  /** Call a function after each change. Returns the function that ends this. */
  readonly subscribe = (listener: () => void): (() => void) => {
    const own = (): void => listener(); // the same function may subscribe twice
    this.#listeners.add(own);
    this.#start();
    return () => {
      this.#listeners.delete(own);
      // Later: React's strict mode leaves and comes back at once, which needs no second connection.
      queueMicrotask(() => this.#listeners.size || this.#stop());
    };
  };

  /** Return the state at the last change: the same object until the next one. */
  readonly getSnapshot = (): FollowedRun<Tools> => this.#shown;

  #start(): void {
    if (this.#controller || this.#isOver) return;
    this.#controller = new AbortController();
    void this.#read(this.#controller.signal);
  }

  get #isOver(): boolean {
    return ["ended", "gone", "failed"].includes(this.#connection);
  }

  #stop(): void {
    this.#controller?.abort();
    this.#controller = null;
    this.#cancelFrame?.();
    this.#cancelFrame = null;
    if (!this.#isOver) this.#connection = "idle";
    this.#shown = this.#take();
  }

  #take(): FollowedRun<Tools> {
    return { run: this.#snapshots.take(), connection: this.#connection, error: this.#error };
  }

  async #read(signal: AbortSignal): Promise<void> {
    try {
      await Promise.resolve();
      if (!this.#listeners.size) return; // all left at once
      for await (const message of this.#open(signal, this.#snapshots.run.seq)) {
        if (signal.aborted) return;
        this.#feed(message);
        if (this.#isOver) return;
      }
      if (!signal.aborted) this.#feed({ type: "end" });
    } catch (error) {
      if (signal.aborted) return;
      [this.#connection, this.#error] = ["failed", error];
      this.#tellSoon();
    }
  }

  #feed(message: RunMessage): void {
    if (message.type === "records") {
      if (message.snapshot) this.#snapshots = new Snapshots(new RunReader<Tools>(this.#options));
      const { run } = this.#snapshots;
      for (const record of message.records) run.feed(record);
      run.seq = message.seq;
    } else if (message.type === "connection") {
      this.#connection = message.state;
    } else if (message.type === "gone") {
      this.#connection = "gone";
    } else if (message.type === "end") {
      this.#connection = "ended";
      this.#snapshots.run.end();
    } else return;
    this.#tellSoon();
  }

  #tellSoon(): void {
    this.#cancelFrame ??= nextFrame(() => {
      this.#cancelFrame = null;
      this.#shown = this.#take();
      for (const listener of [...this.#listeners]) listener();
    });
  }
}

function nextFrame(act: () => void): () => void {
  const run = (): void => {
    cancel();
    act();
  };
  const frame = globalThis.requestAnimationFrame?.(run); // Node has none
  const timer = setTimeout(run, frame === undefined ? 16 : MAX_WAIT_MS);
  const cancel = (): void => {
    clearTimeout(timer);
    if (frame !== undefined) cancelAnimationFrame(frame);
  };
  return cancel;
}
