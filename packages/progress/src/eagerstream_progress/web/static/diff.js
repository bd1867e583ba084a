// The diff of a text edit, line by line, while the new text is being written. `_diff.py` has the same rules, and says why.

import { TextLines } from "./lines.js";
import { isContainer } from "./records.js";

const LINE_END = () => /\r\n?|\n/g;
const MAX_CELLS = 65_536;
const LINE_CHARS = 1000;
const NO_CONTEXT = { before: "", head: "", tail: null, after: "" };

const split = (text) => {
  const lines = text.split(LINE_END());
  return lines.at(-1) ? lines : lines.slice(0, -1);
};

// The diff of one edit: its `count` lines, the numbers of `added` and `removed` ones, and the `newest` one, from 1.
export class TextDiff {
  #lines = new TextLines();
  #text = "";
  #isWhole = false;
  #new = []; // the lines of the complete new text

  // `edit`: the record. `old`: the text that is replaced; empty if there is none.
  constructor(edit, old) {
    const { before, head, tail, after } = edit.context ?? NO_CONTEXT;
    this.head = head;
    this.tail = tail;
    const lines = split(before);
    const replaced = this.#whole(old);
    this.start = lines.length;
    this.end = lines.length + replaced.length;
    this.old = [...lines, ...replaced, ...split(after)];
    this.growingEnd = this.end - (tail !== null && /[\n\r]$/.test(old) ? 1 : 0);
    this.first = edit.line;
    this.replacedLines = edit.replaced_lines ?? 0;
    this.#restart();
    this.#update();
  }

  // The lines with a text in place of the edit.
  #whole(text) {
    return this.tail === null ? split(this.head + text) : (this.head + text + this.tail).split(LINE_END());
  }

  #restart() {
    this.same = this.start;
    this.at = this.head.length;
    this.place = 0;
    this.differs = this.start === this.growingEnd;
  }

  // Reads what is new in the new text. If it is complete, both texts are compared properly, once.
  read(text, isWhole) {
    if (isWhole === this.#isWhole && text.length === this.#text.length) return;
    this.#text = text;
    this.#isWhole = isWhole;
    if (this.#lines.read(text)) this.#restart();
    this.#compare(text);
    this.#update();
  }

  #compare(text) {
    const to = text.length - (text.endsWith("\r") ? 1 : 0); // a line feed may follow
    const lineEnd = LINE_END();
    while (!this.differs && this.place < to) {
      lineEnd.lastIndex = this.place;
      let found = lineEnd.exec(text);
      if (found && found.index >= to) found = null;
      const stop = found ? found.index : to;
      const line = this.same < this.growingEnd ? this.old[this.same] : null;
      const at = this.at + stop - this.place;
      if (line === null || line.slice(this.at, at) !== text.slice(this.place, stop) || (found && at !== line.length)) this.differs = true;
      else if (!found) [this.place, this.at] = [stop, at];
      else [this.place, this.at, this.same] = [lineEnd.lastIndex, 0, this.same + 1];
    }
  }

  #update() {
    const { start, same } = this;
    const end = this.#isWhole ? this.end : this.growingEnd;
    let changes = [{ change: "same", old: start, new: start, count: same - start }];
    let newEnd = end;
    if (this.#isWhole) {
      this.#new = this.#whole(this.#text);
      newEnd = start + this.#new.length;
      changes = changesOf(this.old.slice(start, end), this.#new, start);
    } else if (this.differs) {
      newEnd = start + this.#lines.count;
      changes.push({ change: "removed", old: same, new: same, count: end - same }, { change: "added", old: end, new: same, count: newEnd - same });
    } else changes.push({ change: "pending", old: same, new: same, count: end - same });
    const around = (old, from, count) => ({ change: "same", old, new: from, count });
    this.parts = [around(0, 0, start), ...changes, around(end, newEnd, this.old.length - end)].filter((part) => part.count);
    const countOf = (change) => changes.reduce((sum, part) => sum + (part.change === change ? part.count : 0), 0);
    this.added = countOf("added");
    this.removed = this.replacedLines + countOf("removed");
    this.count = 0;
    let changed = 0;
    for (const part of this.parts) {
      this.count += part.count;
      if (part.change !== "same") changed = this.count;
    }
    this.newest = Math.min(this.#isWhole || this.differs ? changed || 1 : same + 1, this.count);
  }

  // Returns lines from a number on: {change, number, text, isOpen}. A long one is cut, the one that is written at its front.
  rows(first, amount) {
    const rows = [];
    let before = 0;
    for (const part of this.parts) {
      const from = Math.max(0, first - 1 - before);
      const to = Math.min(part.count, first - 1 + amount - before);
      const texts = part.change === "added" && to > from ? this.#newLines(part.new - this.start + from, to - from) : null;
      for (let offset = from; offset < to; offset++) {
        const isNew = part.change === "same" || part.change === "added";
        const number = this.first === null ? null : this.first + offset + (isNew ? part.new : part.old);
        const [text, isOpen] = texts ? texts[offset - from] : [this.old[part.old + offset], false];
        rows.push({ change: part.change, number, text: isOpen ? text.slice(-LINE_CHARS) : text.slice(0, LINE_CHARS), isOpen });
      }
      before += part.count;
    }
    return rows;
  }

  #newLines(first, amount) {
    if (this.#isWhole) return this.#new.slice(first, first + amount).map((text) => [text, false]);
    return this.#lines.places(this.#text, first + 1, amount).map(([start, end], offset) => {
      const isOpen = first + offset === this.#lines.count - 1;
      const text = isOpen ? this.#text.slice(Math.max(start, this.#text.length - LINE_CHARS)).replace(/\r$/, "") : this.#text.slice(start, Math.min(end, start + LINE_CHARS));
      return [(first + offset === 0 ? this.head : "") + text, isOpen];
    });
  }
}

