"""A replay server in a process of its own: what it costs is not in the measured process."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from eagerstream.testing import ReplayServer, Scenario

_START_S = 60.0
"""How long it may take to start."""


@contextmanager
def served(make_scenario: Callable[[], Scenario]) -> Iterator[str]:
    """The address of a server with this scenario.

    Args:
        make_scenario: Called in the other process; a function of a module, or a `functools.partial` of one.

    Raises:
        RuntimeError: It did not start.
    """
    context = multiprocessing.get_context("spawn")  # a fork would take the event loop's state along
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(make_scenario, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(_START_S):
            raise RuntimeError("the server did not start")
        address: str = ours.recv()
        yield address
    finally:
        ours.close()  # which tells it to end
        process.join()


def _serve(make_scenario: Callable[[], Scenario], connection: Connection) -> None:
    with ReplayServer(make_scenario()) as server:
        connection.send(server.base_url)
        connection.poll(None)
