"""jsontap: awaits the values at paths. Which paths a document has, a first reading finds, as a program knows them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from ijson import IncompleteJSONError
from jsontap import jsontap

lacks = ["lone_surrogates"]  # yajl, which reads for it, has none


async def _settled() -> None:
    for _ in range(8):  # until its task and all that wait for it have run
        await asyncio.sleep(0)


def partial_json(fragments: Sequence[str]) -> dict[str, Any]:
    return asyncio.run(_partial_json(fragments))


async def _partial_json(fragments: Sequence[str]) -> dict[str, Any]:
    try:
        value = await jsontap(_given(fragments))
    except IncompleteJSONError as error:
        # The parser below it has one error for all; `unexpected end` is jsontap's own.
        is_end = "unexpected end" in str(error) or "premature EOF" in str(error)
        return {"outcome": "incomplete" if is_end else "invalid"}
    except Exception:
        return {"outcome": "invalid"}
    return {"outcome": "valid", "steps": await _finished(fragments, list(_paths(value)))}


async def _given(fragments: Sequence[str]) -> AsyncIterator[str]:
    for fragment in fragments:
        yield fragment


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _paths(item, (*path, key))
    yield path


async def _finished(fragments: Sequence[str], paths: Sequence[tuple[str | int, ...]]) -> list[dict[str, Any]]:
    queue: asyncio.Queue[str | None] = asyncio.Queue()
    found: list[str] = []

    async def received() -> AsyncIterator[str]:
        while (fragment := await queue.get()) is not None:
            yield fragment

    async def wait(path: tuple[str | int, ...]) -> None:
        node = root
        for key in path:
            node = node[key]
        await node
        found.append("".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in path))

    root = jsontap(received())
    steps = []
    async with asyncio.TaskGroup() as tasks:
        for path in paths:
            tasks.create_task(wait(path))
        for fragment in [*fragments, None]:
            queue.put_nowait(fragment)
            await _settled()
            steps.append({"finished": found.copy()})
            found.clear()
    return steps
