"""Measuring, over real sockets, with the real clients: what is told of runs, also of those that fail."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from packages.lab.tests.lab import MACHINE, SETTINGS, conditions, large_source, poem_cases
from tests.streams import MADE_DIR as DATA

import eagerstream
from eagerstream.errors import UsageError
from eagerstream.loop import RunLatency
from eagerstream.recordings import Recording
from eagerstream_lab._analysis import assemble, is_enough
from eagerstream_lab._answers import ScriptAnswers
from eagerstream_lab._embedded import ServerLost, Simulation, embedded_server
from eagerstream_lab._kinds import TransportName
from eagerstream_lab._matrix import Case, Matrix
from eagerstream_lab._measure import Measured, measure
from eagerstream_lab._metrics import METRICS, large_parameter_s
from eagerstream_lab._plan import Plan
from eagerstream_lab._profiles import DOCUMENTED
from eagerstream_lab._results import SettingsData
from eagerstream_lab._sources import of_recordings
from eagerstream_testing import Timing, error_event, reply, retime, text, tool_use


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The command measures on asyncio."""
    return "asyncio"


async def measured(matrix: Matrix, **settings: Any) -> list[Measured]:
    """Return every run, as it was told."""
    told: list[Measured] = []
    await measure(matrix, conditions(**settings), told.append)
    return told


def once(cases: tuple[Case, ...]) -> Matrix:
    return Matrix(cases=cases, repetitions=1, warmup=0, seed=1)


@pytest.mark.slow
@pytest.mark.anyio
async def test_eager_beside_buffered() -> None:
    """Every run is told, in order, with every metric and all that is behind it."""
    matrix = Matrix(cases=poem_cases(sources=[large_source()]), repetitions=2, warmup=1, seed=3)
    told = await measured(matrix, speed=300)
    assert [one.step for one in told] == list(matrix.schedule())
    assert {(one.run["status"], one.failure) for one in told} == {("completed", None)}
    found = assemble(matrix, told, settings={**SETTINGS, "repetitions": 2}, simulated=True, machine=MACHINE)
    assert {comparison["difference"]["n"] for comparison in found["comparisons"]} == {2}
    for case, asked in zip(found["cases"], ("field", None), strict=True):
        assert set(METRICS) - set(case["metrics"]) == {"p99_gap_s"}  # too few gaps in a run
        assert {run["latency"]["eager"] for run in case["runs"]} == {asked}
    first = found["cases"][0]["runs"][0]["latency"]
    assert len(first["requests"]) == 2
    assert all(block["arrivals"] for block in first["requests"][0]["blocks"])
    json.dumps(found, allow_nan=False)


@pytest.mark.anyio
@pytest.mark.slow
async def test_the_verdict() -> None:
    """What is held back comes later, by a fifth of a second here, and the verdict says so."""
    matrix = Matrix(cases=poem_cases(sources=[large_source()]), repetitions=7, warmup=1, seed=3)
    settings: SettingsData = {**SETTINGS, "repetitions": 7, "primary": ["large_parameter_s", "longest_gap_s"]}
    told = await measured(matrix, speed=50)
    found = assemble(matrix, told, settings=settings, simulated=True, machine=MACHINE)
    verdicts = {comparison["metric"]: comparison["verdict"] for comparison in found["comparisons"]}
    assert verdicts["large_parameter_s"] == verdicts["longest_gap_s"] == "lower"
    assert verdicts["first_byte_s"] is None


@pytest.mark.anyio
@pytest.mark.slow
async def test_it_stops_at_a_look() -> None:
    """After the first fixed number of rounds at which all intervals are narrow; a round is never left half measured."""
    matrix = Matrix(cases=poem_cases(sources=[large_source()]), repetitions=15, warmup=1, seed=3)
    settings: SettingsData = {**SETTINGS, "repetitions": 15, "until": "300%", "looks": [7, 8, 15]}
    plan = Plan.of(settings, pairs=1)
    told: list[Measured] = []
    asked: list[int] = []

    def enough(rounds: int) -> bool:
        asked.append(rounds)
        return is_enough(matrix, plan, told, rounds)

    await measure(matrix, conditions(speed=300), told.append, enough)
    assert asked == [*range(1, 9)]  # seven pairs are too few for two figures at three looks
    assert len(told) == 2 * (1 + 8)
    found = assemble(matrix, told, settings=settings, simulated=True, machine=MACHINE)
    assert {one["difference"]["n"] for one in found["comparisons"]} == {8}


