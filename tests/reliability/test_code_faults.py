"""The fault matrix with code among the calls: no statement runs twice or in part, and the model learns what ran.

What each conversation must be is in `conversations.converse`, and what the model must learn in `code_conversations`.
"""

from __future__ import annotations

from itertools import chain

import anyio
import pytest

from eagerstream_testing import Scenario
from eagerstream_toolkit import ProcessSandbox
from tests.reliability.code_conversations import FIRST, FIRST_EVENTS, CodeWorld
from tests.reliability.conversations import ERRORS, Ended, Report, converse_all
from tests.reliability.schedules import LAST, Schedule, at_bytes, at_events, at_some
from tests.sampling import drawn

AT_ONCE = 6
EVENTS, BYTES = len(FIRST_EVENTS), len(FIRST.body)


@pytest.fixture(scope="module", autouse=True)
def _watchdog() -> None:
    """The first interpreter starts it, and it stays: it is nothing that a conversation left."""

    async def start() -> None:
        (await ProcessSandbox().open([])).close()

    anyio.run(start)


def converse_with_code(schedules: list[Schedule], backend: str) -> list[Report]:
    scenario = Scenario(FIRST, LAST)
    return converse_all(schedules, backend, scenario=scenario, world=CodeWorld, at_once=AT_ONCE)


def test_a_few_places() -> None:
    """Faults drawn from all that there are."""
    schedules = drawn(chain(at_events(events=EVENTS), at_bytes(body_bytes=BYTES)), 3)
    assert len(converse_with_code(schedules, "asyncio")) == 3


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_some_places(backend: str) -> None:
    """Every kind of fault, at some places; and each way in which a run can go on is there."""
    reports = converse_with_code(at_some(20, events=EVENTS, body_bytes=BYTES), backend)
    assert {report.ended for report in reports} == set(Ended)
    assert {report.error for report in reports} == {*ERRORS, None}


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_every_place() -> None:
    """Every kind of fault at every boundary of events, and a lost connection at every fifth byte."""
    schedules = chain(at_events(events=EVENTS), at_bytes(step=5, body_bytes=BYTES))
    reports = converse_with_code([*schedules], "asyncio")
    assert {report.ended for report in reports} == set(Ended)
