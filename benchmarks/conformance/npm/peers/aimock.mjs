// @copilotkit/aimock: `collapseAnthropicSSE`, with which it records a stream. A test that replays the recording parses its calls.

import {collapseAnthropicSSE} from '@copilotkit/aimock';

export const lacks = ['server_calls']; // it records the calls of the program's own tools

export function inputs(chunks) {
  const body = Buffer.concat(chunks).toString('utf8');
  const {toolCalls = []} = collapseAnthropicSSE(body);
  return {inputs: toolCalls.map((call) => recorded(call, body))};
}

/** Return a recorded call as its replay hands it over: the recording has no outcome, so its reader has to parse it. */
function recorded({id, name, arguments: text}, body) {
  // It records `{}` for an input without a text. That is its form of an empty text, and no mistake.
  const ownPart = body.split(JSON.stringify(id))[1].split('"type": "tool_use"')[0];
  const raw = text === '{}' && !ownPart.includes('"partial_json": "{') ? '' : text;
  const call = {id, name, type: 'tool_use', raw};
  try {
    return {...call, outcome: 'valid', value: JSON.parse(text)};
  } catch {
    return {...call, outcome: 'invalid'};
  }
}
