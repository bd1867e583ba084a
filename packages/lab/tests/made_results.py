"""Results of a benchmark to be shown: the poem, really run on the embedded server, and those that nobody should meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Literal, cast

import anthropic
from packages.lab.tests.lab import MACHINE

import eagerstream
from eagerstream.loop import BlockData, LatencyData, RequestData, RunLatency, RunMarks
from eagerstream_lab._plan import verdict
from eagerstream_lab._results import (
    CaseData,
    ComparisonData,
    Estimate,
    MeasuredRun,
    MetricData,
    Results,
)
from eagerstream_testing import ReplayServer
from eagerstream_testing.demos import poem

MODEL = "claude-opus-4-7"
HOSTILE = "$x^$</svg></title><script>document.title='pwned'</script><img src=x onerror=alert(1)>\x00\x1b[31m\udc80\u202e &amp; _"
"""What would be a formula of Matplotlib, end an element, begin a script, or be no XML."""

METRICS: dict[str, Callable[[LatencyData], float | None]] = {
    "first_fragment_s": lambda run: run["time_to_first_fragment_s"],
    "first_field_s": lambda run: run["time_to_first_field_s"],
    "tool_start_s": lambda run: run["time_to_tool_start_s"],
    "duration_s": lambda run: run["duration_s"],
    "longest_gap_s": lambda run: run["gaps"]["max_s"] if run["gaps"] else None,
    "p99_gap_s": lambda run: run["gaps"]["p99_s"] if run["gaps"] else None,
    "fragments_per_s": lambda run: run["fragments_per_s"],
    "chars_per_s": lambda run: run["chars_per_s"],
    "hidden_share": lambda run: run["hidden_share"],
    "won_s": lambda run: run["won_s"],
}


async def poem_results(*, repetitions: int, speed: float) -> Results:
    """The poem, eager beside buffered: two turns, three tools, on a socket."""
    runs: dict[bool, list[MeasuredRun]] = {True: [], False: []}
    order = 0
    for repetition in range(repetitions):
        for eager in (True, False):
            latency = await _poem_run(eager=eager, speed=speed)
            runs[eager].append(made_run(latency, repetition=repetition, order=order))
            order += 1
    base, other = (
        made_case(runs[eager], streaming="eager" if eager else "buffered", source="poem", tools="poem")
        for eager in (False, True)
    )
    return made_results([base, other], compared=[(base, other)], speed=speed, repetitions=repetitions)


async def _poem_run(*, eager: bool, speed: float) -> LatencyData:
    with (
        TemporaryDirectory() as folder,
        ReplayServer(poem.scenario(eager=eager), speed=speed) as server,
    ):
        async with (
            anthropic.AsyncAnthropic(base_url=server.base_url, api_key="any") as client,
            eagerstream.run(
                client, tools=poem.tools(Path(folder), eager=eager), max_turns=5, **poem.request(model=MODEL)
            ) as run,
        ):
            await run.finish()
        return run.latency.to_dict(arrivals=True)


def made_run(
    latency: LatencyData, *, repetition: int = 0, order: int = 0, error: str | None = None, status: str = "completed"
) -> MeasuredRun:
    return {"repetition": repetition, "order": order, "status": status, "error": error, "latency": latency}


def made_case(
    runs: Sequence[MeasuredRun],
    *,
    streaming: Literal["eager", "buffered"],
    source: str = "source",
    tools: str = "tools",
    model: str = MODEL,
    label: str = "",
) -> CaseData:
    """A case and the figures of its runs."""
    metrics: dict[str, MetricData] = {}
    for name, figure in METRICS.items():
        values = [None if run["error"] else figure(run["latency"]) for run in runs]
        there = [value for value in values if value is not None]
        if there:
            metrics[name] = {**estimate(there), "values": values}
    return {
        "id": f"{source}/{tools}/{streaming}/{model}/anthropic",
        "label": label or streaming,
        "source": source,
        "tools": tools,
        "streaming": streaming,
        "model": model,
        "transport": "anthropic",
        "metrics": metrics,
        "runs": list(runs),
    }


def made_results(
    cases: Sequence[CaseData],
    *,
    compared: Sequence[tuple[CaseData, CaseData]] = (),
    simulated: bool = True,
    speed: float | None = 1.0,
    repetitions: int = 1,
) -> Results:
    return {
        "eagerstream_bench": 1,
        "created_at": "2026-05-04T12:30:00+00:00",
        "simulated": simulated,
        "warnings": [],
        "machine": {**MACHINE},
        "settings": {
            "repetitions": repetitions,
            "warmup": 1,
            "seed": 1,
            "confidence": 0.95,
            "primary": ["duration_s", "first_field_s"],
            "min_effect": None,
            "until": None,
            "looks": [repetitions],
            "profile": "documented" if simulated else None,
            "speed": speed,
        },
        "cases": list(cases),
        "comparisons": [comparison(base, other, metric) for base, other in compared for metric in base["metrics"]],
    }


def comparison(base: CaseData, other: CaseData, metric: str) -> ComparisonData:
    """As the benchmark makes them: of pairs by repetition."""
    pairs = [
        (mine, theirs)
        for mine, theirs in zip(base["metrics"][metric]["values"], other["metrics"][metric]["values"], strict=True)
        if mine is not None and theirs is not None
    ]
    difference = estimate([theirs - mine for mine, theirs in pairs])
    ratios = [theirs / mine for mine, theirs in pairs if mine]
    return {
        "metric": metric,
        "base": base["id"],
        "other": other["id"],
        "difference": difference,
        "ratio": estimate(ratios) if len(ratios) == len(pairs) else None,
        "margin": 0.0,
        "verdict": verdict(difference) if metric in ("duration_s", "first_field_s") else None,
    }


def estimate(values: Sequence[float]) -> Estimate:
    """The median, and the range."""
    return {"n": len(values), "median": median(values), "low": min(values), "high": max(values), "confidence": 0.95}


# --- those that nobody should meet ------------------------------------------------------------------------------------


def latency_of(*requests: RequestData, **figures: Any) -> LatencyData:
    """A run of which nothing is known but this."""
    empty = RunLatency(RunMarks(), model=MODEL, eager=None, status="completed").to_dict()
    return cast("LatencyData", {**empty, "requests": list(requests), **figures})


def request_of(*blocks: BlockData, **times: Any) -> RequestData:
    empty = dict.fromkeys(RequestData.__annotations__)
    return cast("RequestData", {**empty, "turn": 1, "discarded": False, "blocks": list(blocks), **times})


def block_of(**parts: Any) -> BlockData:
    empty = {**dict.fromkeys(BlockData.__annotations__), **dict.fromkeys(("kind", "id", "name"), "")}
    counts = {"index": 0, "fragments": 0, "chars": 0, "arrivals": [], "fields": []}
    return cast("BlockData", {**empty, **counts, **parts})


def call_block(name: str, at_s: float, *, arrivals: int = 5, fields: int = 2, **parts: Any) -> BlockData:
    """A call whose input takes a second and whose tool takes another."""
    step_s = 1 / max(1, arrivals)
    return block_of(
        kind="tool_use",
        name=name,
        start_s=at_s,
        first_fragment_s=at_s,
        last_fragment_s=at_s + 1,
        stop_s=at_s + 1,
        fragments=arrivals,
        chars=arrivals * 7,
        arrivals=[(at_s + number * step_s, 1, 7) for number in range(arrivals)],
        fields=[{"path": [name, number], "at_s": at_s + number / max(1, fields)} for number in range(fields)],
        outcome="valid",
        call={
            "admitted_s": at_s + 1,
            "start_s": at_s + 1.1,
            "progress_s": at_s + 1.5,
            "end_s": at_s + 2,
            "is_error": True,
            "group": name,
            "lead_s": -1.0,
            "hidden_s": 0.0,
        }
        | parts.pop("call", {}),
        **parts,
    )


def hostile_results() -> Results:
    """Every text that comes from elsewhere is an attack, and the blocks are many."""
    blocks = [call_block(HOSTILE, number, fields=10_000 if number == 0 else 2, id=HOSTILE) for number in range(80)]
    blocks += [block_of(kind=HOSTILE, outcome=HOSTILE), block_of(kind="\ufffe\uffff")]

    def latency(shown: int) -> LatencyData:
        times = {"sent_s": 0.0, "headers_s": 0.2, "first_byte_s": 0.2, "message_stop_s": 82.0, "end_s": 82.0}
        return latency_of(
            request_of(*blocks[-shown:], **times),
            request_of(discarded=True, turn=2),
            duration_s=82.0,
            time_to_first_fragment_s=0.0,
            model=HOSTILE,
            status=HOSTILE,
        )

    sizes = (len(blocks), *[3] * 6)
    runs = [made_run(latency(size), repetition=number, status=HOSTILE) for number, size in enumerate(sizes)]
    failed = [made_run(latency(3), repetition=7, error=HOSTILE, status=HOSTILE)]
    parts: dict[str, Any] = {"source": HOSTILE, "tools": HOSTILE, "model": HOSTILE, "label": HOSTILE}
    eager, buffered = (made_case(runs[:2], streaming=streaming, **parts) for streaming in ("eager", "buffered"))
    results = made_results([buffered, eager], compared=[(buffered, eager)])
    eager["runs"] = [*runs, *failed]
    texts: Any = dict.fromkeys(("system", "cpu", "python", "core", "commit"), HOSTILE)
    results["machine"] = {**MACHINE, **texts, "packages": {HOSTILE: HOSTILE}}
    results["created_at"] = HOSTILE
    results["settings"]["profile"] = HOSTILE
    for case in results["cases"]:
        case["metrics"][HOSTILE] = case["metrics"]["duration_s"]
    results["comparisons"].append({**results["comparisons"][0], "metric": HOSTILE})
    return results
