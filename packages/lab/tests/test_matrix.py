"""The matrix: every combination, in a fair order, and nothing that cannot be measured."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.tables import rows

from eagerstream.errors import UsageError
from eagerstream.recordings import Recording
from eagerstream_lab._kinds import TransportName
from eagerstream_lab._matrix import Case, Matrix, cross
from eagerstream_lab._sources import Source, of_prompt, poem_tools, recorded_tools, the_poem
from eagerstream_testing import Timing, buffered, reply, retime, text, tool_use

CALL = reply(tool_use("look", {"place": "sea"}))
END = reply(text("Done."))
AXES: dict[str, Any] = {
    "sources": [the_poem()],
    "streamings": ["eager", "buffered"],
    "models": ["m"],
    "transports": [TransportName.ANTHROPIC],
    "live": False,
}


def recorded(*turns: Recording) -> Source:
    return Source(name="r", prompt="Go.", tools=recorded_tools(turns, tool_s=0, name="r"), recordings=turns)


HELD = recorded(buffered(retime(CALL, Timing())), END)


def matrix(cases: tuple[Case, ...], **settings: int) -> Matrix:
    return Matrix(cases=cases, **{"repetitions": 4, "warmup": 2, "seed": 1} | settings)


@pytest.mark.slow
def test_every_combination() -> None:
    """Each axis with each other one, and each case with an id of its own."""
    sources = [the_poem(), of_prompt("What?")]
    cases = cross(**AXES | {"sources": sources, "models": ["a", "b/c"], "transports": [*TransportName]})
    assert len(cases) == 2 * 2 * 2 * 3
    assert len({case.id for case in cases}) == len(cases)
    assert "poem/poem/eager/b-c/httpx2" in {case.id for case in cases}


def test_interleaved() -> None:
    """In each round every case comes once, and not always in the same order; the warm-up rounds come first."""
    made = matrix(cross(**AXES | {"models": ["a", "b", "c"]}), repetitions=6)
    steps = list(made.schedule())
    assert len(steps) == made.steps == 6 * (6 + 2)
    rounds = [steps[at : at + 6] for at in range(0, len(steps), 6)]
    assert [{step.repetition for step in round_} for round_ in rounds] == [{number} for number in range(-2, 6)]
    assert all(Counter(step.case.id for step in round_).most_common(1)[0][1] == 1 for round_ in rounds)
    assert len({tuple(step.case.id for step in round_) for round_ in rounds}) > 4
    assert [step.order for step in steps] == list(range(-12, 36))
    assert [step.case.id for step in steps] == [step.case.id for step in made.schedule()]
    other = matrix(made.cases, repetitions=6, seed=2)
    assert [step.case.id for step in steps] != [step.case.id for step in other.schedule()]


def test_each_round_draws_its_order_alone() -> None:
    """The statistics need a fair coin for each round, which knows nothing of the other rounds."""
    rounds, seeds = 40, 50
    cases = cross(**AXES)
    firsts: list[list[bool]] = []
    for seed in range(seeds):
        made = matrix(cases, repetitions=rounds, warmup=1, seed=seed)
        firsts.append([step.case.streaming == "eager" for step in made.schedule() if step.order >= 0][::2])
    total = seeds * rounds
    assert abs(sum(map(sum, firsts)) / total - 0.5) < 0.04  # 3.6 standard deviations
    for apart in (1, 2):
        same = sum(one == two for first in firsts for one, two in zip(first, first[apart:], strict=False))
        assert abs(same / (total - seeds * apart) - 0.5) < 0.04


def test_pairs() -> None:
    """Compared are cases that differ in one thing: with what was named first, and eager with buffered."""
    cases = cross(**AXES | {"models": ["a", "b", "c"]})
    pairs = {(base.id.split("/", 2)[2], other.id.split("/", 2)[2]) for base, other in matrix(cases).pairs()}
    assert pairs == {
        *((f"buffered/{model}/anthropic", f"eager/{model}/anthropic") for model in "abc"),
        *((f"{way}/a/anthropic", f"{way}/{model}/anthropic") for model in "bc" for way in ("eager", "buffered")),
    }


def test_labels() -> None:
    """A label has what tells cases apart, and a single one has one, too."""
    cases = cross(**AXES | {"models": ["a", "b"]})
    assert list(matrix(cases).labels().values()) == ["eager, a", "buffered, a", "eager, b", "buffered, b"]
    assert list(matrix(cases[:1]).labels().values()) == ["eager"]


@rows(
    "change, told",
    [
        *(({axis: []}, "at least one") for axis in ("sources", "streamings", "models", "transports")),
        ({"models": [" "]}, "name of a model"),
        ({"sources": [recorded(END)], "live": True}, "cannot be played on the live API"),
        ({"sources": [HELD]}, "cannot be played eagerly"),
        ({"sources": [recorded(CALL, END)], "tools": [poem_tools()]}, "calls look"),
        ({"tools": [recorded(CALL, END).tools]}, "no response to a prompt"),
    ],
)
def test_axes_that_cannot_be_measured(change: dict[str, Any], told: str) -> None:
    """Nothing would be measured, or only errors. A recording plays as it is, and its tools are for it alone."""
    with pytest.raises(UsageError, match=told):
        cross(**AXES | change)


def test_axes_that_can_be_measured() -> None:
    """Prompts on the API, and a recording that was held back as it is."""
    assert cross(**AXES | {"live": True})
    assert cross(**AXES | {"sources": [HELD], "streamings": ["buffered"]})


@rows(
    "cases, settings, told",
    [
        ([], {}, "nothing"),
        (cross(**AXES) * 501, {}, "more than 1,000"),
        (cross(**AXES | {"models": ["a", "a"]}), {}, "two cases"),
        (cross(**AXES), {"repetitions": 0}, "repetitions"),
        (cross(**AXES), {"repetitions": 10**6}, "1,000"),
        (cross(**AXES), {"warmup": -1}, "warm-up"),
    ],
)
def test_matrices_that_cannot_be(cases: tuple[Case, ...], settings: dict[str, int], told: str) -> None:
    """A benchmark has an end, and something in it. Two cases of one id could not be told apart in the results."""
    with pytest.raises(UsageError, match=told):
        matrix(cases, **settings)
