// The only connection of the page: the list of runs, and the records of the shown run.

import { follow } from "./records.js";

export class Connection {
  #messages = null;
  #handlers;

  // handlers: one function for each type of message.
  constructor(handlers) {
    this.#handlers = handlers;
  }

  // Follows a run from its beginning; null for only the list of runs.
  async follow(run) {
    this.#messages?.close();
    const query = run === null ? "" : `?${new URLSearchParams({ run })}`;
    const messages = (this.#messages = follow(`events${query}`, { stays: true }));
    for await (const message of messages) {
      try {
        this.#handlers[message.type](message);
      } catch (error) {
        reportError(error); // the next message may be shown
      }
    }
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
