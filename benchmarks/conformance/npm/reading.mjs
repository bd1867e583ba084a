// How the adapters read a peer step by step.

const NOTHING = {$nothing: true};

/**
 * Read a text with a function of a prefix, which most libraries of partial JSON are.
 *
 * `read` gets the text so far and returns `{value, state}`, both optional; it throws if it cannot read it. Then the last
 * value stays, as in a program that goes on showing it, and the next prefix is tried again: some libraries cannot read each
 * prefix of a text that is right.
 */
export async function byPrefix(fragments, read) {
  let text = '';
  let step = {value: NOTHING};
  const steps = [];
  for (const fragment of [...fragments, '']) {
    text += fragment;
    let failed = false;
    if (text.trim() !== '') {
      try {
        const {value, state} = await read(text);
        step = {value: value === undefined ? step.value : structuredClone(value), ...(state && {state})};
        failed = state === 'invalid';
      } catch {
        failed = true;
      }
    }
    const state = failed ? 'invalid' : (step.state ?? 'partial');
    steps.push({value: step.value, state});
  }
  return steps;
}

/** Return the chunks as an async iterable which counts what has been asked for, so that a result belongs to a chunk. */
export function counted(chunks) {
  const source = {
    asked: 0, // chunks that were handed over
    async *[Symbol.asyncIterator]() {
      for (const chunk of chunks) {
        source.asked += 1;
        yield chunk;
      }
      source.asked += 1;
    },
  };
  return source;
}

/** Return the steps of an event stream, from an async iterable of `{event, data}` that reads `source`. */
export async function eventsByChunk(count, source, events, step = ({event, data}) => ({event: event || 'message', data})) {
  const steps = Array.from({length: count + 1}, () => ({events: []}));
  for await (const event of events) steps[Math.min(source.asked, count + 1) - 1].events.push(step(event));
  return steps;
}
