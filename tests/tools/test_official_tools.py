"""Tools of the anthropic package, as they are: through its client and a server, in `run` and under `EarlyCalls`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from anthropic import AsyncAnthropic, beta_async_tool, beta_tool

import eagerstream
from eagerstream import EarlyCalls, tool
from eagerstream.tools import ToolCall
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use
from tests.missing import anthropic_since
from tests.streams import REQUEST

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("loop", ["run", "EarlyCalls"])]

SLOWLY_S = 30


async def called(loop: str, tools: Sequence[Any], *calls: tuple[str, dict[str, Any]]) -> list[ToolCall]:
    """The calls of one response, whose inputs come in pieces of three characters."""
    response = reply(*(tool_use(name, input, fragment_chars=3) for name, input in calls))
    with anyio.fail_after(SLOWLY_S), ReplayServer(Scenario(response, reply(text("Done.")))) as server:
        async with AsyncAnthropic(base_url=server.base_url, api_key="any", max_retries=0) as client:
            if loop == "run":
                async with eagerstream.run(client, tools=tools, **REQUEST) as run:
                    await run.finish()
                return list(run.result.calls)
            async with EarlyCalls(tools) as early:
                sent: Any = {**REQUEST, "tools": [each.to_dict() for each in tools], "stream": True}
                async for event in await client.messages.create(**sent):
                    early.feed(event)
                return await early.finish()


def told(calls: Sequence[ToolCall]) -> list[Any]:
    """What the model reads of each call."""
    return [call.result and call.result.get("content") for call in calls]


async def test_functions(loop: str) -> None:
    """On the loop and in a thread, from the oldest version on."""

    @beta_async_tool
    async def weather(city: str) -> str:
        """Weather in a city."""
        return f"sun in {city}"

    @beta_tool
    def rain(city: str) -> str:
        """Rain in a city."""
        return f"rain in {city}"

    calls = await called(loop, [weather, rain], ("weather", {"city": "Oslo"}), ("rain", {"city": "Lima"}), ("rain", {}))
    assert told(calls) == ["sun in Oslo", "rain in Lima", "Error: Missing required 'city' parameter"]


@anthropic_since("0.87")
async def test_the_memory(loop: str, tmp_path: Path) -> None:
    """Each call sees what the one before it has done: at the same time, most edits would be lost without an error."""
    from anthropic.tools import BetaAsyncLocalFilesystemMemoryTool

    lines = "".join(f"<{number}>\n" for number in range(20))
    calls = await called(
        loop,
        [BetaAsyncLocalFilesystemMemoryTool(str(tmp_path))],
        ("memory", {"command": "create", "path": "/memories/a", "file_text": lines}),
        *(
            ("memory", {"command": "str_replace", "path": "/memories/a", "old_str": f"<{n}>", "new_str": f"[{n}]"})
            for n in range(20)
        ),
        ("memory", {"command": "view", "path": "/etc/passwd"}),
    )
    assert [call.is_error for call in calls] == [False] * 21 + [True]
    content = await anyio.Path(tmp_path / "memories" / "a").read_text()
    assert content == "".join(f"[{number}]\n" for number in range(20))


@anthropic_since("0.103")
async def test_the_agent_toolset(loop: str, tmp_path: Path) -> None:
    """Its files and its shell, in a group: the shell cannot run two commands at once."""
    from anthropic.lib.tools._beta_functions import aclose_runnable_tool
    from anthropic.lib.tools.agent_toolset import AgentToolContext, beta_agent_toolset_20260401

    theirs = beta_agent_toolset_20260401(AgentToolContext(workdir=str(tmp_path)))
    tools = [tool(each.call, definition=each.to_dict(), group="agent") for each in theirs]
    try:
        calls = await called(
            loop,
            tools,
            ("write", {"file_path": "a.txt", "content": "one\ntwo\n"}),
            ("bash", {"command": "sleep 0.1; x=3; cat a.txt"}),
            ("bash", {"command": "echo $x"}),
            ("read", {"file_path": "a.txt"}),
            ("read", {"file_path": "/etc/passwd"}),
        )
    finally:
        for each in theirs:
            await aclose_runnable_tool(each)  # no public function ends the shell: the guide says to use `Bash`
    assert all(each.eager for each in tools)
    assert [call.is_error for call in calls] == [False, False, False, False, True]
    assert told(calls)[1:4] == ["one\ntwo", "3", "one\ntwo\n"]