// The diffs of the edits of a call, one below another. If there are several, each has a heading.
class CallDiff {
  diffs = [];

  constructor(edits) {
    this.edits = edits;
    this.path = edits[0].path;
    this.parameters = new Set([edits[0].new, edits[0].old ?? edits[0].new].map((pointer) => stepsOf(pointer)[0]));
  }

  // Returns false if the input has no such texts.
  read(call) {
    for (const [number, edit] of this.edits.entries()) {
      const old = edit.old === null ? "" : textAt(call.partial, edit.old);
      const text = textAt(call.partial, edit.new);
      if (old === null || (text === null && edit.old === null)) return false;
      this.diffs[number] ??= new TextDiff(edit, old);
      const isWhole = call.outcome === "valid" || number < this.edits.length - 1 || call.finished.has(stepsOf(edit.new)[0]);
      this.diffs[number].read(text ?? "", isWhole);
    }
    return true;
  }

  #sum(of) {
    return this.diffs.reduce((sum, diff) => sum + of(diff), 0);
  }

  get added() {
    return this.#sum((diff) => diff.added);
  }

  get removed() {
    return this.#sum((diff) => diff.removed);
  }

  get #headings() {
    return this.diffs.length > 1 ? 1 : 0;
  }

  get count() {
    return this.#sum((diff) => diff.count + this.#headings);
  }

  get newest() {
    const last = this.diffs.at(-1);
    return this.count - last.count + last.newest;
  }

  get lastNumber() {
    return Math.max(...this.diffs.map(({ first, old }) => (first ?? 0) + old.length), this.count);
  }

  rows(first, amount) {
    const rows = [];
    let before = 0;
    for (const [number, diff] of this.diffs.entries()) {
      const count = diff.count + this.#headings;
      const from = Math.max(1, first - before);
      const to = Math.min(count, first + amount - 1 - before);
      if (from <= to) {
        if (from <= this.#headings) rows.push({ change: "heading", number: null, text: `Edit ${number + 1}`, isOpen: false });
        const start = Math.max(1, from - this.#headings);
        rows.push(...diff.rows(start, to - this.#headings - start + 1));
      }
      before += count;
    }
    return rows;
  }
}

const diffs = new WeakMap();

// Returns the diff of a call up to now; null if nothing is known of it.
export function diffOf(call) {
  if (!call.edits.length) return null;
  if (!diffs.has(call)) diffs.set(call, new CallDiff(call.edits));
  const diff = diffs.get(call);
  return diff.read(call) ? diff : null;
}

function stepsOf(pointer) {
  return pointer.split("/").slice(1).map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function textAt(value, pointer) {
  for (const step of stepsOf(pointer)) {
    if (!isContainer(value) || !Object.hasOwn(value, step)) return null;
    value = value[step];
  }
  return typeof value === "string" ? value : null;
}

function changesOf(old, text, at) {
  let most = Math.min(old.length, text.length);
  let front = 0;
  while (front < most && old[front] === text[front]) front++;
  most -= front;
  let back = 0;
  while (back < most && old.at(-1 - back) === text.at(-1 - back)) back++;
  const one = old.slice(front, old.length - back);
  const other = text.slice(front, text.length - back);
  const parts = [{ change: "same", old: at, new: at, count: front }];
  let [i, j] = [0, 0];
  for (const [sameI, sameJ] of [...common(one, other), [one.length, other.length]]) {
    const [first, second] = [at + front + i, at + front + j];
    parts.push({ change: "removed", old: first, new: second, count: sameI - i });
    parts.push({ change: "added", old: first + sameI - i, new: second, count: sameJ - j });
    if (sameI < one.length) parts.push({ change: "same", old: at + front + sameI, new: at + front + sameJ, count: 1 });
    [i, j] = [sameI + 1, sameJ + 1];
  }
  parts.push({ change: "same", old: at + old.length - back, new: at + text.length - back, count: back });
  return parts;
}

function common(one, other) {
  if (one.length * other.length > MAX_CELLS) return [];
  const longest = Array.from({ length: one.length + 1 }, () => new Uint32Array(other.length + 1));
  for (let i = one.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      longest[i][j] = one[i] === other[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const pairs = [];
  for (let i = 0, j = 0; i < one.length && j < other.length;) {
    if (one[i] === other[j]) pairs.push([i++, j++]);
    else if (longest[i + 1][j] >= longest[i][j + 1]) i++;
    else j++;
  }
  return pairs;
}
