"""Intervals hold what they say they hold, and verdicts are given only where an interval allows one."""

from __future__ import annotations

import random
import sys
import tracemalloc
from collections.abc import Iterator
from math import comb

import pytest
from packages.lab.tests.small_scipy import small_scipy
from tests.tables import rows

from eagerstream.errors import MissingExtraError, UsageError
from eagerstream_lab._results import Estimate
from eagerstream_lab._statistics import (
    check_confidence,
    difference_of_medians,
    differences,
    estimate,
    least_n,
    ratios,
    verdict,
)


@pytest.fixture(autouse=True)
def scipy(request: pytest.FixtureRequest) -> Iterator[None]:
    """SciPy itself for the slow tests, and its two functions in a few lines for the quick ones."""
    if request.node.get_closest_marker("slow") is not None:
        yield
        return
    with small_scipy():
        yield


def known(found: Estimate | None) -> Estimate:
    assert found is not None
    return found


@pytest.mark.slow
@rows("confidence", [0.6, 0.95, 0.99])
def test_the_quick_tests_calculate_as_scipy_does(confidence: float) -> None:
    """But for the last digit, of one sample and of two."""
    random_ = random.Random(7)
    base, other = ([random_.gauss(0, 1) for _ in range(n)] for n in (30, 9))

    def found() -> list[Estimate]:
        few = (known(estimate(base[:n], confidence=confidence, seed=n)) for n in range(2, 30))
        return [*few, known(difference_of_medians(base, other, confidence=confidence, seed=1))]

    theirs = found()
    with small_scipy():
        assert found() == [pytest.approx(each, rel=1e-12) for each in theirs]


@pytest.mark.slow
@rows("n, least, most", [(5, 0.90, 0.97), (12, 0.91, 0.985)])
def test_coverage(n: int, least: float, most: float) -> None:
    """The 95 % interval of a skewed sample holds the median of what it was drawn from about 95 times of 100."""
    random_ = random.Random(11)
    rounds = 150
    hits = 0
    for number in range(rounds):
        values = [random_.lognormvariate(0, 1) for _ in range(n)]  # whose median is 1
        found = known(estimate(values, confidence=0.95, seed=number))
        hits += found["low"] <= 1 <= found["high"]
    assert least <= hits / rounds <= most


def test_a_narrower_confidence_is_a_narrower_interval() -> None:
    """The confidence is not decoration."""
    random_ = random.Random(3)
    values = [random_.gauss(0, 1) for _ in range(30)]
    wide, narrow = (known(estimate(values, confidence=confidence, seed=1)) for confidence in (0.99, 0.6))
    assert wide["low"] <= narrow["low"] <= narrow["median"] <= narrow["high"] <= wide["high"]
    assert wide["high"] - wide["low"] > narrow["high"] - narrow["low"]


def test_the_same_seed_gives_the_same_interval() -> None:
    """Who analyses the same runs again gets the same figures."""
    random_ = random.Random(4)
    values = [random_.gauss(0, 1) for _ in range(9)]
    assert estimate(values, confidence=0.95, seed=7) == estimate(values, confidence=0.95, seed=7)


def test_equal_values() -> None:
    """Ties are no NaN, which BCa makes of them."""
    assert estimate([2.5] * 6, confidence=0.95, seed=0) == {"n": 6, "median": 2.5, "low": 2.5, "high": 2.5}
    tied = known(estimate([1.0, 2.0, 2.0, 2.0, 3.0], confidence=0.95, seed=0))
    assert tied["low"] <= tied["median"] == 2.0 <= tied["high"]


def test_few_values() -> None:
    """Of one value there is no interval, of none nothing; those that are missing are not counted."""
    assert estimate([], confidence=0.95, seed=0) is None
    assert estimate([None, None], confidence=0.95, seed=0) is None
    assert estimate([None, 4.0], confidence=0.95, seed=0) == {"n": 1, "median": 4.0, "low": 4.0, "high": 4.0}


def test_pairs_without_a_value_are_dropped() -> None:
    """A run that failed takes its pair along, and no other run takes its place."""
    base = [1.0, None, 3.0, 4.0]
    other = [2.0, 9.0, None, 8.0]
    assert differences(base, other) == [1.0, 4.0]
    assert ratios(base, other) == [2.0, 2.0]
    assert ratios([0.0, 1.0], [1.0, 1.0]) is None


