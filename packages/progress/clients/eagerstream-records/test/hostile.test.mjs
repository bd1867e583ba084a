// A server that is hostile, or broken: it costs a bound of time and memory, gets nothing, and its errors have a type.

import assert from "node:assert/strict";
import { test } from "node:test";
import { HTTPError, RunReader, RunStore, Snapshots, follow, parse, startRun } from "eagerstream-records";
import { message, serve, stream } from "./server.mjs";

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function drain(messages) {
  for await (const _ of messages);
}

test("no server makes a reader ask it all the time", async (t) => {
  const asks = (retry) => (_, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.end(`retry: ${retry}\n\n${message("clock", {})}`);
  };
  const isAway = (request) => request.socket.destroy();
  const cases = [[[asks(0)], 75], [[asks(0), isAway], 75], [[isAway], 300], [[(_, response) => response.writeHead(500).end()], 300]];
  await Promise.all(cases.map(async ([answers, leastMs]) => {
    const times = [];
    const { url } = await serve(t, ...answers.map((answer) => (request, response) => {
      times.push(performance.now());
      answer(request, response);
    }));
    const messages = follow(url);
    while (times.length < 4) await messages.next();
    messages.close();
    for (let number = 1; number < 4; number++) assert.ok(times[number] - times[number - 1] >= leastMs, String(times));
  }));
});

test("a pause may be longer than a timer can wait", async (t) => {
  const { url, requests } = await serve(t, stream([`retry: ${"9".repeat(400)}\n\n`, message("clock", {})]));
  const messages = follow(url, { maxDelayMs: Infinity });
  while ((await messages.next()).value.state !== "reconnecting");
  const next = messages.next();
  await sleep(50);
  messages.close();
  assert.deepEqual(await next, { done: true, value: undefined });
  assert.equal(requests.length, 1);
});

test("a silence without a limit is no lost connection", async (t) => {
  const { url, requests } = await serve(t, (_, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    setTimeout(() => response.end(message("end", {})), 100);
  });
  await drain(follow(url, { maxSilenceMs: Infinity }));
  assert.equal(requests.length, 1);
});

test("a redirect gets no header and no question", async (t) => {
  const thief = await serve(t, stream([message("end", {})]));
  const { port } = new URL(thief.url);
  for (const status of [301, 302, 303, 307, 308]) {
    const { url, requests } = await serve(t, (_, response) => response.writeHead(status, { Location: `http://localhost:${port}/` }).end());
    const options = { token: "secret", headers: { "X-Api-Key": "secret" } };
    for (const messages of [follow(url, options), startRun(url, { question: "secret" }, options)]) {
      await assert.rejects(drain(messages), (error) => error instanceof HTTPError && error.status === status && /redirects/.test(error.message));
    }
    assert.equal(requests.length, 2, "nor is the server asked again");
  }
  assert.equal(thief.requests.length, 0);
});

test("of a refusal no more is read than is shown", async (t) => {
  let sent = 0;
  const endless = await serve(t, (_, response) => {
    response.writeHead(400);
    const piece = "x".repeat(2 ** 16);
    const more = () => {
      while (!response.destroyed && sent < 2 ** 28) {
        sent += piece.length;
        if (!response.write(piece)) return response.once("drain", more);
      }
    };
    more();
  });
  await assert.rejects(drain(follow(endless.url)), (error) => error.status === 400 && error.message.length < 1100);
  assert.ok(sent < 2 ** 25, `${sent} bytes`);
  const silent = await serve(t, (_, response) => response.writeHead(400).write("x"));
  await assert.rejects(drain(follow(silent.url, { maxSilenceMs: 50 })), (error) => error.status === 400);
  const dripping = await serve(t, (_, response) => {
    response.writeHead(400);
    const timer = setInterval(() => response.write("x"), 10);
    response.on("close", () => clearInterval(timer));
  });
  await assert.rejects(drain(follow(dripping.url, { maxSilenceMs: 200 })), (error) => error.status === 400);
});

test("the text of a refusal does not act on a terminal", async (t) => {
  const { url } = await serve(t, (_, response) => response.writeHead(403).end("no\x1b]0;title\x07\x1b[2J\u202e\u2028, never"));
  await assert.rejects(drain(follow(url)), { message: "HTTP 403: no ]0;title [2J , never" });
});

test("what is no record is a SyntaxError", async (t) => {
  const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
  const record = '{"type": "turn_start", "seq": 1, "at_s": 0, "turn": 1}';
  const events = [
    ["records", "null"], ["records", "[]"], ["records", '{"records": [null]}'], ["records", '{"records": [{"type": "turn_start"}]}'],
    ["records", `{"records": [${record.replace('"turn_start"', "1")}]}`], ["records", `{"records": [${record.replace("0", '"0"')}]}`],
    ["records", `{"number": 1, "records": ${deep}}`], ["runs", "null"], ["runs", "[null]"], ["clock", "null"], ["clock", deep],
  ];
  for (const [event, data] of events) {
    const { url } = await serve(t, stream([`event: ${event}\nid: 1\ndata: ${data}\n\n`]));
    await assert.rejects(drain(follow(url)), SyntaxError, `${event} ${data.slice(0, 80)}`);
  }
  for (const data of ["null", "1", '{"type": "run_stop"}']) {
    const { url } = await serve(t, stream([`data: ${data}\n\n`]));
    await assert.rejects(drain(startRun(url, {})), SyntaxError, data);
  }
});

