// One connection to a server that sends server-sent events: by `EventSource`, or by `fetch`.

import { MAX_TIMER_MS } from "./following.js";
import { MessageTooLong, SSEDecoder, type SSEMessage } from "./sse.js";

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

export interface Limits {
  readonly maxChars: number;
  readonly maxSilenceMs: number;
}

const EVENTS = ["records", "runs", "clock", "end", "gone", "dropped", "alive"];
const MAX_WAITING_CHARS = 2 ** 25;
const MESSAGE_CHARS = 100; // what the objects of a message take, in characters
const MAX_REASON_CHARS = 1000;
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu; // would act on a terminal, or reorder the text

/**
 * The messages of one `EventSource`. It ends if the connection is lost: the caller reconnects, because an `EventSource`
 * gives up after an error response, and because it does not notice a silence. If the reader is too slow, the connection is closed until it has read the rest.
 */
export async function* openEventSource(url: string, signal: AbortSignal, limits: Limits): AsyncGenerator<Opened> {
  signal.throwIfAborted();
  const source = new EventSource(url);
  const waiting: Opened[] = [];
  let chars = 0;
  let failure: Error | null = null;
  let wake = (): void => undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const close = (): void => {
    clearTimeout(timer);
    source.close();
    wake();
  };
  const heard = (): void => {
    clearTimeout(timer);
    timer = setTimeout(close, Math.min(limits.maxSilenceMs, MAX_TIMER_MS));
  };
  const take = (opened: Opened): void => {
    if (source.readyState === EventSource.CLOSED) return; // what comes after a gap would leave it
    waiting.push(opened);
    if (chars > MAX_WAITING_CHARS && waiting.length > 1) source.close();
    wake();
  };
  heard();
  source.onopen = () => {
    heard();
    take({ type: "open" });
  };
  source.onerror = close;
  for (const event of EVENTS) {
    source.addEventListener(event, ({ data, lastEventId }: MessageEvent<string>) => {
      heard();
      if (data.length > limits.maxChars) {
        failure = new MessageTooLong(limits.maxChars);
        return close();
      }
      chars += data.length + MESSAGE_CHARS;
      take({ type: "message", message: { event, data, id: lastEventId } });
    });
  }
  signal.addEventListener("abort", close);
  try {
    for (;;) {
      for (let opened = waiting.shift(); opened; opened = waiting.shift()) {
        if (opened.type === "message") chars -= opened.message.data.length + MESSAGE_CHARS;
        yield opened;
      }
      signal.throwIfAborted();
      if (failure) throw failure;
      if (source.readyState === EventSource.CLOSED) return;
      await new Promise<void>((resolve) => (wake = resolve));
    }
  } finally {
    signal.removeEventListener("abort", close);
    close();
  }
}

/**
 * The messages of one response. It ends with the response, and a reader that waits lets the server wait.
 *
 * @throws HTTPError if the response is no stream of events. A redirect is none: a token, other headers and the question
 *   of a run go to no other server.
 * @throws ConnectionLost if the network fails.
 */
export async function* openFetch(
  url: string, request: RequestInit, signal: AbortSignal, { maxChars, maxSilenceMs }: Limits,
): AsyncGenerator<Opened> {
  signal.throwIfAborted();
  const controller = new AbortController();
  const abort = (): void => controller.abort(signal.reason);
  // Only while the server has to act: a reader that takes its time is not its fault.
  const inTime = async <T>(waiting: Promise<T>): Promise<T> => {
    const timer = setTimeout(() => controller.abort(new Error("the server is silent")), Math.min(maxSilenceMs, MAX_TIMER_MS));
    try {
      return await waiting;
    } catch (error) {
      signal.throwIfAborted();
      throw new ConnectionLost("the connection is lost", { cause: error });
    } finally {
      clearTimeout(timer);
    }
  };
  signal.addEventListener("abort", abort);
  try {
    const headers = { Accept: "text/event-stream", ...(request.headers as Record<string, string>) };
    const response = await inTime(fetch(url, { ...request, headers, redirect: "manual", signal: controller.signal }));
    const type = response.headers.get("content-type") ?? "";
    if (response.status !== 200 || !type.startsWith("text/event-stream") || !response.body) {
      const reason = await inTime(reasonOf(response));
      signal.throwIfAborted();
      throw refusal(response, reason);
    }
    yield { type: "open" };
    const decoder = new SSEDecoder(maxChars);
    const reader = response.body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array<ArrayBuffer>>).getReader();
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
    signal.removeEventListener("abort", abort);
    controller.abort(); // closes the connection
  }
}

function refusal({ status, headers }: Response, reason: string): HTTPError {
  const seconds = Number(headers.get("retry-after") ?? NaN);
  return new HTTPError(status, `HTTP ${status}: ${reason}`, seconds >= 0 ? Math.min(seconds, 3600) : null);
}

// The start of the text of a refusal. The rest is not read: it may have no end.
export async function reasonOf(response: Response): Promise<string> {
  // A browser shows a page nothing of a redirect, not even its status.
  if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) return "it redirects, which is not followed";
  if (response.status < 400) return "it did not send server-sent events";
  let text = "";
  try {
    const reader = response.body!.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array<ArrayBuffer>>).getReader();
    for (let part = await reader.read(); !part.done && text.length < MAX_REASON_CHARS; part = await reader.read()) text += part.value;
  } catch {
    // the status says enough
  }
  return text.slice(0, MAX_REASON_CHARS).replace(INVISIBLE, " ").trim();
}
