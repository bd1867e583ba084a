"""Intervals are as certain as they say, for any noise: counted over all cases, not only drawn."""

from __future__ import annotations

import random
from itertools import combinations, permutations, product
from statistics import median

import pytest
from hypothesis import given, settings, strategies as st
from tests.tables import rows

from eagerstream.errors import UsageError
from eagerstream_lab import _statistics as module
from eagerstream_lab._results import Estimate
from eagerstream_lab._statistics import (
    check_confidence,
    differences,
    has_interval,
    least_n,
    of_pairs,
    of_samples,
    of_trend,
    of_values,
    ratios,
)


def known(found: Estimate | None) -> Estimate:
    assert found is not None
    return found


def excludes_0(estimate: Estimate) -> bool:
    return has_interval(estimate) and not estimate["low"] <= 0 <= estimate["high"]


# --- how often an interval is wrong -----------------------------------------------------------------------------------

SIZES = st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.0, 3.5, 40.0]), min_size=6, max_size=9)


@settings(max_examples=25)
@given(SIZES, st.sampled_from([0.9, 0.95, 0.975]))
def test_equal_cases_rarely_differ(sizes: list[float], confidence: float) -> None:
    """Whatever the sizes of the differences, also with ties and zeros: of all ways to draw signs, few give a verdict.

    This is exact: the signs are all that the order of the runs decides.
    """
    signs = list(product((-1, 1), repeat=len(sizes)))
    drawn = ([sign * size for sign, size in zip(each, sizes, strict=True)] for each in signs)
    wrong = sum(excludes_0(known(of_pairs(values, confidence=confidence))) for values in drawn)
    assert wrong / len(signs) <= 1 - confidence + 1e-9


@rows("n", [6, 8, 11])
def test_no_error_is_given_away(n: int) -> None:
    """Of pairs without ties, one more average left out would be wrong too often."""
    sizes = [float(2**number) for number in range(n)]  # no two averages are equal
    signs = list(product((-1, 1), repeat=n))
    left = module._left_out_of_pairs(n, 0.05)
    found = [sorted((a + b) / 2 for a, b in _with_itself(each, sizes)) for each in signs]
    wrong = [sum(not averages[k] <= 0 <= averages[-1 - k] for averages in found) / 2**n for k in (left, left + 1)]
    assert wrong[0] <= 0.05 < wrong[1]


def _with_itself(signs: tuple[int, ...], sizes: list[float]) -> list[tuple[float, float]]:
    values = [sign * size for sign, size in zip(signs, sizes, strict=True)]
    return [(values[i], values[j]) for i in range(len(values)) for j in range(i, len(values))]


@rows("n, m", [(6, 6), (6, 8), (9, 6)])
def test_two_equal_samples_rarely_differ(n: int, m: int) -> None:
    """Of all ways to divide the same values into two samples, few give a verdict; one more left out would be too many."""
    values = [float(number**2) for number in range(n + m)]
    chosen = [frozenset(each) for each in combinations(range(n + m), n)]
    pairs = [([values[i] for i in each], [values[i] for i in range(n + m) if i not in each]) for each in chosen]
    assert sum(excludes_0(known(of_samples(a, b, confidence=0.95))) for a, b in pairs) / len(pairs) <= 0.05
    left = module._left_out_of_samples(n, m, 0.05) + 1
    shifts = [sorted(two - one for one in a for two in b) for a, b in pairs]
    assert sum(not each[left] <= 0 <= each[-1 - left] for each in shifts) / len(pairs) > 0.05


@rows("n, confidence", [(4, 0.8), (6, 0.95), (7, 0.95)])
def test_a_sequence_in_any_order_rarely_has_a_trend(n: int, confidence: float) -> None:
    """Of all orders of the same values, few have a trend; with one more slope left out, too many would."""
    orders = list(permutations(float(number**2) for number in range(n)))
    found = [known(of_trend(each, confidence=confidence)) for each in orders]
    assert sum(excludes_0(each) for each in found) / len(orders) <= 1 - confidence
    left = module._left_out_of_trend(n, 1 - confidence) + 1
    slopes = [sorted((each[j] - each[i]) / (j - i) for i, j in combinations(range(n), 2)) for each in orders]
    assert sum(not each[left] <= 0 <= each[-1 - left] for each in slopes) / len(orders) > 1 - confidence


@rows(
    "n, of_values, of_pairs, of_samples",
    [(6, 0, 0, 5), (10, 1, 8, 23), (15, 3, 25, 64), (20, 5, 52, 127)],
)
def test_printed_tables(n: int, of_values: int, of_pairs: int, of_samples: int) -> None:
    """Critical values of the sign test, of Wilcoxon's and of Mann and Whitney's, two-sided at 5 %, as textbooks have them."""
    assert module._left_out_of_values(n, 0.05) == of_values
    assert module._left_out_of_pairs(n, 0.05) == of_pairs
    assert module._left_out_of_samples(n, n, 0.05) == of_samples


