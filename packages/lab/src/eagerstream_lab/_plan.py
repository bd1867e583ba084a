"""Plan of a benchmark: the figures that get verdicts, the error that these may have, and the rounds to stop after.

A plan is made before the first run, because its error rate holds only for comparisons that were chosen before. With a
confidence of 95 %, a benchmark of cases that do not differ reports a difference in at most 5 % of all benchmarks. The
error is divided by the number of verdicts: each pair of cases has one for each primary figure. The sum of their errors
is then that of the benchmark, however the figures depend on one another (Bonferroni). Holm's procedure would decide a
little more, but its verdicts have no intervals. All other figures have an interval of their own, and no verdict.

`until` stops when all intervals of the primary figures are narrow enough. Looking at the data and then stopping makes
an interval wrong more often than it says. So the rounds after which it looks are fixed in advance, and the error is
divided by their number as well. This is a group-sequential design with equal spending of the error (Jennison and
Turnbull, Group Sequential Methods, sections 2.4 and 7.2) and with the bound of Bonferroni instead of a multivariate
normal distribution, which small samples do not have. The intervals of all looks hold at the same time with the
confidence. So the error holds for any reason to stop at a look, also if somebody stops as soon as there is a verdict.
The price is width: the intervals of five looks are 1.3 times as wide as those of one (`python -m benchmarks verdicts`).
So there are few looks. Their numbers of rounds grow by half: seven from 10 to 100 rounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Final, NamedTuple

from eagerstream.errors import UsageError

from ._kinds import EAGER_PRIMARY, PRIMARY
from ._matrix import Matrix
from ._metrics import METRICS
from ._results import Estimate, Judged, SettingsData, Verdict
from ._statistics import check_confidence, differences, has_interval, least_n, of_pairs

_GROWTH: Final = 1.5
_AMOUNT: Final = re.compile(r"(\d+\.?\d*|\.\d+)\s*(%|ms|s)")


class Amount(NamedTuple):
    """Size of a difference: a time, or a share of the base.

    Attributes:
        text: The amount as it was given, such as "2%" or "20ms".
        value: Seconds, or a share of 1.
        is_share: True if it is a share.
    """

    text: str
    value: float
    is_share: bool

    @classmethod
    def parse(cls, text: str, option: str, *, may_be_zero: bool = False) -> Amount:
        """Read "2%", "20ms" or "0.5s".

        Raises:
            UsageError: It is something else, or 0, unless it `may_be_zero`.
        """
        found = _AMOUNT.fullmatch(text.strip())
        if found is None:
            raise UsageError(f"{option} must be a share or a time, such as 2% or 20ms, not {text!r:.40}")
        if not float(found[1]) and not may_be_zero:
            raise UsageError(f"{option} must be greater than 0, not {text!r:.40}")
        unit = found[2]
        return cls(text.strip(), float(found[1]) / {"%": 100, "ms": 1000, "s": 1}[unit], unit == "%")

    def size(self, base: Sequence[float | None]) -> float:
        """Return the size in the unit of a figure. A share is one of the median of the base's values."""
        known = [value for value in base if value is not None]
        return self.value * abs(median(known)) if self.is_share and known else self.value


def default_primary(matrix: Matrix) -> tuple[str, ...]:
    """Return the figures with verdicts, if the user names none."""
    is_about_streaming = any(
        base.program is other.program is None and base.streaming != other.streaming for base, other in matrix.pairs()
    )
    return EAGER_PRIMARY if is_about_streaming else PRIMARY


