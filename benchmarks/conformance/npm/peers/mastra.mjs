// @mastra/core: `Agent.stream()`, which starts the calls of a response while it continues (`eagerToolExecution`).

import {Agent} from '@mastra/core/agent';
import {createTool} from '@mastra/core/tools';
import {z} from 'zod';
import {modelOf, toolNames} from '../loops.mjs';

process.env.MASTRA_TELEMETRY_DISABLED = '1';

export async function inputs(chunks) {
  const steps = Array.from({length: chunks.length + 1}, () => ({may_start: []}));
  const {model, source} = modelOf(chunks);
  const execute = async (_input, context) => {
    const id = context?.agent?.toolCallId ?? context?.toolCallId;
    steps[Math.min(source.asked, steps.length) - 1].may_start.push(id);
    return 'done';
  };
  const tools = toolNames(chunks).map((id) => [id, createTool({id, description: id, inputSchema: z.looseObject({}), execute})]);
  const agent = new Agent({id: 'agent', name: 'agent', instructions: '', model, tools: Object.fromEntries(tools), maxRetries: 0});
  const stream = await agent.stream('x', {maxSteps: 1, eagerToolExecution: true});
  for await (const _ of stream.fullStream);
  return {steps};
}
