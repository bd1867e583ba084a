// @anthropic-ai/sdk: `messages.stream()` over a `fetch` that answers with the body, and its internal reader of event streams.

import Anthropic from '@anthropic-ai/sdk';
import {_iterSSEMessages} from '@anthropic-ai/sdk/core/streaming.mjs';
import {counted, eventsByChunk} from '../reading.mjs';

export const lacks = ['growing_strings']; // a string shows when it is complete

const NOTHING = {$nothing: true};
const MESSAGE = {id: 'msg_1', type: 'message', role: 'assistant', model: 'claude', content: [], stop_reason: null, stop_sequence: null, usage: {input_tokens: 1, output_tokens: 1}};
const TOOL_USE = {type: 'tool_use', id: 'toolu_1', name: 'tool', input: {}};
const event = (data) => new TextEncoder().encode(`event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`);

/** Return the stream of a request that is answered with these chunks. */
function streamed(chunks) {
  const body = new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  const fetch = async () => new Response(body, {headers: {'content-type': 'text/event-stream'}});
  const client = new Anthropic({apiKey: 'none', baseURL: 'http://localhost', maxRetries: 0, fetch});
  return client.messages.stream({model: 'claude', max_tokens: 1, messages: [{role: 'user', content: 'x'}]});
}

export async function sse(chunks) {
  const source = counted(chunks);
  return {steps: await eventsByChunk(chunks.length, source, _iterSSEMessages({body: source}, new AbortController()))};
}

export async function partial_json(fragments) {
  if (!/^[ \t\r\n]*[{[]/.test(fragments.join(''))) return {}; // it reads the inputs of tools only
  const delta = (text) => event({type: 'content_block_delta', index: 0, delta: {type: 'input_json_delta', partial_json: text}});
  const stream = streamed([
    event({type: 'message_start', message: MESSAGE}),
    event({type: 'content_block_start', index: 0, content_block: TOOL_USE}),
    ...fragments.map(delta),
    event({type: 'content_block_stop', index: 0}),
    event({type: 'message_delta', delta: {stop_reason: 'tool_use', stop_sequence: null}, usage: {output_tokens: 1}}),
    event({type: 'message_stop'}),
  ]);
  const values = [];
  let text = '';
  stream.on('inputJson', (partial, snapshot) => {
    text += partial;
    // Before any text there is the empty object of the block's start.
    values.push(text.trim() === '' ? NOTHING : structuredClone(snapshot));
  });
  await stream.done().catch(() => {}); // a text that it finds wrong ends the stream; its last value stays
  const last = values.at(-1) ?? NOTHING;
  return {steps: [...fragments, ''].map((_, at) => ({value: at < values.length ? values[at] : last}))};
}

export async function inputs(chunks) {
  const stream = streamed(chunks);
  const raw = {};
  stream.on('streamEvent', ({type, index, delta}) => {
    if (type === 'content_block_delta' && delta.type === 'input_json_delta') raw[index] = (raw[index] ?? '') + delta.partial_json;
  });
  const message = await stream.finalMessage();
  const blocks = message.content.map((block, index) => ({block, index})).filter(({block}) => /tool_use$/.test(block.type));
  // The last input of a response that `max_tokens` cut is known to be cut, to a program that looks at `stop_reason`.
  const isCut = ({index}) => message.stop_reason === 'max_tokens' && index === message.content.length - 1;
  const found = blocks.map(({block, index}) => ({
    id: block.id, name: block.name, type: block.type, raw: raw[index] ?? '',
    ...(isCut({index}) ? {outcome: 'incomplete'} : {outcome: 'valid', value: block.input}),
  }));
  return {inputs: found, stop_reason: message.stop_reason};
}
