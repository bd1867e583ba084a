// Uses each protocol by its own client, against one server. Given {"url", "protocol", "token"}, writes for each
// cell of the protocol's column what its client has seen: {"cell": {...}}.
import { HttpAgent, buildResumeArray } from "@ag-ui/client";
import * as ai from "ai";

import { RunControl, RunReader, follow, phaseOf } from "../../src/eagerstream_progress/web/static/records.js";

console.warn = console.debug = console.info = () => {};
console.error = () => {};
const { url, protocol, token } = JSON.parse(await new Response(process.stdin).text());
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const lengthOf = (input) => input?.body?.length ?? 0;

// --- eagerstream-records ----------------------------------------------------------------------------------------------

async function started(prompt) {
  const response = await fetch(`${url}/start`, { method: "POST", body: prompt });
  const { run: id } = await response.json();
  return { id, events: `${url}/watch/events?run=${id}`, control: new RunControl(`${url}/watch/`, id, { token }) };
}

// Reads a run to its end. `look(run)` is called after each batch; if it returns true, reading ends there.
async function read(events, look = () => false) {
  let run = new RunReader();
  for await (const message of follow(events, { token })) {
    if (message.type === "end") break;
    if (message.type !== "records") continue;
    if (message.snapshot) run = new RunReader();
    for (const record of message.records) run.feed(record);
    if (await look(run)) break;
  }
  return { run };
}

async function decided(approved) {
  const { events, control } = await started("publish");
  let isAsked = false;
  const { run } = await read(events, async (run) => {
    const call = run.calls.find((one) => phaseOf(one, run) === "approval");
    if (!call || isAsked) return;
    isAsked = true;
    await control.decide(call.block, approved, "because");
  });
  return { isAsked, result: run.calls[0].result, status: run.status };
}

const records = {
  async "a partial input"() {
    const { events } = await started("write");
    const lengths = [];
    const { run } = await read(events, (run) => void lengths.push(lengthOf(run.calls[0]?.partial)));
    return { lengths, body: run.calls[0].partial.body };
  },
  async "a finished field"() {
    const { events } = await started("write");
    let seen = null;
    await read(events, (run) => {
      const call = run.calls[0];
      if (call?.finished.has("title") && !call.finished.has("body")) seen ??= call.partial.title;
    });
    return { seen };
  },
  approval: () => decided(true),
  denial: () => decided(false),
  async cancel() {
    const { events, control } = await started("wait");
    let isCancelled = false;
    const { run } = await read(events, async (run) => {
      if (isCancelled || !run.calls[0] || phaseOf(run.calls[0], run) !== "running") return;
      isCancelled = true;
      await control.cancel();
    });
    return { status: run.status };
  },
  async "an error"() {
    const { run } = await read((await started("fail")).events);
    return { status: run.status, text: run.error.text };
  },
  async "come back after a lost connection"() {
    const { events } = await started("write");
    const first = await read(events, (run) => lengthOf(run.calls[0]?.partial) > 50);
    const { run } = await read(events);
    return { before: lengthOf(first.run.calls[0].partial), body: run.calls[0].partial.body, status: run.status };
  },
  async "a message to a run"() {
    const { events, control } = await started("write");
    let isSent = false;
    const { run } = await read(events, async (run) => {
      if (isSent || !run.calls[0]) return;
      isSent = true;
      await control.sendMessage("and a poem");
    });
    return { text: [...run.blocks.values()].filter((block) => !block.isCall).map((block) => String(block.text)).join(" ") };
  },
};

// --- useChat, without React -------------------------------------------------------------------------------------------

// With `path` /resumable, a run goes on without its page.
function newChat(look = () => {}, path = "/chat") {
  const state = {
    status: "ready", error: undefined, messages: [],
    pushMessage: (message) => { state.messages = [...state.messages, message]; },
    popMessage: () => { state.messages = state.messages.slice(0, -1); },
    replaceMessage: (index, message) => {
      state.messages = state.messages.with(index, structuredClone(message));
      look(partOf(state));
    },
    snapshot: (value) => structuredClone(value),
  };
  class Chat extends ai.AbstractChat {}
  const transport = new ai.DefaultChatTransport({ api: `${url}${path}/api/chat` });
  const sendAutomaticallyWhen = ai.lastAssistantMessageIsCompleteWithApprovalResponses;
  const chat = new Chat({ id: `chat-${Math.random()}`, state, transport, sendAutomaticallyWhen });
  return { chat, state };
}

const partOf = ({ messages }) => messages.at(-1)?.parts?.find((part) => part.type === "dynamic-tool");
const textOf = ({ messages }) => messages.at(-1).parts.filter((part) => part.type === "text").map((part) => part.text).join(" ");

