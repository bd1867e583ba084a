// An editor: starts an agent of ACP as a separate process, with the official SDK, and takes the given steps.
//
//   node acp.mjs < {"command": ["python", "agent.py"], "answers": ["allow"], "steps": [{"do": "new", "as": "a", ...}]}
//
// It prints all that it got: {"updates": {session: [...]}, "asked": [...], "prompts": {name: ...}, ...}.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { Readable, Writable } from 'node:stream';
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from '@agentclientprotocol/sdk';

const { command, cwd, env, answers = [], steps } = JSON.parse(readFileSync(0, 'utf8'));
const got = { updates: {}, asked: [], prompts: {}, faults: [], bytes: 0 };
console.error = (...words) => got.faults.push(words.map(String).join(' ')); // the SDK reports there what it refuses

const agent = spawn(command[0], command.slice(1), { cwd, env: { ...process.env, ...env } });
const exit = new Promise(resolve => agent.on('exit', (code, signal) => resolve(signal ?? code)));
let stderr = '';
agent.stderr.on('data', data => (stderr += data));

const names = {}; // of sessions, by their ids
const ids = {};
const waiting = new Set();
const changed = () => waiting.forEach(check => check());

function until(holds) {
  return new Promise(resolve => {
    const check = () => holds() && (waiting.delete(check), resolve());
    waiting.add(check);
    check();
  });
}

const counted = new TransformStream({
  transform(chunk, controller) {
    got.bytes += chunk.length;
    controller.enqueue(chunk);
  },
});
const editor = client({ name: 'editor' })
  .onNotification(methods.client.session.update, ({ params: { sessionId, update } }) => {
    (got.updates[names[sessionId]] ??= []).push(update);
    changed();
  })
  .onRequest(methods.client.session.requestPermission, async ({ params }) => {
    const answer = answers[got.asked.length] ?? 'hold';
    got.asked.push({ ...params, sessionId: names[params.sessionId] });
    changed();
    if (answer === 'hold') await until(() => got.cancelled);
    if (answer === 'error') throw new Error('no dialog');
    return { outcome: ['hold', 'cancelled'].includes(answer) ? { outcome: 'cancelled' } : { outcome: 'selected', optionId: answer } };
  });

async function act(context, step) {
  switch (step.do) {
    case 'new': {
      const { sessionId } = await context.request(methods.agent.session.new, { cwd: step.cwd, mcpServers: [], ...step.fields });
      names[sessionId] = step.as;
      ids[step.as] = sessionId;
      break;
    }
    case 'prompt':
      context
        .request(methods.agent.session.prompt, { sessionId: ids[step.in], prompt: step.prompt })
        .catch(({ code, message, data }) => ({ error: { code, message, data } }))
        .then(result => ((got.prompts[step.as] = result), changed()));
      break;
    case 'answered':
      await until(() => step.as in got.prompts);
      break;
    case 'seen':
      await until(() => JSON.stringify([got.updates, got.asked]).includes(step.text));
      break;
    case 'cancel':
      got.cancelled = true;
      changed();
      await context.notify(methods.agent.session.cancel, { sessionId: ids[step.in] });
      break;
    case 'close':
      await context.request(methods.agent.session.close, { sessionId: ids[step.in] });
      break;
    case 'vanish': // as an editor that crashes: nothing is closed in an orderly way
      console.log(JSON.stringify(got));
      process.kill(process.pid, 'SIGKILL');
  }
}

await editor.connectWith(
  ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout).pipeThrough(counted)),
  async context => {
    got.initialized = await context.request(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities: {} });
    for (const step of steps) await act(context, step);
  },
);
agent.stdin.end();
got.exit = await exit;
console.log(JSON.stringify({ ...got, stderr }));
