// The `ai` package with its provider for Claude: its two calls, which run tools to the end.
import { createAnthropic } from '@ai-sdk/anthropic';
import { generateText, isStepCount, jsonSchema, Output, streamText, tool } from 'ai7';

export async function generate(job, result) {
  await note(result, await generateText(settings(job, result)), job);
}

export async function stream(job, result) {
  let failure;
  const onError = ({ error }) => (failure ??= error); // otherwise it prints the error, and the text just ends
  const streaming = streamText({ ...settings(job, result), onError });
  await streaming.consumeStream();
  if (failure) throw failure;
  await note(result, streaming, job);
}

function settings(job, result) {
  const anthropic = { toolStreaming: job.eager };
  if (job.thinking) anthropic.thinking = { type: 'adaptive' };
  return {
    // As it reads the address from ANTHROPIC_BASE_URL: it adds no /v1.
    model: createAnthropic({ baseURL: job.base_url, apiKey: 'any' })(job.model),
    maxOutputTokens: 2_048,
    messages: job.messages.map(inItsForm),
    tools: job.tool ? { [job.definition.name]: weather(job, result) } : undefined,
    stopWhen: isStepCount(5),
    output: job.output ? Output.object({ schema: jsonSchema(job.schema) }) : undefined,
    providerOptions: { anthropic },
    ...(job.threads ? { prepareStep: onAThread } : {}),
  };
}

function weather(job, result) {
  return tool({
    description: job.definition.description,
    inputSchema: jsonSchema(job.definition.input_schema),
    execute(input) {
      result.calls.push(input);
      return job.answer;
    },
  });
}

function inItsForm({ role, content }) {
  if (typeof content === 'string') return { role, content };
  return {
    role,
    content: content.map(({ id, name, input }) => ({ type: 'tool-call', toolCallId: id, toolName: name, input })),
  };
}

// As its documentation says: each step continues from the response before it, and sends nothing but results.
function onAThread({ steps }) {
  const previous = steps.at(-1);
  if (!previous) return { providerOptions: { anthropic: { thread: { type: 'create' } } } };
  return {
    messages: previous.response.messages.filter(message => message.role === 'tool'),
    providerOptions: { anthropic: { thread: { type: 'continue', previousMessageId: previous.response.id } } },
  };
}

async function note(result, made, job) {
  const steps = await made.steps;
  result.text = await made.text;
  result.thinking = steps.map(step => step.reasoningText ?? '').join('');
  if (job.output) result.output = await made.output;
}
