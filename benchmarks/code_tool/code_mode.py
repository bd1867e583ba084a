"""The side of pydantic-ai-harness. It runs in an environment of its own: `python -m benchmarks.code_tool.code_mode`.

The agent is that of the harness's documentation. `anthropic_eager_input_streaming` is set, because the API would
otherwise send the input in a few large pieces.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any, Final
from unittest.mock import patch

import anyio
from anthropic import AsyncAnthropic
from pydantic_ai import Agent, Tool
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai_harness import CodeMode
from pydantic_ai_harness.code_mode import _eager, _streaming

from .program import Job, Parsed, main
from .workplace import Marks, Workplace

SPECULATE: Final = ", speculate"
NO_BUDGET: Final = ", no budget"
MODEL: Final = "claude-opus-4-7"
_SETTINGS: Final = AnthropicModelSettings(anthropic_eager_input_streaming=True, max_tokens=64_000)


@asynccontextmanager
async def _model(url: str) -> AsyncIterator[AnthropicModel]:
    async with AsyncAnthropic(base_url=url, api_key="any", max_retries=0) as client:
        yield AnthropicModel(MODEL, provider=AnthropicProvider(anthropic_client=client), settings=_SETTINGS)


def _capabilities(side: str) -> list[Any]:
    if side == "plain":
        return []
    speculate = ["fetch"] if side.endswith(SPECULATE) else None
    return [CodeMode(eager=side.startswith("eager"), speculate=speculate)]


async def run(job: Job, workplace: Workplace, marks: Marks, _: Parsed) -> list[str]:
    """Run the agent once, and return the results of its calls."""
    tools = [Tool(function, takes_ctx=False) for function in workplace.tools().values()]
    if job.side == "plain":
        tools = [Tool(_run_code, name="run_code", takes_ctx=False)]
    async with _model(job.url) as model:
        agent: Agent[None, str] = Agent(model, tools=tools, capabilities=_capabilities(job.side))
        marks.start()
        answered = await agent.run("Go.")
        marks.end()
    parts = [part for message in answered.all_messages() for part in message.parts]
    if faults := [part for part in parts if part.part_kind == "retry-prompt"]:
        raise RuntimeError(str(faults))
    return [str(part.content) for part in parts if part.part_kind == "tool-return"]


async def _run_code(code: str) -> str:
    """Take code, and run nothing."""
    return f"{len(code)} characters"


@contextmanager
def counting(job: Job) -> Iterator[Parsed]:
    """Count the characters that are decoded and parsed, by wrapping the functions that do it."""
    parsed = Parsed()
    decode, closed = _eager.decode_partial_args, _eager.closed_statements
    execute = _eager.CodeModeToolset._execute_code  # noqa: SLF001  # only to count what it gets

    def counted_decode(args_text: str) -> Any:
        parsed.json_chars += len(args_text)
        return decode(args_text)

    def counted_closed(code: str) -> Any:
        parsed.code_chars += code.rfind("\n") + 1
        found = closed(code)
        if found:
            parsed.early_chars += sum(len(line) + 1 for line in code.split("\n")[: found[-1].end_lineno])
        return found

    async def counted_execute(self: Any, code: str, *rest: Any) -> Any:
        parsed.compiled_chars += len(code)
        return await execute(self, code, *rest)

    with ExitStack() as patches:
        if job.side.endswith(NO_BUDGET):
            for module in (_eager, _streaming):
                patches.enter_context(patch.multiple(module, MAX_SCAN_CHARS=1 << 60, MAX_SCAN_WORK_CHARS=1 << 60))
        if job.counts:
            patches.enter_context(patch.object(_eager, "decode_partial_args", counted_decode))
            patches.enter_context(patch.object(_eager, "closed_statements", counted_closed))
            patches.enter_context(patch.object(_eager.CodeModeToolset, "_execute_code", counted_execute))
        yield parsed


if __name__ == "__main__":
    main(anyio.run, run, counting)