def looks_between(least: int, most: int) -> tuple[int, ...]:
    """Return the numbers of rounds after which `until` may stop: each is half as large again as the one before it.

    Raises:
        UsageError: `least` is less than 2, or more than `most`.
    """
    if not 2 <= least <= most:
        raise UsageError(f"--min-runs must be from 2 to --max-runs, not {least} of {most}")
    looks = [least]
    while looks[-1] < most:
        looks.append(min(most, ceil(looks[-1] * _GROWTH)))
    return tuple(looks)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Figures and errors of the verdicts, and the rounds after which a benchmark may stop.

    Attributes:
        pairs: Number of pairs of cases that are compared.
        looks: Numbers of rounds after which it may stop; the last is the maximum.
        confidence: Confidence of all verdicts together, and of each other interval by itself.
        primary: Names of the figures with a verdict.
        min_effect: Smallest difference that matters; `None` if any does.
        until: Half width at which all intervals of primary figures are narrow enough; `None` to run all rounds.

    Raises:
        UsageError: The confidence is out of range, a primary figure is unknown, given twice or missing, or an amount is
            a time and a primary figure is not.
    """

    pairs: int
    looks: tuple[int, ...]
    confidence: float = 0.95
    primary: tuple[str, ...] = PRIMARY
    min_effect: Amount | None = None
    until: Amount | None = None

    @classmethod
    def of(cls, settings: SettingsData, *, pairs: int) -> Plan:
        """Return the plan of a benchmark.

        Raises:
            UsageError: See `Plan`.
        """
        effect, until = settings["min_effect"], settings["until"]
        return cls(
            pairs=pairs,
            looks=tuple(settings["looks"]),
            confidence=settings["confidence"],
            primary=tuple(settings["primary"]),
            min_effect=None if effect is None else Amount.parse(effect, "--min-effect"),
            until=None if until is None else Amount.parse(until, "--until"),
        )

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        if not self.primary or len(set(self.primary)) < len(self.primary):
            raise UsageError("give each primary figure once, and at least one")
        for name in self.primary:
            if name not in METRICS:
                raise UsageError(f"{name!r:.40} is no figure: choose from {', '.join(METRICS)}")
            for amount in (self.min_effect, self.until):
                if amount is not None and not amount.is_share and METRICS[name].unit != "s":
                    raise UsageError(f"{amount.text} is a time, but {name} is none: give a share, such as 2%")

    @property
    def verdict_confidence(self) -> float:
        """Confidence of each interval that gives a verdict."""
        return 1 - (1 - self.confidence) / (max(1, self.pairs) * len(self.primary) * len(self.looks))

    @property
    def least_n(self) -> int:
        """Minimum number of pairs of runs for a verdict."""
        return least_n(self.verdict_confidence)

    def judge(self, metric: str, base: Sequence[float | None], other: Sequence[float | None]) -> Judged | None:
        """Return the difference in one figure, whose values at the same position are a pair; `None` without a pair."""
        is_primary = metric in self.primary
        confidence = self.verdict_confidence if is_primary else self.confidence
        difference = of_pairs(differences(base, other), confidence=confidence)
        return None if difference is None else self.judged(metric, difference, base)

    def judged(self, metric: str, difference: Estimate, base: Sequence[float | None]) -> Judged:
        """Return a difference with its verdict."""
        margin = self.min_effect.size(base) if self.min_effect and metric in self.primary else 0.0
        decided = verdict(difference, margin=margin) if metric in self.primary else None
        return {"metric": metric, "difference": difference, "margin": margin, "verdict": decided}

    def is_enough(self, figures: Iterable[tuple[Sequence[float | None], Sequence[float | None]]]) -> bool:
        """Return True if the intervals of these pairs of values are narrow enough. Call it only at a look."""
        found = [
            (of_pairs(differences(base, other), confidence=self.verdict_confidence), base) for base, other in figures
        ]
        known = [(estimate, base) for estimate, base in found if estimate is not None]
        return (
            self.until is not None
            and bool(known)
            and all(
                has_interval(estimate) and (estimate["high"] - estimate["low"]) / 2 <= self.until.size(base)
                for estimate, base in known
            )
        )


def verdict(difference: Estimate, *, margin: float = 0.0) -> Verdict:
    """Return the verdict that an interval of differences allows.

    Args:
        difference: The difference.
        margin: Smallest difference that matters, in the unit of the figure.

    Returns:
        "lower" or "higher" if the interval is beyond the margin (or 0), "equivalent" if it is within the margin, and
        otherwise "undecided".
    """
    if not has_interval(difference):
        return "undecided"
    if difference["high"] < -margin:
        return "lower"
    if difference["low"] > margin:
        return "higher"
    return "equivalent" if -margin < difference["low"] and difference["high"] < margin else "undecided"
