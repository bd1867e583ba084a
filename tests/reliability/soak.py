"""Hundreds of conversations under way at once, for minutes, against a server that fails.

What each of them must be, however it ends, is in `soak_conversation.check`; that nothing adds up from one to the next,
in `Report.check`. To run one and see what it was like: `python -m tests.reliability.soak --backend trio --seconds 30`.
"""

from __future__ import annotations

import argparse
import gc
import time
import traceback
from contextlib import AsyncExitStack
from typing import Any, Final

import anyio
import httpx

import eagerstream
from eagerstream import Limits
from eagerstream.transports import HTTPTransport
from tests.reliability.faulty_server import FaultyServer
from tests.reliability.measures import Sample, complaints, count_tasks, live, open_files
from tests.reliability.soak_conversation import Ledger, World, check, listen
from tests.reliability.soak_plans import REPLY_S, Plan, name_of
from tests.reliability.soak_report import Report
from tests.support import anthropic_http_library

_IDLE_S: Final = 6.0  # less than a reply takes, and more than is between two of its chunks
_LEAST_IDLE_S: Final = 0.5  # with a model that writes faster than the machine keeps up with
_SAMPLES: Final = 100
_OBJECTS_EVERY: Final = 10  # samples: to look through all objects takes a tenth of a second
_LOOK_S: Final = 0.05
_LATE_S: Final = 0.25  # an event loop that comes back so late was kept by somebody
_ENOUGH: Final = 5  # failures
_CLIENTS: Final = 4  # of each kind
_EXPECTED: Final = (
    "the tool 'book' raised LookupError",  # on purpose
    "is sent again in",  # after a fault
    "ended with the status",  # each end is looked at
    "blocked the event loop",  # a machine with other work keeps it for a moment: that is no mistake of a tool
    "a response broke the protocol",  # as some of the faults do
    "stopped for tools and calls none",  # the start of a call went missing, and deltas of no block are ignored
    "httpx._content.ByteStream",  # cancelled while it sends a body, httpx leaves that to the collector; trio tells
)


