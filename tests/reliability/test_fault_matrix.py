"""Every kind of fault at every place of a turn with three tools, over real sockets: nothing lost, nothing done twice.

What each conversation must be, however it ends, is in `conversations.converse`; that nothing is left of them, in
`converse_all`.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from eagerstream_testing import MessageThreads
from tests.reliability.conversations import ERRORS, Ended, converse_all
from tests.reliability.schedules import at_bytes, at_events, at_some

PAGE = Path(__file__).parents[2].joinpath("docs/guides/errors.md").read_text(encoding="utf-8")
BACKENDS = ["asyncio", "trio"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
def test_some_places(backend: str) -> None:
    """Every kind of fault, at some places; and each way in which a run can go on is there."""
    reports = converse_all(at_some(40), backend)
    assert {report.ended for report in reports} == set(Ended)
    assert {report.error for report in reports} == {*ERRORS, None}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("keeps_lost", [True, False])
@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
def test_with_threads_and_a_user_who_speaks(backend: str, keeps_lost: bool) -> None:
    """The same laws, for requests that continue a conversation at a server that forgets it now and then.

    What the user says at any event is in the history once, or is handed back.
    """
    threads = MessageThreads(keeps_lost=keeps_lost)
    reports = converse_all(at_some(40), backend, threads=threads)
    assert {report.ended for report in reports} == set(Ended)


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_place(backend: str) -> None:
    """Every kind of fault at every boundary of events, and a lost connection at every byte."""
    reports = converse_all(chain(at_events(), at_bytes()), backend)
    assert {report.ended for report in reports} == set(Ended)


def test_the_table_is_of_this_matrix() -> None:
    """The page tells of all conversations that there are: the counts of both backends."""
    expected = Counter(schedule.row for schedule in chain(at_events(), at_bytes()))
    told = dict(re.findall(r"^\| (.+?) \| ([\d,]+) \| (?:[\d,]* \| ){3}", PAGE, re.MULTILINE))
    for row, count in expected.items():
        assert told[row] == f"{count * len(BACKENDS):,}", row
