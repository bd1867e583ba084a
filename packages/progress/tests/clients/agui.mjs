// Reads streams with @ag-ui/client: its enforcement, its verification, what it makes of them.
//
// Given {"streams": [{"events": [...], "messages": [...]}]}: each list of events, as if it had come from an agent.
// Given {"url": ..., "contents": [...]}: a run for each content, over HTTP, one user message each.
// Given {"url": ..., "conversation": [...], "tools": [...], "answers": {...}}: one thread, a run for each content, and
// one more wherever calls are left to this client, which answers them by the names of their tools.
// Given {"url": ..., "approvals": [...]}: a run, and one more for each answer to its interrupts.
// Writes [{"messages", "state", "error", "runError", "warnings", "finished"}], one for each stream, or each run.
import { AbstractAgent, HttpAgent, buildResumeArray } from "@ag-ui/client";
import { from } from "rxjs";

let warnings = [];
console.warn = (...said) => warnings.push(said.map(String).join(" ").slice(0, 500));
console.error = console.warn;
console.log = () => {};

class Replay extends AbstractAgent {
  constructor(stream) {
    super({ threadId: "thread", initialMessages: stream.messages ?? [] });
    this.events = stream.events;
  }

  run() {
    return from(this.events);
  }
}

async function runOnce(agent, parameters = {}) {
  warnings = [];
  const outcome = { error: null, runError: null, finished: null, pending: [] };
  const subscriber = {
    onRunErrorEvent: ({ event }) => { outcome.runError = { message: event.message, code: event.code }; },
    onRunFinishedEvent: ({ event, pendingToolCallIds }) => {
      outcome.finished = event;
      outcome.pending = pendingToolCallIds ?? [];
    },
  };
  try {
    await agent.runAgent(parameters, subscriber);
  } catch (error) {
    outcome.error = String(error);
  }
  return { ...outcome, messages: structuredClone(agent.messages), state: agent.state, warnings };
}

async function converse(given, told) {
  const agent = new HttpAgent({ url: given.url, threadId: "thread" });
  for (const [number, content] of given.conversation.entries()) {
    agent.addMessage({ id: `user-${number}`, role: "user", content });
    let outcome;
    do {
      outcome = await runOnce(agent, { tools: given.tools ?? [] });
      told.push(outcome);
      for (const id of outcome.pending) {
        const calls = agent.messages.flatMap((message) => message.toolCalls ?? []);
        const call = calls.find((each) => each.id === id);
        agent.addMessage({ id: `answer-${id}`, role: "tool", toolCallId: id, content: given.answers[call.function.name] });
      }
    } while (outcome.pending.length && told.length < 20);
  }
}

async function approve(given, told) {
  const agent = new HttpAgent({ url: given.url, initialMessages: [{ id: "user", role: "user", content: "Pay." }] });
  told.push(await runOnce(agent));
  for (const payload of given.approvals) {
    const open = agent.pendingInterrupts;
    const responses = Object.fromEntries(open.map(({ id }) => [id, { status: "resolved", payload }]));
    told.push(await runOnce(agent, { resume: buildResumeArray(open, responses) }));
  }
}

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const given = JSON.parse(Buffer.concat(chunks).toString("utf8"));
const told = [];
if (given.streams) {
  for (const stream of given.streams) told.push(await runOnce(new Replay(stream)));
} else if (given.contents) {
  for (const content of given.contents) {
    const agent = new HttpAgent({ url: given.url, initialMessages: [{ id: "user", role: "user", content }] });
    told.push(await runOnce(agent));
  }
} else if (given.approvals) {
  await approve(given, told);
} else {
  await converse(given, told);
}
process.stdout.write(JSON.stringify(told));
