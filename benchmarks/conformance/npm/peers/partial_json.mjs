// partial-json: a parser of prefixes. Its two errors tell a text that is cut from one that is wrong.

import {Allow, MalformedJSON, parse, PartialJSON} from 'partial-json';
import {byPrefix} from '../reading.mjs';

/** Return what the strict reading of a text says: `Allow` without any flag accepts complete values only. */
function verdict(text) {
  try {
    parse(text, 0);
    return 'complete';
  } catch (error) {
    return error instanceof PartialJSON ? 'partial' : 'invalid';
  }
}

export async function partial_json(fragments) {
  const steps = await byPrefix(fragments, (text) => {
    try {
      return {value: parse(text, Allow.ALL), state: verdict(text)};
    } catch (error) {
      if (error instanceof MalformedJSON) throw error;
      return {state: 'partial'}; // nothing to show yet
    }
  });
  return {steps, outcome: {complete: 'valid', invalid: 'invalid', partial: 'incomplete'}[steps.at(-1).state]};
}
