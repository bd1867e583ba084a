"""How replies end on the connection itself, where no real connection can be brought to a state at will."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from eagerstream_testing import _endings
from eagerstream_testing._endings import reset


class _Transport(asyncio.Transport):
    """A connection with something still in its buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.high: int | None = None
        self.buffered = 5
        self.closing = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def is_closing(self) -> bool:
        return self.closing


def test_reset_waits_for_the_buffer() -> None:
    """A little in the buffer, below what makes uvicorn wait, is waited for all the same; the client may leave then."""
    transport = _Transport()
    sent: list[Any] = []

    async def run() -> None:
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def send(message: Any) -> None:
            assert transport.high == 0  # so that sending waits until nothing is buffered
            sent.append(message)
            transport.closing = True
            gone.set_result(None)

        await reset(transport, send, gone)

    asyncio.run(run())
    assert sent == [{"type": "http.response.body", "body": b"", "more_body": True}]


def test_reset_does_not_stop_the_other_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the system holds bytes back for a client that does not read, the event loop goes on: the client may leave."""
    transport = _Transport()
    transport.buffered = 0
    looks = 0

    def unsent_bytes(_: Any) -> int:
        nonlocal looks
        looks += 1
        assert looks < 1_000, "the event loop has stopped"
        return 5

    async def send(_: Any) -> None:
        pytest.fail("nothing is buffered")

    async def run() -> None:
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def leave() -> None:
            transport.closing = True
            gone.set_result(None)

        asyncio.get_running_loop().call_soon(leave)
        await reset(transport, send, gone)

    monkeypatch.setattr(_endings, "_unsent_bytes", unsent_bytes)
    asyncio.run(run())
    assert looks >= 1