async function until(condition) {
  for (let tries = 0; !condition(); tries++) {
    if (tries > 1000) throw new Error(`waited in vain for ${condition}`);
    await sleep(10);
  }
}

async function answered(approved) {
  const { chat, state } = newChat();
  await chat.sendMessage({ text: "publish" });
  const part = partOf(state);
  await chat.addToolApprovalResponse({ id: part.approval.id, approved, reason: "because" });
  await until(() => state.status === "ready" && partOf(state).state.startsWith("output"));
  return { isAsked: part.state === "approval-requested", result: partOf(state).output ?? null, state: partOf(state).state };
}

const useChat = {
  async "a partial input"() {
    const lengths = [];
    const { chat, state } = newChat((part) => part?.state === "input-streaming" && lengths.push(lengthOf(part.input)));
    await chat.sendMessage({ text: "write" });
    return { lengths, body: partOf(state).input.body };
  },
  approval: () => answered(true),
  denial: () => answered(false),
  async cancel() {
    const { chat, state } = newChat();
    chat.sendMessage({ text: "wait" }).catch(() => {});
    await until(() => partOf(state)?.state === "input-available");
    await chat.stop();
    return { status: state.status };
  },
  async "an error"() {
    const { chat, state } = newChat();
    await chat.sendMessage({ text: "fail" });
    return { status: state.status, text: state.error?.message };
  },
  async "come back after a lost connection"() {
    const { chat, state } = newChat(undefined, "/resumable");
    chat.sendMessage({ text: "write" }).catch(() => {});
    await until(() => lengthOf(partOf(state)?.input) > 50);
    const before = lengthOf(partOf(state).input);
    const again = newChat(undefined, "/resumable"); // the page was loaded again
    again.chat.id = chat.id;
    again.state.messages = state.messages.filter((message) => message.role === "user");
    await again.chat.resumeStream();
    return { before, body: partOf(again.state).input.body, status: again.state.status };
  },
  async "a message to a run"() {
    const { chat, state } = newChat();
    await chat.sendMessage({ text: "write" });
    await chat.sendMessage({ text: "and a poem" });
    return { text: textOf(state) };
  },
};

// --- AG-UI ------------------------------------------------------------------------------------------------------------

function newAgent(content) {
  return new HttpAgent({ url: `${url}/agent/`, initialMessages: [{ id: "user", role: "user", content }] });
}

const callOf = (state) => Object.values(state?.toolCalls ?? {})[0];

async function resumed(approved) {
  const agent = newAgent("publish");
  await agent.runAgent();
  const open = agent.pendingInterrupts;
  const responses = Object.fromEntries(open.map(({ id }) => [id, { status: "resolved", payload: { approved, reason: "because" } }]));
  await agent.runAgent({ resume: buildResumeArray(open, responses) });
  return { isAsked: open.length === 1, result: agent.messages.find((message) => message.role === "tool").content };
}

const agui = {
  async "a partial input"() {
    const agent = newAgent("write");
    const lengths = [];
    await agent.runAgent({}, { onStateChanged: ({ state }) => void lengths.push(lengthOf(callOf(state)?.input)) });
    return { lengths, body: callOf(agent.state).input.body };
  },
  async "a finished field"() {
    const agent = newAgent("write");
    let seen = null;
    await agent.runAgent({}, { onStateChanged: ({ state }) => {
      const { title, body } = callOf(state)?.input ?? {};
      if (body !== undefined && body.length < 100) seen ??= title;
    } });
    return { seen };
  },
  approval: () => resumed(true),
  denial: () => resumed(false),
  async cancel() {
    const agent = newAgent("wait");
    const run = agent.runAgent({}, { onStateChanged: ({ state }) => {
      if (callOf(state)?.phase === "running") agent.abortRun();
    } });
    await run.catch(() => {});
    return { status: "aborted" };
  },
  async "an error"() {
    const agent = newAgent("fail");
    let text = null;
    await agent.runAgent({}, { onRunErrorEvent: ({ event }) => { text = event.message; } }).catch(() => {});
    return { status: "error", text };
  },
  async "a message to a run"() {
    const agent = newAgent("write");
    await agent.runAgent();
    agent.addMessage({ id: "second", role: "user", content: "and a poem" });
    await agent.runAgent();
    return { text: agent.messages.at(-1).content };
  },
};

const cells = Object.entries({ records, useChat, agui }[protocol]);
const seen = await Promise.all(cells.map(async ([cell, play]) => [cell, await play().catch((error) => ({ error: String(error.stack ?? error) }))]));
process.stdout.write(JSON.stringify(Object.fromEntries(seen)), () => process.exit(0));
