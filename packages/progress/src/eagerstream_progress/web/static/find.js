// What the reader looks for in a run: texts, and calls by their state and tool.

import { count, line } from "./format.js";
import { h } from "./dom.js";
import { isContainer, phaseOf } from "./records.js";
import { literal } from "./written.js";

const STATES = {
  all: null,
  failed: new Set(["failed", "invalid", "cut"]),
  running: new Set(["writing", "waiting", "approval", "running"]),
};
const MAX_TOOLS = 200;

export class Finder {
  text = "";
  state = "all";
  tool = ""; // any
  #pattern = null;
  #known = new WeakMap(); // by block: whether its texts have the pattern, at a version

  get isActive() {
    return this.#pattern !== null || this.state !== "all" || this.tool !== "";
  }

  change(changes) {
    Object.assign(this, changes);
    const text = this.text.trim();
    this.#pattern = text ? new RegExp(text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "iu") : null;
    this.#known = new WeakMap();
  }

  finds(block, run) {
    if (block.isCall) {
      if (this.tool && block.name !== this.tool) return false;
      if (this.state !== "all" && !STATES[this.state].has(phaseOf(block, run))) return false;
    } else if (this.tool || this.state !== "all") return false;
    if (this.#pattern === null) return true;
    const known = this.#known.get(block);
    if (known?.version === block.version) return known.isFound;
    const isFound = textsOf(block).some((text) => this.#has(text));
    this.#known.set(block, { version: block.version, isFound });
    return isFound;
  }

  // Whether a value has it, in a text, a name or a number. A value may be deep, so nothing calls itself.
  #has(value) {
    const waiting = [value];
    while (waiting.length) {
      const next = waiting.pop();
      if (typeof next === "string" ? this.#pattern.test(next) : !isContainer(next) && next !== undefined && this.#pattern.test(literal(next))) return true;
      if (!isContainer(next)) continue;
      if (Array.isArray(next)) for (const item of next) waiting.push(item);
      else for (const name of Object.keys(next)) waiting.push(name, next[name]);
    }
    return false;
  }
}

function textsOf(block) {
  if (!block.isCall) return [String(block.text), block.content];
  return [block.name, block.partial, block.result, block.progress, block.error, block.approval?.reason];
}

// `found`: the number of matches. `ui`: find(changes). `id`: of the run.
export function drawFind(finder, run, found, ui, id) {
  const tools = [...new Set(run.calls.map((call) => call.name))].slice(0, MAX_TOOLS);
  if (finder.tool && !tools.includes(finder.tool)) tools.push(finder.tool);
  return h("form", { class: "find", role: "search", key: `find ${id}`, on: { submit: (event) => event.preventDefault() } },
    h("input", { type: "search", id: "find", maxlength: "200", autocomplete: "off", placeholder: "Search", "aria-label": "Search texts and calls",
      on: { input: (event) => ui.find({ text: event.currentTarget.value }) } }),
    h("div", { class: "states", role: "group", "aria-label": "State" }, Object.keys(STATES).map((state) =>
      h("button", { key: state, type: "button", "aria-pressed": String(finder.state === state), on: { click: () => ui.find({ state }) } }, state))),
    tools.length > 1 && h("select", { key: "tool", "aria-label": "Tool", on: { change: (event) => ui.find({ tool: event.currentTarget.value }) } },
      h("option", { key: "any", value: "" }, "any tool"),
      tools.map((tool) => h("option", { key: `t ${tool}`, value: tool }, line(tool, 40)))),
    h("p", { class: "faint", role: "status" }, finder.isActive ? `${count(found, "match", "matches")} in ${count(run.calls.length, "call")}` : ""),
    finder.isActive && h("button", { key: "clear", type: "button", class: "quiet", on: { click: () => ui.find(null) } }, "clear"));
}
