// ai (Vercel): `parsePartialJson`, with which it shows the input of a tool while it grows. Its result has a state.

import {parsePartialJson} from 'ai';
import {byPrefix} from '../reading.mjs';

const STATES = {'successful-parse': 'complete', 'repaired-parse': 'partial', 'failed-parse': 'invalid', 'undefined-input': 'partial'};

export async function partial_json(fragments) {
  const steps = await byPrefix(fragments, async (text) => {
    const {value, state} = await parsePartialJson(text);
    // A state is about one prefix: a text that cannot be repaired yet may be later.
    return {value, state: STATES[state]};
  });
  return {steps, outcome: {complete: 'valid', invalid: 'invalid', partial: 'incomplete'}[steps.at(-1).state]};
}
