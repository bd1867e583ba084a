// jsonriver: an incremental parser. It asks for the next fragment after its consumer has looked at the value.

import {parse} from 'jsonriver';
import {counted} from '../reading.mjs';

const NOTHING = {$nothing: true};
const escaped = (step) => String(step).replaceAll('~', '~0').replaceAll('/', '~1');

export async function partial_json(fragments) {
  const source = counted(fragments);
  const steps = Array.from({length: fragments.length + 1}, () => ({value: undefined, finished: [], state: 'partial'}));
  const current = () => steps[Math.max(source.asked, 1) - 1];
  const completeCallback = (_value, path) => {
    const pointer = path.segments().map((step) => `/${escaped(step)}`).join('');
    current().finished.push(pointer);
    if (pointer === '') current().state = 'complete';
  };
  let outcome = 'valid';
  try {
    for await (const value of parse(source, {completeCallback})) current().value = structuredClone(value);
  } catch (error) {
    outcome = /unexpected end/i.test(error.message) ? 'incomplete' : 'invalid';
    if (outcome === 'invalid') current().state = 'invalid';
  }
  let last = {value: NOTHING, state: 'partial'};
  for (const step of steps) {
    step.value = step.value === undefined ? last.value : step.value;
    step.state = step.state === 'partial' ? last.state : step.state;
    last = step;
  }
  return {steps, outcome};
}
