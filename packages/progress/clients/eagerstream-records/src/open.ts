// One connection to a server that sends server-sent events. It is by `fetch`: an `EventSource` sends no token, reports no
// status, does not notice a silence, and holds a message of any length in the browser.

import { MAX_TIMER_MS } from "./following.js";
import { SSEDecoder, type SSEMessage } from "./sse.js";

export type Opened =
  | { readonly type: "open" }
  | { readonly type: "retry"; readonly retryMs: number }
  | { readonly type: "message"; readonly message: SSEMessage };

/** The server refused a request, or did not answer with server-sent events. */
export class HTTPError extends Error {
  override name = "HTTPError";
  readonly status: number;
  /** The time after which the server wants to be asked again; null if it did not say. */
  readonly retryAfterS: number | null;

  constructor(status: number, text: string, retryAfterS: number | null = null) {
    super(text);
    this.status = status;
    this.retryAfterS = retryAfterS;
  }
}

/** The connection was lost, or could not be made. `cause` has the reason. */
export class ConnectionLost extends Error {
  override name = "ConnectionLost";
}

export interface Credentials {
  /** Sent as `Authorization: Bearer`. */
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Limits {
  /** The time without a message after which the connection counts as lost. The server sends one each 15 s. */
  readonly maxSilenceMs?: number;
  /** Longest message to accept. A snapshot of a long run is one message. */
  readonly maxMessageChars?: number;
}

const MAX_REASON_CHARS = 1000;
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu; // would act on a terminal, or reorder the text

/** Return the headers of a request. */
export function headersOf({ token, headers }: Credentials): Record<string, string> {
  return { ...headers, ...(token !== undefined && { Authorization: `Bearer ${token}` }) };
}

/**
 * The messages of one response. It ends with the response, and a reader that waits lets the server wait.
 *
 * @throws HTTPError if the response is no stream of events. A redirect is none: a token, other headers and the question
 *   of a run go to no other server.
 * @throws ConnectionLost if the network fails.
 */
export async function* openEvents(
  url: string, request: RequestInit, signal: AbortSignal, { maxSilenceMs = 45_000, maxMessageChars = 2 ** 28 }: Limits,
): AsyncGenerator<Opened> {
  signal.throwIfAborted();
  const controller = new AbortController();
  const abort = (): void => controller.abort(signal.reason);
  // Only while the server has to act: a reader that takes its time is not its fault.
  const inTime = async <T>(waiting: Promise<T>): Promise<T> => {
    const timer = setTimeout(() => controller.abort(new Error("silence")), Math.min(maxSilenceMs, MAX_TIMER_MS));
    try {
      return await waiting;
    } catch (error) {
      signal.throwIfAborted();
      throw new ConnectionLost("the connection is lost", { cause: error });
    } finally {
      clearTimeout(timer);
    }
  };
  signal.addEventListener("abort", abort, { signal: controller.signal });
  try {
    const response = await inTime(fetch(url, { ...request, redirect: "manual", signal: controller.signal }));
    const type = response.headers.get("content-type") ?? "";
    if (response.status !== 200 || !type.startsWith("text/event-stream") || !response.body) {
      const reason = await inTime(reasonOf(response));
      signal.throwIfAborted();
      const seconds = Number(response.headers.get("retry-after") ?? NaN);
      throw new HTTPError(response.status, `HTTP ${response.status}: ${reason}`, seconds >= 0 ? Math.min(seconds, 3600) : null);
    }
    yield { type: "open" };
    const decoder = new SSEDecoder(maxMessageChars);
    const reader = textOf(response.body);
    for (;;) {
      const { done, value } = await inTime(reader.read());
      if (done) return;
      const found = decoder.feed(value);
      if (decoder.retryMs !== null) {
        yield { type: "retry", retryMs: decoder.retryMs };
        decoder.retryMs = null;
      }
      for (const message of found) yield { type: "message", message };
    }
  } finally {
    controller.abort(); // closes the connection, and removes the listener
  }
}

// The start of the text of a refusal. The rest is not read: it may have no end.
export async function reasonOf(response: Response): Promise<string> {
  // A browser shows a page nothing of a redirect, not even its status.
  if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) return "it redirects";
  if (response.status < 400) return "no event-stream";
  let text = "";
  try {
    const reader = textOf(response.body!);
    for (let part = await reader.read(); !part.done && text.length < MAX_REASON_CHARS; part = await reader.read()) text += part.value;
  } catch {
    // the status says enough
  }
  return text.slice(0, MAX_REASON_CHARS).replace(INVISIBLE, " ").trim();
}

function textOf(body: ReadableStream<Uint8Array<ArrayBuffer>>): ReadableStreamDefaultReader<string> {
  return body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array<ArrayBuffer>>).getReader();
}
