// jsonriver on documents cut into fragments, the partial value looked at after every fragment.
//
//     node jsonriver.mjs .../jsonriver/dist/index.js < cells > figures
//
// A line of stdin is one cell, the JSON array of its fragments; a line of stdout is, for each source of the fragments,
// its best time in seconds, and how many values the consumer got.
//
// jsonriver has no synchronous form. Where its fragments come from:
//
// "one at a time": jsonriver waits for a fragment, and it comes; the next comes when jsonriver asks for it, which it
//   does not before the consumer has looked at the value with this one. So it is when fragments arrive.
// "at hand": its best chance: an iterator that has every fragment and answers without a promise of its own, so that
//   nothing is awaited but what jsonriver awaits itself.
// "stream": a ReadableStream, which is what a response's body is.
//
// Each runs until the engine has compiled it, and on for its best: in its first runs it takes up to twice as long.

import {deepStrictEqual, equal} from 'node:assert';
import {createInterface} from 'node:readline';
import {pathToFileURL} from 'node:url';

const {parse} = await import(pathToFileURL(process.argv[2]));
const RUNS = 3; // at least, and
const CELL_MS = 300; // at least

function oneAtATime(fragments) {
  let ask; // called by jsonriver
  let answer; // called by whoever hands over
  let asked = new Promise((resolve) => (ask = resolve));
  async function handOver() {
    for (const value of fragments) {
      await asked;
      asked = new Promise((resolve) => (ask = resolve));
      answer({done: false, value});
    }
    await asked;
    answer({done: true, value: undefined});
  }
  handOver();
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    next() {
      return new Promise((resolve) => {
        answer = resolve;
        ask();
      });
    },
  };
}

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

/** How many values the consumer gets, each with all the fragments that were handed over, and none of them twice. */
async function countValues(source) {
  let handedOver = 0;
  const next = source[Symbol.asyncIterator]();
  const counted = {
    [Symbol.asyncIterator]() {
      return this;
    },
    async next() {
      const result = await next.next();
      handedOver += result.done ? 0 : 1;
      return result;
    },
  };
  const seen = new Set();
  let values = 0;
  for await (const _ of parse(counted)) {
    values++;
    seen.add(handedOver);
  }
  equal(seen.size, values);
  return values;
}

async function measure(makeSource, fragments) {
  const {value} = await run(makeSource(fragments));
  deepStrictEqual(value, JSON.parse(fragments.join('')));
  const values = await countValues(makeSource(fragments));
  let best = Infinity;
  const end = performance.now() + CELL_MS;
  for (let runs = 0; runs < RUNS || performance.now() < end; runs++) {
    best = Math.min(best, (await run(makeSource(fragments))).elapsedMs);
  }
  return {seconds: best / 1000, values};
}

const SOURCES = {'one at a time': oneAtATime, 'at hand': atHand, stream};

for await (const line of createInterface({input: process.stdin})) {
  const fragments = JSON.parse(line);
  const figures = {};
  for (const [name, makeSource] of Object.entries(SOURCES)) figures[name] = await measure(makeSource, fragments);
  console.log(JSON.stringify(figures));
}
