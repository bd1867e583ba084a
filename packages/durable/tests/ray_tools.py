"""Tools that run on a Ray cluster in the tests; what they do there, they write into files."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio

from eagerstream import ItemStream, tool


def note(path: str, word: str) -> None:
    """Append a word, whole, from whichever process."""
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{word}\n")


@tool
async def node() -> str:
    """The node that this runs on."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


@tool
async def echo(text: str) -> str:
    """The same."""
    return text


@tool
async def copy_lines(lines: ItemStream[str]) -> AsyncGenerator[str, None]:
    """Each line as progress, and then all of them."""
    seen = []
    async for line in lines:
        seen.append(line)
        yield line
    yield "+".join(seen)


async def _hold(path: str) -> str:
    note(path, f"began {os.getpid()}")
    try:
        while not await anyio.Path(f"{path}.go").exists():  # noqa: ASYNC110  # another process makes it
            await anyio.sleep(0.02)
    except BaseException as error:
        note(path, type(error).__name__)
        raise
    finally:
        note(path, "finally")
    return f"ran in {os.getpid()}"


@tool
async def hold(path: str) -> str:
    """Wait for a file."""
    return await _hold(path)


@tool(idempotent=True)
async def hold_again(path: str) -> str:
    """Wait for a file; it may be done twice."""
    return await _hold(path)


async def _copy(path: str, lines: ItemStream[str]) -> AsyncGenerator[str, None]:
    """Each line as progress, and then all of them; a note of how it went."""
    note(path, f"began {os.getpid()}")
    seen = []
    try:
        async for line in lines:
            seen.append(line)
            yield line
    except BaseException as error:
        note(path, type(error).__name__)
        raise
    finally:
        note(path, "finally")
    yield "+".join(seen)


copy_once = tool(_copy, name="copy_once")
copy_again = tool(_copy, name="copy_again", idempotent=True)


@tool(timeout_s=0.3)
def busy(path: str) -> str:
    """Never end, in a thread that nothing can cancel."""
    note(path, f"began {os.getpid()}")
    time.sleep(1_000)
    return "never"
