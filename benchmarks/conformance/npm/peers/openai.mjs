// openai: its internal reader of event streams, and the internal parser with which it shows structured output.

import {_iterSSEMessages} from 'openai/core/streaming.mjs';
import {MalformedJSON, PartialJSON, partialParse} from 'openai/_vendor/partial-json-parser/parser.mjs';
import {byPrefix, counted, eventsByChunk} from '../reading.mjs';

export async function sse(chunks) {
  const source = counted(chunks);
  return {steps: await eventsByChunk(chunks.length, source, _iterSSEMessages({body: source}, new AbortController()))};
}

export async function partial_json(fragments) {
  const steps = await byPrefix(fragments, (text) => {
    try {
      return {value: partialParse(text)};
    } catch (error) {
      if (error instanceof PartialJSON && !(error instanceof MalformedJSON)) return {}; // nothing new to show yet
      throw error;
    }
  });
  return {steps: steps.map(({value}) => ({value}))};
}
