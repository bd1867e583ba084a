// Reads UI message streams as pages do: with the reader and the transport of the `ai` package, and with assistant-ui's.
//
//   node vercel.mjs read < {"streams": [{"body": "data: ...", "readers": ["ai", "assistant"]}]}
//   node vercel.mjs chat < {"reader": "ai", "api": "http://...", "steps": [...]}
import * as ai from 'ai';
import * as ai5 from 'ai5';
import * as ai7 from 'ai7';
import { AssistantMessageAccumulator, UIMessageStreamDecoder } from 'assistant-stream';

const readers = { ai, ai5, ai7 };
const quiet = () => {};
console.warn = quiet; // assistant-stream tells there of chunks that it drops; they are counted below

function bytes(text) {
  return new Blob([text]).stream();
}

// What useChat does with a body, without React.
async function readWith({ parseJsonEventStream, uiMessageChunkSchema, readUIMessageStream }, body) {
  const errors = [];
  const reported = [];
  const stream = parseJsonEventStream({ stream: bytes(body), schema: uiMessageChunkSchema }).pipeThrough(
    new TransformStream({
      transform(chunk, controller) {
        if (!chunk.success) throw chunk.error;
        if (chunk.value.type === 'error') reported.push(chunk.value.errorText);
        else controller.enqueue(chunk.value);
      },
    }),
  );
  let message;
  for await (const state of readUIMessageStream({ stream, onError: error => errors.push(String(error)) })) {
    message = state;
  }
  return { errors, reported, message };
}

async function readWithAssistant(body) {
  const errors = [];
  let dropped = 0;
  console.warn = () => dropped++;
  let message;
  try {
    const stream = bytes(body).pipeThrough(new UIMessageStreamDecoder()).pipeThrough(new AssistantMessageAccumulator());
    const reader = stream.getReader();
    for (let read = await reader.read(); !read.done; read = await reader.read()) message = read.value;
  } catch (error) {
    errors.push(String(error));
  }
  console.warn = quiet;
  if (dropped) errors.push(`${dropped} chunks dropped`);
  return { errors, message };
}

async function read({ streams }) {
  const results = [];
  for (const { body, readers: names } of streams) {
    const result = {};
    for (const name of names) {
      result[name] = name === 'assistant' ? await readWithAssistant(body) : await readWith(readers[name], body);
    }
    results.push(result);
  }
  return results;
}

// A chat as useChat has it: the class under the hook, with plain state instead of React's.
function newChat({ AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses }, id, api, token, messages) {
  class State {
    status = 'ready';
    error = undefined;
    messages = messages;
    pushMessage = message => (this.messages = [...this.messages, message]);
    popMessage = () => (this.messages = this.messages.slice(0, -1));
    replaceMessage = (index, message) => {
      this.messages = this.messages.map((other, place) => (place === index ? this.snapshot(message) : other));
    };
    snapshot = value => structuredClone(value);
  }
  class Chat extends AbstractChat {}
  const errors = [];
  const state = new State();
  const headers = token && (() => ({ Authorization: `Bearer ${token}` })); // asked for at each request
  const transport = new DefaultChatTransport({ api, headers });
  const onError = error => errors.push(String(error));
  const sendAutomaticallyWhen = lastAssistantMessageIsCompleteWithApprovalResponses; // version 5 has none
  return { chat: new Chat({ id, state, transport, onError, sendAutomaticallyWhen }), errors, state };
}

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

async function until(condition) {
  for (let tries = 0; !condition(); tries++) {
    if (tries > 500) throw new Error(`waited in vain for ${condition}`);
    await sleep(10);
  }
}

const toolParts = message => (message?.parts ?? []).filter(part => part.type === 'dynamic-tool');

// Plays what people do, one step after the other; what each step left is told.
async function chat({ reader, api, token, id = 'chat-1', steps }) {
  let { chat, errors, state } = newChat(readers[reader], id, api, token, []);
  const told = [];
  for (const step of steps) {
    if (step.send) {
      await chat.sendMessage({ text: step.send });
    } else if (step.begin) {
      chat.sendMessage({ text: step.begin }).catch(quiet);
      await until(() => toolParts(state.messages.at(-1)).some(part => part.state === step.until));
    } else if (step.decide !== undefined) {
      await until(() => state.status === 'ready'); // the message has ended with the question
      const part = toolParts(state.messages.at(-1)).find(part => part.state === 'approval-requested');
      await chat.addToolApprovalResponse({ id: part.approval.id, approved: step.decide, reason: step.reason });
      await until(() => state.status === 'ready' && toolParts(state.messages.at(-1)).every(part => part.state.startsWith('output')));
    } else if (step.stop) {
      await chat.stop();
    } else if (step.cancel) {
      const { cancelChat } = await import('../../clients/eagerstream-records/dist/index.js');
      await cancelChat(id, { api, ...(token && { token }) });
    } else if (step.reload) {
      ({ chat, errors, state } = newChat(readers[reader], id, api, token, state.messages.filter(m => m.role === 'user')));
    } else if (step.resume) {
      await chat.resumeStream();
    }
    told.push({ status: state.status, messages: structuredClone(state.messages), errors: [...errors] });
  }
  return told;
}

let text = '';
for await (const piece of process.stdin.setEncoding('utf8')) text += piece;
const tell = { read, chat }[process.argv[2]];
process.stdout.write(JSON.stringify(await tell(JSON.parse(text))));
