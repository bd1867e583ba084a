"""A replay server in its own process, so that its cost is not in the measured process."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from eagerstream_testing import ReplayServer, Scenario

_START_S = 60.0
"""Time limit for its start."""


@contextmanager
def served(
    make_scenario: Callable[[], Scenario], serve: Callable[[Scenario, Connection], object] | None = None
) -> Iterator[str]:
    """Run a server with this scenario in a new process. Yield its address.

    Args:
        make_scenario: Called in the other process. A function of a module, or a `functools.partial` of one.
        serve: Called there, too: sends the address, and serves until something comes. By default, a `ReplayServer`.

    Raises:
        RuntimeError: The server did not start.
    """
    context = multiprocessing.get_context("spawn")  # a fork would copy the event loop's state
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(serve or _serve, make_scenario, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(_START_S):
            raise RuntimeError("the server did not start")
        address: str = ours.recv()
        yield address
    finally:
        ours.close()  # signals the server to stop
        process.join()


def _run(
    serve: Callable[[Scenario, Connection], object], make_scenario: Callable[[], Scenario], connection: Connection
) -> None:
    serve(make_scenario(), connection)


def _serve(scenario: Scenario, connection: Connection) -> None:
    # All sides of a benchmark read the same bytes at the same times, also those that do not ask for eager inputs.
    with ReplayServer(scenario, buffer_inputs=False) as server:
        connection.send(server.base_url)
        connection.poll(None)
