// Does the work of the cells of the matrix (packages/testing/tests/clients) with clients from npm. Each line of the input is a job
// as JSON, and gets a line with its result; the lines are in order.
import { createInterface } from 'node:readline';

const clients = {
  anthropic: () => import('./messages_anthropic.mjs'),
  ai: () => import('./messages_ai.mjs'),
};
const LONGEST_MS = 45_000; // less than the tests may take, so that a client that hangs is named

async function done({ client, call, job }) {
  const calls = await clients[client]();
  const result = { text: '', calls: [], thinking: '', output: null, tokens: 0 };
  await calls[call](job, result);
  return result;
}

function late(ms) {
  return new Promise((_, reject) => setTimeout(() => reject(new Error(`not done after ${ms} ms`)), ms).unref());
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    answer = { result: await Promise.race([done(JSON.parse(line)), late(LONGEST_MS)]) };
  } catch (error) {
    answer = { error: `${error?.name}: ${error?.message}` };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
