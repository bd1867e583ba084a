// Speaks the lines of packages/wire/conformance/adapters/program.py for an adapter in JavaScript: `node lines.mjs peers/jsonriver.mjs`.

import {createInterface} from 'node:readline';
import {resolve} from 'node:path';
import {pathToFileURL} from 'node:url';

const KINDS = ['sse', 'partial_json', 'inputs', 'histories', 'faults'];
const BYTES = ['sse', 'inputs'];

/** Return a form of what JSON has not, which the runner reads. */
function exactly(_key, item) {
  if (typeof item !== 'number' || Number.isFinite(item)) return item === undefined ? {$nothing: true} : item;
  return Number.isNaN(item) ? {$nan: true} : {$number: item > 0 ? '1e400' : '-1e400'};
}

// Libraries may write to the console; the answers have stdout for themselves.
console.log = console.info = console.debug = console.warn = console.error;
// A library may leave a promise of its own that fails, too.
process.on('unhandledRejection', () => {});

const adapter = await import(pathToFileURL(resolve(process.argv[2])));

async function answer({call, given}) {
  if (call === 'hello') return {kinds: KINDS.filter((kind) => kind in adapter), lacks: adapter.lacks ?? []};
  try {
    return await adapter[call](BYTES.includes(call) ? given.map((chunk) => new Uint8Array(Buffer.from(chunk, 'base64'))) : given);
  } catch (error) {
    return {error: String(error)};
  }
}

for await (const line of createInterface({input: process.stdin})) {
  process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line)), exactly)}\n`);
}
process.exit();
