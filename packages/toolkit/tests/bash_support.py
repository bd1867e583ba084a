"""What the tests of the `bash` tool share."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from eagerstream.errors import ToolError
from eagerstream.tools import ToolResponse
from eagerstream_toolkit import Bash

SLOWLY_S = 50
LATE = "Error: command did not finish within"


@asynccontextmanager
async def shell(**settings: Any) -> AsyncIterator[Bash]:
    """A tool that a test does not wait for in vain."""
    with anyio.fail_after(SLOWLY_S):
        async with Bash(**{"timeout_s": float(SLOWLY_S), **settings}) as bash:
            yield bash


async def answer(bash: Bash, command: str) -> ToolResponse:
    """What the tool says of a command that could be run."""
    response: ToolResponse = await bash.call({"command": command})
    return response


async def error(bash: Bash, command: str) -> str:
    """What the tool says of one that could not, or took too long."""
    with pytest.raises(ToolError) as raised:
        await answer(bash, command)
    return str(raised.value)


async def said(bash: Bash, command: str) -> str:
    """The text of either."""
    try:
        return (await answer(bash, command)).text
    except ToolError as raised:
        return str(raised)


async def assert_sane(bash: Bash) -> None:
    """The tool can be used: a command says what it has to, in this shell or in a new one, however short its time was."""
    bash._command_timeout_s = float(SLOWLY_S)
    assert await said(bash, "echo ok") == "ok"
    assert await said(bash, "(exit 7)") == "(exit status 7)"


def is_running(pid: int) -> bool:
    """There is such a process, and it is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def children(before: Collection[int] = ()) -> set[int]:
    """The processes that this one has started, zombies too, without those that it had before.

    Those may end meanwhile, as what an earlier test has left behind, or the first process of the watchdog.
    """
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == os.getpid():
            found.add(int(stat.parent.name))
    return found - {*before}


def descriptors() -> int:
    """How many are open."""
    return len(list(Path("/proc/self/fd").iterdir()))
