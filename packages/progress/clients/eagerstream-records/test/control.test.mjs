import assert from "node:assert/strict";
import { test } from "node:test";
import { ConnectionLost, HTTPError, RunControl, cancelChat } from "eagerstream-records";
import { serve } from "./server.mjs";

const answer = (status, text = "") => async (request, response) => {
  let body = "";
  for await (const part of request) body += part;
  answer.bodies.push([request.url, request.headers["authorization"], JSON.parse(body)]);
  response.writeHead(status, { "Content-Type": "text/plain" }).end(text);
};

test("what is done to a run", async (t) => {
  answer.bodies = [];
  const { url } = await serve(t, answer(204));
  for (const base of [new URL("/watch", url), new URL("/watch/", url)]) {
    const run = new RunControl(base, "a/b", { token: "secret" });
    await run.decide(3, false, "not that one");
    await run.decide(3, true);
    await run.sendMessage("Hi", "now");
    await run.cancel();
    await run.cancelCall(4, "too long");
  }
  const expected = [
    ["decide", { block: 3, approved: false, reason: "not that one" }],
    ["decide", { block: 3, approved: true, reason: null }],
    ["messages", { message: "Hi", when: "now" }],
    ["cancel", {}],
    ["cancel", { block: 4, reason: "too long" }],
  ].map(([path, body]) => [`/watch/runs/a%2Fb/${path}`, "Bearer secret", body]);
  assert.deepEqual(answer.bodies, [...expected, ...expected]);
});

test("what cannot be done", async (t) => {
  answer.bodies = [];
  const { url } = await serve(t, answer(409, "Nothing waits\u202e there.\n"), answer(302));
  const run = new RunControl(new URL("/", url), "r");
  await assert.rejects(run.cancel(), (error) => error instanceof HTTPError && error.status === 409 && error.message === "Nothing waits  there.");
  await assert.rejects(run.cancel(), HTTPError); // it goes to no other server
  assert.equal(answer.bodies.length, 2);
  await assert.rejects(new RunControl("http://127.0.0.1:1/", "r").cancel(), ConnectionLost);
  await assert.rejects(cancelChat("c", { api: "http://127.0.0.1:1/api/chat" }), ConnectionLost);
});

test("the run of a chat is cancelled", async (t) => {
  const { url, requests } = await serve(t, (_, response) => response.writeHead(204).end(), (_, response) => response.writeHead(403).end("Not yours."));
  const api = new URL("/api/chat", url).href;
  await cancelChat("a/b", { api, token: "secret" });
  assert.deepEqual(requests.map(({ method, headers }) => [method, headers.authorization]), [["DELETE", "Bearer secret"]]);
  assert.equal(requests[0].url, "/api/chat/a%2Fb/stream");
  await assert.rejects(cancelChat("a", { api }), (error) => error instanceof HTTPError && error.message === "Not yours.");
});
