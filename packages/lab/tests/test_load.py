"""The arithmetic of load tests: intended starts, what counts, percentiles, goodput, bottlenecks and the knee."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from itertools import count, islice, pairwise
from statistics import mean, stdev
from typing import Any

import anyio
import pytest
from packages.lab.tests.loads import busy, made_run, order_of, settings_of
from tests.support import until
from tests.tables import rows

from eagerstream.errors import UsageError
from eagerstream_lab._kinds import Arrivals
from eagerstream_lab._load_figures import Processes, bottlenecks, is_unsteady, knee_of, level_data, percentiles_of
from eagerstream_lab._load_plan import (
    Level,
    Objective,
    Phases,
    check_starts,
    levels_of,
    parse_seconds,
    share_of,
    starts,
    user_starts,
)
from eagerstream_lab._load_runs import Figures, Load, LoadedRun
from eagerstream_lab._load_watch import LoopWatch, allow_files
from eagerstream_lab._load_wire import conversations
from eagerstream_lab._wire import Exchange

PHASES = Phases(ramp_s=0, warmup_s=0, duration_s=10, grace_s=5)


def data_of(runs: Sequence[LoadedRun], level: Level | None = None, **options: Any) -> Any:
    """The figures of a level whose window is the first 10 s."""
    known: dict[str, Any] = {"arrivals": Arrivals.CONSTANT, "seed": 1, "limits": (), "stopped_s": 15.0}
    processes = Processes([busy()], None, None)
    return level_data(level or Level(concurrency=2), PHASES, runs, processes, **known | options)


async def driven(load: Load) -> None:
    """Keep the load on until all runs that count have ended."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(load.run)
        await until(lambda: load.is_done)
        tasks.cancel_scope.cancel()


# --- runs under load --------------------------------------------------------------------------------------------------


def test_a_stall_is_in_the_latencies() -> None:
    """Coordinated omission: if the server stalls, so do the runs that should have started meanwhile, and it shows.

    The sixth run stalls until the end of the window. The others take no time, so the actual starts would show one slow
    run. From the intended starts, each run behind the stall has the time that it really waited.
    """
    phases = Phases(ramp_s=0, warmup_s=0, duration_s=0.3, grace_s=5)
    ended: list[LoadedRun] = []

    async def drive() -> None:
        order = order_of(Level(rate=100), phases, max_concurrency=1)

        async def run_once(_: str, intended_s: float) -> Figures:
            if len(ended) == 5:
                await anyio.sleep(0.3 - (time.monotonic() - order.origin_s))
            return (time.monotonic() - intended_s,) * 4

        await driven(Load(settings_of(), order, run_once, ended.append))

    anyio.run(drive)
    counted = [run for run in ended if phases.counts(run.intended_s)]
    assert len(counted) == 30
    waited = counted[6:]
    assert all((run.figures[0] or 0) >= 0.3 - run.intended_s for run in waited)
    assert all(run.queued for run in waited)
    assert (waited[0].figures[0] or 0) > 0.2


def test_a_closed_loop() -> None:
    """Each user has one run at a time. What is under way at the end is reported without an end, and never lost."""
    under_way = most = 0
    ended: list[LoadedRun] = []

    async def run_once(_: str, __: float) -> Figures:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            if len(ended) < 6:
                await anyio.sleep(0.001)
                raise ValueError("secret") from OSError()
            await anyio.sleep_forever()
        finally:
            under_way -= 1
        raise AssertionError

    async def drive() -> None:
        load = Load(settings_of(), order_of(Level(concurrency=3), PHASES), run_once, ended.append)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(load.run)
            await until(lambda: len(ended) == 6 and under_way == 3)
            assert not load.is_done
            tasks.cancel_scope.cancel()

    anyio.run(drive)
    assert most == 3
    assert [run.error for run in ended] == ["ValueError (OSError)"] * 6 + [None] * 3
    assert [run.ended_s is None for run in ended] == [False] * 6 + [True] * 3


