// The only connection of the page: the list of runs, and the records of the shown run.

import { HTTPError, follow } from "./records.js";

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
    const messages = (this.#messages = follow(`events${query}`, { stays: true, maxFailures: Infinity }));
    for await (const message of messages) {
      try {
        this.#handlers[message.type](message);
      } catch (error) {
        reportError(error); // the next message may be shown
      }
    }
  }
}

// The text to show if something could not be done to a run.
export function problemOf(error) {
  if (!(error instanceof HTTPError)) return "The program cannot be reached. Try again.";
  return error.status === 409 ? error.message : `It was not accepted (HTTP ${error.status}).`;
}
