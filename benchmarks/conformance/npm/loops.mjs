// What the loops of tool calls need: a `fetch` that answers with the chunks one by one, and the tools that they call.

import {createAnthropic} from '@ai-sdk/anthropic';

const HEADERS = {'content-type': 'text/event-stream'};

/** Return the names of the tools that a response calls, which a program would have defined. */
export function toolNames(chunks) {
  const body = Buffer.concat(chunks).toString('utf8');
  return [...new Set([...body.matchAll(/"type": ?"tool_use", ?"id": ?"[^"]*", ?"name": ?"([^"]*)"/g)].map((found) => found[1]))];
}

/**
 * Return a model of Claude whose first request is answered with the chunks.
 *
 * `source.asked` counts the chunks that were handed over. The next chunk comes only when nothing else is left to do, so that a
 * call which the last one lets start has started.
 */
export function modelOf(chunks) {
  const source = {asked: 0, bodies: []};
  const settled = async () => {
    for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  };
  const pull = async (controller) => {
    await settled();
    source.asked += 1;
    if (source.asked <= chunks.length) controller.enqueue(chunks[source.asked - 1]);
    else controller.close();
  };
  const fetch = async (_url, {body}) => {
    source.bodies.push(JSON.parse(body));
    if (source.bodies.length > 1) throw new Error('only one response is given');
    return new Response(new ReadableStream({pull}, {highWaterMark: 0}), {headers: HEADERS});
  };
  const provider = createAnthropic({apiKey: 'none', baseURL: 'http://localhost/v1', fetch});
  return {model: provider('claude-sonnet-4-5'), source};
}
