"""The measurement of early start with MCP tools: what is measured really happens, and in that order."""

from __future__ import annotations

import pytest
from benchmarks.frameworks import compare, row, scenario
from benchmarks.frameworks.mcp import CALLS, sides

from eagerstream_testing import ReplayServer


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_first_call_is_sent_before_the_last_byte() -> None:
    """With us; the tool runner sends it after that. Both send the same calls."""
    with ReplayServer(scenario(tokens_per_second=400, lines=10)) as server:
        async with sides(server.base_url) as (alone, early):
            courses = await compare(alone, early, repeats=1)
    (alone_course,), (early_course,) = courses
    assert alone_course.place("last byte") < alone_course.place("effect")
    assert early_course.place("effect") < early_course.place("last byte")
    for course in (alone_course, early_course):
        assert [name for name, _ in course.events].count("effect") == CALLS
        assert course.place("results") < course.place("end")
    assert row("mcp", courses).count("times") == 3
