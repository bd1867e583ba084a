// Cost of a value after every fragment for parsers from npm: `node speed.mjs`, with a line of JSON for each document.
//
// A line of stdin is {"text", "fragment_chars", "budget_ms"}. The line of stdout has for each parser the microseconds per
// fragment, in its best run, and whether these are estimated from a sample of evenly spaced prefixes.

import {deepStrictEqual} from 'node:assert';
import {createInterface} from 'node:readline';
import {partialParse as anthropic} from '@anthropic-ai/sdk/_vendor/partial-json-parser/parser.mjs';
import {StreamingJsonParser} from '@earendil-works/pi-ai/utils/streaming-json';
import {parsePartialJSON} from '@tanstack/ai';
import {parsePartialJson} from 'ai';
import {parse as jsonriver} from 'jsonriver';
import {partialParse as openai} from 'openai/_vendor/partial-json-parser/parser.mjs';
import {Allow, parse} from 'partial-json';

const RUNS = 3; // at least: the engine compiles in the first ones

/** Parsers that read the complete text again at each fragment, as their packages call them. */
const REREADING = {
  '@anthropic-ai/sdk': anthropic,
  '@tanstack/ai': parsePartialJSON,
  ai: async (text) => (await parsePartialJson(text)).value,
  openai,
  'partial-json': (text) => parse(text, Allow.ALL),
};

const INCREMENTAL = {
  '@earendil-works/pi-ai': (fragments) => {
    const parser = new StreamingJsonParser();
    let value;
    for (const fragment of fragments) {
      parser.append(fragment);
      value = parser.snapshot();
    }
    return value;
  },
  jsonriver: async (fragments) => {
    let value;
    for await (value of jsonriver(oneAtATime(fragments)));
    return value;
  },
};

/** Each fragment comes in a promise of its own, as from a stream. */
async function* oneAtATime(fragments) {
  yield* fragments;
}

async function timed(action) {
  const start = performance.now();
  const value = await action();
  return {ms: performance.now() - start, value};
}

/** Return the shortest time of a run, in milliseconds. */
async function best(run, budgetMs) {
  const end = performance.now() + budgetMs;
  let least = Infinity;
  for (let runs = 0; runs < RUNS || performance.now() + least < end; runs += 1) least = Math.min(least, await run());
  return least;
}

async function incremental(read, {text, fragment_chars: chars, budget_ms: budgetMs}) {
  const fragments = Array.from({length: Math.ceil(text.length / chars)}, (_, at) => text.slice(at * chars, (at + 1) * chars));
  deepStrictEqual(await read(fragments), JSON.parse(text));
  const ms = await best(async () => (await timed(() => read(fragments))).ms, budgetMs);
  return {us: (ms / fragments.length) * 1000, sampled: false};
}

async function rereading(parse, {text, fragment_chars: chars, budget_ms: budgetMs}) {
  deepStrictEqual(await parse(text), JSON.parse(text));
  const count = Math.ceil(text.length / chars);
  const lookMs = await best(async () => (await timed(() => parse(text.slice(0, text.length / 2)))).ms, 0);
  const places = Math.min(count, Math.max(RUNS, Math.floor(budgetMs / RUNS / lookMs)));
  const ends = Array.from({length: places}, (_, place) => (Math.floor(((place + 0.5) * count) / places) + 1) * chars);
  const run = async () => {
    let ms = 0;
    // A slice of the whole: to join the fragments is no work of the parser.
    for (const end of ends) ms += (await timed(() => parse(text.slice(0, end)))).ms;
    return ms;
  };
  return {us: ((await best(run, budgetMs)) / places) * 1000, sampled: places < count};
}

for await (const line of createInterface({input: process.stdin})) {
  const document = JSON.parse(line);
  const figures = {};
  for (const [name, read] of Object.entries(INCREMENTAL)) figures[name] = await incremental(read, document);
  for (const [name, parse] of Object.entries(REREADING)) figures[name] = await rereading(parse, document);
  process.stdout.write(`${JSON.stringify(figures)}\n`);
}
process.exit();
