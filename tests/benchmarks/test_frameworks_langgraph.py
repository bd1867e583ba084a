"""What the comparison with LangGraph measures is there, in order."""

from __future__ import annotations

from functools import partial

import anyio
import pytest
from benchmarks.frameworks import compare, row, scenario
from benchmarks.frameworks.langgraph import sides

from eagerstream_testing import ReplayServer


@pytest.mark.slow
def test_early_start_in_langgraph() -> None:
    """Alone, tools begin behind the last byte of the reply; with us before it, and so does what streams."""
    with ReplayServer(scenario(tokens_per_second=300, lines=12)) as server:
        courses = anyio.run(partial(compare, *sides(server.base_url), repeats=1))
    (alone,), (early,) = courses
    assert alone.place("last byte") < alone.place("effect") < alone.place("results") < alone.place("end")
    assert alone.place("last byte") < alone.place("line")
    assert early.place("effect") < early.place("line") < early.place("last byte")
    assert early.place("results") < early.place("end")
    assert row("x", courses).count("times") == 3
