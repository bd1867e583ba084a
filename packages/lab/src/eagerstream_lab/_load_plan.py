"""Plan of a load test: its levels, the phases of a level, the times at which runs should start, and the limits.

A level has one load. In a closed loop (`--concurrency`), each of N users starts a run as soon as its last one has
ended. In an open loop (`--rate`), runs start at times that are fixed in advance, whatever the server does. If such a
start is late, because the server or the clients are too slow, the run still counts from its intended start. Otherwise a
stalled server would also stop the measurement of its own stall (coordinated omission).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from math import isfinite, sqrt
from random import Random
from typing import Final

from eagerstream.errors import UsageError

from ._kinds import MAX_CONCURRENCY, Arrivals
from ._plan import Amount

FIGURES: Final = ("first_byte_s", "first_field_s", "tool_start_s", "duration_s")
"""Figures of a run under load, by their names in `METRICS`."""

MAX_LEVELS: Final = 100
MAX_RATE: Final = 10_000.0
MAX_STARTS: Final = 200_000
"""Maximum number of runs of one level: they are kept in memory, and in the results."""
_MAX_S: Final = 86_400.0
_DURATION: Final = re.compile(r"(\d+\.?\d*|\.\d+)\s*(ms|s|m|h)?")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Level:
    """One load.

    Attributes:
        concurrency: Number of concurrent runs in a closed loop; `None` in an open loop.
        rate: Starts per second in an open loop; `None` in a closed loop.
    """

    concurrency: int | None = None
    rate: float | None = None

    @property
    def load(self) -> float:
        """The load as a number, of runs or of starts per second."""
        return self.rate if self.concurrency is None and self.rate is not None else float(self.concurrency or 0)

    @property
    def name(self) -> str:
        """The level for people, such as `100 concurrent` or `2.5/s`."""
        return f"{self.rate:,g}/s" if self.concurrency is None else f"{self.concurrency:,} concurrent"


@dataclass(frozen=True, kw_only=True)
class Phases:
    """Phases of a level, in seconds. The load stays on until the last run that counts has ended.

    Attributes:
        ramp_s: Time in which the load grows linearly from 0.
        warmup_s: Time at the level's load before the window.
        duration_s: Length of the window. The runs that should start in it count.
        grace_s: Maximum time after the window for runs that count to end. Then they are cancelled, and are unfinished.
    """

    ramp_s: float
    warmup_s: float
    duration_s: float
    grace_s: float

    @property
    def window(self) -> tuple[float, float]:
        """Start and end of the window, in seconds after the start of the level."""
        start_s = self.ramp_s + self.warmup_s
        return start_s, start_s + self.duration_s

    def counts(self, intended_s: float) -> bool:
        """Return True if a run that should start at this time counts."""
        start_s, end_s = self.window
        return start_s <= intended_s < end_s


@dataclass(frozen=True)
class Objective:
    """Limit on a figure: a run within all limits counts as good.

    Attributes:
        figure: Name of the figure, as in `FIGURES`.
        limit_s: Largest value that is good, in seconds.
    """

    figure: str
    limit_s: float

    @classmethod
    def parse(cls, text: str) -> Objective:
        """Read `first_field:500ms`. The name of the figure may end in `_s`.

        Raises:
            UsageError: It is something else.
        """
        name, _, amount = text.partition(":")
        figure = name.strip() if name.strip().endswith("_s") else f"{name.strip()}_s"
        if figure not in FIGURES:
            known = ", ".join(figure.removesuffix("_s") for figure in FIGURES)
            raise UsageError(f"--slo takes {known}, such as first_field:500ms, not {text!r:.40}")
        limit = Amount.parse(amount, "--slo")
        if limit.is_share:
            raise UsageError(f"--slo takes a time, such as first_field:500ms, not {text!r:.40}")
        return cls(figure, limit.value)


def parse_seconds(text: str, option: str, *, may_be_zero: bool = True) -> float:
    """Read a time, such as `30s`, `500ms`, `2m`, or `30` for seconds.

    Raises:
        UsageError: It is something else, or more than a day.
    """
    found = _DURATION.fullmatch(text.strip())
    seconds = float(found[1]) * _UNITS[found[2] or "s"] if found else -1.0
    if seconds < 0 or seconds > _MAX_S or (seconds == 0 and not may_be_zero):
        raise UsageError(f"{option} must be a time, such as 30s, 500ms or 2m, up to a day, not {text!r:.40}")
    return seconds


def levels_of(concurrency: Sequence[int], rates: Sequence[float]) -> tuple[Level, ...]:
    """Return the levels in the order in which they were given; closed loops first.

    Raises:
        UsageError: There are too many levels, one was given twice, or one is out of range.
    """
    for number in concurrency:
        if not 1 <= number <= MAX_CONCURRENCY:
            raise UsageError(f"--concurrency must be from 1 to {MAX_CONCURRENCY:,}, not {number!r}")
    for rate in rates:
        if not (isfinite(rate) and 0 < rate <= MAX_RATE):
            raise UsageError(f"--rate must be more than 0 and at most {MAX_RATE:,.0f}, not {rate!r}")
    levels = (*(Level(concurrency=number) for number in concurrency), *(Level(rate=rate) for rate in rates))
    if len(levels) > MAX_LEVELS:
        raise UsageError(f"{len(levels):,} levels are more than {MAX_LEVELS}")
    if len(set(levels)) < len(levels):
        raise UsageError("give each level once")
    return levels


def check_starts(levels: Sequence[Level], phases: Phases) -> None:
    """Check that no open loop starts too many runs.

    Raises:
        UsageError: One does.
    """
    for level in levels:
        starts = (level.rate or 0) * (phases.window[1] + phases.grace_s)
        if starts > MAX_STARTS:
            raise UsageError(f"{level.name} starts up to {starts:,.0f} runs, more than {MAX_STARTS:,}: shorten it")


def starts(rate: float, *, ramp_s: float, arrivals: Arrivals, seed: str) -> Iterator[float]:
    """Yield the intended starts of an open loop, in seconds after the start of the level, without end.

    The rate grows linearly from 0 during the ramp. The arrivals are made at one per second, and their clock is then
    transformed, so a Poisson process stays one.
    """
    random = Random(seed)
    ramped = rate * ramp_s / 2  # number of arrivals during the ramp, on average
    at = 0.0
    for number in count():
        at = at + random.expovariate(1.0) if arrivals is Arrivals.POISSON else float(number)
        yield sqrt(2 * at * ramp_s / rate) if at < ramped else ramp_s + (at - ramped) / rate


def user_starts(concurrency: int, *, ramp_s: float) -> list[float]:
    """Return the times at which the users of a closed loop start their first run: at equal distances in the ramp."""
    return [ramp_s * user / concurrency for user in range(concurrency)]


def share_of(number: int, *, client: int, clients: int) -> int:
    """Return the share of one client of several, so that all shares together are `number`."""
    return number // clients + (client < number % clients)