def test_the_last_run_that_counts() -> None:
    """A level has been measured when the last run that counts has ended. The load stays on until then."""
    phases = Phases(ramp_s=0, warmup_s=0, duration_s=0.05, grace_s=5)
    ended: list[LoadedRun] = []
    numbers = count()

    async def drive() -> None:
        order = order_of(Level(concurrency=2), phases)
        may_end = anyio.Event()

        async def run_once(_: str, __: float) -> Figures:
            await (may_end.wait() if next(numbers) == 0 else anyio.sleep(0.005))
            return (1.0,) * 4

        load = Load(settings_of(), order, run_once, ended.append)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(load.run)
            await until(lambda: any(run.intended_s > 0.1 for run in ended))
            assert not load.is_done
            may_end.set()
            await until(lambda: load.is_done)
            tasks.cancel_scope.cancel()

    anyio.run(drive)
    assert [phases.counts(run.intended_s) for run in ended].count(True) > 2


def test_starts_of_an_open_loop() -> None:
    """Constant starts are equally far apart; during a ramp, they are half as many, and come faster and faster."""
    at = list(islice(starts(10, ramp_s=0, arrivals=Arrivals.CONSTANT, seed=""), 5))
    assert at == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
    ramped = list(islice(starts(10, ramp_s=4, arrivals=Arrivals.CONSTANT, seed=""), 60))
    assert sum(at_s < 4 for at_s in ramped) == 20
    gaps = [after - before for before, after in pairwise(ramped)]
    assert gaps[:20] == sorted(gaps[:20], reverse=True)
    assert gaps[25:] == pytest.approx([0.1] * len(gaps[25:]))
    assert user_starts(4, ramp_s=2) == [0, 0.5, 1, 1.5]


def test_poisson_arrivals() -> None:
    """The gaps of independent arrivals deviate by their mean; one seed gives one schedule, which clients can share."""
    at = list(islice(starts(50, ramp_s=0, arrivals=Arrivals.POISSON, seed="7"), 4_000))
    gaps = [after - before for before, after in pairwise(at)]
    assert mean(gaps) == pytest.approx(1 / 50, rel=0.05)
    assert stdev(gaps) == pytest.approx(1 / 50, rel=0.07)
    assert at == list(islice(starts(50, ramp_s=0, arrivals=Arrivals.POISSON, seed="7"), 4_000))
    assert at != list(islice(starts(50, ramp_s=0, arrivals=Arrivals.POISSON, seed="8"), 4_000))
    assert sum(share_of(10, client=number, clients=3) for number in range(3)) == 10


@rows(
    "call, told",
    [
        (lambda: levels_of([0], []), "--concurrency must be"),
        (lambda: levels_of([], [float("nan")]), "--rate must be"),
        (lambda: levels_of([2, 2], []), "each level once"),
        (lambda: levels_of(range(1, 200), []), "more than 100"),
        (lambda: parse_seconds("soon", "--duration"), "--duration must be a time"),
        (lambda: parse_seconds("0s", "--duration", may_be_zero=False), "--duration must be a time"),
        (lambda: parse_seconds("25h", "--duration"), "up to a day"),
        (lambda: Objective.parse("speed:1s"), "--slo takes first_byte, first_field, tool_start, duration"),
        (lambda: Objective.parse("first_field:5%"), "takes a time"),
        (lambda: Objective.parse("first_field"), "--slo must be"),
        (lambda: check_starts([Level(rate=10_000)], Phases(ramp_s=0, warmup_s=0, duration_s=60, grace_s=0)), "shorten"),
        (lambda: allow_files(2**40), "open files, and this system allows"),
    ],
)
def test_what_cannot_be_planned(call: Any, told: str) -> None:
    """Each is a clear error before anything is measured."""
    with pytest.raises(UsageError, match=told):
        call()


