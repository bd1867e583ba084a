// @mastra/core: `Agent.stream()`, which starts the calls of a response while it continues (`eagerToolExecution`).

import {Agent} from '@mastra/core/agent';
import {createTool} from '@mastra/core/tools';
import {z} from 'zod';
import {modelOf, toolNames} from '../loops.mjs';

process.env.MASTRA_TELEMETRY_DISABLED = '1';

export async function inputs(chunks) {
  const starts = [];
  const {model} = modelOf(chunks);
  const execute = async (_input, context) => {
    starts.push(context?.agent?.toolCallId ?? context?.toolCallId);
    return 'done';
  };
  const tools = toolNames(chunks).map((id) => [id, createTool({id, description: id, inputSchema: z.looseObject({}), execute})]);
  const agent = new Agent({id: 'agent', name: 'agent', instructions: '', model, tools: Object.fromEntries(tools), maxRetries: 0});
  const stream = await agent.stream('x', {maxSteps: 1, eagerToolExecution: true});
  for await (const _ of stream.fullStream);
  return {starts: starts.sort()};
}
