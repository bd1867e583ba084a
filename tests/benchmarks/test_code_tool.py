"""The benchmark of code: its tasks are what they claim to be, and it measures what really happens."""

from __future__ import annotations

import ast

import pytest
from benchmarks.code_tool import servers
from benchmarks.code_tool.ours import counting, run
from benchmarks.code_tool.program import SIZED, Job, do
from benchmarks.code_tool.tasks import BEFORE, TASKS, Task, code_of, edited

from eagerstream_testing import Timing
from tests.tables import rows


@rows("chars", [1_000, 10_000])
def test_code_of_a_size(chars: int) -> None:
    """It is valid, and shorter by at most one of its parts."""
    code = code_of(chars)
    ast.parse(code)
    assert chars - 700 <= len(code) <= chars


def test_the_edits_leave_valid_code() -> None:
    """All ten places are there, and each is changed."""
    assert edited(BEFORE).count("raise LookupError") == 10
    ast.parse(edited(BEFORE))


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
async def test_the_first_effect_comes_before_the_end_of_the_code(task: Task) -> None:
    """While the code is written, its calls run; with an approval, they wait. Both do the same work."""
    timing = Timing(tokens_per_second=400, first_byte_s=0.0)
    effects = []
    with servers.weather() as weather_url, servers.model(servers.code_turns(task.code), timing) as url:
        for side in ("streaming", "at the end"):
            [done] = await do(Job(side, url, task.name, weather_url), run, counting)
            effects.append(done.effect_s or 0.0)
    assert 0 < effects[0] < effects[1]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_characters_that_are_read() -> None:
    """Each character of the code is examined once, and compiled once."""
    code = code_of(2_000)
    with servers.model(servers.code_turns(code), Timing.instant()) as url:
        [done] = await do(Job("streaming", url, SIZED, counts=True), run, counting)
    assert done.parsed is not None
    assert len(code) <= done.parsed["json_chars"] < 1.2 * len(code)
    assert 0.8 * len(code) <= done.parsed["code_chars"] <= 1.1 * len(code)
    assert 0.9 * len(code) <= done.parsed["compiled_chars"] <= len(code)
    assert done.parsed["early_chars"] > 0.9 * done.parsed["compiled_chars"]
