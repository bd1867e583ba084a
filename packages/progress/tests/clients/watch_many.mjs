// Follows many runs at once, each with a connection of its own, and prints what each watcher saw:
// node watch_many.mjs URL TOKEN < ids of the runs as a JSON array. It ends when all have ended, or with SIGTERM.
import { setMaxListeners } from 'node:events';
import { readFileSync } from 'node:fs';
import { RunReader, follow } from '../../src/eagerstream_progress/web/static/records.js';

const [url, token] = process.argv.slice(2);
const ids = JSON.parse(readFileSync(0, 'utf8'));
const closing = new AbortController();
setMaxListeners(0, closing.signal);
process.on('SIGTERM', () => closing.abort());

async function watch(id) {
  const seen = { id, batches: 0, snapshots: 0, lostConnections: 0, twice: 0, missing: 0, lostAtMs: null, isLost: null, end: null };
  let reader = new RunReader();
  let position = 0;
  try {
    for await (const message of follow(`${url}/events?run=${id}`, { token, signal: closing.signal, maxFailures: Infinity, maxDelayMs: 1000 })) {
      if (message.type === 'records') {
        if (message.snapshot) {
          seen.snapshots++;
          reader = new RunReader();
        } else {
          // Batches follow each other without a gap.
          if (message.records[0].seq > position + 1) seen.missing++;
          if (message.records[0].seq <= position) seen.twice++;
        }
        for (const record of message.records) reader.feed(record);
        seen.batches++;
        position = message.seq;
      } else if (message.type === 'runs') {
        const run = message.runs.find((run) => run.id === id);
        seen.isLost = run?.lost ?? null;
        if (run?.lost) seen.lostAtMs ??= performance.timeOrigin + performance.now();
      } else if (message.type === 'connection' && message.state === 'reconnecting') seen.lostConnections++;
      else if (message.type === 'end' || message.type === 'gone') seen.end = message.type;
    }
  } catch (error) {
    if (!closing.signal.aborted) throw error;
  }
  const [call] = reader.calls;
  return { ...seen, status: reader.status, content: call?.partial?.content ?? null, approved: call?.approval?.approved ?? null };
}

const found = await Promise.all(ids.map(watch));
process.stdout.write(JSON.stringify(found), () => process.exit(0));