def test_texts_of_options() -> None:
    """Times have units, and a figure may have the name of the results."""
    assert [parse_seconds(text, "") for text in ("30s", "500ms", "2m", "1.5", "0")] == [30, 0.5, 120, 1.5, 0]
    assert (
        Objective.parse("first_field:500ms")
        == Objective.parse("first_field_s: 0.5s")
        == Objective("first_field_s", 0.5)
    )


# --- figures ----------------------------------------------------------------------------------------------------------


def test_percentiles_need_enough_runs() -> None:
    """One with too few runs behind it is not shown: the largest value would stand in its place."""
    assert percentiles_of(range(1, 6), 0)["p50"] is None
    assert percentiles_of(range(1, 7), 0)["p50"] == 3
    assert percentiles_of(range(1, 36), 0)["p90"] is None
    data = percentiles_of(range(1, 401), 0)
    assert (data["n"], data["p50"], data["p90"], data["p99"], data["p999"]) == (400, 200, 360, 396, None)
    assert percentiles_of(range(1, 4001), 0)["p999"] == 3996


def test_failed_runs_are_in_the_percentiles() -> None:
    """They are later than all others. So a percentile that falls on them is unknown, and the others move up."""
    without, half = percentiles_of(range(1, 101), 0), percentiles_of(range(1, 101), 100)
    assert (without["p50"], without["p90"]) == (50, 90)
    assert (half["n"], half["p50"], half["p90"]) == (200, 100, None)
    data = data_of([made_run(number / 20, error="E" if number % 10 == 0 else None) for number in range(200)])
    assert (data["failed"], data["completed"], data["errors"]) == (20, 180, {"E": 20})
    assert data["figures"]["duration_s"]["n"] == 200


def test_runs_that_count() -> None:
    """Those that should start in the window, followed to their end. Throughput counts the ends in the window."""
    runs = [
        made_run(-1.0, 2.0),  # of the warm-up
        made_run(1.0, 2.0),
        made_run(9.0, 3.0),  # ends after the window
        made_run(8.0, None),  # cancelled at the end
        made_run(10.0, 1.0),  # should start after the window
    ]
    data = data_of(runs)
    assert (data["runs"], data["completed"], data["unfinished"]) == (3, 2, 1)
    assert data["throughput_per_s"] == 0.2
    assert data["mean_concurrency"] == pytest.approx((1 + 2 + 1 + 2) / 10)
    assert data["each"]["end_s"] == [2.0, None, 3.0]


def test_arrivals_that_never_started_count() -> None:
    """A client that is too slow for the load cannot hide it: the starts are known from the plan."""
    data = data_of([made_run(number / 2) for number in range(15)], Level(rate=2))
    assert (data["runs"], data["completed"], data["unfinished"]) == (20, 15, 5)
    assert data["each"]["late_s"][-5:] == [None] * 5
    assert data["figures"]["duration_s"] == {"n": 20, "p50": 1.0, "p90": None, "p99": None, "p999": None}


def test_goodput() -> None:
    """Runs within all limits, which ended in the window; the share is that of the runs that count."""
    limits = [Objective("first_field_s", 0.5), Objective("duration_s", 2.0)]
    figures = {"good": (0.1, 0.5, None, 2.0), "late": (0.1, 0.6, None, 1.0), "long": (0.1, 0.1, None, 2.1)}
    runs = [
        made_run(number, 1.0, figures=figures[kind]) for number, kind in enumerate(["good", "late", "long", "good"])
    ]
    data = data_of([*runs, made_run(5.0, error="E")], limits=limits)
    assert (data["throughput_per_s"], data["goodput_per_s"], data["good_share"]) == (0.4, 0.2, 0.4)
    assert data_of(runs)["goodput_per_s"] is None


def test_an_interrupted_level() -> None:
    """Its window ends at the interruption."""
    data = data_of([made_run(number / 2, 0.4) for number in range(8)], stopped_s=4.0, interrupted=True)
    assert (data["duration_s"], data["throughput_per_s"], data["interrupted"]) == (4.0, 2.0, True)


