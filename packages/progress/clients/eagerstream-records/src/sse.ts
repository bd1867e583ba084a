// Server-sent events of a response that `fetch` reads, as the HTML standard defines them.

export interface SSEMessage {
  readonly event: string;
  readonly data: string;
  /** The last id so far; empty if there was none. */
  readonly id: string;
}

/** A message is longer than the reader accepts. */
export class MessageTooLong extends Error {
  override name = "MessageTooLong";

  constructor(maxChars: number) {
    super(`a message has over ${maxChars} characters`);
  }
}

/** Decodes text in pieces of any size. The cost depends on the piece, not on the unfinished message before it. */
export class SSEDecoder {
  /** The server's wish for the time before a reconnection, in milliseconds; null if it has none. */
  retryMs: number | null = null;
  readonly #maxChars: number;
  #line: string[] = []; // pieces of the unfinished line
  #endedWithCR = false;
  #data: string[] = [];
  #event = "";
  #id = "";
  #chars = 0; // of the unfinished message

  constructor(maxChars: number) {
    this.#maxChars = maxChars;
  }

  /** @throws MessageTooLong if the unfinished message has more characters than allowed. */
  feed(text: string): SSEMessage[] {
    const messages: SSEMessage[] = [];
    let start = this.#endedWithCR && text.startsWith("\n") ? 1 : 0;
    if (text) this.#endedWithCR = text.endsWith("\r");
    const end = /\r\n?|\n/g;
    end.lastIndex = start;
    for (let found = end.exec(text); found; found = end.exec(text)) {
      this.#keep(text.slice(start, found.index));
      start = end.lastIndex;
      const line = this.#line.join("");
      this.#line = [];
      if (line) this.#take(line);
      else this.#dispatch(messages);
    }
    if (start < text.length) this.#keep(text.slice(start));
    return messages;
  }

  #keep(piece: string): void {
    this.#chars += piece.length;
    if (this.#chars > this.#maxChars) throw new MessageTooLong(this.#maxChars);
    this.#line.push(piece);
  }

  #take(line: string): void {
    const colon = line.indexOf(":");
    if (colon === 0) {
      this.#chars -= line.length; // a comment
      return;
    }
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#event = value;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    else if (name === "retry" && /^[0-9]+$/.test(value)) this.retryMs = Number(value);
  }

  #dispatch(messages: SSEMessage[]): void {
    if (this.#data.length) messages.push({ event: this.#event || "message", data: this.#data.join("\n"), id: this.#id });
    this.#data = [];
    this.#event = "";
    this.#chars = 0;
  }
}
