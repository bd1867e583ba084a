// Progress about lines: a tool says which lines of one of its string parameters it works on. Any tool may report it.

import { isContainer } from "./records.js";

// The line ends of Python, and of most other languages.
const LINE_END = () => /\r\n?|\n/g;
const ANCHOR_LINES = 64;
const ANCHOR_CHARS = 4096;
const CHECKED_CHARS = 64;
const MAX_CALLS = 20;
const MAX_OUTPUT_CHARS = 4000;

// Returns the progress of a call, if it has the form and the input has such a text; else null. `isOver`: nothing runs.
export function lineProgress(call, isOver) {
  const value = call.progress;
  if (!isContainer(value) || !isContainer(call.partial) || Array.isArray(call.partial)) return null;
  const { parameter, line, end_line: endLine, state, calls, output } = value;
  if (typeof parameter !== "string" || !Object.hasOwn(call.partial, parameter) || typeof call.partial[parameter] !== "string") return null;
  if (!Number.isSafeInteger(line) || !Number.isSafeInteger(endLine) || line < 0 || endLine < line || typeof state !== "string") return null;
  const names = Array.isArray(calls) ? calls.slice(0, MAX_CALLS).filter((name) => typeof name === "string") : [];
  return { parameter, line, endLine, state, calls: isOver ? [] : names, output: typeof output === "string" ? output.slice(-MAX_OUTPUT_CHARS) : "", isOver, isWhole: isOver && call.outcome === "valid" && !call.isError };
}

// The state of the statement. A word that is not known is the word for a bad end, and so is "running" after the end.
export function statementState({ line, state, isOver }) {
  if (line === 0) return "waiting";
  if (state === "done") return "done";
  return state === "running" && !isOver ? "running" : "failed";
}

// The state of a line. What is left after a good end has no statement.
export function lineState(progress, number) {
  if (number < progress.line) return "done";
  if (number <= progress.endLine) return statementState(progress);
  return progress.isWhole && progress.state === "done" ? "done" : "waiting";
}

// The places of the lines in a text that grows. Each character is examined once, and no text is kept.
export class TextLines {
  constructor() {
    this.#restart();
  }

  #read;
  #end; // the last characters that were read
  // A line has an anchor if many lines or characters are between it and the last anchor: each line is near one.
  #numbers;
  #starts;

  #restart() {
    this.count = 1;
    this.#read = 0;
    this.#end = "";
    this.#numbers = [1];
    this.#starts = [0];
  }

  // A text that replaces an earlier one, after a repeated key, is read anew. Returns true for such a text.
  read(text) {
    const isOther = !text.startsWith(this.#end, this.#read - this.#end.length);
    if (isOther) this.#restart();
    const to = text.length - (text.endsWith("\r") ? 1 : 0); // a line feed may follow
    const lineEnd = LINE_END();
    lineEnd.lastIndex = this.#read;
    for (let found = lineEnd.exec(text); found && found.index < to; found = lineEnd.exec(text)) {
      this.count++;
      if (this.count - this.#numbers.at(-1) >= ANCHOR_LINES || lineEnd.lastIndex - this.#starts.at(-1) >= ANCHOR_CHARS) {
        this.#numbers.push(this.count);
        this.#starts.push(lineEnd.lastIndex);
      }
    }
    this.#read = to;
    this.#end = text.slice(Math.max(0, to - CHECKED_CHARS), to);
    return isOther;
  }

  // Returns the start and the end of `amount` lines, from a line on. The text was read before.
  places(text, first, amount) {
    if (first > this.count) return []; // a report about lines that are not there
    let low = 0;
    let high = this.#numbers.length - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this.#numbers[middle] <= first) low = middle;
      else high = middle - 1;
    }
    const lineEnd = LINE_END();
    lineEnd.lastIndex = this.#starts[low];
    for (let number = this.#numbers[low]; number < first; number++) lineEnd.exec(text);
    const places = [];
    while (places.length < amount && first + places.length <= this.count) {
      const start = lineEnd.lastIndex;
      places.push([start, lineEnd.exec(text)?.index ?? text.length]);
    }
    return places;
  }
}
