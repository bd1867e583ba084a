"""Exact statistics of small samples: intervals of medians, paired differences, shifts between samples, and trends.

All four intervals work alike. Some values are sorted. Then equally many are left out at both ends, as many as the
confidence allows. The exact distribution of a count says how many these are:

- Median of values: the values themselves. The number below the median is binomial (Conover, Practical Nonparametric
  Statistics, section 3.2).
- Difference of pairs: the averages of every two differences, and of each with itself. The number below the middle has
  the distribution of Wilcoxon's signed-rank statistic (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods,
  sections 3.2 and 3.3).
- Shift between two samples: all differences between a value of one and a value of the other. The number below the shift
  has the distribution of the rank-sum statistic (the same book, sections 4.2 and 4.3).
- Trend of a sequence: the slopes between every two values. The number below the slope has the distribution of Kendall's
  statistic (Sen, Estimates of the Regression Coefficient Based on Kendall's Tau, 1968).

The middle of the sorted values is the estimate: the median, or that of Hodges and Lehmann. An interval excludes 0
exactly if the test of that name rejects "no difference", so an interval and its verdict never contradict each other.

Of pairs, the test assumes only that each difference is as likely positive as negative, whatever its size, if the two
cases do not differ. `Matrix.schedule` makes this true. It draws for each round which case runs first, so two cases that
do not differ may swap their runs. Noise that is skewed, drifts, or is correlated from run to run changes nothing then.
Equal values do not either. Imagine them changed by a tiny random amount: more averages can only become different from
0, so the interval of the equal values excludes 0 less often than it may.

An interval never has less than its confidence. The error of n values cannot be smaller than 2^(1 - n), so there is no
interval below `least_n` values. The range is reported instead, and gives no verdict. The distribution of a count is
exact for up to `EXACT_N` values, or two samples of that size. Beyond, it is the normal one with a correction for
continuity. Its tails are then heavier than the exact ones (test_statistics.py), so the interval is not too narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate, combinations, combinations_with_replacement
from math import comb, factorial, floor, sqrt
from statistics import NormalDist, median
from typing import Final

from eagerstream.errors import UsageError

from ._results import Estimate

EXACT_N: Final = 60
"""Maximum number of values, or of each of two samples, for the exact distribution: it takes 50 ms."""


def least_n(confidence: float) -> int:
    """Return the minimum number of values, or of pairs, for an interval: 6 at 95 %, 7 at 97.5 %, 8 at 99 %."""
    n = 1
    while 2.0 ** (1 - n) > _error(confidence):
        n += 1
    return n


def has_interval(estimate: Estimate) -> bool:
    """Return False if there are too few values: the estimate has their range then."""
    return estimate["n"] >= least_n(estimate["confidence"])


def check_confidence(confidence: float) -> None:
    """Check that an interval can have this confidence.

    Raises:
        UsageError: The confidence is not from 0.5 to 0.9999.
    """
    if not 0.5 <= confidence <= 0.9999:
        raise UsageError(f"the confidence must be from 0.5 to 0.9999, not {confidence!r}")


def of_values(values: Sequence[float | None], *, confidence: float) -> Estimate | None:
    """Return the median of the known values; `None` if there are none."""
    known = sorted(value for value in values if value is not None)
    return _estimate(known, len(known), _left_out_of_values, (len(known),), confidence)


def of_pairs(differences: Sequence[float], *, confidence: float) -> Estimate | None:
    """Return the estimate of Hodges and Lehmann for the differences of pairs; `None` if there are none."""
    averages = sorted((one + other) / 2 for one, other in combinations_with_replacement(differences, 2))
    return _estimate(averages, len(differences), _left_out_of_pairs, (len(differences),), confidence)


def of_samples(base: Sequence[float | None], other: Sequence[float | None], *, confidence: float) -> Estimate | None:
    """Return the shift from one sample to another, whose values are no pairs; `n` is that of the smaller sample.

    Return `None` if one of them has no values.
    """
    first, second = ([value for value in values if value is not None] for values in (base, other))
    shifts = sorted(two - one for one in first for two in second)
    return _estimate(shifts, min(len(first), len(second)), _left_out_of_samples, (len(first), len(second)), confidence)


def of_trend(values: Sequence[float], *, confidence: float) -> Estimate | None:
    """Return the change from each value to the next one; `None` for fewer than two values."""
    numbered = list(enumerate(values))
    slopes = sorted((two - one) / (at - before) for (before, one), (at, two) in combinations(numbered, 2))
    return _estimate(slopes, len(values), _left_out_of_trend, (len(values),), confidence)


def differences(base: Sequence[float | None], other: Sequence[float | None]) -> list[float]:
    """Return other minus base for the complete pairs; values at the same position are a pair."""
    pairs = zip(base, other, strict=True)
    return [second - first for first, second in pairs if first is not None and second is not None]


def ratios(base: Sequence[float | None], other: Sequence[float | None]) -> list[float] | None:
    """Return other divided by base for the complete pairs; `None` if a base is 0."""
    pairs = [(first, second) for first, second in zip(base, other, strict=True) if None not in (first, second)]
    if any(first == 0 for first, _ in pairs):
        return None
    return [second / first for first, second in pairs if first is not None and second is not None]


# --- from the sorted values to the interval ---------------------------------------------------------------------------


def _error(confidence: float) -> float:
    return 1 - confidence + 1e-12  # 1 - 0.96875 must allow the 0.03125 of six values


def _estimate(
    ordered: Sequence[float], n: int, left_out: Callable[..., int], sizes: tuple[int, ...], confidence: float
) -> Estimate | None:
    if not ordered:
        return None
    left = left_out(*sizes, _error(confidence)) if n >= least_n(confidence) else 0
    low, high = ordered[left], ordered[-1 - left]
    return {"n": n, "median": median(ordered), "low": low, "high": high, "confidence": confidence}


@cache
def _left_out_of_values(n: int, error: float) -> int:
    return _left_out([comb(n, below) for below in range(n // 2 + 1)], 2**n, error)


@cache
def _left_out_of_pairs(n: int, error: float) -> int:
    """Return the number of averages to leave out at each end. A sum of ranks has 2^n equally likely sets."""
    if n > EXACT_N:
        return _nearly_left_out(n * (n + 1) / 2, n * (n + 1) * (2 * n + 1) / 24, error)
    ways = [1] + [0] * (n * (n + 1) // 2)
    for rank in range(1, n + 1):
        for total in range(len(ways) - 1, rank - 1, -1):
            ways[total] += ways[total - rank]
    return _left_out(ways, 2**n, error)


@cache
def _left_out_of_samples(n: int, m: int, error: float) -> int:
    """Return the number of shifts to leave out at each end.

    The ways to order two samples are a Gaussian binomial coefficient: the product of (1 - x^(n+i)) / (1 - x^i) for each
    i up to m.
    """
    if max(n, m) > EXACT_N:
        return _nearly_left_out(n * m, n * m * (n + m + 1) / 12, error)
    ways = [1] + [0] * (n * m)
    for step in range(1, m + 1):
        for total in range(len(ways) - 1, n + step - 1, -1):
            ways[total] -= ways[total - n - step]
        for total in range(step, len(ways)):
            ways[total] += ways[total - step]
    return _left_out(ways, comb(n + m, n), error)


@cache
def _left_out_of_trend(n: int, error: float) -> int:
    """Return the number of slopes to leave out at each end. The n! orders are counted by their inversions."""
    if n > EXACT_N:
        return _nearly_left_out(n * (n - 1) / 2, n * (n - 1) * (2 * n + 5) / 72, error)
    ways = [1]
    for length in range(2, n + 1):
        sums = [0, *accumulate(ways)]
        most = len(ways) + length - 1
        ways = [sums[min(total + 1, len(ways))] - sums[max(0, total + 1 - length)] for total in range(most)]
    return _left_out(ways, factorial(n), error)


def _left_out(ways: Sequence[int], total: int, error: float) -> int:
    """Return the largest number of values to leave out at each end: so few are below the middle too rarely to count.

    Args:
        ways: Number of equally likely cases in which 0, 1, 2, ... values are below the middle.
        total: Number of all cases.
        error: Probability that the interval may miss the middle, at both ends together.
    """
    below = 0
    for left, count in enumerate(ways):
        below += count
        if 2 * below / total > error:
            return max(0, left - 1)
    raise AssertionError("half of the cases are below the middle")


def _nearly_left_out(size: float, variance: float, error: float) -> int:
    """Return the same for many values, by the normal distribution."""
    return max(0, floor(size / 2 + NormalDist().inv_cdf(error / 2) * sqrt(variance) - 0.5))
