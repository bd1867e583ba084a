// eventsource-parser, with which `ai` and many others read event streams.

import {createParser} from 'eventsource-parser';

export function sse(chunks) {
  let step;
  let id = '';
  let retry = null;
  const parser = createParser({
    onEvent: ({event, data}) => {
      step.events.push({event: event || 'message', data});
      step.ids.push(id);
    },
    onId: (newId) => (id = newId),
    onRetry: (newRetry) => (retry = newRetry),
  });
  const decoder = new TextDecoder(); // the parser reads text
  const steps = [...chunks, undefined].map((chunk) => {
    step = {events: [], ids: []};
    parser.feed(chunk === undefined ? decoder.decode() : decoder.decode(chunk, {stream: true}));
    return step;
  });
  return {steps, retry};
}
