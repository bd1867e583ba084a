"""The measurement of early start with OpenAI's client: what is measured really happens, and in that order."""

from __future__ import annotations

import pytest
from benchmarks.frameworks import compare, row, scenario
from benchmarks.frameworks.openai import sides
from packages.adapters.tests.chat.server import ChatServer


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_first_effect_comes_before_the_last_byte() -> None:
    """With us; alone it comes after it. Both do the same work."""
    with ChatServer(scenario(tokens_per_second=400, lines=10)) as server:
        async with sides(server.chat_url()) as (alone, early):
            courses = await compare(alone, early, repeats=1)
    (alone_course,), (early_course,) = courses
    assert alone_course.place("last byte") < alone_course.place("effect")
    assert early_course.place("effect") < early_course.place("last byte")
    assert early_course.place("line") < early_course.place("last byte")
    for course in (alone_course, early_course):
        names = [name for name, _ in course.events]
        assert (names.count("effect"), names.count("line")) == (3, 10)
        assert course.place("results") < course.place("end")
    assert row("openai", courses).count("times") == 3
