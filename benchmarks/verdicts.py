"""Error and power of the lab's verdicts, in simulated benchmarks of two cases.

Each benchmark draws the runs of two cases, in rounds whose order is drawn, and judges the two primary figures as
`eagerstream bench` does (`eagerstream_lab._plan`). The noise of a run is like that of real latencies:

- `plain`: lognormal, independent.
- `real`: lognormal and skewed (sigma 0.3), correlated from run to run (0.5, as if a neighbour works for a while). 5 %
  of the runs take 1.5 to 4 times as long. The runs drift by one standard deviation over the benchmark. The second run
  of each round is slower by a tenth of one.
- `ties`: the same, rounded to half a standard deviation, so many differences are 0 or equal.

The two figures of a run share half of their variance. In an A/A benchmark the two cases are equal, and a verdict on
either figure is false. With six rounds only one figure can get a verdict, so there is only one. A shift is one standard
deviation of the differences between equal cases, in both figures. It is found if the complete run gets the right
verdict. Benchmarks with `until` stop at the first of five looks, from 10 to 53 rounds, at which both intervals reach at
most half a standard deviation to both sides. `first verdict` is the worst reason to stop: any verdict that is not
"undecided". The simplest rule, for comparison, has a verdict on each of 15 figures after five rounds, if all five
differences have one sign.

The figures do not depend on the machine. Each comes with its 95 % interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.table import Table

from eagerstream_lab._plan import Amount, Plan, looks_between
from eagerstream_lab._statistics import of_pairs

from .targets import Row

FIGURES: Final = ("duration_s", "first_field_s")
SIZES: Final = (6, 10, 20, 50)
LOOKS: Final = looks_between(10, 53)
NOISES: Final = ("plain", "real", "ties")
PACE: Final = "simulated"
TARGET: Final = 0.05
TARGET_POWER: Final = 0.95
"""Power at 20 runs, for a shift of one standard deviation."""
_MANY_FIGURES: Final = 15
_SHARED: Final = 0.5
_BASE_S: Final = 10.0

Values = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Share:
    """A share of simulated benchmarks, and the interval of Wilson with a confidence of 95 %."""

    hits: int
    of: int

    @property
    def share(self) -> float:
        """The share itself."""
        return self.hits / self.of

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end."""
        z, n, p = 1.96, self.of, self.share
        middle, half = (p + z * z / (2 * n)) / (1 + z * z / n), z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return middle - half / (1 + z * z / n), middle + half / (1 + z * z / n)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.share * 100:.1f} % [{low * 100:.1f}, {high * 100:.1f}]"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"share": self.share, "interval": self.interval, "benchmarks": self.of}


def runs(noise: str, rounds: int, figures: int, random: np.random.Generator) -> Values:
    """Return figures of the runs of two equal cases: (rounds, case, figure)."""
    count = 2 * rounds
    shared = random.standard_normal((count, 1))
    drawn = sqrt(_SHARED) * shared + sqrt(1 - _SHARED) * random.standard_normal((count, figures))
    if noise == "plain":
        values = np.exp(0.3 * drawn)
    else:
        for at in range(1, count):
            drawn[at] = 0.5 * drawn[at - 1] + sqrt(1 - 0.5**2) * drawn[at]
        values = np.exp(0.3 * drawn)
        slow = random.random(count) < 0.05
        values[slow] *= random.uniform(1.5, 4, (int(slow.sum()), 1))
        values += _SPREAD * np.linspace(0, 1, count)[:, None]
        values[1::2] += 0.1 * _SPREAD
        if noise == "ties":
            values = np.round(values * 2 / _SPREAD) * _SPREAD / 2
    ordered = _BASE_S + values.reshape(rounds, 2, figures)
    first = random.integers(0, 2, rounds)  # as `Matrix.schedule`: a coin for each round
    return np.take_along_axis(ordered, np.stack([first, 1 - first], axis=1)[:, :, None], axis=1)


_SPREAD: Final = float(np.exp(0.3 * np.random.default_rng(1).standard_normal(100_000)).std())
"""Standard deviation of a run without slow runs, drift and correlation."""


def spread(noise: str) -> Values:
    """Return the standard deviation of the difference between two equal cases, by figure."""
    random = np.random.default_rng(2)
    pairs = np.concatenate([runs(noise, 50, 2, random) for _ in range(400)])
    return np.asarray((pairs[:, 1] - pairs[:, 0]).std(axis=0))


def judged(plan: Plan, values: Values) -> list[str]:
    """Return the verdicts on the primary figures of a benchmark."""
    found = (
        plan.judge(name, values[:, 0, at].tolist(), values[:, 1, at].tolist()) for at, name in enumerate(plan.primary)
    )
    return [str(each["verdict"]) for each in found if each is not None]


def share_of(count: int, happens: Callable[[np.random.Generator], bool]) -> Share:
    """Return the share of `count` benchmarks in which something happens."""
    random = np.random.default_rng(3)
    return Share(sum(happens(random) for _ in range(count)), count)


