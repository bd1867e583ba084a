"""Measurement of runs: one after the other, each alone, over an open connection."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio

from eagerstream._support.error_groups import members_of
from eagerstream.calls import RunStatus
from eagerstream.errors import EagerStreamError, MissingExtraError
from eagerstream.loop import RunLatency, RunMarks, run
from eagerstream.transports import HTTPTransport

from ._embedded import EmbeddedServer, Simulation, embedded_server
from ._kinds import TransportName
from ._matrix import Matrix, Step
from ._metrics import figures
from ._programs import run_program
from ._results import MeasuredRun
from ._wire import Seen, wire_latency

API_URL: Final = "https://api.anthropic.com"
_ANY_KEY: Final = "simulated"
_KEEPALIVE_S: Final = 2.0
"""Time for which a load test keeps an unused connection. Many servers close theirs after 5 s: under load, a client may
choose a connection, and send its request only seconds later."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Settings of every run.

    Attributes:
        simulation: Settings of the embedded server; `None` on the live API.
        max_tokens: Maximum number of tokens of each response.
        max_turns: Maximum number of responses in a run. A recording has no more than its turns.
        timeout_s: Maximum duration of a run in seconds. The preparation before it has the same limit.
    """

    simulation: Simulation | None
    max_tokens: int = 16_384
    max_turns: int = 10
    timeout_s: float = 300.0


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One measured run.

    Attributes:
        step: Step of the schedule.
        run: Run as stored in the results.
        figures: Value of every metric; empty if the run failed.
        failure: Text about the exception that ended the run; `None` if there was none. It is for people: it may quote
            the peer.
    """

    step: Step
    run: MeasuredRun
    figures: dict[str, float | None]
    failure: str | None


async def measure(
    matrix: Matrix,
    conditions: Conditions,
    tell: Callable[[Measured], None],
    is_enough: Callable[[int], bool] = lambda _: False,
) -> None:
    """Measure every run of a matrix, in order.

    Args:
        matrix: The runs.
        conditions: Settings of every run.
        tell: Called with each run, warm-up rounds included.
        is_enough: Called after each round that counts, with the number of these rounds so far. If it returns True, the
            measurement ends.

    A failed run is reported with its failure, and the next one follows. Cancelling this ends the current run without a
    report, its program too, and closes the connections and the server.

    If the matrix has programs, every run passes through a proxy. The figures that a proxy sees are then those at the
    proxy, for our own cases as well.

    Raises:
        ServerLost: The embedded server did not start.
        MissingExtraError: A transport is not installed.
        UsageError: The URL of the API in the environment is malformed.
    """
    is_live = conditions.simulation is None
    upstream = (os.environ.get("ANTHROPIC_BASE_URL") or API_URL) if is_live else None
    async with AsyncExitStack() as stack:
        server: EmbeddedServer | None = None
        if matrix.has_programs or not is_live:
            server = stack.enter_context(embedded_server(proxied=matrix.has_programs, upstream=upstream))
        connections: dict[TransportName, Connected] = {}
        for case in matrix.cases:
            if case.transport not in connections:
                opened = connected(case.transport, server.base_url if server else None, is_live=is_live)
                connections[case.transport] = await stack.enter_async_context(opened)
        for step in matrix.schedule():
            tell(await _Attempt(step, connections[step.case.transport], server, conditions).measured())
            is_end_of_round = step.repetition >= 0 and (step.order + 1) % len(matrix.cases) == 0
            if is_end_of_round and is_enough(step.repetition + 1):
                return


