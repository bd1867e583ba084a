"""An observer that acts on a run at each of its events, before the run does anything else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anyio

import eagerstream
from eagerstream import HTTPTransport
from eagerstream.streaming import FeedEnd
from eagerstream_testing import MessageThreads, ReplayServer, Scenario
from tests.loop.serial import SLOWLY_S, checked, now
from tests.streams import REQUEST, USER
from tests.support import check_history


class Steered:
    """Gives each event to a function at once. A consumer may see it when the run has gone on.

    Attributes:
        events: All events so far.
    """

    wants_deltas = True

    def __init__(self, run: Any, act: Callable[[Any, Any], object]) -> None:
        self.events: list[Any] = []
        self._run = run
        self._act = act

    def take(self, events: Sequence[object]) -> None:
        """Act on events."""
        for event in events:
            self.events.append(event)
            self._act(self._run, event)

    def end(self, end: FeedEnd) -> None:
        """Do nothing."""


async def steered(
    scenario: Scenario, act: Callable[[Any, Any], object], *, kept: MessageThreads | None = None, **options: Any
) -> tuple[Any, list[Any], ReplayServer]:
    """A run over a server that went to its end, its events, and the server; `act` gets the run and each event at once."""
    async with ReplayServer(scenario, threads=kept) as server, HTTPTransport(base_url=server.base_url) as transport:
        run = eagerstream.run(transport, **{"tools": [now], "restart_delay_s": 0, **REQUEST, **options})
        observer = Steered(run, act)
        run.observe(observer)
        with anyio.fail_after(SLOWLY_S):
            async with run:
                await run.finish()
    if run.result.messages[0] == USER:
        checked(run.result)
    check_history(run.result.messages)  # a summary may have replaced the first message
    return run, observer.events, server