const START = { type: "turn_start", seq: 1, at_s: 0, turn: 1 };
const CALL = { type: "input_start", seq: 2, at_s: 0, block: 1, id: "a", name: "write", kind: "tool_use", input: null };

test("names of JavaScript's own are counted like all others", () => {
  const run = new RunReader();
  const usage = parse('{"constructor": 1, "toString": 2, "__proto__": 3, "tokens": 4}');
  for (const turn of [1, 2, 2]) for (const record of [{ ...START, turn }, { type: "message_stop", seq: 3, at_s: 0, usage }]) run.feed(record);
  assert.equal(JSON.stringify(run.usage), '{"constructor":2,"toString":4,"__proto__":6,"tokens":8}', "a turn that comes twice counts once");
  assert.equal({}.tokens, undefined);
});

test("the time for a record does not grow with the records before it", () => {
  const feed = (count) => {
    const run = new RunReader();
    const start = process.cpuUsage(); // other programs do not count
    for (let number = 1; number <= count; number++) {
      run.feed({ ...START, turn: number });
      run.feed({ ...CALL, block: number, id: `id ${number}` });
      run.feed({ type: "block_stop", seq: 3, at_s: 0, block: number, content: { type: "x", tool_use_id: "unknown" } });
      run.feed({ type: "message_stop", seq: 4, at_s: 0, usage: { tokens: 1 } });
    }
    assert.equal(run.usage.tokens, count);
    return process.cpuUsage(start).user;
  };
  feed(500);
  const ratios = [];
  while (ratios.length < 5 && !(Math.min(...ratios) < 40)) { // a time with the square of the turns has 64, each time
    const few = Math.min(feed(1000), feed(1000), feed(1000));
    ratios.push(feed(8000) / few);
  }
  assert.ok(Math.min(...ratios) < 40, `8,000 turns take ${ratios} times as long as 1,000`);
});

test("a record of another form ends the run with an error, and the state so far stays", async () => {
  const kept = [START, CALL, { type: "input_delta", seq: 3, at_s: 0, block: 1, fragment: "{", patch: [{ op: "add", path: "", value: { a: 1 } }], finished: [] }];
  const bad = [
    { type: "input_delta", block: 1 }, { type: "input_delta", block: 1, fragment: "x", patch: [], finished: null },
    { type: "block_stop", block: 1, content: null }, { type: "text_delta", block: 7 }, { type: "input_start", block: {}, input: "x" },
    { type: "input_delta", block: 1, fragment: "x", patch: [{ op: "add", path: 5, value: 1 }], finished: [] },
    { type: "message_stop", usage: "x".repeat(10) }, { type: "sub_run_stop", block: 1 }, { type: "run_stop" }, { type: "tool_stop", block: 1 },
    { type: "constructor" }, { type: "__proto__" }, { type: "hasOwnProperty" },
  ];
  for (const fields of bad) {
    const record = { seq: 4, at_s: 0, ...fields };
    const store = new RunStore(async function* () {
      yield { type: "records", snapshot: true, records: [...kept, record], seq: 4 };
      yield { type: "end" };
    });
    let told = () => undefined;
    const over = new Promise((resolve) => (told = resolve));
    const leave = store.subscribe(() => ["ended", "failed"].includes(store.getSnapshot().connection) && told());
    await over;
    leave();
    const { run, connection, error } = store.getSnapshot();
    assert.deepEqual(run.calls[0].input, { a: 1 }, JSON.stringify(fields));
    assert.ok(connection === "ended" || error instanceof TypeError, JSON.stringify(fields));
  }
});

test("any values in any field: an error or a state, and nothing outside of it", () => {
  const values = [null, undefined, true, -1, 2 ** 60, NaN, "", "__proto__", "\ud83d", [], [null], {}, { length: 1e9 }, parse('{"__proto__": {"polluted": 1}}')];
  const types = ["run_start", "run_resumed", "turn_start", "message_start", "block_start", "text_delta", "thinking_delta", "block_stop", "input_start",
    "input_delta", "input_stop", "edit", "message_stop", "tool_start", "tool_progress", "sub_run_start", "sub_run_stop", "approval_start", "approval_stop",
    "tool_stop", "turn_stop", "restarted", "unknown", "run_stop"];
  const names = ["block", "turn", "text", "thinking", "content", "input", "fragment", "patch", "finished", "count", "omitted_chars", "usage", "status", "id", "run",
    "error", "restarted", "outcome", "to_s"];
  let seed = 1;
  const pick = (list) => list[(seed = (seed * 48271) % 2147483647) % list.length];
  for (let round = 0; round < 3000; round++) {
    const run = new RunReader();
    const states = new Snapshots(run);
    for (const record of [START, CALL]) run.feed(record);
    for (let number = 0; number < 8; number++) {
      const record = { type: pick(types), seq: 1, at_s: 0, block: 1 };
      for (let field = 0; field < 6; field++) record[pick(names)] = pick(values);
      try {
        run.feed(record);
      } catch (error) {
        assert.ok(error instanceof TypeError, error.stack);
      }
      states.take();
    }
  }
  assert.equal({}.polluted, undefined);
});
