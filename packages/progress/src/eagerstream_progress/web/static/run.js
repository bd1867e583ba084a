// The state of the shown run, with what is announced of it. The page draws only from here.

import { gapText } from "./format.js";
import { RunReader } from "./records.js";

export class RunView extends RunReader {
  announcements = [];

  feed(record) {
    super.feed(record);
    const call = Object.hasOwn(CALL_TEXTS, record.type) ? this.callOf(record.block) : null;
    const text = call ? CALL_TEXTS[record.type](call, record) : record.type === "restarted" ? RESTARTED : record.type === "run_resumed" ? `The run is ${gapText(this.gaps.at(-1))}` : record.type === "run_stop" ? `The run has ended: ${record.status}` : null;
    if (text) this.announcements.push(text);
  }
}

const RESTARTED = "The response was interrupted and restarts";

const CALL_TEXTS = {
  input_start: ({ name }) => `${name}: input is being written`,
  input_stop: ({ name }, { outcome }) => outcome !== "valid" && `${name}: ${outcome === "invalid" ? "input is invalid" : "input was cut off"}`,
  tool_start: ({ name }) => `${name}: running`,
  approval_start: ({ name }) => `${name} waits for your decision`,
  approval_stop: ({ name, approval }, { approved }) => approval && `${name}: ${approved ? "approved" : "rejected"}`,
  tool_stop: ({ name }, { is_error }) => `${name}: ${is_error ? "failed" : "done"}`,
};

// All tokens of a run: input, input from or for the cache, and output.
export function tokensOf(usage) {
  const counts = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];
  return counts.reduce((sum, name) => sum + (Number.isSafeInteger(usage?.[name]) ? usage[name] : 0), 0);
}