@pytest.mark.anyio
@pytest.mark.slow
async def test_failing_runs(tmp_path: Path) -> None:
    """They are told with the class of their error, and the others are measured all the same. Their time is limited."""
    recordings = {
        "broken": reply(tool_use("f", {"x": 1}, closed=False), error_event("overloaded_error", "private words")),
        "slow": retime(reply(text("words " * 1000)), Timing(tokens_per_second=1)),
        "calls": reply(tool_use("f", {"x": "some text"})),
        "fine": reply(text("Done.")),
    }
    for name, recording in recordings.items():
        recording.save(tmp_path / f"{name}.jsonl")
    sources = [of_recordings([tmp_path / f"{name}.jsonl"]) for name in recordings]
    cases = poem_cases(sources=sources, streamings=["eager"], transports=[TransportName.HTTPX2])
    told = await measured(once(cases), timeout_s=5)
    assert {one.step.case.source.name: (one.run["status"], one.run["error"]) for one in told} == {
        "broken": ("error", "APIError"),
        "slow": ("cancelled", "TimeoutError"),
        "calls": ("limit", None),  # the recording has no turn after its calls
        "fine": ("completed", None),
    }
    assert all(bool(one.figures) is (one.failure is None) for one in told)


@pytest.mark.anyio
@pytest.mark.slow
async def test_a_server_that_dies() -> None:
    """Every run after that fails as such; nothing hangs."""
    matrix = Matrix(cases=poem_cases(), repetitions=2, warmup=0, seed=1)
    told: list[Measured] = []

    def tell(one: Measured) -> None:
        told.append(one)
        (server,) = multiprocessing.active_children()
        server.kill()
        server.join()

    with pytest.raises(ValueError, match="unpack"):  # of the second call: there is no server left to kill
        await measure(matrix, conditions(), tell)
    assert [one.run["error"] for one in told] == [None, "ServerLost"]


@pytest.mark.anyio
@pytest.mark.slow
async def test_every_transport() -> None:
    """They measure the same, and are compared with one another."""
    cases = poem_cases(sources=[large_source()], streamings=["eager"], transports=[*TransportName])
    matrix = Matrix(cases=cases, repetitions=2, warmup=1, seed=1)
    told = await measured(matrix)
    assert {one.failure for one in told} == {None}
    chars = {one.step.case.transport: one.run["latency"]["chars"] for one in told}
    assert set(chars) == set(TransportName)
    assert len(set(chars.values())) == 1
    assert len(matrix.pairs()) == 2


@pytest.mark.anyio
@pytest.mark.slow
async def test_cancelled() -> None:
    """What was told stays, and nothing is left behind."""
    matrix = Matrix(cases=poem_cases(sources=[large_source()]), repetitions=50, warmup=0, seed=1)
    told: list[Measured] = []
    with anyio.CancelScope() as scope:

        def tell(one: Measured) -> None:
            told.append(one)
            scope.cancel()

        await measure(matrix, conditions(), tell)
    assert scope.cancelled_caught
    assert len(told) == 1


@pytest.mark.anyio
@pytest.mark.nightly
@pytest.mark.parametrize("path", sorted(DATA.glob("*.sse")), ids=lambda path: path.stem)
async def test_recordings(path: Path) -> None:
    """Each of them can be measured, with tools that were made for it; only those that break off fail."""
    told = await measured(once(poem_cases(sources=[of_recordings([path])])), speed=1000)
    breaks_off = path.stem in ("cut_mid_event", "error_mid_stream")
    assert [one.failure is not None for one in told] == [breaks_off] * 2


