"""A real peer that sends without a pause: whoever cancels is obeyed, on every HTTP client."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream.limits import Limits
from eagerstream.transports import HTTPTransport
from eagerstream.transports._http_clients import LIBRARIES
from eagerstream_testing import encode_event
from tests.streaming.streams import finished
from tests.streams import REQUEST, block_start, message_start, text_delta
from tests.transports.peers import PATIENCE_S, Connection, Peer, Request

pytestmark = pytest.mark.anyio

_PAYLOADS = {"text": encode_event(text_delta(0, "a")) * 600, "line feeds": b"\n" * 65_536}
_OTHER_CLIENTS = [*(name for name in LIBRARIES if name != "aiohttp"), "anthropic", "anthropic on aiohttp"]


def _flood(payload: bytes, connection: Connection) -> None:
    connection.begin(connection="close")
    connection.send(encode_event(message_start()) + encode_event(block_start(0, "text", text="")))
    until_s = time.monotonic() + PATIENCE_S
    with suppress(OSError):  # the client has left
        while time.monotonic() < until_s:
            connection.send(payload)


def _client(name: str, url: str) -> Any:
    if name in LIBRARIES:
        return HTTPTransport(base_url=url, library=name)
    import anthropic

    http_client = anthropic.DefaultAioHttpClient() if name == "anthropic on aiohttp" else None
    return anthropic.AsyncAnthropic(api_key="k", base_url=url, max_retries=0, http_client=http_client)


@pytest.mark.parametrize("payload", _PAYLOADS)
@pytest.mark.parametrize(
    "client", ["aiohttp", *(pytest.param(name, marks=pytest.mark.slow) for name in _OTHER_CLIENTS)]
)
async def test_a_flood_can_be_stopped(client: str, payload: str, anyio_backend: str) -> None:
    """A time-out of the program, our own limit, and `cancel` of a run end it long before the peer does."""
    if "aiohttp" in client and anyio_backend != "asyncio":
        pytest.skip("aiohttp runs only on asyncio")

    def answer(connection: Connection, _: Request) -> None:
        _flood(_PAYLOADS[payload], connection)

    with Peer(answer) as peer:
        made = _client(client, peer.url)
        start_s = time.monotonic()
        with anyio.move_on_after(0.1) as scope:
            async with eagerstream.stream(made, **REQUEST) as stream:
                async for _ in stream:
                    pass
        assert scope.cancelled_caught
        with pytest.raises(eagerstream.errors.LimitError, match="max_reply_s"):
            await finished(made, limits=Limits(max_reply_s=0.1))
        async with eagerstream.run(made, **REQUEST) as run:
            with suppress(eagerstream.errors.EagerStreamError):
                async for _ in run:
                    run.cancel()
        assert run.result.status == "cancelled"
        assert time.monotonic() - start_s < PATIENCE_S
        await (made.aclose() if isinstance(made, HTTPTransport) else made.close())
