"""Turns of the event loop: the callbacks and timers that a chunk costs, between the socket and the consumer.

Each callback is a wake-up, and each wake-up finds cold caches. The counts may fall; a change that raises one needs a
reason. Only on asyncio, whose loop can be asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import eagerstream
from eagerstream_testing import Timing, reply, retime, text
from tests.streams import REQUEST

_ARRIVAL = 2  # callbacks: the bytes arrive, and the reader wakes
_CONSUMER = 1  # it wakes
_CHUNKS_IN_ONE_GO = 32  # after them, the reader lets other tasks run


def _chunks(fragments: int) -> list[bytes]:
    whole = reply(text("seven c" * fragments, fragment_chars=7))
    return [chunk.data for chunk in retime(whole, Timing.instant()).chunks]


async def _arriving(chunks: list[bytes]) -> AsyncIterator[bytes]:
    """Yield each chunk after a wait, as a connection does."""
    loop = asyncio.get_running_loop()
    for chunk in chunks:
        arrived = loop.create_future()
        loop.call_soon(arrived.set_result, None)
        await arrived
        yield chunk


async def _counted(
    monkeypatch: pytest.MonkeyPatch, open: Callable[[Any], Any], chunks: list[bytes], *, consumes: bool
) -> Counter[str]:
    """Read a response to its end. Return the number of calls of the loop, by name."""
    calls: Counter[str] = Counter()
    loop = asyncio.get_running_loop()

    def count(name: str) -> Callable[..., Any]:
        schedule = getattr(loop, name)

        def counting(*arguments: Any, **options: Any) -> Any:
            calls[name] += 1
            return schedule(*arguments, **options)

        return counting

    with monkeypatch.context() as patch:
        for name in ("call_soon", "call_at"):
            patch.setattr(loop, name, count(name))
        async with open(_arriving(chunks)) as feed:
            if consumes:
                async for _ in feed:
                    pass
            else:
                await feed.finish()
    return calls


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("consumes", [True, False])
@pytest.mark.parametrize("is_run", [False, True], ids=["stream", "run"])
async def test_a_chunk_wakes_the_reader_and_its_consumer_once(
    monkeypatch: pytest.MonkeyPatch, *, is_run: bool, consumes: bool
) -> None:
    """A chunk costs one step of the reader, one of the consumer if there is one, and no timer."""

    def open(body: Any) -> Any:
        return eagerstream.run(body, **REQUEST) if is_run else eagerstream.events(body)

    await _counted(monkeypatch, open, _chunks(8), consumes=consumes)  # a warm-up
    few = await _counted(monkeypatch, open, _chunks(64), consumes=consumes)
    many = await _counted(monkeypatch, open, _chunks(64 + 4 * _CHUNKS_IN_ONE_GO), consumes=consumes)
    more = {name: many[name] - few[name] for name in ("call_soon", "call_at")}
    per_chunk = _ARRIVAL + _CONSUMER * consumes
    assert more["call_soon"] <= 4 * _CHUNKS_IN_ONE_GO * per_chunk + 8
    assert more["call_at"] == 0


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_small_response_costs_few_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A response in one chunk takes one task. Its timers: opening, start and end of the response, and one form of it."""
    whole = b"".join(_chunks(8))
    calls = await _counted(monkeypatch, eagerstream.events, [whole], consumes=True)
    assert calls["call_soon"] <= 7
    assert calls["call_at"] <= 4
