"""What the tests of the file tools share."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tests.streams import REQUEST
from tests.support import anthropic_client, check_history

import eagerstream
from eagerstream import validate_history
from eagerstream.loop import RunResult
from eagerstream.tools import Tool
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use


async def conversation(tool: Tool, *inputs: dict[str, Any], **options: Any) -> RunResult:
    """A run with the anthropic package's own client, whose model makes these calls in one reply, then is done."""
    calls = [tool_use(tool.name, input, fragment_chars=20) for input in inputs]
    scenario = Scenario(reply(*calls, **options), reply(text("Done."), message_id="msg_done"))
    with ReplayServer(scenario) as server:
        client = anthropic_client(server.base_url)
        with anyio.fail_after(50):
            async with eagerstream.run(client, **REQUEST, tools=[tool]) as run:
                await run.finish()
        await client.close()
    check_history(run.result.messages)
    assert validate_history(run.result.messages) == []
    return run.result


def results(result: RunResult) -> list[tuple[Any, bool]]:
    """What the calls of the first reply were answered with, and whether as an error."""
    return [(each.get("content"), each.get("is_error", False)) for each in result.messages[2]["content"]]


async def said(tool: Tool, **input: Any) -> str:
    """What the tool answers, or raises."""
    try:
        response = await tool.call(input)
    except eagerstream.ToolError as error:
        return str(error)
    return f"[PARTIAL] {response.reason}\n{response.text}" if response.reason else str(response.text)


def says(tool: Tool, **input: Any) -> str:
    """As `said`, for long tables: what an event loop has no part in need not be tried on two of them."""
    return anyio.run(partial(said, tool, **input))


def names(folder: Path) -> list[str]:
    """Everything in a folder and below."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def texts(folder: Path) -> dict[str, str]:
    """What the files in a folder and below hold."""
    return {name: (folder / name).read_text() for name in names(folder) if (folder / name).is_file()}


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks at handles in /proc")


def handles_in(folder: Path) -> list[str]:
    """What this process has open in a folder, and the folder itself."""
    found: list[str] = []
    for handle in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the listing itself
            found.append(str(handle.readlink()))
    return sorted(each for each in found if each.startswith(str(folder)))
