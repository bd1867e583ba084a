// @tanstack/ai: `parsePartialJSON`, with which its stream processor shows the arguments of a tool while they grow.

import {parsePartialJSON} from '@tanstack/ai';
import {byPrefix} from '../reading.mjs';

export async function partial_json(fragments) {
  const steps = await byPrefix(fragments, (text) => ({value: parsePartialJSON(text)}));
  return {steps: steps.map(({value}) => ({value}))};
}
