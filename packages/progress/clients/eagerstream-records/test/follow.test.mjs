import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { ConnectionLost, HTTPError, MessageTooLong, follow, startRun } from "eagerstream-records";
import { batch, message, refuse, serve, stream } from "./server.mjs";

const END = message("end", {});

async function all(messages) {
  const found = [];
  for await (const one of messages) found.push(one.type === "records" ? one.seq : one.type === "connection" ? one.state : one.type);
  return found;
}

async function untilRecords(messages) {
  for (;;) if ((await messages.next()).value.type === "records") return;
}

test("it continues after the last complete message", async (t) => {
  const { url, requests } = await serve(t,
    stream([batch(3, { snapshot: true }), batch(5), batch(9).slice(0, -1)], "cut"),
    refuse(503),
    (request) => request.socket.destroy(),
    stream([message("dropped", { reason: "slow" })]),
    stream([batch(4), batch(5), batch(8), message("of a later version", {}), batch(9), END]),
  );
  const waits = "reconnecting";
  assert.deepEqual(await all(follow(url)), ["connecting", "live", 3, 5, waits, waits, waits, "live", waits, "live", 8, 9, "end"]);
  assert.deepEqual(requests.map(({ after }) => after), [0, 5, 5, 5, 5]);
});

test("what the caller asks for reaches the server", async (t) => {
  const { url, requests } = await serve(t, stream([batch(8), END]));
  const options = { after: 7, token: "secret", headers: { "X-Test": "1" } };
  assert.deepEqual(await all(follow(new URL(`${url}#part`), options)), ["connecting", "live", 8, "end"]);
  assert.equal(requests[0].after, 7);
  assert.equal(requests[0].headers["authorization"], "Bearer secret");
  assert.equal(requests[0].headers["x-test"], "1");
});

test("a snapshot may have a lower number", async (t) => {
  const { url } = await serve(t, stream([batch(9)]), stream([batch(2, { snapshot: true }), batch(3), message("gone", {})]));
  assert.deepEqual((await all(follow(url))).slice(-5), ["reconnecting", "live", 2, 3, "gone"]);
});

test("a server that refuses is not asked again, one that is busy is", async (t) => {
  for (const status of [204, 400, 401, 403, 404]) {
    const { url, requests } = await serve(t, refuse(status));
    await assert.rejects(all(follow(url)), (error) => error instanceof HTTPError && error.status === status);
    assert.equal(requests.length, 1, `HTTP ${status}`);
  }
  const other = await serve(t, (_, response) => response.end("<html>"));
  await assert.rejects(all(follow(other.url)), HTTPError);
  const busy = await serve(t, refuse(429, { "Retry-After": "0" }), refuse(408), refuse(500), stream([batch(1), END]));
  assert.deepEqual((await all(follow(busy.url, { maxDelayMs: 1 }))).slice(-2), [1, "end"]);
});

test("what is no message of the endpoint is an error", async (t) => {
  for (const text of ["event: records\nid: 1\ndata: {\n\n", "event: records\ndata: {}\n\n", "event: records\nid: x\ndata: {\"records\": []}\n\n"]) {
    const { url, requests } = await serve(t, stream([text]));
    await assert.rejects(all(follow(url)), SyntaxError, text);
    assert.equal(requests.length, 1);
  }
  const { url } = await serve(t, stream([batch(1), `data: ${"x".repeat(2000)}`], "stay"));
  await assert.rejects(all(follow(url, { maxMessageChars: 1000 })), MessageTooLong);
});

test("a silent server counts as lost", async (t) => {
  const { url, requests } = await serve(t, stream([batch(1)], "stay"), () => {}, stream([batch(2), END]));
  assert.deepEqual((await all(follow(url, { maxSilenceMs: 50 }))).slice(-2), [2, "end"]);
  assert.equal(requests.length, 3);
});

test("a server that is not there is an error, one that was there will come back", async (t) => {
  const states = [];
  const nowhere = async () => {
    for await (const { failures } of follow("http://127.0.0.1:1/events", { maxDelayMs: 1, maxFailures: 3 })) states.push(failures);
  };
  await assert.rejects(nowhere(), (error) => error instanceof ConnectionLost && error.message === "no response after 3 attempts" && error.cause instanceof ConnectionLost);
  assert.deepEqual(states, [undefined, 1, 2]);
  const { url } = await serve(t, stream([batch(1)], "cut"), ...Array(8).fill((request) => request.socket.destroy()), stream([batch(2), END]));
  assert.deepEqual((await all(follow(url, { maxDelayMs: 1 }))).slice(-2), [2, "end"]);
});