@rows(
    "curve, knee",
    [
        ([(1, 1), (2, 2)], None),
        ([(1, 1), (2, 2), (4, 4), (8, 8)], (3, False)),
        ([(1, 1), (2, 2), (4, 3.9), (8, 4.2), (16, 4.2)], (2, True)),
        ([(1, 1), (2, 1.5), (4, 2.25)], (2, False)),
        ([(1, 1), (2, 1.49), (4, 2.9)], (0, True)),
        ([(1, 1), (10, 8), (20, 5)], (1, True)),
        ([(1, 0), (2, 0), (4, 0)], (0, True)),
        ([(1, 0), (2, 2), (4, 4)], (2, False)),
    ],
)
def test_the_knee(curve: list[tuple[float, float]], knee: tuple[int, bool] | None) -> None:
    """The last level before throughput grew by less than half of what the load grew."""
    assert knee_of(curve) == knee


def test_bottlenecks() -> None:
    """A process that used nearly all of a processor, or an event loop or starts that were late; else none."""
    assert bottlenecks(Processes([busy(), busy()], busy(), busy()), 0.01) == {}
    found = bottlenecks(Processes([busy(), busy(0.97, 1.2)], busy(0.9), busy(0.1, 0.06)), 0.3)
    assert found == {
        "clients": "97 % of a processor, an event loop that was 1.20 s late (p99) and starts that were 300 ms late (p99)".replace(
            " s late", "\u00a0s late"
        ).replace(" ms late", "\u00a0ms late"),
        "server": "90 % of a processor",
        "proxy": "an event loop that was 60.0\u00a0ms late (p99)",
    }


def test_a_steady_state() -> None:
    """Runs that become longer during the window show that more start than end."""
    steady = [(number / 20, 1.0 + number * 7 % 5 / 10) for number in range(200)]
    assert not is_unsteady(steady, (0, 10))
    assert is_unsteady([(at_s, value + at_s) for at_s, value in steady], (0, 10))
    assert not is_unsteady(steady[:5], (0, 10))


def test_a_late_event_loop() -> None:
    """All wake-ups that a pause covers count, so a long pause is more than one late wake-up among many."""

    async def paused() -> Any:
        watch = LoopWatch()
        watch.start()
        watch.start()
        await asyncio.sleep(0.02)
        asyncio.get_running_loop().call_soon(time.sleep, 0.2)
        await asyncio.sleep(0)
        await asyncio.sleep(0.02)
        return watch.take()

    taken = asyncio.run(paused())
    assert taken["lag_max_s"] >= 0.18
    assert taken["lag_p50_s"] >= 0.05


# --- programs that run many at once -----------------------------------------------------------------------------------


def exchange(sent_s: float, end_s: float | None, *texts: str, mark: bool = False) -> Exchange:
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": text}]} for text in texts]
    if mark:
        messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    body = json.dumps({"messages": messages}).encode()
    return Exchange(
        sent_s=sent_s, sent_bytes=9, model="m", eager=None, reply=None, end_s=end_s, run="many-1", body=body
    )


def test_conversations() -> None:
    """A request continues the one with which its messages start, of equal ones the one that ended first."""
    first, second = exchange(0.0, 5.0, "a", mark=True), exchange(1.0, 3.0, "a")
    other, broken = exchange(1.5, 2.0, "b"), exchange(1.6, None, "a")
    later = [exchange(4.0, 6.0, "a", "x"), exchange(5.5, 7.0, "a", "x"), exchange(8.0, 9.0, "a", "x", "y")]
    odd = Exchange(sent_s=9.5, sent_bytes=1, model="", eager=None, reply=None, end_s=None, run="many-1", body=b"{")
    found = conversations([*later, other, second, first, broken, odd])
    assert found == [[first, later[1]], [second, later[0], later[2]], [other], [broken], [odd]]
