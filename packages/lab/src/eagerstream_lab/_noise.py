"""Signs of a noisy machine, as warnings of a benchmark: other work, throttling, runs that stand out, and drift.

Verdicts allow for noise (see `_statistics`), but it widens their intervals. A warning tells where the noise came from.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from time import monotonic
from typing import Final

from ._results import CaseData
from ._statistics import of_trend
from ._wording import Scale, seconds

_BUSY_LOAD: Final = 0.5
"""Load for each processor before the first run, from which on it is reported."""
_OTHERS: Final = 0.1
"""Share of the processors that other processes used."""
_STOLEN: Final = 0.01
"""Share of the processors that the host of a virtual machine took away."""
_FENCE: Final = 3.0
"""Distance of an outlier from the quartiles, in distances between them (Tukey's outer fence)."""
_MIN_RUNS: Final = 8
"""Number of runs from which on outliers and drift are looked for: fewer cannot show them."""
_DRIFT_CONFIDENCE: Final = 0.99
_DRIFT: Final = 0.01
"""Smallest drift to report, as a share of the median."""

_CPUS: Final = Path("/sys/devices/system/cpu")
_CGROUP: Final = Path("/sys/fs/cgroup/cpu.stat")
_STAT: Final = Path("/proc/stat")


@dataclass(frozen=True, kw_only=True)
class Readings:
    """Counters of the machine at one moment. A counter that the system does not have is `None`.

    Attributes:
        at_s: Time of a monotonic clock.
        load: Average number of running processes in the last minute.
        own_s: CPU seconds of this process and of the processes that it started, if they have ended.
        busy_s: CPU seconds of all processes.
        stolen_s: CPU seconds that the host of a virtual machine took away.
        hot: Number of times that a processor became slower because of heat.
        limited: Number of times that the CPU limit of the container stopped its processes.
    """

    at_s: float
    load: float | None
    own_s: float
    busy_s: float | None
    stolen_s: float | None
    hot: int | None
    limited: int | None

    @classmethod
    def now(cls) -> Readings:
        """Read them."""
        times = os.times()
        load = busy_s = stolen_s = limited = None
        with suppress(OSError, AttributeError):
            load = os.getloadavg()[0]
        with suppress(OSError, ValueError, IndexError):
            ticks = [int(field) for field in _STAT.read_text().split("\n", 1)[0].split()[1:9]]
            user, nice, system, _idle, _iowait, irq, softirq, stolen = ticks
            tick_s = 1 / os.sysconf("SC_CLK_TCK")
            busy_s, stolen_s = (user + nice + system + irq + softirq) * tick_s, stolen * tick_s
        with suppress(OSError, ValueError, StopIteration):
            lines = (line.split() for line in _CGROUP.read_text().splitlines())
            limited = next(int(count) for name, count in lines if name == "nr_throttled")
        counts: list[int] = []
        for path in _CPUS.glob("cpu[0-9]*/thermal_throttle/core_throttle_count"):
            with suppress(OSError, ValueError):
                counts.append(int(path.read_text()))
        return cls(
            at_s=monotonic(),
            load=load,
            own_s=sum(times[:4]),
            busy_s=busy_s,
            stolen_s=stolen_s,
            hot=sum(counts) if counts else None,
            limited=limited,
        )


def machine_warnings(before: Readings, after: Readings, *, cores: int) -> Iterator[str]:
    """Yield a warning for each sign of noise in the counters before the first run and after the last one."""
    if before.load is not None and before.load > _BUSY_LOAD * cores:
        yield f"the machine was busy before the first run: load {before.load:.1f} on {_processors(cores)}"
    available_s = (after.at_s - before.at_s) * cores
    if before.busy_s is not None and after.busy_s is not None and available_s > 0:
        others = (after.busy_s - before.busy_s - (after.own_s - before.own_s)) / available_s
        if others > _OTHERS:
            yield f"other processes used {others:.0%} of the processors during the runs".replace("%", " %")
    if before.stolen_s is not None and after.stolen_s is not None and available_s > 0:
        stolen = (after.stolen_s - before.stolen_s) / available_s
        if stolen > _STOLEN:
            yield f"the host took away {stolen:.0%} of the processor time during the runs".replace("%", " %")
    for name, reason in (("hot", "became slower because of heat"), ("limited", "were stopped by a CPU limit")):
        earlier, later = getattr(before, name), getattr(after, name)
        if earlier is not None and later is not None and later > earlier:
            yield f"the processors {reason}, {later - earlier} times during the runs"


def run_warnings(name: str, case: CaseData) -> Iterator[str]:
    """Yield a warning if some runs of a case took far longer than the others, or if their duration drifted.

    Drift is a trend over the runs, tested with an error of 1 % for each case.
    """
    figure = case["metrics"].get("duration_s")
    values = [] if figure is None else [value for value in figure["values"] if value is not None]
    if len(values) < _MIN_RUNS:
        return
    first, middle, third = quantiles(values, n=4, method="inclusive")
    far = [value for value in values if value > third + _FENCE * (third - first)]
    if far and third > first:
        runs = f"{len(far)} of {len(values)} runs took far longer than the others"
        yield f"{name}: {runs}, up to {seconds(max(far))} instead of {seconds(middle)}"
    if drift_s := _drift_s(values):
        amount = Scale.of("s", drift_s).text(abs(drift_s))
        yield f"{name}: the runs became {amount} {'longer' if drift_s > 0 else 'shorter'} from the first to the last"


def _drift_s(values: Sequence[float]) -> float:
    """Return the change from the first run to the last along the trend; 0 if it may be chance, or is small."""
    trend = of_trend(values, confidence=_DRIFT_CONFIDENCE)
    if trend is None or trend["low"] <= 0 <= trend["high"]:
        return 0.0
    drift_s = trend["median"] * (len(values) - 1)
    return drift_s if abs(drift_s) > _DRIFT * abs(median(values)) else 0.0


def _processors(cores: int) -> str:
    return f"{cores} processor{'s' if cores > 1 else ''}"