class _Attempt:
    """One run to measure."""

    def __init__(
        self, step: Step, connection: Connected, server: EmbeddedServer | None, conditions: Conditions
    ) -> None:
        self._step = step
        self._case = step.case
        self._connection = connection
        self._server = server
        self._conditions = conditions
        self._latency: RunLatency | None = None
        self._figures: dict[str, float | None] = {}
        self._scripted = True

    async def measured(self) -> Measured:
        """Run it, and return its figures, or its failure."""
        failure: BaseException | None = None
        try:
            await self._measure()
        except Exception as error:
            failure = members_of(error)[0]
        # If no run started, use the latency of an empty run.
        latency = self._latency or RunLatency(
            RunMarks(), model=self._case.model, eager=None, status=RunStatus.ERROR.value
        )
        run: MeasuredRun = {
            "repetition": self._step.repetition,
            "order": self._step.order,
            "status": RunStatus.ERROR.value if failure and self._case.program else latency.status,
            "error": type(failure).__name__ if failure else None,
            "latency": latency.to_dict(arrivals=True),
        }
        if self._case.program is not None:
            if latency.requests:  # a run that ended before its first request says nothing about its tools
                run["same_responses"] = self._scripted
            # Not 0: a proxy does not see the tools.
            run["latency"] |= {"tool_s": None, "hidden_s": None, "won_s": None}
        words = _told(failure, self._conditions.timeout_s) if failure else None
        return Measured(step=self._step, run=run, figures={} if failure else self._figures, failure=words)

    async def _measure(self) -> None:
        """Measure the run.

        Raises:
            Exception: The run failed.
        """
        limit_s = self._conditions.timeout_s
        with anyio.fail_after(limit_s):
            # These block the thread, which has nothing else to do; the server answers at once.
            if self._server is not None and self._conditions.simulation is not None:
                self._server.play(self._conditions.simulation.answers(self._case, self._step.repetition))
            await self._connection.warm()
            if self._server is not None:
                self._server.collect()  # of an earlier run
        failure: Exception | None = None
        try:
            with (
                TemporaryDirectory(prefix="eagerstream-bench-", ignore_cleanup_errors=True) as folder,
                anyio.fail_after(limit_s),
            ):
                if self._case.program is None:
                    await self._run_ours(Path(folder))
                else:
                    assert self._server is not None
                    prompt, variables = self._case.source.prompt, self._server.variables
                    await run_program(self._case.program, prompt=prompt, model=self._case.model, variables=variables)
        except Exception as error:
            failure = error
        if self._server is not None and (seen := self._server.collect()) is not None:
            failure = self._note(seen, failure)
        if failure is not None:
            raise failure

    async def _run_ours(self, folder: Path) -> None:
        case, recordings = self._case, self._case.source.recordings
        turns = self._conditions.max_turns
        running = run(
            self._connection.client,
            model=case.model,
            max_tokens=self._conditions.max_tokens,
            max_turns=turns if recordings is None else min(turns, len(recordings)),
            tools=case.tools.made(folder, eager=case.streaming == "eager"),
            messages=[{"role": "user", "content": case.source.prompt}],
            # A retry must not count as the first attempt, and a refused eager request must not count as eager.
            on_interrupt="raise",
            eager_fallback=None,
        )
        try:
            async with running:
                await running.finish()
        finally:
            self._latency = running.latency
            self._figures = figures(self._latency)

    def _note(self, seen: Seen, failure: Exception | None) -> Exception | None:
        """Take the figures that the proxy saw. Return the failure of the run, also one that only the proxy saw."""
        latency, fault = wire_latency(seen)
        if self._case.program is not None:
            self._latency, self._scripted = latency, seen.scripted
        self._figures |= figures(latency, at_proxy=True)
        return failure or fault


@dataclass(frozen=True)
class Connected:
    """Client, with its HTTP client.

    Attributes:
        client: Client of the API.
        http_client: Its HTTP client.
        base_url: Its address.
        at: Function that returns another client with the same connections, at another address.
    """

    client: Any
    http_client: Any
    base_url: str
    at: Callable[[str], Any]

    async def warm(self) -> None:
        """Open a connection: a connection that is unused for some seconds is closed.

        The page at the root costs nothing, and needs no key.
        """
        await self.http_client.get(f"{self.base_url}/")


@asynccontextmanager
async def connected(
    transport: TransportName, server_url: str | None, *, is_live: bool, is_loaded: bool = False
) -> AsyncIterator[Connected]:
    """Open a client.

    For a load test, it opens as many connections as there are requests at once, and has no time limit for connecting:
    each run has its own.

    Raises:
        MissingExtraError: The transport is not installed.
    """
    import anthropic

    url = server_url or os.environ.get("ANTHROPIC_BASE_URL") or API_URL
    key = os.environ.get("ANTHROPIC_API_KEY") if is_live else _ANY_KEY
    # The environment's proxies are for other machines, not for this one.
    options: dict[str, Any] = {"trust_env": server_url is None}
    # The package has a class of its own, derived from that of httpx or httpx2.
    sdk_library = anthropic.DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0]
    name = sdk_library if transport is TransportName.ANTHROPIC else transport.value
    try:
        library: Any = import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtraError("bench", name, package="eagerstream-lab") from error
    if is_loaded:
        most = {"max_connections": None, "max_keepalive_connections": None}
        options["limits"] = library.Limits(**most, keepalive_expiry=_KEEPALIVE_S)
        options["timeout"] = None
        options["verify"] = not url.startswith("http:")  # loading certificates takes 50 ms, for each client
    if transport is TransportName.ANTHROPIC:
        async with (
            anthropic.DefaultAsyncHttpxClient(**options) as http_client,
            anthropic.AsyncAnthropic(base_url=url, api_key=key, http_client=http_client, max_retries=0) as client,
        ):
            yield Connected(client, http_client, url, lambda url: client.with_options(base_url=url))
        return
    async with library.AsyncClient(**options) as http_client:
        transport_at = partial(HTTPTransport, api_key=key, http_client=http_client)
        yield Connected(transport_at(base_url=url), http_client, url, lambda url: transport_at(base_url=url))


def _told(error: BaseException, timeout_s: float) -> str:
    """Return the failure as text. Texts of other packages' exceptions are left out: they may quote the request."""
    name = type(error).__name__
    if isinstance(error, TimeoutError) and not error.args:  # our own timeout
        return f"{name}: not at its end within {timeout_s:g} s"
    return f"{name}: {error}" if isinstance(error, EagerStreamError) else name
