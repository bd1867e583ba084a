// A run of a gateway: it lives in its request.

import { type JsonObject, parse, stringify } from "./exact.js";
import { type Following, closable } from "./following.js";
import { type RunMessage, recordOf } from "./messages.js";
import { ConnectionLost, type Credentials, type Limits, headersOf, openEvents } from "./open.js";

export interface StartOptions extends Credentials, Limits {
  /** Ends the iteration with the signal's reason as its error. */
  readonly signal?: AbortSignal;
}

/**
 * Start a run of a `gateway_app`, and read its records: `for await (const message of startRun("/runs", asked))`.
 *
 * The gateway cancels the run if you leave, close or abort. A lost connection is not opened again: that would start a
 * second run. Others can follow the run with `follow`, if the gateway has a hub.
 *
 * @param url The endpoint of the gateway.
 * @param asked The JSON object that the gateway's `start` takes.
 * @throws HTTPError by the iteration: the gateway refuses the run. It is full if the status is 503; ask again after
 *   `retryAfterS`.
 * @throws ConnectionLost by the iteration, if the records end before the `run_stop`.
 * @throws SyntaxError by the iteration: the server sent something other than records.
 */
export function startRun(url: string | URL, asked: JsonObject, options: StartOptions = {}): Following {
  const request = { method: "POST", headers: { ...headersOf(options), "Content-Type": "application/json" }, body: stringify(asked) };
  new Request(url, request); // throws if it is not valid
  return closable((signal) => messages(openEvents(String(url), request, signal, options)), options.signal);
}

async function* messages(opened: ReturnType<typeof openEvents>): AsyncGenerator<RunMessage, undefined> {
  yield { type: "connection", state: "connecting" };
  let isOver = false;
  for await (const item of opened) {
    if (item.type === "open") yield { type: "connection", state: "live" };
    if (item.type !== "message") continue;
    const record = recordOf(parse(item.message.data));
    isOver ||= record.type === "run_stop";
    yield { type: "records", snapshot: false, records: [record], seq: record.seq };
  }
  if (!isOver) throw new ConnectionLost("the records ended before the run");
  yield { type: "end" };
}
