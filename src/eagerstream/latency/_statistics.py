"""What can be said of medians: intervals by the bootstrap, and verdicts where these allow one.

Intervals are percentile intervals of the bootstrap (`scipy.stats.bootstrap`, 9,999 resamples, a fixed seed). Not BCa,
which SciPy takes by default: its acceleration comes from the jackknife, which is not consistent for a median (Efron and
Tibshirani, An Introduction to the Bootstrap, section 10.6), and is undefined, with an interval of NaN, as soon as
leaving out one value changes nothing, as ties do. The percentile interval of equal values is that value.

Of few values the percentile interval is too narrow, of seven above all: at 95 % it goes from the second to the sixth,
which holds the median with a probability of 87.5 %. So it is widened to the order statistics that hold the median often
enough whatever is measured (Conover, Practical Nonparametric Statistics, section 3.2); a verdict on pairs is then a
sign test as well.

No interval of this kind is wider than what was measured: of n values it holds the median at best with a probability of
1 - 2^(1 - n), 93.75 % of five. So verdicts have a least number of values, see `least_n`; of fewer, an interval is their
range, and called so. Each figure is judged by itself: of twenty figures without a difference one will look different at
95 %.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from ..errors import MissingExtraError, UsageError
from ._results import Estimate, Verdict

if TYPE_CHECKING:
    import numpy as np

MIN_N: Final = 5
"""Values, or pairs of them, that a verdict takes at 95 % confidence or less."""

_RESAMPLES: Final = 9_999
_DRAWN_AT_ONCE: Final = 2_000_000
"""Values of resamples that are in memory at once, 16 MB."""
_TOLERANCE: Final = 1.25
"""A verdict may be wrong so many times as often as the confidence says, where values are few: 6.25 % at five."""


def least_n(confidence: float) -> int:
    """Values, or pairs of them, that a verdict with this confidence takes: 5 at 95 %, 8 at 99 %."""
    n = MIN_N
    while 2.0 ** (1 - n) > _wrong_share(confidence):
        n += 1
    return n


def check_confidence(confidence: float) -> None:
    """An interval can hold a median with this confidence.

    Raises:
        UsageError: It is not from 0.5 to 0.9999.
    """
    if not 0.5 <= confidence <= 0.9999:
        raise UsageError(f"the confidence must be from 0.5 to 0.9999, not {confidence!r}")


def estimate(values: Sequence[float | None], *, confidence: float, seed: int) -> Estimate | None:
    """The median of the values that are there, and its interval; None where there are none.

    Of less values than a verdict takes, the interval is their range.
    """
    known = [value for value in values if value is not None]
    if not known:
        return None
    if len(known) < least_n(confidence):
        return {"n": len(known), "median": median(known), "low": min(known), "high": max(known)}
    low, high = _interval([known], _median, median(known), confidence=confidence, seed=seed)
    least, most = _order_statistics(known, confidence=confidence)
    low, high = min(low, least), max(high, most)
    return {"n": len(known), "median": median(known), "low": low, "high": high}


def _order_statistics(values: Sequence[float], *, confidence: float) -> tuple[float, float]:
    """The innermost two of the values, equally far from the ends, that hold the median with this confidence.

    They miss it no more often than a verdict may be wrong; the ends themselves where no two do.
    """
    from scipy.stats import binom

    # Values below the lower one: as many as lie below the median so rarely that both ends together may be wrong.
    left = max(0, int(binom.ppf(_wrong_share(confidence) / 2, len(values), 0.5)) - 1)
    ordered = sorted(values)
    return ordered[left], ordered[-1 - left]


def _wrong_share(confidence: float) -> float:
    return (1 - confidence) * _TOLERANCE + 1e-12


def differences(base: Sequence[float | None], other: Sequence[float | None]) -> list[float]:
    """Other less base, of the pairs that are whole; values at the same place are a pair."""
    pairs = zip(base, other, strict=True)
    return [second - first for first, second in pairs if first is not None and second is not None]


def ratios(base: Sequence[float | None], other: Sequence[float | None]) -> list[float] | None:
    """Other by base, of the pairs that are whole; None where a base is 0."""
    pairs = [(first, second) for first, second in zip(base, other, strict=True) if None not in (first, second)]
    if any(first == 0 for first, _ in pairs):
        return None
    return [second / first for first, second in pairs if first is not None and second is not None]


def difference_of_medians(
    base: Sequence[float | None], other: Sequence[float | None], *, confidence: float, seed: int
) -> Estimate | None:
    """The median of other less that of base, where the values are no pairs; `n` is that of the smaller sample.

    None where one of them has no values.
    """
    first, second = ([value for value in values if value is not None] for values in (base, other))
    if not first or not second:
        return None
    middle = median(second) - median(first)
    low, high = _interval([first, second], _difference, middle, confidence=confidence, seed=seed)
    return {"n": min(len(first), len(second)), "median": middle, "low": low, "high": high}


def verdict(difference: Estimate, *, confidence: float) -> Verdict:
    """What an interval of differences allows to say; nothing where it holds 0, or where there are too few of them."""
    if difference["n"] < least_n(confidence) or difference["low"] <= 0 <= difference["high"]:
        return "undecided"
    return "lower" if difference["high"] < 0 else "higher"


def _interval(
    samples: list[list[float]], statistic: Callable[..., Any], middle: float, *, confidence: float, seed: int
) -> tuple[float, float]:
    if min(map(len, samples)) < 2:  # of which there is nothing to draw
        return middle, middle
    bootstrap, default_rng = _scipy()
    result = bootstrap(
        samples,
        statistic,
        n_resamples=_RESAMPLES,
        vectorized=True,
        batch=max(1, _DRAWN_AT_ONCE // max(map(len, samples))),
        confidence_level=confidence,
        method="percentile",
        rng=default_rng(seed % 2**64),  # which takes no negative one
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def _median(values: np.ndarray[Any, Any], *, axis: int) -> Any:
    import numpy as np

    return np.median(values, axis=axis)


def _difference(base: np.ndarray[Any, Any], other: np.ndarray[Any, Any], *, axis: int) -> Any:
    return _median(other, axis=axis) - _median(base, axis=axis)


def _scipy() -> tuple[Callable[..., Any], Callable[..., Any]]:
    try:
        from numpy.random import default_rng
        from scipy.stats import bootstrap
    except ImportError as error:
        raise MissingExtraError("bench", (error.name or "scipy").partition(".")[0]) from error
    return bootstrap, default_rng
