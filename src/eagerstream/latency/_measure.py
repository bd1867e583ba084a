"""Measurement of runs: one after the other, each alone, over an open connection."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio

from ..errors import EagerStreamError, MissingExtraError
from ..loop import Run, RunLatency, RunMarks, RunStatus, run
from ..transports import HTTPTransport
from ._embedded import EmbeddedServer, Simulation, embedded_server
from ._kinds import TransportName
from ._matrix import Case, Matrix, Step
from ._metrics import figures
from ._results import MeasuredRun

API_URL: Final = "https://api.anthropic.com"
_ANY_KEY: Final = "simulated"


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


async def measure(matrix: Matrix, conditions: Conditions, tell: Callable[[Measured], None]) -> None:
    """Measure every run of a matrix, in order. `tell` is called with each run, warm-up rounds included.

    A failed run is reported with its failure, and the next one follows. Cancelling this ends the current run without a
    report, and closes the connections and the server.

    Raises:
        ServerLost: The embedded server did not start.
        MissingExtraError: A transport is not installed.
    """
    async with AsyncExitStack() as stack:
        server: EmbeddedServer | None = None
        if conditions.simulation is not None:
            server = stack.enter_context(embedded_server())
        base_url = server.base_url if server else None
        connections: dict[TransportName, _Connection] = {}
        for case in matrix.cases:
            if case.transport not in connections:
                connected = _connected(case.transport, base_url)
                connections[case.transport] = await stack.enter_async_context(connected)
        for step in matrix.schedule():
            tell(await _measure_step(step, connections[step.case.transport], server, conditions))


async def _measure_step(
    step: Step, connection: _Connection, server: EmbeddedServer | None, conditions: Conditions
) -> Measured:
    case = step.case
    running: Run | None = None
    failure: Exception | None = None
    with TemporaryDirectory(prefix="eagerstream-bench-", ignore_cleanup_errors=True) as folder:
        try:
            with anyio.fail_after(conditions.timeout_s):
                if server is not None and conditions.simulation is not None:
                    # This blocks the thread, which has nothing else to do; the server answers at once.
                    server.play(conditions.simulation.replies(case, step.repetition))
                await connection.warm()
            with anyio.fail_after(conditions.timeout_s):
                running = _run(case, connection, Path(folder), conditions)
                async with running:
                    await running.finish()
        except Exception as error:
            failure = _first(error)
    # If no run started, use the latency of an empty run.
    unbegun = RunLatency(RunMarks(), model=case.model, eager=None, status=RunStatus.ERROR.value)
    latency = running.latency if running is not None else unbegun
    measured: MeasuredRun = {
        "repetition": step.repetition,
        "order": step.order,
        "status": latency.status,
        "error": type(failure).__name__ if failure else None,
        "latency": latency.to_dict(arrivals=True),
    }
    found = figures(latency) if failure is None else {}
    words = _told(failure, conditions.timeout_s) if failure else None
    return Measured(step=step, run=measured, figures=found, failure=words)


def _run(case: Case, connection: _Connection, folder: Path, conditions: Conditions) -> Run:
    recordings = case.source.recordings
    turns = conditions.max_turns if recordings is None else min(conditions.max_turns, len(recordings))
    return run(
        connection.client,
        model=case.model,
        max_tokens=conditions.max_tokens,
        max_turns=turns,
        tools=case.tools.made(folder, eager=case.streaming == "eager"),
        messages=[{"role": "user", "content": case.source.prompt}],
        # A retry must not count as the first attempt, and a refused eager request must not count as eager.
        on_interrupt="raise",
        eager_fallback=None,
    )


@dataclass(frozen=True)
class _Connection:
    """Client, with its HTTP client."""

    client: Any
    http_client: Any
    base_url: str

    async def warm(self) -> None:
        """Open a connection: a connection that is unused for some seconds is closed.

        The page at the root costs nothing, and needs no key.
        """
        await self.http_client.get(f"{self.base_url}/")


@asynccontextmanager
async def _connected(transport: TransportName, base_url: str | None) -> AsyncIterator[_Connection]:
    """Open a client for the embedded server at this address, or for the live API if the address is `None`.

    Raises:
        MissingExtraError: The transport is not installed.
    """
    import anthropic

    url = base_url or os.environ.get("ANTHROPIC_BASE_URL") or API_URL
    key = os.environ.get("ANTHROPIC_API_KEY") if base_url is None else _ANY_KEY
    # The environment's proxies are for other machines, not for this one.
    options: dict[str, Any] = {"trust_env": base_url is None}
    if transport is TransportName.ANTHROPIC:
        async with (
            anthropic.DefaultAsyncHttpxClient(**options) as http_client,
            anthropic.AsyncAnthropic(base_url=url, api_key=key, http_client=http_client, max_retries=0) as client,
        ):
            yield _Connection(client, http_client, url)
        return
    try:
        library: Any = import_module(transport)
    except ModuleNotFoundError as error:
        raise MissingExtraError("bench", transport) from error
    async with library.AsyncClient(**options) as http_client:
        yield _Connection(HTTPTransport(base_url=url, api_key=key, http_client=http_client), http_client, url)


def _first(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _told(error: Exception, timeout_s: float) -> str:
    """Return the failure as text. Texts of other packages' exceptions are left out: they may quote the request."""
    name = type(error).__name__
    if isinstance(error, TimeoutError) and not error.args:  # our own timeout
        return f"{name}: not at its end within {timeout_s:g} s"
    return f"{name}: {error}" if isinstance(error, EagerStreamError) else name