def fixed(noise: str, rounds: int, primary: Sequence[str], shift: Values | float, count: int) -> Share:
    """Return the share of benchmarks with a verdict on any figure, or with a shift, with the right one on the first."""
    plan = Plan(pairs=1, looks=(rounds,), primary=tuple(primary))

    def happens(random: np.random.Generator) -> bool:
        values = runs(noise, rounds, len(primary), random)
        if not np.any(shift):
            return any(each != "undecided" for each in judged(plan, values))
        values[:, 1] += shift
        return judged(plan, values)[0] == "higher"

    return share_of(count, happens)


def stopped(noise: str, rule: str, shift: Values | float, count: int) -> tuple[Share, float]:
    """Return the share as `fixed` does, for benchmarks that stop by themselves, and the mean number of rounds."""
    width = float(spread(noise)[0]) / 2
    plan = Plan(pairs=1, looks=LOOKS, primary=FIGURES, until=Amount("", width, is_share=False))
    rounds = 0

    def stops(values: Values) -> bool:
        if rule == "first verdict":
            return set(judged(plan, values)) != {"undecided"}
        return plan.is_enough((values[:, 0, at].tolist(), values[:, 1, at].tolist()) for at in range(len(FIGURES)))

    def happens(random: np.random.Generator) -> bool:
        nonlocal rounds
        values = runs(noise, LOOKS[-1], len(FIGURES), random)
        values[:, 1] += shift
        look = next((look for look in LOOKS[:-1] if stops(values[:look])), LOOKS[-1])
        rounds += look
        verdicts = judged(plan, values[:look])
        return verdicts[0] == "higher" if np.any(shift) else set(verdicts) != {"undecided"}

    found = share_of(count, happens)
    return found, rounds / count


def simplest(noise: str, count: int) -> Share:
    """Return the share of benchmarks with a false verdict by the simplest rule."""

    def happens(random: np.random.Generator) -> bool:
        values = runs(noise, 5, _MANY_FIGURES, random)
        signs = np.sign(values[:, 1] - values[:, 0]).sum(axis=0)
        return bool((np.abs(signs) == 5).any())

    return share_of(count, happens)


def widening() -> float:
    """Return how much wider the intervals of several looks are than those of one, at 53 rounds of normal noise."""
    random = np.random.default_rng(4)
    plans = [Plan(pairs=1, looks=looks) for looks in (LOOKS, LOOKS[-1:])]
    widths = np.zeros(2)
    for _ in range(200):
        values = random.standard_normal(LOOKS[-1]).tolist()
        for at, plan in enumerate(plans):
            found = of_pairs(values, confidence=plan.verdict_confidence)
            assert found is not None
            widths[at] += found["high"] - found["low"]
    return float(widths[0] / widths[1])


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Simulate, and print shares of benchmarks."""
    count = 400 if quick else 10_000
    slow = 100 if quick else 2_000
    cells: list[dict[str, Any]] = []
    table = Table("noise", "rounds", "A/A: a false difference", "one standard deviation is found", "mean rounds")
    alike: dict[str, Share] = {}
    power: dict[tuple[str, str], Share] = {}

    def keep(noise: str, rounds: str, false: Share, found: Share | None, mean: float) -> None:
        alike[f"{noise}, {rounds}"] = false
        if found is not None:
            power[noise, rounds] = found
        table.add_row(noise, rounds, str(false), "" if found is None else str(found), f"{mean:.0f}")
        told = {"false": false.to_dict(), "found": found and found.to_dict(), "mean_rounds": mean}
        cells.append({"noise": noise, "rounds": rounds, **told})

    for noise in NOISES:
        shift = spread(noise)
        for rounds in SIZES:
            primary = FIGURES if rounds > 6 else FIGURES[:1]
            false = fixed(noise, rounds, primary, 0.0, slow if rounds > 20 else count)
            keep(noise, f"{rounds}", false, fixed(noise, rounds, primary, shift[: len(primary)], slow), rounds)
        false, mean = stopped(noise, "until", 0.0, slow)
        keep(noise, "until", false, stopped(noise, "until", shift, slow // 2)[0], mean)
        false, mean = stopped(noise, "first verdict", 0.0, slow)
        keep(noise, "first verdict", false, None, mean)  # it has no power of its own: it stops at any verdict
    console.print(table)
    simple = simplest("real", count)
    wider = widening()
    console.print(f"The simplest rule reported a false difference in {simple} of A/A benchmarks.")
    console.print(f"The intervals of {len(LOOKS)} looks are {wider:.2f} times as wide as those of one look.")
    worst = max(alike, key=lambda name: alike[name].interval[0])
    least_power = min((power[noise, "20"] for noise in NOISES), key=lambda share: share.share)
    rows = [
        Row(
            work="A/A benchmarks with a false difference",
            against="the promised 5 %",
            pace=PACE,
            target=f"the interval of each share starts at {TARGET:.0%} or below".replace("%", " %"),
            measured=f"at most {alike[worst]} ({worst})",
            met=alike[worst].interval[0] <= TARGET,
        ),
        Row(
            work="Shifts of one standard deviation that 20 rounds find",
            against="all",
            pace=PACE,
            target=f"at least {TARGET_POWER:.0%}".replace("%", " %"),
            measured=f"{least_power}",
            met=least_power.share >= TARGET_POWER,
        ),
    ]
    return {
        "rows": [asdict(row) for row in rows],
        "cells": cells,
        "simplest": simple.to_dict(),
        "looks": [*LOOKS],
        "wider": wider,
    }
