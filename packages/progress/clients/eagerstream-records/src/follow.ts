// A connection to a run that resumes: no record is lost or repeated.

import { type Following, closable, pause } from "./following.js";
import { type RunMessage, read } from "./messages.js";
import { ConnectionLost, type Credentials, HTTPError, type Limits, headersOf, openEvents } from "./open.js";

export interface FollowOptions extends Credentials, Limits {
  /** `seq` of the last message that you know, to continue there. 0, the default, begins with a snapshot. */
  readonly after?: number;
  /** Ends the iteration with the signal's reason as its error. */
  readonly signal?: AbortSignal;
  /** True: stay connected after the end of the run, for the list of runs. */
  readonly stays?: boolean;
  /** Longest time between two attempts to connect. The time starts at 0.4 s, or what the server asks for, from 0.1 s. */
  readonly maxDelayMs?: number;
  /**
   * Attempts in a row that get no response at all, after which the iteration fails: 5 at first, which take some 15 s.
   * Once there was a response, the server counts as one that will come back, and is asked for ever, unless you say so.
   */
  readonly maxFailures?: number;
}

const FIRST_DELAY_MS = 400;
const MAX_FAILURES = 5;
const LEAST_DELAY_MS = 100; // whatever the server asks for: each reader would hold up the others

/**
 * Follow a run: `for await (const message of follow("/watch/events?run=ID"))`.
 *
 * A lost connection is opened again, after the last message that was read. The iteration ends after `end` or `gone`.
 *
 * @param url The `events` endpoint of the server, with `?run=` and the id of a run. Without it, only the list of runs
 *   comes, and the iteration does not end.
 * @throws HTTPError by the iteration: the server refuses the request, and would refuse it again.
 * @throws ConnectionLost by the iteration, after `maxFailures`. `cause` has the reason of the last failure.
 * @throws TypeError if an option is not valid.
 * @throws SyntaxError by the iteration: the server sent something other than messages of this endpoint.
 */
export function follow(url: string | URL, options: FollowOptions = {}): Following {
  for (const name of ["after", "maxFailures", "maxDelayMs", "maxMessageChars", "maxSilenceMs"] as const) {
    const least = name === "after" ? 0 : 1;
    if (!((options[name] ?? least) >= least)) throw new TypeError(`${name} must be >= ${least}`);
  }
  const headers = headersOf(options);
  new Request(url, { headers }); // throws if it is not valid: no attempt would help
  return closable((signal) => messages(String(url), headers, options, signal), options.signal);
}

async function* messages(
  url: string, known: Record<string, string>, options: FollowOptions, signal: AbortSignal,
): AsyncGenerator<RunMessage, undefined> {
  const { after = 0, maxDelayMs = 8000, maxFailures, stays } = options;
  let position = after;
  let failures = 0; // in a row, without a response
  let mostFailures = maxFailures ?? MAX_FAILURES;
  let firstDelayMs = Math.min(FIRST_DELAY_MS, maxDelayMs);
  let delayMs = firstDelayMs;
  yield { type: "connection", state: "connecting" };
  for (;;) {
    let reason: unknown;
    try {
      failures++;
      const headers = { ...known, ...(position && { "Last-Event-ID": String(position) }) };
      for await (const opened of openEvents(url, { headers }, signal, options)) {
        if (opened.type === "open") {
          failures = 0;
          mostFailures = maxFailures ?? Infinity;
          yield { type: "connection", state: "live" };
        } else if (opened.type === "retry") {
          firstDelayMs = Math.min(Math.max(opened.retryMs, LEAST_DELAY_MS), maxDelayMs);
        } else {
          delayMs = firstDelayMs;
          const message = read(opened.message.event, opened.message.data, Number(opened.message.id));
          if (message?.type === "records") {
            if (!message.snapshot && message.seq <= position) continue; // nothing comes twice
            position = message.seq;
          }
          if (message) yield message;
          if (!stays && (message?.type === "end" || message?.type === "gone")) return;
        }
      }
    } catch (error) {
      if (signal.aborted || isFinal(error)) throw error;
      reason = error;
      if (error instanceof HTTPError) {
        failures = 0;
        delayMs = Math.max(delayMs, (error.retryAfterS ?? 0) * 1000);
      }
    }
    if (failures >= mostFailures) throw new ConnectionLost(`no response after ${failures} attempts${whyNot(url)}`, { cause: reason });
    yield { type: "connection", state: "reconnecting", failures };
    await pause(delayMs * (0.75 + Math.random() / 2), signal);
    delayMs = Math.min(delayMs * 2, maxDelayMs);
  }
}

// The reason that a browser does not tell a page.
function whyNot(url: string): string {
  const here = globalThis.location?.origin;
  if (here === undefined || new URL(url, location.href).origin === here) return "";
  return `: if it runs, it may need the option origins=["${here}"]`;
}

// True if the next attempt would fail, too.
function isFinal(error: unknown): boolean {
  if (error instanceof HTTPError) return error.status < 500 && ![408, 425, 429].includes(error.status);
  return !(error instanceof ConnectionLost);
}
