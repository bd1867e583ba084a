/** Run the conformance vectors against an implementation: `npx tsx conformance/run.ts ADAPTER.ts` (see README.md). */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { inspect, parseArgs } from "node:util";

export type JSONValue = null | boolean | number | bigint | string | JSONValue[] | JSONObject;
export type JSONObject = { [key: string]: JSONValue };
export type Case = { id: string; given?: JSONObject; steps?: JSONObject[]; expect: JSONObject; also?: JSONObject; needs?: string[] };
export type Adapter = { lacks?: string[] } & { [kind: string]: unknown }; // a function for each kind, which may be async
type Call = (given: unknown) => JSONObject | Promise<JSONObject>;
type Found = [aspect: string, right: boolean | null, difference: string]; // null: not supported

export const KINDS = ["sse", "partial_json", "inputs", "histories", "faults"];
const ABOUT = ["feed", "base64", "end", "needs", "also"]; // parts of a step that are not expected of it
const LAST = ["value", "state", ...ABOUT]; // of these, the last of several steps counts; all others are lists, joined in order

/** Read JSON, in which `{"$number": "1e400"}` stands for a number. An integer that no double holds becomes a bigint. */
export const read = (text: string): JSONValue =>
  JSON.parse(text, (_, item) => (typeof item?.$number === "string" ? number(item.$number) : item));
const number = (text: string) => (/[.eE]/.test(text) || Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text));
const aspectsOf = (...steps: JSONObject[]) => [...new Set(steps.flatMap(Object.keys))].filter((key) => !ABOUT.includes(key)).sort();
const isNumber = (item: unknown) => typeof item === "number" || typeof item === "bigint";
const isObject = (item: unknown): item is JSONObject => typeof item === "object" && item !== null; // or a list
const fail = (why: string): never => { throw new Error(why); };
const part = (whole: any, key: string): any => (Object.hasOwn(whole, key) ? whole[key] : fail(`${key} is missing`));
const shown = (item: unknown) => inspect(item, { depth: null, breakLength: Infinity, maxArrayLength: null });

/** Compare two JSON values. Numbers are equal if they are equal as doubles; strictly, also as integers. */
function same(left: JSONValue, right: JSONValue, strict: boolean): boolean {
  if (isNumber(left) && isNumber(right)) return strict ? left == right : Number(left) === Number(right);
  if (!isObject(left) || !isObject(right) || Array.isArray(left) !== Array.isArray(right)) return left === right;
  const isAlike = (key: string) => Object.hasOwn(right, key) && same(left[key]!, right[key]!, strict);
  return Object.keys(left).length === Object.keys(right).length && Object.keys(left).every(isAlike);
}

/** Return a copy of a value after some changes: `add`, `replace` and `append`, at JSON pointers. */
function changed(value: JSONValue, changes: JSONObject[]): JSONValue {
  const root = [structuredClone(value)];
  for (const change of structuredClone(changes)) {
    const path = `0${part(change, "path")}`.split("/").map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
    const [parent, last] = [path.slice(0, -1).reduce(part, root), path.at(-1)!];
    if (Array.isArray(parent) && !(Number(last) <= parent.length)) fail(`there is no place ${last}`);
    const item = change["op"] === "append" ? part(parent, last) + part(change, "value") : part(change, "value");
    Object.defineProperty(parent, last, { value: item, writable: true, enumerable: true, configurable: true }); // also __proto__
  }
  return root[0]!;
}

/** Return call id to `ok` or `error`, or why the API would refuse this history. */
function resultsIn(messages: any[]): JSONValue {
  let [results, calls, waiting]: [JSONObject, string[], string[]] = [{}, [], []]; // of the message before; the API runs the last
  for (const [at, message] of messages.entries()) {
    const blocks = [part(message, "content")].flatMap((item) => (typeof item === "string" ? { type: "text", text: item } : item));
    const isEmpty = blocks.length === 0 || blocks.some((block) => same(block, { type: "text", text: "" }, true));
    if (message.role !== ["user", "assistant"][at % 2] || isEmpty || /^(redacted_)?thinking$/.test(blocks.at(-1).type))
      return `messages.${at}: wrong role, nothing in it, or thinking at its end`;
    const found = blocks.filter((block) => part(block, "type") === "tool_result");
    const ids = found.map((block) => part(block, "tool_use_id")).sort();
    const isWrong = !same(ids, calls.sort(), true) || found.some((block, place) => blocks[place] !== block);
    if (isWrong || (waiting.length && found.length < blocks.length)) // the API's own calls may wait for results of the client
      return `messages.${at}: ${[...calls, ...waiting]} need one result each, first in the message`;
    for (const block of found) results[block.tool_use_id] = block.is_error ? "error" : "ok";
    const idsOf = (type: RegExp) => [...new Set<string>(blocks.filter((one) => type.test(one.type)).map((one) => part(one, "id")))];
    [calls, waiting] = [idsOf(/^tool_use$/), idsOf(/_tool_use$/).filter((id) => !blocks.some((one) => one.tool_use_id === id))];
  }
  return calls.length ? "the last calls have no results" : results; // the API continues a response without calls
}

/** Return several steps as one. All of a case have the same aspects. */
const joined = (steps: JSONObject[]): JSONObject => steps.reduce((whole, step) => {
  const join = (key: string, item: any) => (LAST.includes(key) ? item : [...((whole[key] as JSONValue[]) ?? []), ...item]);
  return Object.fromEntries(Object.entries(step).map(([key, item]) => [key, join(key, item)]));
}, {});

