/**
 * The adapter of an implementation in any language, for run.ts. program.py describes the lines that both speak.
 *
 * Our own core: CONFORMANCE_PROGRAM="python -m conformance.adapters.lines conformance.adapters.eagerstream"
 */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { read, type JSONObject, type JSONValue } from "../run.ts";

const command = process.env["CONFORMANCE_PROGRAM"];
if (command === undefined) throw new Error("CONFORMANCE_PROGRAM is not set: the command of the implementation");
const program = spawn(command, { shell: true, stdio: ["pipe", "pipe", "inherit"] });
const answers = createInterface({ input: program.stdout })[Symbol.asyncIterator]();

/** Write a number in a form that no reader of JSON changes. */
const exactly = (_: string, item: unknown): unknown => {
  if (typeof item === "bigint") return { $number: `${item}` };
  return item === Infinity || item === -Infinity ? { $number: item > 0 ? "1e400" : "-1e400" } : item;
};

async function call(kind: string, given: unknown): Promise<JSONObject> {
  const isBytes = kind === "sse" || kind === "inputs";
  const sent = isBytes ? (given as Uint8Array[]).map((chunk) => Buffer.from(chunk).toString("base64")) : given;
  program.stdin.write(`${JSON.stringify({ call: kind, given: sent }, exactly)}\n`);
  const line = await answers.next();
  const answer = (line.done ? { error: "the program has ended" } : read(line.value)) as JSONObject;
  if ("error" in answer) throw new Error(String(answer["error"]));
  return answer;
}

const hello = (await call("hello", null)) as { kinds: string[]; lacks?: string[] };
const ask = (kind: string) => (hello.kinds.includes(kind) ? (given: JSONValue) => call(kind, given) : undefined);
export const lacks = hello.lacks ?? [];
export const sse = ask("sse");
export const partial_json = ask("partial_json");
export const inputs = ask("inputs");
export const histories = ask("histories");
export const faults = ask("faults");
