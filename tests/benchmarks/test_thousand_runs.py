"""Many runs at once in one process, against a server in another: nothing is lost, and none is left behind."""

from __future__ import annotations

import pytest
from benchmarks.thousand_runs import measure

RUNS = 200


@pytest.mark.nightly
@pytest.mark.parametrize("side", ["run, HTTPTransport on aiohttp", "run, AsyncAnthropic"])
def test_many_runs_at_once(side: str) -> None:
    """Each has its whole result: all its events, each call run once with its own input, and its answer in the history.

    `measure` raises where one has not, or the server was asked for something else. They are identical, and paced by the
    server: one that takes twice as long as most was kept waiting by the others.
    """
    (took,) = measure(RUNS, 1, [side])
    assert took.unfairness < 2