test("leaving, closing and aborting close the connection at once", async (t) => {
  const ends = {
    async leave(messages) {
      for await (const one of messages) if (one.type === "records") break;
    },
    async close(messages) {
      await untilRecords(messages);
      const next = messages.next();
      messages.close();
      assert.deepEqual(await next, { done: true, value: undefined });
    },
    async abort(messages, controller) {
      await untilRecords(messages);
      const next = messages.next();
      controller.abort(new Error("enough"));
      await assert.rejects(next, /enough/);
    },
    async "abort while nobody reads"(messages, controller) {
      await untilRecords(messages);
      controller.abort();
      await assert.rejects(messages.next(), { name: "AbortError" });
    },
  };
  for (const [name, end] of Object.entries(ends)) {
    let closed;
    const { url } = await serve(t, (request, response) => {
      closed = once(response, "close");
      stream([batch(1)], "stay")(request, response);
    });
    const controller = new AbortController();
    const messages = follow(url, { signal: controller.signal });
    await end(messages, controller);
    await closed;
    if (!name.startsWith("abort")) assert.deepEqual(await messages.next(), { done: true, value: undefined }, name);
  }
});

test("a pause before the next attempt can be ended, too", async (t) => {
  const { url, requests } = await serve(t, refuse(503, { "Retry-After": "3600" }));
  const messages = follow(url);
  while ((await messages.next()).value.state !== "reconnecting");
  const next = messages.next(); // the pause
  messages.close();
  assert.deepEqual(await next, { done: true, value: undefined });
  assert.equal(requests.length, 1);
  const signal = AbortSignal.abort(new Error("before"));
  await assert.rejects(all(follow(url, { signal })), /before/);
  assert.equal(requests.length, 1);
});

test("options that cannot be are refused at once", () => {
  for (const options of [{ after: -1 }, { after: NaN }, { maxSilenceMs: 0 }, { maxMessageChars: "x" }, { headers: { "a b": "c" } }]) {
    assert.throws(() => follow("http://127.0.0.1/events", options), TypeError);
  }
  assert.throws(() => follow("/events"), TypeError, "Node has no address of its own");
});

test("a reader that waits lets the server wait", async (t) => {
  let written = 0;
  const big = batch(1, { records: [{ v: 2, seq: 1, at_s: 0, type: "text_delta", block: 1, text: "x".repeat(2 ** 20) }] });
  let isStopped;
  const stopped = new Promise((resolve) => (isStopped = resolve));
  const { url } = await serve(t, (_, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    const more = () => {
      for (; written < 60; written++) if (!response.write(big.replace("id: 1", `id: ${written + 1}`))) {
        const timer = setTimeout(isStopped, 300);
        response.once("drain", () => { clearTimeout(timer); written++; more(); });
        return;
      }
      response.end(END);
    };
    more();
  });
  const messages = follow(url);
  await untilRecords(messages);
  await stopped;
  assert.ok(written < 60, "most is still at the server");
  assert.equal((await all(messages)).at(-1), "end");
});

test("a run of a gateway is started once", async (t) => {
  const record = (seq, type) => `data: ${JSON.stringify({ v: 2, seq, at_s: 0, type })}\n\n`;
  let body = "";
  const whole = await serve(t, (request, response) => {
    request.on("data", (piece) => (body += piece));
    request.on("end", () => stream([record(1, "run_start"), record(2, "run_stop")])(request, response));
  });
  assert.deepEqual(await all(startRun(whole.url, { question: "How?" }, { token: "secret" })), ["connecting", "live", 1, 2, "end"]);
  assert.equal(body, '{"question":"How?"}');
  assert.equal(whole.requests[0].method, "POST");
  assert.equal(whole.requests[0].headers["content-type"], "application/json");
  assert.equal(whole.requests[0].headers["authorization"], "Bearer secret");
  const cut = await serve(t, stream([record(1, "run_start")], "cut"));
  await assert.rejects(all(startRun(cut.url, {})), ConnectionLost);
  const ended = await serve(t, stream([record(1, "run_start")]));
  await assert.rejects(all(startRun(ended.url, {})), ConnectionLost);
  const full = await serve(t, refuse(503, { "Retry-After": "2" }));
  await assert.rejects(all(startRun(full.url, {})), (error) => error.status === 503 && error.retryAfterS === 2);
  for (const { requests } of [cut, ended, full]) assert.equal(requests.length, 1);
});
