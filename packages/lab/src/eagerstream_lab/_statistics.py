"""Statistics of medians: bootstrap intervals, and verdicts if the intervals allow them.

Intervals are percentile intervals of the bootstrap (`scipy.stats.bootstrap`, 9,999 resamples, a fixed seed). They are
not BCa, which is SciPy's default. BCa takes its acceleration from the jackknife, which is not consistent for a median
(Efron and Tibshirani, An Introduction to the Bootstrap, section 10.6). With ties, leaving out one value may change
nothing. BCa is then undefined, with an interval of NaN. The percentile interval of equal values is that value.

With few values, the percentile interval is too narrow, above all with seven. At 95 % it then goes from the second to
the sixth value, and contains the median with a probability of 87.5 %. So it is widened to the order statistics that
contain the median often enough for any distribution (Conover, Practical Nonparametric Statistics, section 3.2). A
verdict on pairs is then a sign test as well.

No such interval is wider than the measured values. With n values, it contains the median with a probability of at most
1 - 2^(1 - n), which is 93.75 % for five. So verdicts need a minimum number of values, see `least_n`. With fewer values,
an interval is their range, and is labelled as a range. Each figure is judged by itself: of twenty figures without a
difference, one will look different at 95 %.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from eagerstream.errors import MissingExtraError, UsageError

from ._results import Estimate, Verdict

if TYPE_CHECKING:
    import numpy as np

MIN_N: Final = 5
"""Minimum number of values, or pairs, for a verdict at 95 % confidence or less."""

_RESAMPLES: Final = 9_999
_DRAWN_AT_ONCE: Final = 2_000_000
"""Maximum number of resampled values in memory at once: 16 MB."""
_TOLERANCE: Final = 1.25
"""Factor by which a verdict may be wrong more often than the confidence says, if values are few: 6.25 % at five."""


def least_n(confidence: float) -> int:
    """Return the minimum number of values, or pairs, for a verdict with this confidence: 5 at 95 %, 8 at 99 %."""
    n = MIN_N
    while 2.0 ** (1 - n) > _wrong_share(confidence):
        n += 1
    return n


def check_confidence(confidence: float) -> None:
    """Check that an interval can have this confidence.

    Raises:
        UsageError: The confidence is not from 0.5 to 0.9999.
    """
    if not 0.5 <= confidence <= 0.9999:
        raise UsageError(f"the confidence must be from 0.5 to 0.9999, not {confidence!r}")


def estimate(values: Sequence[float | None], *, confidence: float, seed: int) -> Estimate | None:
    """Return the median of the known values, and its interval; `None` if there are no values.

    If there are fewer values than a verdict needs, the interval is their range.

    Raises:
        MissingExtraError: NumPy or SciPy is not installed.
    """
    known = [value for value in values if value is not None]
    if not known:
        return None
    if len(known) < least_n(confidence):
        return {"n": len(known), "median": median(known), "low": min(known), "high": max(known)}
    low, high = _interval([known], _median, median(known), confidence=confidence, seed=seed)
    from scipy.stats import binom

    # Widen the interval to the innermost two values, equally far from the ends, that miss the median no more often than
    # a verdict may be wrong, or else to the ends. `left` is the number of values below the lower one: the probability
    # of so few below the median is half of the allowed error.
    left = max(0, int(binom.ppf(_wrong_share(confidence) / 2, len(known), 0.5)) - 1)
    ordered = sorted(known)
    low, high = min(low, ordered[left]), max(high, ordered[-1 - left])
    return {"n": len(known), "median": median(known), "low": low, "high": high}


def _wrong_share(confidence: float) -> float:
    return (1 - confidence) * _TOLERANCE + 1e-12


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


def difference_of_medians(
    base: Sequence[float | None], other: Sequence[float | None], *, confidence: float, seed: int
) -> Estimate | None:
    """Return the median of other minus that of base, for values that are no pairs; `n` is that of the smaller sample.

    Return `None` if one of them has no values.

    Raises:
        MissingExtraError: NumPy or SciPy is not installed.
    """
    first, second = ([value for value in values if value is not None] for values in (base, other))
    if not first or not second:
        return None
    middle = median(second) - median(first)
    low, high = _interval(
        [first, second],
        lambda a, b, *, axis: _median(b, axis=axis) - _median(a, axis=axis),
        middle,
        confidence=confidence,
        seed=seed,
    )
    return {"n": min(len(first), len(second)), "median": middle, "low": low, "high": high}


def verdict(difference: Estimate, *, confidence: float) -> Verdict:
    """Return the verdict that an interval of differences allows: "undecided" if it contains 0 or has too few values."""
    if difference["n"] < least_n(confidence) or difference["low"] <= 0 <= difference["high"]:
        return "undecided"
    return "lower" if difference["high"] < 0 else "higher"


def _interval(
    samples: list[list[float]], statistic: Callable[..., Any], middle: float, *, confidence: float, seed: int
) -> tuple[float, float]:
    if min(map(len, samples)) < 2:  # too few values to resample
        return middle, middle
    try:
        from numpy.random import default_rng
        from scipy.stats import bootstrap
    except ImportError as error:
        raise MissingExtraError(
            "bench", (error.name or "scipy").partition(".")[0], package="eagerstream-lab"
        ) from error
    result = bootstrap(
        samples,
        statistic,
        n_resamples=_RESAMPLES,
        vectorized=True,
        batch=max(1, _DRAWN_AT_ONCE // max(map(len, samples))),
        confidence_level=confidence,
        method="percentile",
        rng=default_rng(seed % 2**64),  # the generator takes no negative seed
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def _median(values: np.ndarray[Any, Any], *, axis: int) -> Any:
    import numpy as np

    return np.median(values, axis=axis)
