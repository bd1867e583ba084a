// The only connection of the page: the list of runs, and the records of the shown run. If it breaks, it is opened again
// after the last record that was read. No record is lost or repeated.

import { parse } from "./exact.js";

const FIRST_DELAY_MS = 400;
const LONGEST_DELAY_MS = 8000;

export class Connection {
  #source = null;
  #timer = null;
  #delayMs = FIRST_DELAY_MS;
  #run = null;
  #handlers;

  // handlers: state(word), runs(list), clock({elapsed_s}), records({snapshot, records}, seq), end(), gone();
  // `after()` returns the last known seq.
  constructor(handlers) {
    this.#handlers = handlers;
    addEventListener("online", () => this.#timer !== null && this.#open());
  }

  follow(run) {
    this.#run = run;
    this.#open();
  }

  #open() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#source?.close();
    const query = new URLSearchParams(this.#run === null ? {} : { run: this.#run, after: this.#handlers.after() });
    const source = (this.#source = new EventSource(`events?${query}`));
    const on = (event, handle) =>
      source.addEventListener(event, (message) => {
        if (source === this.#source) handle(parse(message.data), Number(message.lastEventId));
      });
    source.onopen = () => {
      this.#delayMs = FIRST_DELAY_MS;
      this.#handlers.state("live");
    };
    source.onerror = () => {
      if (source !== this.#source) return;
      // EventSource reconnects by itself, but not after an error response.
      source.close();
      this.#handlers.state("reconnecting");
      this.#timer = setTimeout(() => this.#open(), this.#delayMs * (0.75 + Math.random() / 2));
      this.#delayMs = Math.min(this.#delayMs * 2, LONGEST_DELAY_MS);
    };
    on("runs", this.#handlers.runs);
    on("clock", this.#handlers.clock);
    on("records", this.#handlers.records);
    on("end", this.#handlers.end);
    on("gone", this.#handlers.gone);
  }
}

// Sends a person's decision about a call. Throws an Error with the text to show.
export async function decide(run, block, approved, reason) {
  const response = await fetch(`runs/${encodeURIComponent(run)}/decide`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ block, approved, reason: reason || null }),
  }).catch(() => {
    throw new Error("The program cannot be reached. Try again.");
  });
  if (response.ok) return;
  if (response.status === 409) throw new Error("This call no longer waits for a decision.");
  throw new Error(`The decision was not accepted (HTTP ${response.status}).`);
}