@rows("shift, expected", [(-0.5, "lower"), (0.5, "higher")])
def test_shifted_data_are_decided(shift: float, expected: str) -> None:
    """A shift shows up in pairs, although the spread between repetitions is larger than it."""
    random_ = random.Random(5)
    base = [random_.gauss(10, 3) for _ in range(8)]
    other = [value + shift + random_.gauss(0, 0.05) for value in base]
    found = known(estimate(differences(base, other), confidence=0.95, seed=0))
    assert verdict(found, confidence=0.95) == expected
    apart = known(difference_of_medians(base, other, confidence=0.95, seed=0))
    assert verdict(apart, confidence=0.95) == "undecided"  # unpaired, the spread hides it


def test_unpaired_data_are_decided() -> None:
    """Two days that are far apart are told apart, whatever the number of runs on each."""
    random_ = random.Random(6)
    base, other = [random_.gauss(1, 0.1) for _ in range(9)], [random_.gauss(2, 0.1) for _ in range(6)]
    found = known(difference_of_medians([*base, None], other, confidence=0.95, seed=0))
    assert found["n"] == 6
    assert 0.7 < found["low"] < found["median"] < found["high"] < 1.3
    assert verdict(found, confidence=0.95) == "higher"
    assert difference_of_medians(base, [None], confidence=0.95, seed=0) is None


_RISING = [1.0 + number / 10 for number in range(8)]


@rows(
    "values, confidence, expected",
    [
        (_RISING[:4], 0.95, "undecided"),
        (_RISING[:5], 0.95, "higher"),
        (_RISING[:7], 0.99, "undecided"),
        (_RISING[:8], 0.99, "higher"),
        ([0.0] * 7, 0.95, "undecided"),  # identical data
        ([*_RISING[:6], -0.2], 0.95, "undecided"),  # a coin falls so in every eighth case
    ],
)
def test_verdicts_of_few_values(values: list[float], confidence: float, expected: str) -> None:
    """Four runs never prove anything, and five not with a confidence that five cannot give."""
    found = known(estimate(values, confidence=confidence, seed=0))
    assert verdict(found, confidence=confidence) == expected


def test_the_least_number_of_values() -> None:
    """It grows with the confidence."""
    assert [least_n(confidence) for confidence in (0.5, 0.95, 0.99)] == [5, 5, 8]


@pytest.mark.slow
def test_wrong_verdicts_are_rare() -> None:
    """Where there is no difference, five pairs give a verdict about as rarely as they should: 1 in 16."""
    random_ = random.Random(8)
    wrong = 0
    for number in range(150):
        found = known(estimate([random_.gauss(0, 1) for _ in range(5)], confidence=0.95, seed=number))
        wrong += verdict(found, confidence=0.95) != "undecided"
    assert 0.02 <= wrong / 150 <= 0.11


@rows("confidence", [0.0, 0.49, 1.0, float("nan")])
def test_a_confidence_that_cannot_be(confidence: float) -> None:
    """An interval with confidence 1 would be endless."""
    with pytest.raises(UsageError, match="confidence"):
        check_confidence(confidence)


def test_without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is named where the library is missing."""
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(MissingExtraError, match=r"eagerstream-lab\[bench\]"):
        estimate([1.0] * 5, confidence=0.95, seed=0)


@rows("n, missed", [(5, 0.0625), (6, 0.03125), (7, 0.015625), (8, 0.0078125), (9, 0.0390625)])
def test_an_interval_is_no_narrower_than_it_can_be(n: int, missed: float) -> None:
    """Of seven values the bootstrap leaves out two, and would be wrong every eighth time: a sign test says how often."""
    outer = known(estimate([float(number) for number in range(n)], confidence=0.95, seed=0))
    left = int(outer["low"])
    assert (outer["low"], outer["high"]) == (left, n - 1 - left)
    assert sum(comb(n, below) for below in range(left + 1)) * 2 / 2**n == missed


@pytest.mark.slow
def test_many_values_take_little_memory() -> None:
    """The most that a benchmark can have: all resamples at once would be 800 MB, and then some."""
    tracemalloc.start()
    try:
        found = known(estimate([float(number) for number in range(10_000)], confidence=0.95, seed=0))
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 4_850 < found["low"] < found["median"] < found["high"] < 5_150
    assert most_bytes < 200e6
