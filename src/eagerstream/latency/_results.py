"""The results of a benchmark: what is in the file, and reading and writing it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from .._support.files import replacing
from .._support.plain_json import load_json
from ..errors import UsageError
from ..loop import LatencyData

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


class Judged(TypedDict):
    """A difference in one figure.

    Attributes:
        metric: Its name, as in `CaseData.metrics`.
        difference: In the unit of the metric.
        verdict: Lower or higher, if the interval of the difference is without 0.
    """

    metric: str
    difference: Estimate
    verdict: Verdict


class ComparisonData(Judged):
    """One figure of two cases, paired by repetition; the difference is that of the pairs, other less base.

    Attributes:
        base, other: Ids of the cases.
        ratio: Of the pairs: other by base; None where a base is 0.
    """

    base: str
    other: str
    ratio: Estimate | None


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


# --- JSON in files: written whole or not at all, and checked when it is read ------------------------------------------

DataT = TypeVar("DataT")
_LARGEST: Final = 1e18
"""Of a number: sums of larger ones may be infinite."""


def save_json(path: Path, data: object) -> None:
    """Write data to a file, over whatever is there; what was there stays where this fails.

    Raises:
        UsageError: The file cannot be written.
    """
    try:
        with replacing(path, private=False) as file:  # times and names: nothing of what was said
            file.write(json.dumps(data, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from error


def read_whole(path: Path, *, max_bytes: int) -> bytes:
    """Return the content of a file that somebody gave.

    Raises:
        UsageError: It cannot be read, or is larger than `max_bytes`; then no more of it was read.
    """
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(content) > max_bytes:
        raise UsageError(f"{path}: larger than {max_bytes:,} bytes")
    return content


def load_checked(
    path: Path, adapter: TypeAdapter[DataT], *, what: str, version: tuple[str, int], max_bytes: int
) -> DataT:
    """The data in a file.

    Args:
        path: Of the file.
        adapter: What they must be.
        what: For people, "profile" say.
        version: The key that says what the file is, and its value.
        max_bytes: Larger files are not read.

    Raises:
        UsageError: The file cannot be read, is too large, or does not hold such data; says where not.
    """
    key, number = version
    content = read_whole(path, max_bytes=max_bytes)
    try:
        data: Any = load_json(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON") from error
    if not isinstance(data, dict) or key not in data:
        raise UsageError(f"{path}: no {what} of eagerstream: there is no {key!r}")
    if data[key] != number:
        raise UsageError(f"{path}: version {data[key]!r:.40} of a {what} is not known, only {number}")
    if not _is_computable(data):
        raise UsageError(f"{path}: no {what} of eagerstream: a number should be less than {_LARGEST:g}")
    try:
        # In JSON, where a list may be a tuple and a whole number a float, whatever else is strict.
        return adapter.validate_json(content, strict=True)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, fault["loc"]))
        raise UsageError(f"{path}: no {what} of eagerstream: {place:.200}: {fault['msg']}") from error


def _is_computable(data: object) -> bool:
    """No number in it is too large."""
    pending = [data]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending += item.values()
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, int | float) and abs(item) > _LARGEST:
            return False
    return True
