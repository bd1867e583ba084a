// A followed run as an external store, as `useSyncExternalStore` of React and stores of other libraries take it.

import type { RunMessage } from "./messages.js";
import { type OnAppend, RunReader } from "./run.js";
import { type RunState, Snapshots } from "./snapshot.js";

/** Opens the messages of a run, after the message with the number `after`. They end if the signal is aborted. */
export type RunSource = (signal: AbortSignal, after: number) => AsyncIterable<RunMessage>;

/** `idle`: nobody subscribes. `ended`: all records were read. `gone`: the run is not kept. `failed`: see `error`. */
export type Connection = "idle" | "connecting" | "live" | "reconnecting" | "ended" | "gone" | "failed";

export interface FollowedRun {
  readonly run: RunState;
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
export class RunStore {
  readonly #open: RunSource;
  readonly #options: { readonly onAppend?: OnAppend | undefined };
  readonly #listeners = new Set<() => void>();
  #run: RunReader;
  #snapshots: Snapshots;
  #connection: Connection = "idle";
  #error: unknown = null;
  #shown: FollowedRun;
  #controller: AbortController | null = null;
  #cancelFrame: (() => void) | null = null;

  /** @param options `onAppend`: see `OnAppend`. After a snapshot, all texts begin anew. */
  constructor(open: RunSource, options: { readonly onAppend?: OnAppend | undefined } = {}) {
    this.#open = open;
    this.#options = options;
    this.#run = new RunReader(options);
    this.#snapshots = new Snapshots(this.#run);
    this.#shown = { run: this.#snapshots.take(), connection: "idle", error: null };
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
  readonly getSnapshot = (): FollowedRun => this.#shown;

  #start(): void {
    if (this.#controller || this.#isOver) return;
    this.#controller = new AbortController();
    void this.#read(this.#controller.signal);
  }

  get #isOver(): boolean {
    return this.#connection === "ended" || this.#connection === "gone" || this.#connection === "failed";
  }

  #stop(): void {
    this.#controller?.abort();
    this.#controller = null;
    this.#cancelFrame?.();
    this.#cancelFrame = null;
    if (!this.#isOver) this.#connection = "idle";
    this.#shown = { run: this.#snapshots.take(), connection: this.#connection, error: this.#error };
  }

  async #read(signal: AbortSignal): Promise<void> {
    try {
      await Promise.resolve();
      if (!this.#listeners.size) return; // all left at once
      for await (const message of this.#open(signal, this.#run.seq)) {
        if (signal.aborted) return;
        this.#take(message);
        if (message.type === "end" || message.type === "gone") return;
      }
      if (!signal.aborted) this.#take({ type: "end" });
    } catch (error) {
      if (signal.aborted) return;
      [this.#connection, this.#error] = ["failed", error];
      this.#tellSoon();
    }
  }

  #take(message: RunMessage): void {
    if (message.type === "records") {
      if (message.snapshot) {
        this.#run = new RunReader(this.#options);
        this.#snapshots = new Snapshots(this.#run);
      }
      for (const record of message.records) this.#run.feed(record);
      this.#run.seq = message.seq;
    } else if (message.type === "connection") {
      this.#connection = message.state;
    } else if (message.type === "end" || message.type === "gone") {
      this.#connection = message.type === "end" ? "ended" : "gone";
      if (message.type === "end") this.#run.end();
    } else return;
    this.#tellSoon();
  }

  #tellSoon(): void {
    this.#cancelFrame ??= nextFrame(() => {
      this.#cancelFrame = null;
      this.#shown = { run: this.#snapshots.take(), connection: this.#connection, error: this.#error };
      for (const listener of [...this.#listeners]) listener();
    });
  }
}

function nextFrame(act: () => void): () => void {
  const cancel = (): void => {
    clearTimeout(timer);
    if (frame !== null) cancelAnimationFrame(frame);
  };
  const run = (): void => {
    cancel();
    act();
  };
  const hasFrames = typeof requestAnimationFrame === "function";
  const timer = setTimeout(run, hasFrames ? MAX_WAIT_MS : 16);
  const frame = hasFrames ? requestAnimationFrame(run) : null;
  return cancel;
}
