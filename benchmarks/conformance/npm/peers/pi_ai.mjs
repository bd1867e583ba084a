// @earendil-works/pi-ai: `StreamingJsonParser`, which reads each fragment once, and the strict reading of a finished input.

import {StreamingJsonParser} from '@earendil-works/pi-ai/utils/streaming-json';
import {parseToolCallArguments} from '@earendil-works/pi-ai/utils/json-parse';

const NOTHING = {$nothing: true};

export function partial_json(fragments) {
  const parser = new StreamingJsonParser();
  const steps = [...fragments, ''].map((fragment) => {
    parser.append(fragment);
    const value = parser.snapshot();
    return {value: value === undefined ? NOTHING : value}; // a snapshot never changes later: no copy is needed
  });
  const text = fragments.join('');
  const isAccepted = text.trim() !== '' && parseToolCallArguments(text).argumentsError === undefined;
  // Its error does not tell a text that is cut from one that is wrong, so only a text that it accepts has an outcome here.
  return {steps, ...(isAccepted && {outcome: 'valid'})};
}
