"""Results of a load test: content of `load.json`, reading and writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from ._load_watch import BusyData
from ._results import MAX_BYTES, MachineData, load_checked, schema_of


class LimitData(TypedDict):
    """Limit on a figure, in seconds. A run within all limits is good."""

    figure: str
    limit_s: float


class LoadSettingsData(TypedDict):
    """Settings of a load test.

    Attributes:
        ramp_s, warmup_s, duration_s, grace_s: Phases of each level. Runs that should start within `duration_s` count.
        arrivals: Pattern of the starts in an open loop.
        clients: Number of processes that start runs.
        max_concurrency: Maximum number of concurrent runs in an open loop.
        timeout_s: Maximum duration of a run.
        limits: Limits for goodput.
        seed: Seed of the starts and of the simulated times.
        profile: Name of the profile of the embedded server; `None` on the live API.
        speed: Factor by which the embedded server plays faster; `None` on the live API.
        measured_at: "proxy" if programs were measured: figures are then those at the proxy, except the start of a tool.
    """

    ramp_s: float
    warmup_s: float
    duration_s: float
    grace_s: float
    arrivals: Literal["poisson", "constant"]
    clients: int
    max_concurrency: int
    timeout_s: float
    limits: list[LimitData]
    seed: int
    profile: str | None
    speed: float | None
    measured_at: Literal["client", "proxy"]


class BaselineData(TypedDict):
    """Measurement before the first level, without load.

    Attributes:
        client: The first client process, idle.
        server: The embedded server; `None` on the live API.
        proxy_added_s: Time that the proxy adds to a request: the difference of the medians of requests through it and
            to the server itself. `None` without a proxy, and on the live API.
    """

    client: BusyData
    server: BusyData | None
    proxy_added_s: float | None


class FigureData(TypedDict):
    """Percentiles of one figure, over all runs of all clients that count. Times are seconds after the intended start.

    A run that failed, or did not end, is later than all others. A percentile is `None` if it falls on such a run, or if
    too few runs are behind it.

    Attributes:
        n: Number of runs behind the percentiles.
        p50, p90, p99, p999: Smallest value that at least this share of the runs does not exceed.
    """

    n: int
    p50: float | None
    p90: float | None
    p99: float | None
    p999: float | None


class RunsData(TypedDict):
    """The runs that count, one value of each list for each run, in the order of their intended starts.

    Attributes:
        intended_s: Intended start, in seconds after the start of the level.
        late_s: Time from the intended start to the actual one; `None` if the run never started.
        end_s: End, in seconds after the intended start; `None` if it did not end.
        error: Class of the exception that ended it; empty if there was none.
        figures: Values of each figure, in seconds after the intended start.
    """

    intended_s: list[float]
    late_s: list[float | None]
    end_s: list[float | None]
    error: list[str]
    figures: dict[str, list[float | None]]


class LevelData(TypedDict):
    """One level of one case.

    Attributes:
        name: The level for people.
        concurrency: Number of concurrent runs in a closed loop; `None` in an open loop.
        rate: Starts per second in an open loop; `None` in a closed loop.
        interrupted: The level was interrupted before its end.
        duration_s: Length of the window.
        runs: Number of runs that count: those that should have started within the window.
        completed: Number of them that ended without an error.
        failed: Number of them that ended with one.
        unfinished: Number of them that had not ended when the grace period was over, or had not even started.
        errors: Numbers of failed runs, by the class of the exception.
        throughput_per_s: Runs that ended without an error within the window, in a second.
        goodput_per_s: Those of them that were within all limits, in a second; `None` without limits.
        good_share: Share of the runs that count which completed within all limits; `None` without limits or runs.
        mean_concurrency: Number of runs under way in the window, on average.
        late_p99_s: 99th percentile of the delays of starts in an open loop, without those of `queued`. `None` in a
            closed loop.
        queued: Number of runs that had to wait because `max_concurrency` runs were under way.
        figures: Percentiles by figure. Figures that no run has are left out.
        clients: Load of each client process.
        server, proxy: Load of their processes; `None` if there is none.
        bottlenecks: Processes that were too slow for this level, with the reasons.
        is_unsteady: The complete runs became longer or shorter during the window.
        each: The runs.
    """

    name: str
    concurrency: int | None
    rate: float | None
    interrupted: bool
    duration_s: float
    runs: int
    completed: int
    failed: int
    unfinished: int
    errors: dict[str, int]
    throughput_per_s: float
    goodput_per_s: float | None
    good_share: float | None
    mean_concurrency: float
    late_p99_s: float | None
    queued: int
    figures: dict[str, FigureData]
    clients: list[BusyData]
    server: BusyData | None
    proxy: BusyData | None
    bottlenecks: dict[str, str]
    is_unsteady: bool
    each: RunsData


class KneeData(TypedDict):
    """Knee of the levels of one kind: the last level before more load brought too little more throughput.

    Attributes:
        kind: Kind of the levels.
        by: "goodput" if there are limits, else "throughput".
        load: Load of that level; of the highest level if the knee was not reached.
        per_s: Its goodput or throughput.
        is_reached: False if no level was beyond the knee.
        bottlenecks: Processes on this machine that were too slow at the next level: the knee may be theirs.
    """

    kind: Literal["concurrency", "rate"]
    by: Literal["goodput", "throughput"]
    load: float
    per_s: float
    is_reached: bool
    bottlenecks: list[str]


class LoadCaseData(TypedDict):
    """One case under all levels.

    Attributes:
        id, label, source, tools, streaming, model, transport, program: As in the results of `eagerstream bench`.
        levels: Levels in the order of measurement.
        knees: Knee of each kind of levels, of which there must be at least three.
    """

    id: str
    label: str
    source: str
    tools: str
    streaming: Literal["eager", "buffered"]
    model: str
    transport: str
    program: NotRequired[str]
    levels: list[LevelData]
    knees: list[KneeData]


class LoadResults(TypedDict):
    """Results of a load test.

    If they are `simulated`, every time comes from the embedded server, and says nothing about the API. `warnings` list
    signs of a noisy machine, and levels that are too short.
    """

    eagerstream_load: Literal[1]
    created_at: str
    simulated: bool
    machine: MachineData
    warnings: list[str]
    settings: LoadSettingsData
    baseline: BaselineData | None
    cases: list[LoadCaseData]


KEY: Final = "eagerstream_load"


def load_schema() -> dict[str, Any]:
    """Return the JSON Schema of the results. The package contains it as `load.schema.json`."""
    return schema_of(LoadResults, "Results of eagerstream bench load")


def load_load(path: Path) -> LoadResults:
    """Load and check the results in a file.

    Raises:
        UsageError: The file cannot be read, is too large, or does not contain results.
    """
    adapter: TypeAdapter[LoadResults] = TypeAdapter(LoadResults)
    return load_checked(path, adapter, what="load test", key=KEY, max_bytes=MAX_BYTES)
