"""One client of `transport`, in a process of its own.

Run it as `python -m benchmarks.transport_sides NAME URL CERTIFICATE SHARE [--profile]`. It has
the conversation once as a warm-up and once measured, on the connection that the warm-up opened. It prints its figures
as JSON.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import resource
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import eagerstream
from eagerstream import HTTPTransport, InputDelta, RunStatus
from eagerstream_testing import Scripted, text, tool_use

from .cpu_shares import CPUShares
from .streams import make_input, response, text_before

FRAGMENT_CHARS: Final = 16
WARM_UP: Final = "warm-up"
MEASURED: Final = "measured"
CHARS: Final = {WARM_UP: 2_000, MEASURED: 100_000}
"""Size of the input of the conversation, by the `model` of its requests."""
_QUESTION: Final[Any] = {"role": "user", "content": "Go."}
_RESULT: Final = "done"
_HEADERS: Final = {"content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": "k"}
_READ_BYTES: Final = 1 << 16
_PATIENCE_S: Final = 60.0
_PROFILED_TIMES: Final = 5
"""Conversations of a profile. The system samples only each 4 to 10 ms."""


def value(model: str, share: float = 1.0) -> dict[str, Any]:
    """Return the input of the conversation's only call."""
    chars = int(CHARS[model] * share)
    whole = json.dumps(make_input("lines", chars), ensure_ascii=False)
    # The lines are numbered, so `make_input` returns slightly more than `chars` characters.
    return make_input("lines", chars * chars // len(whole))


def conversation(model: str, share: float = 1.0) -> list[list[bytes]]:
    """Return the two responses, each as its events: a text with a call of `make_file`, and the last text."""
    responses = (response(_call(model, share)), response(text("Done.")))
    return [[chunk.data for chunk in each.chunks] for each in responses]


def _call(model: str, share: float) -> Scripted:
    return tool_use("make_file", json.dumps(value(model, share), ensure_ascii=False), fragment_chars=FRAGMENT_CHARS)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Cost of one conversation for the client's process.

    Attributes:
        cpu_s: CPU time, user and system.
        wakeups: How often the process waited, and was woken. With one per event, each event was a read of its own.
        shares: Shares of the CPU time by part of the code, if asked for: see `cpu_shares`.
    """

    cpu_s: float
    wakeups: int
    shares: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Peer:
    """The server.

    Attributes:
        url: Its address, without a path.
        context: Trusts its certificate. None for plain HTTP.
        share: Share of `CHARS` that the conversations have.
    """

    url: str
    context: ssl.SSLContext | None
    share: float

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return str(parts.hostname), int(parts.port or 0)

    def bodies(self, model: str) -> list[bytes]:
        """Return bodies of both requests, of the size that a run sends."""
        call = {"type": "tool_use", "id": "toolu_0", "name": "make_file", "input": value(model, self.share)}
        result = {"type": "tool_result", "tool_use_id": "toolu_0", "content": _RESULT}
        before = {"type": "text", "text": text_before(_call(model, self.share))}
        later = [{"role": "assistant", "content": [before, call]}, {"role": "user", "content": [result]}]
        requests = ({"model": model, "max_tokens": 1, "messages": [_QUESTION, *more]} for more in ([], later))
        return [json.dumps({**request, "stream": True}).encode() for request in requests]


Converse = Callable[[str], Awaitable[None]]
"""Has the conversation of a `model`."""


# --- clients that only drain ------------------------------------------------------------------------------------------


@asynccontextmanager
async def _httpx(peer: Peer, *, module: str) -> AsyncIterator[Converse]:
    async with _httpx_client(module, peer) as client:

        async def drain(model: str) -> None:
            for body in peer.bodies(model):
                url = f"{peer.url}/v1/messages"
                async with client.stream("POST", url, content=body, headers=_HEADERS) as answer:
                    assert answer.status_code == 200
                    async for _ in answer.aiter_raw():
                        pass

        yield drain


def _httpx_client(module: str, peer: Peer) -> Any:
    return importlib.import_module(module).AsyncClient(verify=peer.context or False, timeout=_PATIENCE_S)


@asynccontextmanager
async def _aiohttp(peer: Peer) -> AsyncIterator[Converse]:
    async with _aiohttp_session(peer) as session:

        async def drain(model: str) -> None:
            for body in peer.bodies(model):
                async with session.post(f"{peer.url}/v1/messages", data=body, headers=_HEADERS) as answer:
                    assert answer.status == 200
                    async for _ in answer.content.iter_any():
                        pass

        yield drain


def _aiohttp_session(peer: Peer) -> Any:
    import aiohttp

    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=peer.context or True))


def _post(body: bytes) -> bytes:
    return b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


_LAST: Final = b"0\r\n\r\n"
"""End of a chunked body. The bounds look only for it, and do not read HTTP. No event ends so."""


class _Protocol(asyncio.Protocol):
    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        if data.endswith(_LAST):
            self.ended.set()


@asynccontextmanager
async def _protocol(peer: Peer) -> AsyncIterator[Converse]:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_connection(_Protocol, *peer.address, ssl=peer.context)

    async def drain(model: str) -> None:
        for body in peer.bodies(model):
            protocol.ended.clear()
            transport.write(_post(body))
            await protocol.ended.wait()

    yield drain
    transport.close()


@asynccontextmanager
async def _blocking(peer: Peer) -> AsyncIterator[Converse]:
    connection = socket.create_connection(peer.address)
    if peer.context:
        connection = peer.context.wrap_socket(connection, server_hostname=peer.address[0])

    async def drain(model: str) -> None:
        for body in peer.bodies(model):
            connection.sendall(_post(body))
            while (data := connection.recv(_READ_BYTES)) and not data.endswith(_LAST):
                pass
            assert data

    yield drain
    connection.close()


# --- clients that run the conversation --------------------------------------------------------------------------------

OpenClient = Callable[[Peer], AbstractAsyncContextManager[Any]]


@asynccontextmanager
async def _run(peer: Peer, *, open_client: OpenClient, looks: bool = False) -> AsyncIterator[Converse]:
    async with open_client(peer) as client:

        async def converse(model: str) -> None:
            received: list[object] = []

            @eagerstream.tool
            async def make_file(filename: str, lines_of_text: list[str]) -> str:
                """Write a file."""
                received.append({"filename": filename, "lines_of_text": lines_of_text})
                return _RESULT

            async with eagerstream.run(
                client, tools=[make_file], model=model, max_tokens=1, messages=[_QUESTION]
            ) as run:
                if looks:
                    async for event in run:
                        if type(event) is InputDelta:
                            _ = event.input.partial  # the read of `partial` is measured
                else:
                    await run.finish()
            assert run.result.status is RunStatus.COMPLETED
            assert received == [value(model, peer.share)]

        yield converse


@asynccontextmanager
async def _messages_stream(peer: Peer, *, open_client: OpenClient) -> AsyncIterator[Converse]:
    async with open_client(peer) as client:

        async def converse(model: str) -> None:
            messages: list[Any] = [_QUESTION]
            for _ in range(2):
                async with client.messages.stream(model=model, max_tokens=1, messages=messages) as stream:
                    async for _ in stream:
                        pass
                    message = await stream.get_final_message()
                included = {"type", "text", "id", "name", "input"}
                blocks = [block.model_dump(include=included) for block in message.content]
                result = {"type": "tool_result", "tool_use_id": blocks[-1].get("id"), "content": _RESULT}
                messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
            assert messages[1]["content"][1]["input"] == value(model, peer.share)

        yield converse


@asynccontextmanager
async def _own(peer: Peer, *, open_http: Callable[[Peer], Any]) -> AsyncIterator[HTTPTransport]:
    async with open_http(peer) as client:
        yield HTTPTransport(base_url=peer.url, api_key="k", http_client=client)


@asynccontextmanager
async def _anthropic(peer: Peer, *, http_client: str) -> AsyncIterator[Any]:
    import anthropic

    http = getattr(anthropic, http_client)(verify=peer.context or True)
    async with anthropic.AsyncAnthropic(base_url=peer.url, api_key="k", http_client=http) as client:
        yield client


# --- all of them ------------------------------------------------------------------------------------------------------

Open = Callable[[Peer], AbstractAsyncContextManager[Converse]]

BASE: Final = "httpx2 alone"
AIOHTTP: Final = "run, HTTPTransport on aiohttp"
HTTPX2: Final = "run, HTTPTransport on httpx2"
ANTHROPIC_AIOHTTP: Final = "run, AsyncAnthropic on aiohttp"
UVLOOP: Final = ", uvloop"

_on_httpx = partial(_own, open_http=partial(_httpx_client, "httpx"))
_on_httpx2 = partial(_own, open_http=partial(_httpx_client, "httpx2"))
_on_aiohttp = partial(_own, open_http=_aiohttp_session)
_anthropic_httpx = partial(_anthropic, http_client="DefaultAsyncHttpxClient")
_anthropic_aiohttp = partial(_anthropic, http_client="DefaultAioHttpClient")

_ON_ONE_LOOP: Final[Mapping[str, Open]] = {
    "blocking socket": _blocking,
    "httpx alone": partial(_httpx, module="httpx"),
    "run with reads of `partial`, HTTPTransport on aiohttp": partial(_run, open_client=_on_aiohttp, looks=True),
    "messages.stream() of anthropic": partial(_messages_stream, open_client=_anthropic_httpx),
}
_ON_BOTH_LOOPS: Final[Mapping[str, Open]] = {
    "asyncio.Protocol": _protocol,
    BASE: partial(_httpx, module="httpx2"),
    "aiohttp alone": _aiohttp,
    "run, HTTPTransport on httpx": partial(_run, open_client=_on_httpx),
    HTTPX2: partial(_run, open_client=_on_httpx2),
    AIOHTTP: partial(_run, open_client=_on_aiohttp),
    "run, AsyncAnthropic": partial(_run, open_client=_anthropic_httpx),
    ANTHROPIC_AIOHTTP: partial(_run, open_client=_anthropic_aiohttp),
}
SIDES: Final[Mapping[str, Open]] = {
    **_ON_ONE_LOOP,
    **_ON_BOTH_LOOPS,
    **{f"{name}{UVLOOP}": side for name, side in _ON_BOTH_LOOPS.items()},
}


def measure(name: str, peer: Peer, *, profiled: bool = False) -> Cost:
    """Return the cost of the conversation for this client."""
    factory = importlib.import_module("uvloop").new_event_loop if name.endswith(UVLOOP) else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(_measure(SIDES[name], peer, CPUShares() if profiled else None))


async def _measure(side: Open, peer: Peer, shares: CPUShares | None) -> Cost:
    async with side(peer) as converse:
        await converse(WARM_UP)  # loads modules and opens the connection
        gc.collect()
        start_s, start = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        times = _PROFILED_TIMES if shares else 1
        with shares or nullcontext():
            for _ in range(times):
                await converse(MEASURED)
        cpu_s = (time.process_time() - start_s) / times
        wakeups = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - start
        return Cost(cpu_s=cpu_s, wakeups=wakeups, shares=shares.shares() if shares else {})


def main(name: str, url: str, certificate: str, share: str, *options: str) -> None:
    """Measure one client, and print its figures."""
    context = ssl.create_default_context(cafile=certificate) if certificate else None
    cost = measure(name, Peer(url, context, float(share)), profiled="--profile" in options)
    print(json.dumps(asdict(cost)))


if __name__ == "__main__":
    main(*sys.argv[1:])
