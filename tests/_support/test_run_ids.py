"""Ids of runs, with the name of their process, and which requests name a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eagerstream._support import run_ids
from eagerstream.progress import RunRecorder
from tests.tables import rows

RUN = "0123abcd-" + "5" * 32


@pytest.fixture
def named() -> Iterator[str]:
    """A name of this process, for the time of a test."""
    run_ids.name_process("0123abcd")
    yield "0123abcd"
    run_ids.name_process("")


def test_an_id_is_new_and_tells_its_process(named: str) -> None:
    """Whoever gets a request about the run can pass it on to that process."""
    first, second = run_ids.new_run_id(), run_ids.new_run_id()
    assert first != second
    assert run_ids.run_in(f"/runs/{first}/messages".encode()) == (named, first)
    assert RunRecorder(list).id.startswith("0123abcd-")


def test_without_a_name_it_is_a_plain_id() -> None:
    assert len(run_ids.new_run_id()) == 32


@rows(
    "target, is_found",
    [
        (f"/runs/{RUN}/messages", True),
        (f"/runs/{RUN}", True),
        (f"/watch/events?run={RUN}&after=5", True),
        (f"/watch/events?after=5&run={RUN}", True),
        ("/runs", False),
        (f"/runs/x{RUN}/messages", False),
        (f"/runs/{RUN}x/messages", False),
        (f"/runs/{RUN.upper()}/messages", False),
        (f"/runs/../{RUN}%2f..%2fother/messages", False),
        ("/runs/../../0123abcd/messages", False),
        (f"/runs/0123abcd-{'5' * 31}/messages", False),
    ],
)
def test_only_a_whole_id_names_a_run(target: str, is_found: bool) -> None:
    """The name becomes a part of a path of a socket: nothing but 8 digits may get there."""
    assert run_ids.run_in(target.encode()) == (("0123abcd", RUN) if is_found else None)
