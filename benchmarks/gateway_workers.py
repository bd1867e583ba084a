"""Runs per second of a gateway with two worker processes, compared with the same gateway in one process.

Both are the command `eagerstream gateway`, over loopback sockets. A client keeps 1,000 runs going, each on its own
connection, until 2,000 have ended, and reads all of their records. Each run has two responses. The first calls a tool
with an input of 1 KB in fragments of 16 characters, the second ends the run. The workers replay the responses from
memory, so that the work of the API's double does not compete for the cores. The client asks the kernel to wake it only
for much at a time, and does not parse. Two workers and the client have to share the cores, so a machine with two cores
cannot reach 2.00. The sides alternate, and the fastest repetition of each counts. A second figure depends less on other
programs of the machine: the CPU time of the one process, divided by that of the busier of the two workers. It is the
factor on the clock if each worker has a core of its own, and includes an uneven spread of the runs.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

import httpx
from rich.console import Console
from rich.table import Table
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

import eagerstream
from eagerstream import HTTPTransport
from eagerstream.progress.gateway import RunSlots, gateway_app
from eagerstream.testing import reply, text

from .streams import body_chunks, make_input
from .targets import Row

AT_ONCE: Final = 1_000
QUICK_AT_ONCE: Final = 50
ROUNDS: Final = 2
"""Number of runs for each connection that is open at once. The less busy worker accepts more of the later ones."""
INPUT_CHARS: Final = 1_000
FRAGMENT_CHARS: Final = 16
TARGET: Final = 1.8
_SIDES: Final = (1, 2)
_START_S: Final = 60.0
_LOW_WATER_BYTES: Final = 16_384
_SPARE_FILES: Final = 200

# --- the gateway, in the processes of the workers ---------------------------------------------------------------------


@cache
def _chunks() -> list[bytes]:
    return list(body_chunks(json.dumps(make_input("lines", INPUT_CHARS), ensure_ascii=False), FRAGMENT_CHARS))


class _Body(httpx.AsyncByteStream):
    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


def _respond(request: httpx.Request) -> httpx.Response:
    is_first = len(json.loads(request.content)["messages"]) == 1
    chunks = _chunks() if is_first else [reply(text("Done.")).body]
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Body(chunks))


@eagerstream.tool
async def make_file(filename: str, lines_of_text: list[str]) -> str:
    """Take the input."""
    return f"{filename}: {len(lines_of_text)}"


def make() -> Starlette:
    """Return the application of a worker."""
    client = httpx.AsyncClient(transport=httpx.MockTransport(_respond))
    api = HTTPTransport(base_url="http://double", http_client=client)
    used = {"runs": 0}

    def start(asked: Mapping[str, Any]) -> eagerstream.Run:
        used["runs"] += 1
        messages = [{"role": "user", "content": str(asked["question"])}]
        return eagerstream.run(api, model="m", max_tokens=1, tools=[make_file], buffer="wait", messages=messages)

    async def tell(_: Request) -> JSONResponse:
        return JSONResponse({"pid": os.getpid(), "cpu_s": time.process_time(), "runs": used["runs"]})

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with client:
            yield

    routes = [Route("/used", tell), Mount("/", gateway_app(start, slots=RunSlots(2 * AT_ONCE)))]
    return Starlette(routes=routes, lifespan=lifespan)


# --- the client -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Took:
    """Figures of one repetition.

    Attributes:
        wall_s: From the first connection to the last byte.
        cpu_s: CPU of each worker.
        client_s: CPU of this process.
        shares: Number of runs of each worker.
    """

    wall_s: float
    cpu_s: list[float]
    client_s: float
    shares: list[int]


@contextmanager
def _gateway(workers: int) -> Iterator[str]:
    """Run a gateway with so many workers. Yield its address."""
    target = f"{__name__}:{make.__name__}"
    command = [sys.executable, "-m", "eagerstream", "gateway", target, "--port", "0", "--workers", str(workers)]
    root = Path(__file__).parents[1]
    with subprocess.Popen(
        [*command, "--grace-s", "0"], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            match = re.match(r"gateway at (\S+),", process.stdout.readline())
            assert match, "the gateway did not start"
            deadline_s = time.monotonic() + _START_S
            while len(_used(match[1])) < workers:
                assert time.monotonic() < deadline_s, "a worker did not start"
            yield match[1]
        finally:
            process.send_signal(signal.SIGTERM)


def _used(url: str, *, attempts: int = 40) -> dict[int, tuple[float, int]]:
    """Return the CPU seconds and the number of runs of each worker that answers, by its process."""
    found: dict[int, tuple[float, int]] = {}
    for _ in range(attempts):
        told = httpx.get(f"{url}/used", timeout=_START_S).json()
        found[told["pid"]] = told["cpu_s"], told["runs"]
    return found


def _converse(url: str, at_once: int) -> None:
    """Keep so many runs going, until `ROUNDS` times as many have ended, and read all records of each.

    Raises:
        AssertionError: A run did not complete.
    """
    address = urlsplit(url)
    body = json.dumps({"question": "Go."}).encode()
    head = f"POST /runs HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: close\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def start() -> None:
        connection = socket.create_connection((address.hostname, address.port))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _LOW_WATER_BYTES)
        connection.sendall(request)
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_READ, bytearray())

    with selectors.DefaultSelector() as selector:
        for _ in range(at_once):
            start()
        waiting = at_once * (ROUNDS - 1)
        while selector.get_map():
            for key, _ in selector.select(_START_S):
                connection, last = cast("socket.socket", key.fileobj), key.data
                if piece := connection.recv(2**20):
                    last[:] = (last + piece)[-2_000:]
                    continue
                assert b'"status":"completed"' in last, bytes(last[-300:])
                selector.unregister(connection)
                connection.close()
                if waiting:
                    waiting -= 1
                    start()


def _measure(url: str, at_once: int) -> Took:
    before = _used(url)
    client_s, start_s = time.process_time(), time.monotonic()
    _converse(url, at_once)
    wall_s, client_s = time.monotonic() - start_s, time.process_time() - client_s
    after = _used(url)
    shares = [after[pid][1] - before[pid][1] for pid in after]
    assert sum(shares) == at_once * ROUNDS
    return Took(wall_s, [after[pid][0] - before[pid][0] for pid in after], client_s, shares)


def _allow_files(count: int) -> None:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count if hard == resource.RLIM_INFINITY else min(count, hard), hard))


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure both sides, print a table, and return the figures."""
    at_once = QUICK_AT_ONCE if quick else AT_ONCE
    runs, repeats = at_once * ROUNDS, 2
    _allow_files(at_once + _SPARE_FILES)
    took: dict[int, list[Took]] = {workers: [] for workers in _SIDES}
    with _gateway(1) as one, _gateway(2) as two:
        for url in (one, two):
            _converse(url, 10)  # a warm-up of all workers
        for _ in range(repeats):
            for workers, url in zip(_SIDES, (one, two), strict=True):
                took[workers].append(_measure(url, at_once))
    fastest = {workers: min(tries, key=lambda tried: tried.wall_s) for workers, tries in took.items()}
    table = Table(title=f"{runs:,} runs, {at_once:,} at once, {os.cpu_count()} cores")
    for name in ("workers", "runs per second", "worker CPU ms per run", "client CPU ms per run", "runs of each worker"):
        table.add_column(name, justify="right")
    for workers, tried in fastest.items():
        shares = " + ".join(map(str, sorted(tried.shares)))
        costs = [f"{seconds / runs * 1e3:.2f}" for seconds in (sum(tried.cpu_s), tried.client_s)]
        table.add_row(f"{workers}", f"{runs / tried.wall_s:.0f}", *costs, shares)
    console.print(table)
    ratio = fastest[1].wall_s / fastest[2].wall_s
    alone_s, busier_s = (min(max(tried.cpu_s) for tried in took[workers]) for workers in _SIDES)
    cpu_ratio = alone_s / busier_s
    row = Row(
        work=f"{at_once:,} concurrent runs of a gateway with two worker processes",
        against="the same gateway in one process",
        target=f"at least {TARGET:g} times the runs per second",
        measured=f"{ratio:.2f} times on the clock; {cpu_ratio:.2f} times by the CPU of the busier worker",
        met=ratio >= TARGET,
        asserted=False,  # two cores are shared with the client, and with all other programs of the machine
    )
    figures = {str(workers): [asdict(tried) for tried in tries] for workers, tries in took.items()}
    return {
        "runs": runs,
        "at_once": at_once,
        "ratio": ratio,
        "cpu_ratio": cpu_ratio,
        "sides": figures,
        "rows": [asdict(row)],
    }


if __name__ == "__main__":
    main(Console(), quick=True)
