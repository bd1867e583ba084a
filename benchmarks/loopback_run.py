"""A complete run over loopback, compared with `httpx2` alone, which only drains the bytes of the same two responses.

The first response calls a tool with an input of 100 KB, in fragments of 16 characters. Each event is a separate TCP
write. The second response ends the run. The server is in another process, and waits a millisecond between its writes.
So each event arrives as a separate chunk. Events that arrive together are cheaper for all sides. The figures are the
CPU time of this process, user and system, on an open connection. The repetitions alternate, and the least counts.
Ratios are to the cheaper of the two ways to drain.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import anyio
import httpx2
from anthropic import AsyncAnthropic
from rich.console import Console
from rich.table import Table

import eagerstream
from eagerstream import HTTPTransport, InputDelta, RunStatus
from eagerstream.testing import Scenario, Timing, reply, text, tool_use

from .served import served
from .streams import make_input
from .targets import Row

FRAGMENT_CHARS = 16
PACE_S = 0.001
TARGET = 1.25
_REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "Go."}]}
_HEADERS = {"content-type": "application/json", "anthropic-version": "2023-06-01"}


def _text(chars: int) -> str:
    whole = json.dumps(make_input("lines", chars), ensure_ascii=False)
    # The lines are numbered, so `make_input` returns slightly more than `chars` characters.
    return json.dumps(make_input("lines", chars * chars // len(whole)), ensure_ascii=False)


def _scenario(chars: int) -> Scenario:
    call = reply(tool_use("make_file", _text(chars), fragment_chars=FRAGMENT_CHARS))
    # `Timing` counts four characters as a token.
    return Scenario(call, reply(text("Done.")), timing=Timing(tokens_per_second=FRAGMENT_CHARS / 4 / PACE_S))


class _Counted(httpx2.AsyncByteStream):
    """A body that counts its chunks."""

    def __init__(self, body: Any, watched: _Watched) -> None:
        self._body = body
        self._watched = watched

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._body:
            self._watched.chunks += 1
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


class _Watched(httpx2.AsyncHTTPTransport):
    """Connections of all sides. They record the sent bodies, and count the received chunks."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.chunks = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(request.content)
        response = await super().handle_async_request(request)
        response.stream = _Counted(response.stream, self)
        return response


@dataclass
class Side:
    """Least costs of one side: CPU seconds, and the chunks that came in that time."""

    name: str
    run: Callable[[], Awaitable[None]]
    cpu_s: float = float("inf")
    chunks: int = 0

    async def measure(self, watched: _Watched) -> None:
        """Run the side once, and keep its figures if they are the least."""
        gc.collect()
        watched.chunks = 0
        start = time.process_time()
        await self.run()
        cpu_s = time.process_time() - start
        if cpu_s < self.cpu_s:
            self.cpu_s, self.chunks = cpu_s, watched.chunks


async def _drain(client: httpx2.AsyncClient, url: str, bodies: list[bytes], *, raw: bool) -> None:
    for body in bodies:
        async with client.stream("POST", f"{url}/v1/messages", content=body, headers=_HEADERS) as response:
            assert response.status_code == 200
            async for _ in response.aiter_raw() if raw else response.aiter_bytes():
                pass


async def _run(client: Any, expected: dict[str, Any], *, looks: bool) -> None:
    received: list[object] = []

    @eagerstream.tool
    async def make_file(filename: str, lines_of_text: list[str]) -> str:
        """Write a file."""
        received.append({"filename": filename, "lines_of_text": lines_of_text})
        return f"{len(lines_of_text)} lines"

    async with eagerstream.run(client, tools=[make_file], **_REQUEST) as run:
        if looks:
            async for event in run:
                if type(event) is InputDelta:
                    _ = event.input.partial  # the read of `partial` is measured
        else:
            await run.finish()
    assert run.result.status is RunStatus.COMPLETED
    assert received == [expected]


async def measure(chars: int, repeats: int) -> list[Side]:
    """Measure all sides. The two that only drain come first."""
    expected = json.loads(_text(chars))
    with served(partial(_scenario, chars)) as url:
        watched = _Watched()
        async with httpx2.AsyncClient(transport=watched) as client:
            transport = HTTPTransport(base_url=url, http_client=client)
            anthropic = AsyncAnthropic(base_url=url, api_key="k", http_client=client)
            await _run(transport, expected, looks=False)  # a warm-up, which records the sent bodies
            bodies = list(watched.sent)
            sides = [
                Side("httpx2 alone, aiter_raw", partial(_drain, client, url, bodies, raw=True)),
                Side("httpx2 alone, aiter_bytes", partial(_drain, client, url, bodies, raw=False)),
                Side("run.finish(), HTTPTransport", partial(_run, transport, expected, looks=False)),
                Side("run, partial read at each delta, HTTPTransport", partial(_run, transport, expected, looks=True)),
                Side("run.finish(), AsyncAnthropic", partial(_run, anthropic, expected, looks=False)),
                Side("run, partial read at each delta, AsyncAnthropic", partial(_run, anthropic, expected, looks=True)),
            ]
            for side in sides[4:]:
                await side.run()  # its first request loads modules
            for _ in range(repeats):
                for side in sides:
                    await side.measure(watched)
    return sides


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure all sides, print a table, and return the figures."""
    chars = 20_000 if quick else 100_000
    sides = anyio.run(measure, chars, 3 if quick else 4)
    floor = min(side.cpu_s for side in sides[:2])
    table = Table(title=f"a run over loopback with an input of {chars:,} characters: CPU of the client's process")
    for name in ("side", "ms", "chunks", "µs per chunk", "ratio"):
        table.add_column(name, justify="left" if name == "side" else "right")
    for side in sides:
        per_chunk_us = side.cpu_s / side.chunks * 1e6
        ratio = side.cpu_s / floor
        table.add_row(side.name, f"{side.cpu_s * 1e3:.0f}", f"{side.chunks:,}", f"{per_chunk_us:.1f}", f"{ratio:.2f}")
    console.print(table)
    ratio = sides[2].cpu_s / floor
    row = Row(
        work=f"a run whose tool has {chars // 1000:,} KB of input, over loopback",
        against="draining the same bytes with httpx2 alone",
        target=f"CPU at most {TARGET} times",
        measured=f"{ratio:.2f} times, {sides[2].chunks:,} chunks against {sides[0].chunks:,}",
        met=ratio <= TARGET,
    )
    figures = [
        {"name": side.name, "cpu_s": side.cpu_s, "chunks": side.chunks, "ratio": side.cpu_s / floor} for side in sides
    ]
    return {"input_chars": chars, "sides": figures, "rows": [asdict(row)]}


if __name__ == "__main__":
    main(Console(), quick=True)
