import assert from "node:assert/strict";
import { test } from "node:test";
import { RunReader, RunStore, Snapshots, phaseOf } from "eagerstream-records";

let seq = 0;
const record = (type, fields = {}) => ({ v: 2, seq: ++seq, at_s: seq / 10, type, ...fields });
const delta = (block, patch, fields = {}) => record("input_delta", { block, fragment: "x", patch, finished: [], ...fields });
const call = (block) => record("input_start", { block, index: 0, id: `toolu_${block}`, name: "write", kind: "tool_use", input: null });
const START = [
  record("run_start", { run: "r", started_at: "2026-11-22T10:00:00Z", name: "made", model: "m" }),
  record("turn_start", { turn: 1 }),
  record("message_start", { id: "msg", model: "m", restarted: false }),
];

function reader(...records) {
  const run = new RunReader();
  for (const one of [...START, ...records]) run.feed(one);
  return run;
}

test("the state of a run", () => {
  const run = reader(
    record("block_start", { block: 1, index: 0, kind: "text" }),
    record("text_delta", { block: 1, text: "Hel" }),
    record("text_delta", { block: 1, text: "lo", to_seq: 99, to_s: 99, count: 2 }),
    record("block_stop", { block: 1, content: { type: "text" } }),
    call(2),
    delta(2, [{ op: "add", path: "", value: { title: "Ha" } }]),
    delta(2, [{ op: "append", path: "/title", value: "rbours" }], { finished: ["title"] }),
    record("input_stop", { block: 2, outcome: "valid", error: null }),
    record("edit", { block: 2, path: "a.txt", new: "/title", old: null, line: 1, replaced_lines: 0, context: null }),
    record("approval_start", { block: 2 }),
  );
  const states = new Snapshots(run);
  assert.equal(states.take().calls[0].phase, "approval");
  for (const one of [
    record("approval_stop", { block: 2, approved: true, reason: null }),
    record("tool_start", { block: 2 }),
    record("tool_progress", { block: 2, value: 0.5 }),
    record("sub_run_start", { block: 2, run: "r2", model: "m" }),
    record("sub_run_stop", { block: 2, run: "r2", status: "completed", turns: 1, usage: {} }),
    record("tool_stop", { block: 2, ran: true, is_error: false, content: "ok" }),
    record("message_stop", { stop_reason: "tool_use", usage: { output_tokens: 5 } }),
    record("turn_stop", { turn: 1, error: null }),
    record("of a later version", { block: 2 }),
    record("toString", { block: 2 }),
    record("unknown", { event: {} }),
    record("run_stop", { status: "completed", turns: 1, usage: { output_tokens: 5 }, error: null }),
  ]) run.feed(one);
  const state = states.take();
  const [{ blocks: [text, write] }] = state.turns;
  assert.deepEqual([state.id, state.status, state.isOver, state.usage], ["r", "completed", true, { output_tokens: 5 }]);
  assert.equal(text.text, "Hello");
  assert.equal(write, state.calls[0]);
  assert.deepEqual([write.phase, write.input, [...write.finished], write.progress, write.result], ["done", { title: "Harbours" }, ["title"], 0.5, "ok"]);
  assert.deepEqual(write.edits.map(({ path, new: text }) => [path, text]), [["a.txt", "/title"]]);
  assert.deepEqual(write.subRuns.map(({ id, status }) => [id, status]), [["r2", "completed"]]);
});

test("for how long nothing has come of a response", () => {
  const run = reader(record("ping"), record("ping"));
  assert.deepEqual([run.quietSinceS, run.pingS], [START[2].at_s, run.atS]);
  run.feed(record("message_stop", { stop_reason: "end_turn", usage: {} }));
  assert.deepEqual([run.quietSinceS, new Snapshots(run).take().quietSinceS], [null, null]);
  run.feed(record("turn_start", { turn: 2 }));
  assert.equal(run.quietSinceS, run.atS);
  const restarted = record("restarted", { turn: 2, reason: "interrupted", delay_s: 3, error: null });
  run.feed(restarted);
  assert.equal(run.quietSinceS, restarted.at_s + 3);
});

test("pieces of texts, as an editor appends them", () => {
  const pieces = [];
  const run = new RunReader({ onAppend: (call, path, text, isStart) => pieces.push([call.block, path, text, isStart]) });
  const whole = record("input_start", { block: 3, index: 1, id: "w", name: "write", kind: "tool_use", input: { path: "p" } });
  for (const one of [
    ...START, call(2),
    delta(2, [{ op: "add", path: "", value: { "a/b": "Hel", n: 1 } }]),
    delta(2, [{ op: "append", path: "/a~1b", value: "lo" }, { op: "add", path: "/files", value: [{ body: "" }] }]),
    delta(2, [{ op: "append", path: "/missing", value: "x" }]),
    whole,
  ]) run.feed(one);
  assert.deepEqual(pieces, [[2, "/a~1b", "Hel", true], [2, "/a~1b", "lo", false], [2, "/files/0/body", "", true], [3, "/path", "p", true]]);
});

