// A text that grows at its end.

// Kept characters; of a longer text, its end. An input may have 16 Mi.
const MAX_KEPT_CHARS = 20_000_000;
const CHUNK_CHARS = 8192;

/** A text that grows. The cost of reading its end depends on the part that is read. Its beginning is bounded. */
export class GrowingText {
  /** Number of characters, with those that are no longer kept. */
  length = 0;
  #chunks: string[] = [];
  #kept = 0;

  append(text: string): void {
    const last = this.#chunks.length - 1;
    if (last >= 0 && this.#chunks[last]!.length < CHUNK_CHARS) this.#chunks[last] += text;
    else this.#chunks.push(text);
    this.length += text.length;
    this.#kept += text.length;
    while (this.#kept - this.#chunks[0]!.length > MAX_KEPT_CHARS) this.#kept -= this.#chunks.shift()!.length;
  }

  /** Count characters that the server no longer keeps. */
  omit(chars: number): void {
    this.length += chars;
  }

  /** Return the last characters. */
  tail(chars: number): string {
    let text = "";
    for (let place = this.#chunks.length; place > 0 && text.length < chars; ) text = this.#chunks[--place]! + text;
    return text.slice(-chars);
  }

  /** True if all characters are still there. */
  get isWhole(): boolean {
    return this.#kept === this.length;
  }

  toString(): string {
    return this.#chunks.join("");
  }
}
