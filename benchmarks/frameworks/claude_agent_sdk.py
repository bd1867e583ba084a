"""The Claude Agent SDK: a tool over a long array, as a tool of the SDK and as a streaming tool of `EarlyTools`.

Claude Code itself starts calls at the end of their inputs. So calls that do not stream start at the same time on both
sides. The time that Claude Code takes before its first request is in neither side.
"""

from __future__ import annotations

import tempfile
from functools import partial
from time import perf_counter
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    StreamEvent,
    UserMessage,
    create_sdk_mcp_server,
    query,
    tool as sdk_tool,
)

from eagerstream import ItemStream, tool
from eagerstream_adapters.claude_agent_sdk import EarlyTools
from eagerstream_testing import Scenario, Timing, reply, text, tool_use

from ..served import served
from ..streams import padded
from . import LINES, TOKENS_PER_SECOND, Course, measure


def scenario(tokens_per_second: float = TOKENS_PER_SECOND, lines: int = len(LINES)) -> Scenario:
    """Return a scenario with one call over a long array, then the answer."""
    call = tool_use("mcp__ours__write", {"lines": LINES[:lines]})
    replies = padded(reply(call)), padded(reply(text("Done.")))
    return Scenario(*replies, timing=Timing(tokens_per_second=tokens_per_second))


def _options(url: str, folder: str) -> ClaudeAgentOptions:
    env = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-ant-simulated",
        "HOME": folder,
        "CLAUDE_CONFIG_DIR": f"{folder}/config",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_TOOL_SEARCH": "false",
    }
    return ClaudeAgentOptions(
        model="claude-opus-4-7",
        env=env,
        cwd=folder,
        setting_sources=[],
        tools=[],
        allowed_tools=["mcp__ours__write"],
        include_partial_messages=True,
    )


async def _watch(messages: Any, course: Course) -> None:
    async for message in messages:
        match message:
            case StreamEvent(event={"type": "message_start"}) if not course.events:
                course.started_s = perf_counter()
                course.note("request")
            case StreamEvent(event={"type": "content_block_delta"}):
                course.note("delta")
            case StreamEvent(event={"type": "content_block_stop"}):
                course.note("last byte")
            case UserMessage():
                course.note("results")
            case ResultMessage():
                course.note("end")
            case _:
                pass


async def alone(url: str, course: Course) -> None:
    """Run a tool of the SDK."""

    @sdk_tool("write", "Write lines.", {"lines": list[str]})
    async def write(arguments: dict[str, Any]) -> dict[str, Any]:
        course.note("effect")
        return {"content": [{"type": "text", "text": f"wrote {len(arguments['lines'])} lines"}]}

    with tempfile.TemporaryDirectory() as folder:
        options = _options(url, folder)
        options.mcp_servers = {"ours": create_sdk_mcp_server("ours", tools=[write])}
        await _watch(query(prompt="Go.", options=options), course)


async def early(url: str, course: Course) -> None:
    """Run the same as a streaming tool."""

    @tool
    async def write(lines: ItemStream[str]) -> str:
        """Write lines."""
        count = 0
        async for _ in lines:
            course.note("effect")
            count += 1
        return f"wrote {count} lines"

    with tempfile.TemporaryDirectory() as folder:
        async with EarlyTools([write], name="ours") as tools:
            options = tools.options(_options(url, folder))
            await _watch(tools.follow(query(prompt="Go.", options=options)), course)


def sides(url: str) -> tuple[Any, Any]:
    """Return both sides."""
    return partial(alone, url), partial(early, url)


if __name__ == "__main__":
    with served(scenario) as url:
        measure("Claude Agent SDK", *sides(url), repeats=3)
