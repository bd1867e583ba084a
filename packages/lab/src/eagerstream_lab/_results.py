"""Results of a benchmark: content of the file, reading and writing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, Literal, NotRequired, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from eagerstream._support.files import replacing
from eagerstream._support.plain_json import load_json
from eagerstream.errors import UsageError
from eagerstream.loop import LatencyData

VERSION: Final = 1
"""Version of results and of profiles."""

MAX_BYTES: Final = 2**30
"""Maximum size of a results file."""

Verdict: TypeAlias = Literal["lower", "higher", "equivalent", "undecided"]
"""Verdict on a figure of one case compared with another, from the interval of the paired differences."""


class MeasuredRun(TypedDict):
    """One run.

    Attributes:
        repetition: Number of the repetition, from 0. Runs of different cases with the same number were measured in the
            same round.
        order: Position among all measured runs, from 0.
        status: A value of `RunStatus`.
        error: Class of the exception that ended the run; `None` if there was none. A run with an error counts in no
            figure.
        latency: Marks of the run, with all arrivals. Those of a program are the marks of the proxy, which does not see
            tools: `tool_s`, `hidden_s` and `won_s` are `None` then.
        same_responses: Only for programs. True if all requests got the responses of our own cases, False if some
            responses were made for the program's own tools.
    """

    repetition: int
    order: int
    status: str
    error: str | None
    latency: LatencyData
    same_responses: NotRequired[bool]


class Estimate(TypedDict):
    """Median, and the interval that contains it.

    Attributes:
        n: Number of values, or of pairs.
        median: The median of values. Of pairs, the median of the averages of every two differences.
        low, high: The interval. The range if there are too few values for this confidence: with `n` values, the
            confidence is at most 1 - 2^(1 - n).
        confidence: Confidence of the interval.
    """

    n: int
    median: float
    low: float
    high: float
    confidence: float


class MetricData(Estimate):
    """Figure of one case; `values` by repetition, `None` if a run has no value."""

    values: list[float | None]


class CaseData(TypedDict):
    """One combination of the matrix.

    Attributes:
        id: Parts of the case, joined by slashes.
        label: Parts of the case that not all cases share.
        source: Name of the prompt or the recordings.
        tools: Name of the tool set.
        streaming: Streaming of inputs. That of a program is "eager" if any of its requests asked for it.
        model: Name of the model.
        transport: Transport that sends the requests; "program" for a program.
        program: Name of a program with a loop of its own. Our own cases have no such key.
        metrics: Figures by name. Figures without a value in any run are left out.
        runs: Runs in the order of measurement.
    """

    id: str
    label: str
    source: str
    tools: str
    streaming: Literal["eager", "buffered"]
    model: str
    transport: str
    program: NotRequired[str]
    metrics: dict[str, MetricData]
    runs: list[MeasuredRun]


class Judged(TypedDict):
    """Difference in one figure.

    Attributes:
        metric: Name of the figure, as in `CaseData.metrics`.
        difference: Difference in the unit of the metric.
        margin: Smallest difference that matters, in the same unit; 0 if any does.
        verdict: "lower" or "higher" if the interval of the difference is beyond the margin, "equivalent" if it is
            within the margin. `None` if the figure is not primary: such a figure gets no verdict.
    """

    metric: str
    difference: Estimate
    margin: float
    verdict: Verdict | None


class ComparisonData(Judged):
    """One figure of two cases, paired by repetition. The difference is that of the pairs, other minus base.

    Attributes:
        base: Id of the case to compare with.
        other: Id of the compared case.
        ratio: Ratio of the pairs, other divided by base; `None` if a base is 0.
    """

    base: str
    other: str
    ratio: Estimate | None


class SettingsData(TypedDict):
    """Settings of a benchmark.

    Attributes:
        repetitions: Number of runs of each case that count. With `until`, the maximum.
        warmup: Number of earlier runs of each case, which do not count.
        seed: Seed of the order and the simulated times.
        confidence: Confidence of all verdicts together, and of each other interval by itself.
        primary: Figures with a verdict, chosen before the first run.
        min_effect: Smallest difference that matters, such as "2%" or "20ms"; `None` if any does.
        until: Half width of the intervals at which the benchmark stops; `None` to measure all repetitions.
        looks: Numbers of repetitions after which it may stop.
        profile: Name of the profile of the embedded server; `None` on the live API.
        speed: Factor by which the embedded server plays faster; `None` on the live API.
        measured_at: "proxy" if programs were measured: the figures that a proxy sees are then those at the proxy, for
            all cases. "client": all figures are those of the process that runs the tools. Missing in older files,
            which were measured at the client.
    """

    repetitions: int
    warmup: int
    seed: int
    confidence: float
    primary: list[str]
    min_effect: str | None
    until: str | None
    looks: list[int]
    profile: str | None
    speed: float | None
    measured_at: NotRequired[Literal["client", "proxy"]]


class MachineData(TypedDict):
    """Machine and versions of a measurement.

    Attributes:
        system: Operating system and kernel.
        cpu: Model of the processor.
        cores: Number of processors.
        load: Load average of one minute before the first run; `None` if the system has none.
        python: Implementation and version of Python.
        core: Flavor of `eagerstream-wire`: "compiled" or "pure Python".
        packages: Versions of the installed packages that affect the figures.
        commit: Commit of the working directory; `None` outside of a Git repository.
        dirty: True if tracked files differed from that commit; `None` without one.
    """

    system: str
    cpu: str
    cores: int
    load: float | None
    python: str
    core: str
    packages: dict[str, str]
    commit: str | None
    dirty: bool | None


class Results(TypedDict):
    """Results of a benchmark.

    If they are `simulated`, every time comes from the embedded server, and says nothing about the API. `warnings` list
    signs of a noisy machine.
    """

    eagerstream_bench: Literal[1]
    created_at: str
    simulated: bool
    machine: MachineData
    warnings: list[str]
    settings: SettingsData
    cases: list[CaseData]
    comparisons: list[ComparisonData]


def results_schema() -> dict[str, Any]:
    """Return the JSON Schema of the results. The package contains it as `results.schema.json`."""
    return schema_of(Results, "Results of eagerstream bench")


def save_results(results: Results, path: Path) -> None:
    """Write results to a JSON file, replacing any existing file.

    Raises:
        UsageError: The file cannot be written. An existing file stays unchanged.
    """
    save_json(path, results)


def load_results(path: Path) -> Results:
    """Load and check the results in a file.

    Raises:
        UsageError: The file cannot be read, is too large, or does not contain results.
    """
    adapter: TypeAdapter[Results] = TypeAdapter(Results)
    return load_checked(path, adapter, what="benchmark", key="eagerstream_bench", max_bytes=MAX_BYTES)


# --- JSON in files: written completely or not at all, and checked when read -------------------------------------------


def schema_of(data: type, title: str) -> dict[str, Any]:
    """Return the JSON Schema of a file.

    Writers add keys without a new version: readers ignore keys that they do not know.
    """
    schema = TypeAdapter(data).json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title}


DataT = TypeVar("DataT")
_KINDS: Final = {
    "eagerstream_bench": "benchmark",
    "eagerstream_bench_comparison": "comparison",
    "eagerstream_load": "load test",
    "eagerstream_profile": "profile",
}
"""Kinds of files, by the member with their version."""
_LARGEST: Final = 1e18
"""Maximum size of a number: sums of larger ones may be infinite."""


def save_json(path: Path, data: object) -> None:
    """Write data as JSON, see `save_whole`."""
    save_whole(path, json.dumps(data, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n")


def save_whole(path: Path, content: bytes) -> None:
    """Write a file, replacing any existing file, which stays unchanged if this fails.

    Raises:
        UsageError: The file cannot be written.
    """
    try:
        with replacing(path, private=False) as file:  # only times and names, no content
            file.write(content)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from error


def read_whole(path: Path, *, max_bytes: int) -> bytes:
    """Return the content of a file that the user named.

    Raises:
        UsageError: The file cannot be read, or is larger than `max_bytes`. Only one byte more than the limit is read.
    """
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(content) > max_bytes:
        raise UsageError(f"{path}: larger than {max_bytes:,} bytes")
    return content


def load_checked(path: Path, adapter: TypeAdapter[DataT], *, what: str, key: str, max_bytes: int) -> DataT:
    """Load and check the data in a file. `what` is its kind in error messages, and `key` the member with its version.

    Raises:
        UsageError: The file cannot be read, is too large, or does not contain such data. The text names the faulty
            place.
    """
    content = read_whole(path, max_bytes=max_bytes)
    try:
        data: Any = load_json(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON") from error
    if not isinstance(data, dict) or key not in data:
        other = next((kind for name, kind in _KINDS.items() if isinstance(data, dict) and name in data), None)
        why = f"there is no {key!r}" if other is None else f"it is a {other}"
        raise UsageError(f"{path}: no {what} of eagerstream: {why}")
    if data[key] != VERSION:
        raise UsageError(f"{path}: version {data[key]!r:.40} of a {what} is not known, only {VERSION}")
    pending: list[Any] = [data]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending += item.values()
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, int | float) and abs(item) > _LARGEST:  # figures of it could not be computed
            raise UsageError(f"{path}: no {what} of eagerstream: a number should be less than {_LARGEST:g}")
    try:
        # Validate the JSON: strict mode then accepts a list for a tuple, and an integer for a float.
        return adapter.validate_json(content, strict=True)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, fault["loc"]))
        raise UsageError(f"{path}: no {what} of eagerstream: {place:.200}: {fault['msg']}") from error