test("a state shares what has not changed", () => {
  const run = reader(call(2), call(3), delta(3, [{ op: "add", path: "", value: { done: {}, items: [] } }]));
  const states = new Snapshots(run);
  const before = states.take();
  const text = JSON.stringify(before);
  run.feed(delta(3, [{ op: "add", path: "/items/0", value: "a" }]));
  run.feed(record("restarted", { turn: 1, reason: "lost", delay_s: 0, error: null }));
  run.feed(call(4));
  const after = states.take();
  assert.equal(JSON.stringify(before), text);
  assert.deepEqual(after.calls.map(({ block }) => block), [4]);
  const [first, second] = after.turns[0].blocks;
  assert.equal(first.isVoid, true);
  assert.notEqual(second.input, before.calls[1].input);
  assert.equal(second.input.done, before.calls[1].input.done);
  assert.equal(states.take().turns[0], after.turns[0], "nothing has changed");
  run.feed(delta(4, [{ op: "add", path: "", value: {} }]));
  assert.equal(states.take().turns[0].blocks[1], second);
  assert.notEqual(states.take().turns[0], after.turns[0]);
});

test("records that do not fit together stop nothing else", () => {
  const run = reader(call(2), delta(2, [{ op: "append", path: "/a", value: "x" }]), delta(9, []), record("tool_start", { block: 9 }));
  assert.match(run.calls[0].error, /do not fit/);
  run.feed(delta(2, [], { omitted_chars: 7 }));
  assert.equal(run.calls[0].isOmitted, true);
  run.end();
  assert.equal(phaseOf(run.calls[0], run), "cut");
});

const records = (...list) => ({ type: "records", snapshot: false, records: list, seq: list.at(-1).seq });

// Messages that a test sends one by one; `opened` has the position of each connection.
function source() {
  const opened = [];
  let send;
  const open = async function* (signal, after) {
    opened.push(after);
    const waiting = [];
    let wake;
    send = (message) => { waiting.push(message); wake?.(); };
    signal.addEventListener("abort", () => wake?.());
    for (;;) {
      while (waiting.length) {
        const next = waiting.shift();
        if (next instanceof Error) throw next;
        yield next;
      }
      if (signal.aborted) throw signal.reason;
      await new Promise((resolve) => (wake = resolve));
    }
  };
  return { open, opened, send: (message) => send(message) };
}

const told = (store) => new Promise((resolve) => { const leave = store.subscribe(() => { leave(); resolve(store.getSnapshot()); }); });
const turns = () => new Promise((resolve) => setImmediate(resolve));

test("subscribers are told of many records once, and later ones continue", async () => {
  const { open, opened, send } = source();
  const store = new RunStore(open);
  let count = 0;
  const leave = store.subscribe(() => count++);
  await turns();
  const first = store.getSnapshot();
  assert.equal(first, store.getSnapshot());
  const shown = told(store);
  for (const one of [...START, call(2)]) send(records(one));
  assert.equal((await shown).run.calls.length, 1);
  assert.equal(count, 1);
  assert.equal(first.run.calls.length, 0);
  leave();
  await turns();
  assert.equal(store.getSnapshot().connection, "idle");
  const again = told(store);
  await turns();
  assert.deepEqual(opened, [0, store.getSnapshot().run.calls.length ? seq : 0]);
  send(records(call(3)));
  send({ type: "end" });
  const end = await again;
  assert.deepEqual([end.run.calls.length, end.connection, end.run.isOver], [2, "ended", true]);
  store.subscribe(() => {})();
  await turns();
  assert.equal(opened.length, 2, "an ended run is not followed again");
});

test("to leave and come back at once needs no second connection", async () => {
  const { open, opened } = source();
  const store = new RunStore(open);
  store.subscribe(() => {})();
  const leave = store.subscribe(() => {});
  await turns();
  assert.deepEqual(opened, [0]);
  leave();
  await turns();
  const other = new RunStore(open);
  other.subscribe(() => {})();
  await turns();
  assert.deepEqual(opened, [0], "nobody was there");
});

test("an error is shown", async () => {
  const { open, send } = source();
  const store = new RunStore(open);
  const shown = told(store);
  await turns();
  send(new Error("refused"));
  assert.deepEqual([(await shown).connection, (await shown).error.message], ["failed", "refused"]);
});

test("a snapshot replaces all earlier records", async () => {
  const { open, send } = source();
  const store = new RunStore(open);
  const shown = told(store);
  await turns();
  send(records(...START, call(2)));
  send({ type: "records", snapshot: true, records: [...START, call(3)], seq });
  assert.deepEqual((await shown).run.calls.map(({ block }) => block), [3]);
});

test("a field whose key comes twice is not finished while it grows again", () => {
  const run = new RunReader();
  const delta = (patch, finished) => run.feed({ type: "input_delta", seq: 3, at_s: 0, block: 1, fragment: "", patch, finished });
  run.feed({ type: "input_start", seq: 2, at_s: 0, block: 1, index: 0, id: "toolu_1", name: "make", kind: "tool_use", input: null });
  delta([{ op: "add", path: "", value: { path: "a", b: "" } }], ["path"]);
  assert.deepEqual([...run.calls[0].finished], ["path"]);
  delta([{ op: "replace", path: "/path", value: "" }], []);
  assert.deepEqual([...run.calls[0].finished], []);
  delta([{ op: "append", path: "/path", value: "b" }], ["path"]);
  assert.deepEqual([...run.calls[0].finished], ["path"]);
});