class Soak:
    """Conversations without end, `at_once` at a time, until the time is over.

    Args:
        backend: `"asyncio"` or `"trio"`.
        seed: Decides the conversations and the faults.
        at_once: Conversations at a time; one that ends is replaced by the next.
        seconds: How long new ones begin.
        rate: How many replies fail.
        speed: How fast the model writes; at 1 a reply takes about `REPLY_S`.
    """

    def __init__(
        self,
        backend: str,
        *,
        seed: int = 1,
        at_once: int = 500,
        seconds: float = 120.0,
        rate: float = 0.05,
        speed: float = 1.0,
    ) -> None:
        self._speed = speed
        self._rate = rate
        self._report = Report(backend, seed, at_once, seconds)
        self._world = World()
        self._tools = self._world.tools()
        idle_s = max(_LEAST_IDLE_S, _IDLE_S / speed)
        self._limits = Limits(
            idle_timeout_s=idle_s, progress_timeout_s=2 * idle_s, tool_timeout_s=10, max_reply_bytes=100_000
        )
        self._next = 0
        self._failures: list[tuple[int, str]] = []
        self._start_s = 0.0

    def run(self) -> Report:
        """Run it; what it was like is in the report, for `Report.check`."""
        report = self._report
        gc.collect()
        objects = live()
        with FaultyServer(seed=report.seed, rate=self._rate, speed=self._speed) as server:
            files = open_files()
            with complaints() as heard:
                anyio.run(self._run, server.base_url, backend=report.backend)
                gc.collect()
            report.complaints += [each for each in heard if not any(said in each for said in _EXPECTED)]
            if (more := open_files() - files) > 0:
                report.left["files"] = more
            report.requests, report.faults = server.totals()
            report.failures = [self._told(server, *failure) for failure in self._failures]
        report.left |= live() - objects
        return report

    async def _run(self, base_url: str) -> None:
        tasks = count_tasks()
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(client) for client in _clients(base_url)]
            self._start_s = time.monotonic()
            async with anyio.create_task_group() as watching:
                watching.start_soon(self._sample)
                watching.start_soon(self._watch)
                async with anyio.create_task_group() as working:
                    for number in range(self._report.at_once):
                        working.start_soon(self._work, clients, number)
                watching.cancel_scope.cancel()
        self._report.ran_s = self._now_s
        self._report.late = self._world.late
        if (more := count_tasks() - tasks) > 0:
            self._report.left["tasks"] = more

    @property
    def _now_s(self) -> float:
        return time.monotonic() - self._start_s

    async def _work(self, clients: list[Any], worker: int) -> None:
        """One conversation after the other."""
        await anyio.sleep(REPLY_S / self._speed * worker / self._report.at_once)  # not all in the same step
        while self._now_s < self._report.seconds and len(self._failures) < _ENOUGH:
            number, self._next = self._next, self._next + 1
            try:
                await self._converse(clients, number)
            except Exception:
                self._failures.append((number, traceback.format_exc()))

    async def _converse(self, clients: list[Any], number: int) -> None:
        plan = Plan.of(self._report.seed, number)
        ledger = self._world.ledgers[number] = Ledger()
        run = eagerstream.run(
            clients[number % len(clients)],
            model="claude-made-1",
            max_tokens=1024,
            messages=[plan.first_message],
            tools=self._tools,
            limits=self._limits,
            restart_delay_s=0.05,
            **plan.options,
        )
        try:
            heard = await listen(run, plan, self._speed)
            self._report.note(run.result, heard)
            check(run, plan, heard, ledger)
        finally:
            del self._world.ledgers[number]

    def _told(self, server: FaultyServer, number: int, what: str) -> str:
        report = self._report
        plan = Plan.of(report.seed, number)
        return f"{name_of(number)} of seed {report.seed}: {plan}\nfaults: {server.met_by(number)}\n{what}"

    async def _sample(self) -> None:
        """Look at what the process holds, from time to time."""
        for number in range(1, _SAMPLES + 1):
            await anyio.sleep(max(0.0, number * self._report.seconds / _SAMPLES - self._now_s))
            self._report.samples.append(Sample.now(self._now_s, with_objects=number % _OBJECTS_EVERY == 0))

    async def _watch(self) -> None:
        """See whether the event loop stands still."""
        while True:
            before_s = time.monotonic()
            await anyio.sleep(_LOOK_S)
            late_s = time.monotonic() - before_s - _LOOK_S
            self._report.blocked += late_s > _LATE_S
            self._report.longest_blocked_s = max(self._report.longest_blocked_s, late_s)


def _clients(base_url: str) -> list[Any]:
    """The real client and the plain transport, several of each: a pool looks through all of its connections."""
    from anthropic import AsyncAnthropic

    library = anthropic_http_library()
    clients: list[Any] = []
    for _ in range(_CLIENTS):
        many = library.AsyncClient(verify=False, limits=library.Limits(max_connections=None))
        clients.append(AsyncAnthropic(api_key="k", base_url=base_url, http_client=many))
        plain = httpx.AsyncClient(verify=False, limits=httpx.Limits(max_connections=None))
        clients.append(_Plain(base_url, plain))
    return clients


class _Plain(HTTPTransport):
    """A plain transport that closes its client."""

    def __init__(self, base_url: str, client: httpx.AsyncClient) -> None:
        super().__init__(base_url=base_url, api_key="k", http_client=client)
        self._many = client

    async def aclose(self) -> None:
        await self._many.aclose()


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="asyncio")
    for name, default in (("seed", 1), ("at-once", 500)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, share in (("seconds", 120.0), ("rate", 0.05), ("speed", 1.0)):
        parser.add_argument(f"--{name}", type=float, default=share)
    report = Soak(**vars(parser.parse_args())).run()
    print(report)
    report.check()
    report.check_memory()


if __name__ == "__main__":
    _main()