@rows("error", [0.05, 0.01, 0.0025, 0.0005, 0.0001])
def test_many_values_are_no_less_certain(error: float) -> None:
    """The normal distribution leaves out no more than the exact one, and hardly less."""
    n = module.EXACT_N
    pairs = module._nearly_left_out(n * (n + 1) / 2, n * (n + 1) * (2 * n + 1) / 24, error)
    samples = module._nearly_left_out(n * n, n * n * (2 * n + 1) / 12, error)
    assert 0.95 * module._left_out_of_pairs(n, error) < pairs <= module._left_out_of_pairs(n, error)
    assert 0.95 * module._left_out_of_samples(n, n, error) < samples <= module._left_out_of_samples(n, n, error)
    trend = module._nearly_left_out(n * (n - 1) / 2, n * (n - 1) * (2 * n + 5) / 72, error)
    assert 0.95 * module._left_out_of_trend(n, error) < trend <= module._left_out_of_trend(n, error)
    assert module._left_out_of_pairs(n + 1, error) > pairs


@pytest.mark.slow
@rows("n", [6, 10, 20])
def test_intervals_of_medians(n: int) -> None:
    """Of a skewed distribution, they contain the median at least as often as they say."""
    random_ = random.Random(11)
    samples = [[random_.lognormvariate(0, 1) for _ in range(n)] for _ in range(2_000)]  # the median is 1
    found = [known(of_values(sample, confidence=0.95)) for sample in samples]
    assert sum(each["low"] <= 1 <= each["high"] for each in found) / len(found) > 0.945


# --- estimates --------------------------------------------------------------------------------------------------------


def test_estimates() -> None:
    """The median, the median of the averages of pairs, and the median of all shifts."""
    values = [5.0, 1.0, 3.0, 2.0, 4.0, 60.0]
    found = known(of_values([*values, None], confidence=0.95))
    assert found == {"n": 6, "median": 3.5, "low": 1.0, "high": 60.0, "confidence": 0.95}
    averages = sorted((a + b) / 2 for number, a in enumerate(values) for b in values[number:])
    assert known(of_pairs(values, confidence=0.95))["median"] == median(averages)
    shifted = known(of_samples(values, [value + 7 for value in values] * 2, confidence=0.95))
    assert (shifted["n"], shifted["median"]) == (6, 7.0)


def test_a_higher_confidence_is_a_wider_interval() -> None:
    """The confidence is not decoration."""
    random_ = random.Random(3)
    values = [random_.gauss(0, 1) for _ in range(30)]
    for of in (of_values, of_pairs):
        wide, narrow = (known(of(values, confidence=confidence)) for confidence in (0.99, 0.6))
        assert wide["low"] < narrow["low"] <= narrow["median"] <= narrow["high"] < wide["high"]


def test_one_wild_run_moves_little() -> None:
    """A stall of a minute in one of ten pairs does not hide a difference that all others show."""
    calm = [0.1 + number / 1000 for number in range(9)]
    found = known(of_pairs([*calm, -60.0], confidence=0.95))
    assert 0.09 < found["median"] < 0.11
    assert excludes_0(known(of_pairs([*calm, 0.1], confidence=0.95)))


def test_few_values() -> None:
    """There is no interval then, and no figure without any value. The range is not taken for an interval."""
    assert of_values([], confidence=0.95) is None
    assert of_values([None, None], confidence=0.95) is None
    assert of_pairs([], confidence=0.95) is None
    assert of_samples([1.0], [None], confidence=0.95) is None
    assert of_values([None, 4.0], confidence=0.95) == {
        "n": 1,
        "median": 4.0,
        "low": 4.0,
        "high": 4.0,
        "confidence": 0.95,
    }
    five = known(of_pairs([1.0, 1.1, 1.2, 1.3, 1.4], confidence=0.95))
    assert not has_interval(five)
    assert has_interval(known(of_pairs([1.0, 1.1, 1.2, 1.3, 1.4, 1.5], confidence=0.95)))


def test_pairs_without_a_value_are_dropped() -> None:
    """A run that failed takes its pair along, and no other run takes its place."""
    base = [1.0, None, 3.0, 4.0]
    other = [2.0, 9.0, None, 8.0]
    assert differences(base, other) == [1.0, 4.0]
    assert ratios(base, other) == [2.0, 2.0]
    assert ratios([0.0, 1.0], [1.0, 1.0]) is None


def test_the_least_number_of_values() -> None:
    """It grows with the confidence, and there is no tolerance: five values are wrong 6.25 % of the time."""
    assert [least_n(confidence) for confidence in (0.5, 0.9375, 0.95, 0.96875, 0.975, 0.99)] == [2, 5, 6, 6, 7, 8]


@rows("confidence", [0.0, 0.49, 1.0, float("nan")])
def test_a_confidence_that_cannot_be(confidence: float) -> None:
    """An interval with confidence 1 would be endless."""
    with pytest.raises(UsageError, match="confidence"):
        check_confidence(confidence)


@pytest.mark.slow
def test_the_most_values() -> None:
    """As many runs as a benchmark can have are judged in a second or two."""
    random_ = random.Random(2)
    found = known(of_pairs([random_.gauss(1, 1) for _ in range(1_000)], confidence=0.95))
    assert 0.9 < found["low"] < found["median"] < found["high"] < 1.1
