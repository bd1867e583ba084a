// Anthropic's own SDK: its requests in a loop as programs write it, and its tool runner.
import Anthropic from '@anthropic-ai/sdk';
import { betaJSONSchemaOutputFormat, betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';

const newClient = job => new Anthropic({ baseURL: job.base_url, apiKey: 'any' });

export const create = (job, result) => converse(job, result, (client, request) => client.messages.create(request));

export const stream = (job, result) =>
  converse(job, result, (client, request) => client.messages.stream(request).finalMessage());

export const createStream = (job, result) =>
  converse(job, result, async (client, request) => {
    let message;
    const inputs = new Map();
    for await (const event of await client.messages.create({ ...request, stream: true })) {
      const block = message?.content[event.index];
      if (event.type === 'message_start') message = event.message;
      else if (event.type === 'content_block_start') message.content.push(event.content_block);
      else if (event.type === 'content_block_stop' && inputs.has(block)) block.input = JSON.parse(inputs.get(block));
      else if (event.type !== 'content_block_delta') continue;
      else if (event.delta.type === 'text_delta') block.text += event.delta.text;
      else if (event.delta.type === 'thinking_delta') block.thinking += event.delta.thinking;
      else if (event.delta.type === 'input_json_delta')
        inputs.set(block, (inputs.get(block) ?? '') + event.delta.partial_json);
    }
    return message;
  });

export const runner = (job, result) => run(job, result, {});
export const streamedRunner = (job, result) => run(job, result, { stream: true });
export const eagerRunner = (job, result) => run(job, result, { stream: true, runToolsEagerly: true });

async function converse(job, result, ask) {
  const client = newClient(job);
  const request = { model: job.model, max_tokens: 2_048, messages: job.messages };
  if (job.count) {
    result.tokens = (await client.messages.countTokens({ model: job.model, messages: job.messages })).input_tokens;
    return;
  }
  if (job.tool) request.tools = [job.eager ? { ...job.definition, eager_input_streaming: true } : job.definition];
  if (job.thinking) request.thinking = { type: 'adaptive' };
  if (job.output) request.output_config = { format: { type: 'json_schema', schema: job.schema } };
  for (;;) {
    const message = await ask(client, request);
    note(result, message);
    const calls = message.content.filter(block => block.type === 'tool_use');
    result.calls.push(...calls.map(call => call.input));
    if (!calls.length) break;
    const content = calls.map(call => ({ type: 'tool_result', tool_use_id: call.id, content: job.answer }));
    request.messages = [
      ...request.messages,
      { role: 'assistant', content: message.content },
      { role: 'user', content },
    ];
  }
  if (job.output) result.output = JSON.parse(result.text);
}

async function run(job, result, mode) {
  const request = { model: job.model, max_tokens: 2_048, messages: job.messages, tools: [], ...mode };
  if (job.tool) request.tools = [weather(job, result)];
  if (job.thinking) request.thinking = { type: 'adaptive' };
  if (job.output) request.output_config = { format: betaJSONSchemaOutputFormat(job.schema) };
  for await (const each of newClient(job).beta.messages.toolRunner(request)) {
    const message = mode.stream ? await each.finalMessage() : each;
    note(result, message);
    if (job.output) result.output = mode.stream ? message.parsed_output : JSON.parse(result.text);
  }
}

function weather(job, result) {
  const { name, description, input_schema: inputSchema } = job.definition;
  return betaTool({
    name,
    description,
    inputSchema,
    ...(job.eager ? { eager_input_streaming: true } : {}),
    run(input) {
      result.calls.push(input);
      return job.answer;
    },
  });
}

function note(result, message) {
  const written = (type, field) => message.content.filter(block => block.type === type).map(block => block[field]);
  result.text = written('text', 'text').join('');
  result.thinking += written('thinking', 'thinking').join('');
}
