// jsonriver on documents cut into fragments, the partial value looked at after every fragment.
//
//     node jsonriver.mjs .../jsonriver/dist/index.js < cells > figures
//
// A line of stdin is one cell, the JSON array of its fragments; a line of stdout its best times in seconds, by source.
//
// jsonriver has no synchronous form. "at hand" is its best chance: an iterator that has every fragment and answers
// without a promise of its own, so that nothing is awaited but what jsonriver awaits itself. "stream" is a
// ReadableStream, which is what a response's body is. Each runs until the engine has compiled it, and on for its best.

import {deepStrictEqual} from 'node:assert';
import {createInterface} from 'node:readline';
import {pathToFileURL} from 'node:url';

const {parse} = await import(pathToFileURL(process.argv[2]));
const RUNS = 3; // at least, and
const CELL_MS = 300; // at least

function atHand(fragments) {
  let at = 0;
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    next() {
      return at < fragments.length ? {done: false, value: fragments[at++]} : {done: true, value: undefined};
    },
  };
}

function stream(fragments) {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at < fragments.length) controller.enqueue(fragments[at++]);
      else controller.close();
    },
  });
}

async function run(source) {
  let value;
  const start = performance.now();
  for await (value of parse(source)); // the look is what is measured
  return {elapsedMs: performance.now() - start, value};
}

async function bestSeconds(makeSource, fragments) {
  const {value} = await run(makeSource(fragments));
  deepStrictEqual(value, JSON.parse(fragments.join('')));
  let best = Infinity;
  const end = performance.now() + CELL_MS;
  for (let runs = 0; runs < RUNS || performance.now() < end; runs++) {
    best = Math.min(best, (await run(makeSource(fragments))).elapsedMs);
  }
  return best / 1000;
}

for await (const line of createInterface({input: process.stdin})) {
  const fragments = JSON.parse(line);
  const figures = {'at hand': await bestSeconds(atHand, fragments), stream: await bestSeconds(stream, fragments)};
  console.log(JSON.stringify(figures));
}
