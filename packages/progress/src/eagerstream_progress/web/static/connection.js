// The runs of the page: its only connection, or what is saved in the page itself.

import { HTTPError, follow, parse } from "./records.js";

// handlers: one function for each type of message.
export function connect(handlers) {
  const saved = document.getElementById("saved");
  return saved ? new Saved(handlers, saved) : new Connection(handlers);
}

class Connection {
  #messages = null;
  #handlers;

  constructor(handlers) {
    this.#handlers = handlers;
  }

  // Follows a run from its beginning; null for only the list of runs.
  async follow(run) {
    this.#messages?.close();
    const query = run === null ? "" : `?${new URLSearchParams({ run })}`;
    const messages = (this.#messages = follow(`events${query}`, { stays: true, maxFailures: Infinity }));
    for await (const message of messages) {
      try {
        await this.#handlers[message.type](message);
      } catch (error) {
        reportError(error); // the next message may be shown
      }
    }
  }
}

// Runs that a page in one file has: {summary, records} each.
class Saved {
  #handlers;
  #runs;

  constructor(handlers, element) {
    this.#handlers = handlers;
    this.#runs = parse(element.textContent);
  }

  async follow(run) {
    await null; // as from a connection, after this script has run
    const { connection, runs, records, end, gone } = this.#handlers;
    connection({ state: "saved" });
    if (run === null) return runs({ runs: this.#runs.map(({ summary }) => summary).toReversed() }) // the newest last;
    const found = this.#runs.find(({ summary }) => summary.id === run);
    if (!found) return gone();
    await records({ snapshot: true, records: found.records, seq: found.records.at(-1).seq });
    end();
  }
}

// The text to show if something could not be done to a run.
export function problemOf(error) {
  if (!(error instanceof HTTPError)) return "The program cannot be reached. Try again.";
  return [409, 503].includes(error.status) ? error.message : `It was not accepted (HTTP ${error.status}).`;
}
