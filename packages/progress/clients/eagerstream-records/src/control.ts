// Requests that act on a run: decide about calls, say something, cancel.

import { ConnectionLost, type Credentials, HTTPError, headersOf, reasonOf } from "./open.js";

/**
 * Acts on a run of a hub, through the paths of `web_app` beside `events`.
 *
 * Each method returns when the server has done it. It throws an HTTPError if the server refuses (with the status 409 if
 * nothing waits for a decision, or the run or the call is not under way), and ConnectionLost if it cannot be reached:
 * then it may have been done.
 */
export class RunControl {
  readonly #url: string;
  readonly #headers: Record<string, string>;

  /**
   * @param url The address of `web_app`, for example `/watch/`.
   * @param run The id of the run.
   */
  constructor(url: string | URL, run: string, options: Credentials = {}) {
    const base = String(url);
    this.#url = `${base}${base === "" || base.endsWith("/") ? "" : "/"}runs/${encodeURIComponent(run)}/`;
    this.#headers = { ...headersOf(options), "Content-Type": "application/json" };
  }

  /** Decide about a call that waits for a person. The model reads the reason of a refusal. */
  async decide(block: number, approved: boolean, reason?: string | null): Promise<void> {
    await this.#post("decide", { block, approved, reason: reason || null });
  }

  /** Say something to the model: with its next request, when it would end, or now, which cuts its response. */
  async sendMessage(message: string, when: "next_turn" | "when_idle" | "now" = "next_turn"): Promise<void> {
    await this.#post("messages", { message, when });
  }

  /** Cancel the run. */
  async cancel(): Promise<void> {
    await this.#post("cancel", {});
  }

  /** Cancel one call. The others and the run go on, and the model reads the reason. */
  async cancelCall(block: number, reason?: string | null): Promise<void> {
    await this.#post("cancel", { block, reason: reason || null });
  }

  async #post(path: string, body: object): Promise<void> {
    await act(this.#url + path, { method: "POST", headers: this.#headers, body: JSON.stringify(body) });
  }
}

/**
 * Cancel the run of a chat on a `vercel_app` with `resumable=True`. It is for a Stop button: `stop(); await cancelChat(id)`.
 *
 * `stop()` of `useChat` only ends the reading, because it is also called when the chat leaves the page. It needs this
 * besides, in all versions of the SDK. Wait for it before you send another message. It throws as `RunControl` does.
 *
 * @param id The id of the chat.
 * @param options `api`: as for `DefaultChatTransport`.
 */
export async function cancelChat(id: string, { api = "/api/chat", ...options }: Credentials & { readonly api?: string } = {}): Promise<void> {
  // It reaches the server also if the page is closed at once.
  await act(`${api}/${encodeURIComponent(id)}/stream`, { method: "DELETE", headers: headersOf(options), keepalive: true });
}

async function act(url: string, request: RequestInit): Promise<void> {
  const response = await fetch(url, { ...request, redirect: "manual" }).catch((error: unknown) => {
    throw new ConnectionLost("the server cannot be reached", { cause: error });
  });
  if (!response.ok) throw new HTTPError(response.status, await reasonOf(response));
}
