"""The results of a benchmark: what is in the file, and reading and writing it."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypeAlias

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from ..loop import LatencyData
from ._stored import load_checked, save_json

VERSION: Final = 1
MAX_BYTES: Final = 2**30
"""Of results that are read."""

Verdict: TypeAlias = Literal["lower", "higher", "undecided"]
"""Of a figure of one case, beside another: what the interval of the paired differences allows to say."""


class MeasuredRun(TypedDict):
    """One run.

    Attributes:
        repetition: From 0. Runs of different cases with the same number were measured next to one another.
        order: Place in the order in which all runs were measured, from 0.
        error: Class of what ended it; None where nothing was raised. Such a run counts in no figure.
        latency: Its marks, with all arrivals.
    """

    repetition: int
    order: int
    status: str
    error: str | None
    latency: LatencyData


class Estimate(TypedDict):
    """A median, and the interval that holds it with the confidence of the benchmark (95 %, usually)."""

    n: int
    median: float
    low: float
    high: float


class MetricData(Estimate):
    """A figure of one case; `values` by repetition, None where a run has none."""

    values: list[float | None]


class CaseData(TypedDict):
    """One combination of the matrix.

    Attributes:
        id: Its parts, joined by slashes.
        label: Its parts, but for those that all cases share.
        source, tools, streaming, model, transport: Its parts.
        metrics: By name, see `metrics.METRICS`; those that no run has a value of are left out.
        runs: In the order in which they were measured.
    """

    id: str
    label: str
    source: str
    tools: str
    streaming: Literal["eager", "buffered"]
    model: str
    transport: str
    metrics: dict[str, MetricData]
    runs: list[MeasuredRun]


class ComparisonData(TypedDict):
    """One figure of two cases, paired by repetition.

    Attributes:
        metric: Its name, as in `CaseData.metrics`.
        base, other: Ids of the cases.
        difference: Of the pairs: other less base, in the unit of the metric.
        ratio: Of the pairs: other by base; None where a base is 0.
        verdict: Of `other`: lower or higher than `base`, where the interval of the differences is without 0.
    """

    metric: str
    base: str
    other: str
    difference: Estimate
    ratio: Estimate | None
    verdict: Verdict


class SettingsData(TypedDict):
    """How it was measured. `profile` and `speed` are of the embedded server, None on the live API."""

    repetitions: int
    warmup: int
    seed: int
    confidence: float
    profile: str | None
    speed: float | None


class Results(TypedDict):
    """A benchmark.

    Where it is `simulated`, every time in it is one of the embedded server, and says nothing of the API.
    """

    eagerstream_bench: Literal[1]
    created_at: str
    simulated: bool
    machine: dict[str, str]
    settings: SettingsData
    cases: list[CaseData]
    comparisons: list[ComparisonData]


def save_results(results: Results, path: Path) -> None:
    """Write results to a JSON file, over whatever is there.

    Raises:
        UsageError: The file cannot be written; what was there stays.
    """
    save_json(path, results)


def load_results(path: Path) -> Results:
    """The results in a file, checked.

    Raises:
        UsageError: The file cannot be read, or has other things in it.
    """
    adapter: TypeAdapter[Results] = TypeAdapter(Results)
    return load_checked(path, adapter, what="benchmark", version=("eagerstream_bench", VERSION), max_bytes=MAX_BYTES)
