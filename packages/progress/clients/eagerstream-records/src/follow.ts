// A connection to a run that resumes: no record is lost or repeated.

import { type Following, closable, pause } from "./following.js";
import { type RunMessage, read } from "./messages.js";
import { ConnectionLost, HTTPError, type Opened, openEventSource, openFetch } from "./open.js";

export interface FollowOptions {
  /** `seq` of the last message that you know, to continue there. 0, the default, begins with a snapshot. */
  readonly after?: number;
  /** Sent as `Authorization: Bearer`. */
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Ends the iteration with the signal's reason as its error. */
  readonly signal?: AbortSignal;
  /** True: stay connected after the end of the run, for the list of runs. */
  readonly stays?: boolean;
  /**
   * `"EventSource"` is the default where there is one and no headers are needed. `"fetch"` works everywhere, reads no
   * faster than you do, and reports HTTP errors.
   */
  readonly transport?: "EventSource" | "fetch";
  /** Longest time between two attempts to connect. The time starts at 0.4 s, or what the server asks for, from 0.1 s. */
  readonly maxDelayMs?: number;
  /** The time without a message after which the connection counts as lost. The server sends one each 15 s. */
  readonly maxSilenceMs?: number;
  /**
   * Attempts in a row that get no response at all, after which the iteration fails: 5 at first, which take some 15 s.
   * Once there was a response, the server counts as one that will come back, and is asked for ever, unless you say so.
   */
  readonly maxFailures?: number;
  /** Longest message to accept. A snapshot of a long run is one message. */
  readonly maxMessageChars?: number;
}

const FIRST_DELAY_MS = 400;
const MAX_FAILURES = 5;
const LEAST_DELAY_MS = 100; // whatever the server asks for: each reader would hold up the others

/**
 * Follow a run: `for await (const message of follow("/watch/events?run=ID"))`.
 *
 * A lost connection is opened again, after the last message that was read. The iteration ends after `end` or `gone`.
 * If an `EventSource` gets no response, `fetch` asks once more, because it can see the reason.
 *
 * @param url The `events` endpoint of the server, with `?run=` and the id of a run. Without it, only the list of runs
 *   comes, and the iteration does not end.
 * @throws HTTPError by the iteration: the server refuses the request, and would refuse it again.
 * @throws ConnectionLost by the iteration, after `maxFailures`. `cause` has the reason of the last failure.
 * @throws TypeError if an option is not valid, or there is no `EventSource`.
 * @throws SyntaxError by the iteration: the server sent something other than messages of this endpoint.
 */
export function follow(url: string | URL, options: FollowOptions = {}): Following {
  const { after = 0, maxDelayMs = 8000, maxMessageChars = 2 ** 28, maxSilenceMs = 45_000 } = options;
  for (const [name, value, least] of [
    ["after", after, 0], ["maxFailures", options.maxFailures ?? 1, 1], ["maxDelayMs", maxDelayMs, 1], ["maxMessageChars", maxMessageChars, 1], ["maxSilenceMs", maxSilenceMs, 1],
  ] as const) {
    if (!(value >= least)) throw new TypeError(`${name} must be a number from ${least}`);
  }
  const headers: Record<string, string> = { ...options.headers };
  if (options.token !== undefined) headers["Authorization"] = `Bearer ${options.token}`;
  const needsFetch = Object.keys(headers).length > 0 || typeof EventSource === "undefined";
  const transport = options.transport ?? (needsFetch ? "fetch" : "EventSource");
  if (transport === "EventSource" && needsFetch) throw new TypeError("an EventSource sends no headers, and Node has none: use fetch");
  if (transport === "fetch") new Request(url, { headers }); // throws if it is not valid: no attempt would help
  const limits = { maxChars: maxMessageChars, maxSilenceMs };
  const open: Open = (position, signal, failures) => {
    const address = withPosition(String(url), position);
    if (transport === "EventSource" && failures % 2 === 0) return openEventSource(address, signal, limits);
    const resumed = position ? { ...headers, "Last-Event-ID": String(position) } : headers;
    return openFetch(address, { headers: resumed, cache: "no-store" }, signal, limits);
  };
  return closable((signal) => messages(String(url), open, { ...options, after, maxDelayMs }, signal), options.signal);
}

type Open = (position: number, signal: AbortSignal, failures: number) => AsyncIterable<Opened>;

async function* messages(
  url: string, open: Open, { after, maxDelayMs, maxFailures, stays }: FollowOptions & { after: number; maxDelayMs: number }, signal: AbortSignal,
): AsyncGenerator<RunMessage, undefined> {
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
      for await (const opened of open(position, signal, failures - 1)) {
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
  return `: if the server runs, it may not allow pages of ${here} (its option is origins=["${here}"])`;
}

// True if the next attempt would fail, too.
function isFinal(error: unknown): boolean {
  if (error instanceof HTTPError) return error.status < 500 && ![408, 425, 429].includes(error.status);
  return !(error instanceof ConnectionLost);
}

function withPosition(url: string, position: number): string {
  if (!position) return url;
  const [address, fragment] = url.split("#", 2) as [string, string?];
  const query = `${address.includes("?") ? "&" : "?"}after=${position}`;
  return `${address}${query}${fragment === undefined ? "" : `#${fragment}`}`;
}
