"""Programs in other languages: the clients from npm, measured and compared like a program in Python."""

from __future__ import annotations

from pathlib import Path

import pytest
from packages.lab.tests.test_command import bench
from packages.lab.tests.test_programs import command
from tests.node import installed_file

from eagerstream_lab._results import load_results

LOOP = '''
"""A loop around `messages.stream` of the Python client."""
import os
import anthropic

TOOLS = [{"name": "make_file", "description": "Write a file.", "input_schema": {
    "type": "object", "required": ["filename", "lines"],
    "properties": {"filename": {"type": "string"}, "lines": {"type": "array", "items": {"type": "string"}}},
}}]
client = anthropic.Anthropic()
messages = [{"role": "user", "content": os.environ["EAGERSTREAM_BENCH_PROMPT"]}]
while True:
    with client.messages.stream(model="m", max_tokens=1024, tools=TOOLS, messages=messages) as stream:
        message = stream.get_final_message()
    calls = [block for block in message.content if block.type == "tool_use"]
    if not calls:
        break
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": "ok"} for call in calls]
    messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
'''

SDK = """
// A loop around `messages.stream` of the TypeScript client, with eager inputs.
import Anthropic from '@anthropic-ai/sdk';

const text = {type: 'string'};
const tools = [{
  name: 'make_file', description: 'Write a file.', eager_input_streaming: true,
  input_schema: {type: 'object', required: ['filename', 'lines'], properties: {filename: text, lines: {type: 'array', items: text}}},
}];
const client = new Anthropic();
const messages = [{role: 'user', content: process.env.EAGERSTREAM_BENCH_PROMPT}];
for (;;) {
  const message = await client.messages.stream({model: 'm', max_tokens: 1024, tools, messages}).finalMessage();
  const calls = message.content.filter((block) => block.type === 'tool_use');
  if (!calls.length) break;
  const results = calls.map((call) => ({type: 'tool_result', tool_use_id: call.id, content: 'ok'}));
  messages.push({role: 'assistant', content: message.content}, {role: 'user', content: results});
}
"""

AI = """
// The AI SDK of Vercel with its provider for Anthropic.
import {createAnthropic} from '@ai-sdk/anthropic';
import {stepCountIs, streamText, tool} from 'ai7';
import {z} from 'zod';

const anthropic = createAnthropic({baseURL: `${process.env.ANTHROPIC_BASE_URL}/v1`});
const make_file = tool({
  description: 'Write a file.',
  inputSchema: z.object({filename: z.string(), lines: z.array(z.string())}),
  execute: async ({lines}) => `${lines.length} lines`,
});
const result = streamText({
  model: anthropic('m'), tools: {make_file}, stopWhen: stepCountIs(5), prompt: process.env.EAGERSTREAM_BENCH_PROMPT,
  onError: ({error}) => { throw error; },
});
await result.consumeStream();
"""


@pytest.mark.slow
def test_three_clients_in_two_languages(tmp_path: Path) -> None:
    """All get the same responses, made of the tools of the first one, and each has its own way to stream."""
    packages = installed_file("")
    (tmp_path / "node_modules").symlink_to(packages, target_is_directory=True)
    for name, content in {"loop.py": LOOP, "sdk.mjs": SDK, "ai.mjs": AI}.items():
        (tmp_path / name).write_text(content)
    programs = ("--program", command("loop.py"), "--program", "node sdk.mjs", "--program", "node ai.mjs")
    options = ("--programs-only", "--speed", "60", "-n", "1", "--warmup", "0", "--no-html")
    done = bench(tmp_path, *programs, *options)
    assert done.returncode == 0, done.stderr
    results = load_results(tmp_path / "bench-results" / "results.json")
    assert [case["label"] for case in results["cases"]] == ["loop.py (buffered)", "sdk.mjs (eager)", "ai.mjs (eager)"]
    for case in results["cases"]:
        (run,) = case["runs"]
        assert (run["error"], run["status"], run.get("same_responses")) == (None, "completed", True)
        assert [
            [block["name"] for block in request["blocks"] if block["outcome"]] for request in run["latency"]["requests"]
        ] == [
            ["make_file"],
            [],
        ]
    pairs = {(one["base"].split("/")[2], one["other"].split("/")[2]) for one in results["comparisons"]}
    assert pairs == {("loop.py", "sdk.mjs"), ("loop.py", "ai.mjs")}