# --- the server -------------------------------------------------------------------------------------------------------


def test_what_the_server_answers() -> None:
    """In a repetition all cases are drawn alike, in another one otherwise; times of a recording stay its own."""
    simulation = Simulation(profile=DOCUMENTED, speed=10, seed=1)
    eager, buffered = poem_cases()
    first, again, later = (simulation.replies(eager, repetition) for repetition in (0, 0, 1))
    assert first == again != later
    assert [turn.duration_s for turn in first] != [turn.duration_s for turn in simulation.replies(buffered, 0)]
    assert first[0].duration_s == pytest.approx(1.6, abs=0.2)
    timed = retime(reply(text("words " * 20)), Timing(first_byte_s=1))
    own = replace(eager, source=replace(eager.source, recordings=(timed,)))
    assert simulation.replies(own, 0)[0].duration_s == pytest.approx(timed.duration_s / 10)
    assert simulation.times(eager)
    assert not simulation.times(own)
    with pytest.raises(UsageError, match="speed"):
        replace(simulation, speed=0)


@pytest.mark.slow
def test_the_server_ends_with_its_block() -> None:
    """Ctrl-C does not reach it, leaving the block does; a dead one is told of."""
    with embedded_server() as server:
        (process,) = multiprocessing.active_children()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGINT)
        server.play(ScriptAnswers((Recording.load(DATA / "text.sse"),)))
        assert process.is_alive()
        process.kill()
        process.join()
        with pytest.raises(ServerLost):
            server.play(ScriptAnswers((Recording.load(DATA / "text.sse"),)))


@pytest.mark.slow
def test_the_server_starts_without_interrupts() -> None:
    """In a new process: what `multiprocessing` starts first there must not let Ctrl-C through to the server."""
    code = """
import signal
from multiprocessing import resource_tracker
from eagerstream_lab._embedded import interrupts_blocked

with interrupts_blocked():
    resource_tracker.getfd()  # as the start of a process does
    assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- the metric that is not one of a run --------------------------------------------------------------------------------


async def latency_of(raw: str, *, fragment_chars: int = 5) -> RunLatency:
    """Of a run with this input, played back by a clock that ticks at every reading of it."""
    ticks = iter(range(10**6))

    async def look(_: dict[str, Any]) -> str:
        return "ok"

    tool = eagerstream.Tool(look, definition={"name": "look", "input_schema": {"type": "object"}})
    recording = reply(tool_use("look", raw, fragment_chars=fragment_chars))
    cut = retime(recording, Timing.instant())
    async with eagerstream.run(
        cut,
        model="m",
        max_tokens=9,
        max_turns=1,
        tools=[tool],
        messages=[{"role": "user", "content": "Go."}],
        clock=lambda: float(next(ticks)),
    ) as run:
        await run.finish()
    return run.latency


@pytest.mark.anyio
async def test_the_start_of_the_largest_parameter() -> None:
    """It is the fragment with the first character of its value, whatever comes before it and around it."""
    raw = '{ "small" : [1, {"a": "}"}], "large":\n"' + "x" * 50 + '", "end": null }'
    latency = await latency_of(raw)
    (call,) = latency.calls
    arrivals = [arrival.at_s for arrival in call.block.arrivals()]
    value_at = raw.index('"xxx') // 5
    at_s = large_parameter_s(latency)
    assert at_s is not None
    assert call.first_fragment_s is not None
    assert at_s - call.first_fragment_s == arrivals[value_at] - arrivals[0] > 0


@pytest.mark.anyio
@pytest.mark.parametrize("raw", ["{}", '{"a": 1', "[1]", '{"a" 1}', '{"a": 1, }', "x", '{"a": tru}'])
async def test_inputs_without_a_largest_parameter(raw: str) -> None:
    """Where the input is none, or empty, there is nothing to tell."""
    assert large_parameter_s(await latency_of(raw)) is None