/** Compare what is expected in one place with the answer. */
function compared(place: string, expected: JSONObject, got: JSONObject, also: JSONObject, strict: boolean): Found[] {
  return aspectsOf(expected).map((aspect) => {
    const accepted = [expected[aspect]!, ...(strict ? [] : ((also[aspect] ?? []) as JSONValue[]))];
    const right = aspect in got ? accepted.some((one) => same(one, got[aspect]!, strict)) : null;
    return [aspect, right, `${place}: expected ${shown(accepted[0])}, got ${shown(got[aspect])}`];
  });
}

/** Run a case. One with steps is cut in three ways. */
async function differences(call: Call, kind: string, one: Case, lacks: string[], strict: boolean): Promise<Found[]> {
  if (!one.steps) {
    const answer: any = { ...(await call(one.given)) };
    if ("messages" in answer) answer.results = resultsIn(answer.messages);
    return compared("answer", one.expect, answer, one.also ?? {}, strict);
  }
  const [steps, end]: [any[], JSONObject] = [one.steps.slice(0, -1), one.steps.at(-1)!];
  const bytes = (step: any) => new Uint8Array(Buffer.from(step.base64 ?? step.feed, "base64" in step ? "base64" : "utf8"));
  const [isText, feeds] = [kind === "partial_json", steps.map((step) => (kind === "partial_json" ? step.feed : bytes(step)))];
  const cut = (feed: any) => (isText ? [...feed] : Array.from(feed as Uint8Array, (byte) => Uint8Array.of(byte)));
  const cuttings: { [name: string]: unknown[][] } = {
    "as given": feeds.map((feed) => [feed]),
    "one by one": feeds.map((feed) => (feed.length ? cut(feed) : [feed])),
    "at once": [[isText ? feeds.join("") : new Uint8Array(Buffer.concat(feeds))]],
  };
  if (!feeds.length || (!strict && one.expect["outcome"] === "invalid")) delete cuttings["at once"];
  const found: Found[] = [];
  for (const [name, groups] of Object.entries(cuttings)) {
    const answer = await call(groups.flat());
    const answers = [...((answer["steps"] ?? []) as JSONObject[])];
    let value: JSONValue = { $nothing: true };
    for (const [at, step] of [...(name === "at once" ? [joined(steps)] : steps), end].entries()) {
      const got: any = joined([...(groups[at] ?? [end])].map(() => answers.shift() ?? {}));
      if ("changes" in step && "changes" in got && !(strict && name === "as given")) {
        const isRight = same(changed(value, got.changes), part(got, "value"), strict); // by any operations
        got.changes = isRight ? step.changes : [...got.changes, "do not lead to the value"];
      }
      value = "value" in got ? got.value : value;
      if (!step.needs?.some((need: string) => lacks.includes(need)))
        found.push(...compared(`${name}, step ${at}`, step, got, step.also ?? {}, strict));
    }
    found.push(...compared(name, one.expect, answer, one.also ?? {}, strict));
  }
  return found;
}

/** Return for each aspect of a case whether it is right (null: not supported), and the first difference. */
export async function judged(adapter: Adapter, kind: string, one: Case, strict: boolean): Promise<Found[]> {
  const [call, lacks] = [adapter[kind] as Call | undefined, adapter.lacks ?? []];
  const aspects = aspectsOf(one.expect, ...(one.steps ?? []));
  const isAsked = call && !one.needs?.some((need) => lacks.includes(need));
  const failed = (error: unknown) => aspects.map((aspect): Found => [aspect, false, String(error)]); // an error of the adapter
  const found = isAsked ? await differences(call, kind, one, lacks, strict).catch(failed) : [];
  const first = (aspect: string, right: boolean) => found.find((item) => item[0] === aspect && item[1] === right);
  return aspects.map((aspect) => first(aspect, false) ?? first(aspect, true) ?? [aspect, null, ""]);
}

if (resolve(process.argv[1] ?? "") === fileURLToPath(import.meta.url)) void (async () => { // a module that waits has no importers
  const options = { strict: { type: "boolean", default: false }, only: { type: "string", default: "" } } as const;
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const adapter = (await import(pathToFileURL(resolve(positionals[0] ?? fail("usage: run.ts ADAPTER.ts"))).href)) as Adapter;
  const scores: { [row: string]: [number, number, number] } = {};
  for (const kind of KINDS) {
    const { cases } = read(readFileSync(new URL(`${kind}.json`, import.meta.url), "utf8")) as unknown as { cases: Case[] };
    for (const one of cases.filter((item) => item.id.startsWith(values.only)))
      for (const [aspect, right, difference] of await judged(adapter, kind, one, values.strict)) {
        (scores[`${kind}: ${aspect}`] ??= [0, 0, 0])[[true, false, null].indexOf(right)]! += 1;
        if (right === false) console.log(`${one.id}: ${aspect} ${difference}\n`);
      }
  }
  for (const [row, counts] of Object.entries({ "": ["right", "wrong", "not supported"], ...scores }))
    console.log(row.padEnd(32) + counts.map((count, at) => `${count}`.padStart([8, 8, 16][at]!)).join(""));
  if (!Object.keys(scores).length) fail(`no case is named ${values.only}...`);
  process.exit(Object.values(scores).some((row) => row[1] > 0) ? 1 : 0); // an adapter may hold a program open
})();
