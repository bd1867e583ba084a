"""`eagerstream bench load`; needs the extra `bench`."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from eagerstream._support.checks import check_positive
from eagerstream.errors import EagerStreamError, UsageError

from . import _options as options
from ._kinds import MAX_CONCURRENCY, Arrivals, TransportName
from ._setup import (
    LIVE_MODEL,
    SIMULATED_MODEL,
    Selection,
    check_live,
    check_packages,
    check_targets,
    keep_earlier,
    make_folder,
    report_and_print,
    requested_by,
    simulation_of,
)
from ._signals import ended_by_signals, interrupts_wait

if TYPE_CHECKING:
    from ._load_measure import LoadPlan
    from ._load_plan import Level
    from ._load_results import BaselineData, LevelData, LoadResults, LoadSettingsData
    from ._programs import Program
    from ._results import MachineData

_FILES: Final = ("load.json", "report.html")
DEFAULT_LEVELS: Final = (1, 4, 16, 64)
_MAX_OPEN: Final = 1_000
_MAX_OPEN_PROGRAMS: Final = 32


def load(
    *,
    concurrency: Annotated[
        list[int] | None,
        typer.Option(
            "--concurrency",
            "-c",
            help="Closed loop: number of concurrent runs; each value is a level; repeatable.",
            show_default=", ".join(map(str, DEFAULT_LEVELS)),
        ),
    ] = None,
    rate: Annotated[
        list[float] | None,
        typer.Option(
            "--rate",
            "-r",
            help="Open loop: runs that start per second, whatever the server does. Latencies count from the intended "
            "start; each value is a level; repeatable.",
        ),
    ] = None,
    arrival_pattern: Annotated[Arrivals, typer.Option(help="Pattern of the starts of --rate.")] = Arrivals.POISSON,
    duration: Annotated[str, typer.Option(help="Window of each level in which runs count by their starts.")] = "30s",
    ramp_duration: Annotated[str, typer.Option(help="Time in which the load of a level grows from 0.")] = "2s",
    warmup_duration: Annotated[str, typer.Option(help="Time at full load before the window.")] = "5s",
    grace_period: Annotated[
        str, typer.Option(help="Maximum time after the window for its runs to end. The load stays on.")
    ] = "30s",
    slo: Annotated[
        list[str] | None,
        typer.Option(
            help="Limit for goodput, such as first_field:500ms; also first_byte, tool_start, duration; repeatable."
        ),
    ] = None,
    clients: Annotated[int, typer.Option(help="Number of processes that start the runs.", min=1, max=64)] = 1,
    max_concurrency: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of concurrent runs with --rate. Others wait, and count from their intended start.",
            show_default=f"{_MAX_OPEN:,}, or {_MAX_OPEN_PROGRAMS} with programs",
            min=1,
            max=MAX_CONCURRENCY,
        ),
    ] = None,
    prompt: options.Prompts = None,
    prompt_file: options.PromptFiles = None,
    recording: options.Recordings = None,
    tools: options.Tools = None,
    eager: Annotated[bool, typer.Option("--eager/--buffered", help="Streaming of inputs of our own loop.")] = True,
    program: Annotated[
        list[str] | None,
        typer.Option(
            help='Command of a program with its own loop, such as "python other.py"; repeatable. One process makes one '
            "run. If {concurrency} is in the command, one process makes that many at once. {prompt} and {model} are "
            "replaced, too.",
        ),
    ] = None,
    name: options.ProgramNames = None,
    programs_only: options.ProgramsOnly = False,
    model: options.Models = None,
    transport: options.Transports = None,
    live: options.Live = False,
    yes: options.Yes = False,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the starts and of the simulated times.", show_default="random, and printed"),
    ] = None,
    profile: options.ProfileName = None,
    speed: options.Speed = None,
    tool_seconds: options.ToolSeconds = 0.0,
    max_tokens: options.MaxTokens = 16_384,
    max_turns: options.MaxTurns = 10,
    timeout_s: options.TimeoutSeconds = 300.0,
    out: Annotated[Path, typer.Option(help="Folder for the results.", file_okay=False)] = Path("load-results"),
    no_html: options.NoHTML = False,
    export: options.Exports = None,
) -> None:
    """Measure runs under load: throughput, percentiles of latencies, goodput, and the knee.

    Each value of --concurrency and --rate is a level. The levels are measured one after the other, each with a ramp and
    a warm-up. The runs that should start within the window of a level count. The load stays on until they have ended. A
    run that fails or does not end counts as later than all others.

    It says when the clients, the server on this machine or the proxy were too slow for a level.

    It writes load.json and report.html. Earlier results in the folder are renamed. Ctrl-C stops the measurement, and
    keeps the results so far.

    Programs are measured at a proxy, as with `eagerstream bench`. Our own cases pass the same proxy then.
    """
    from ._exports import check_exports
    from ._load_measure import LoadPlan
    from ._load_plan import Objective, Phases, check_starts, levels_of, parse_seconds
    from ._matrix import Matrix
    from ._programs import of_commands

    check_exports(export or ())
    seed = secrets.randbelow(2**32) if seed is None else seed
    check_positive("--timeout-s", timeout_s, is_finite=True)
    check_packages(html=not no_html)
    check_live(profile, speed, live=live)
    if programs_only and not program:
        raise UsageError("--programs-only needs a --program")
    levels = levels_of(concurrency or (() if rate else DEFAULT_LEVELS), rate or ())
    phases = Phases(
        ramp_s=parse_seconds(ramp_duration, "--ramp-duration"),
        warmup_s=parse_seconds(warmup_duration, "--warmup-duration"),
        duration_s=parse_seconds(duration, "--duration", may_be_zero=False),
        grace_s=parse_seconds(grace_period, "--grace-period"),
    )
    check_starts(levels, phases)
    limits = tuple(Objective.parse(text) for text in slo or ())
    selection = Selection(
        prompts=tuple(prompt or ()),
        prompt_files=tuple(prompt_file or ()),
        recordings=tuple(recording or ()),
        tools=tuple(tools or ()),
        streamings=("eager" if eager else "buffered",),
        models=tuple(model or [LIVE_MODEL if live else SIMULATED_MODEL]),
        transports=tuple(transport or [TransportName.ANTHROPIC]),
        tool_s=tool_seconds,
        live=live,
    )
    programs = of_commands(program or (), name or ())
    _check_programs(programs, levels)
    sources = selection.sources()
    asked = programs_only and not (live or tools or recording)
    first = {"prompt": sources[0].prompt, "model": selection.models[0]}
    requested = requested_by(programs, **first, timeout_s=timeout_s) if asked else []
    cases = selection.cases(sources, requested, programs, programs_only=programs_only)
    Matrix(cases=cases, repetitions=1, warmup=0, seed=seed)  # checks that no case is given twice
    plan = LoadPlan(
        selection=selection,
        cases=cases,
        levels=levels,
        phases=phases,
        arrivals=arrival_pattern,
        limits=limits,
        seed=seed,
        clients=clients,
        max_concurrency=max_concurrency or (_MAX_OPEN_PROGRAMS if programs else _MAX_OPEN),
        simulation=None if live else simulation_of(cases, profile, speed, seed),
        max_tokens=max_tokens,
        max_turns=max_turns,
        timeout_s=timeout_s,
    )
    exports = export or []
    check_targets([*(out / name for name in _FILES), *exports], sources=map(Path, recording or ()))
    make_folder(out, exports)
    if live:
        _ask(plan, yes=yes)
    with interrupts_wait() as interrupts:  # once measuring has ended, Ctrl-C loses nothing
        results, cause = _measure(plan, interrupts)
        if cause is not None and not any(case["levels"] for case in results["cases"]):
            if isinstance(cause, KeyboardInterrupt):
                typer.echo("interrupted before the first window: nothing was measured", err=True)
            raise cause  # there is nothing to keep
        files = _save(results, out, exports)
    if interrupts and cause is None:
        cause = KeyboardInterrupt()
    _show(results, out, files, html=not no_html and not interrupts)
    if cause is not None:
        raise cause
    if not any(level["completed"] for case in results["cases"] for level in case["levels"]):
        raise EagerStreamError("every run failed")


def _check_programs(programs: Sequence[Program], levels: Sequence[Level]) -> None:
    for program in programs:
        if program.runs_many and any(level.rate is not None for level in levels):
            raise UsageError(f"{program.name}: a program with {{concurrency}} starts its runs itself: leave out --rate")


def _ask(plan: LoadPlan, *, yes: bool) -> None:
    """Print how long the API is used, and ask for confirmation on a terminal.

    Raises:
        typer.Abort: The user declined.
    """
    levels = len(plan.levels) * len(plan.cases)
    total_s = levels * plan.phases.window[1]
    runs = f"up to {plan.most:,} runs at once, which cost money"
    typer.echo(f"on the live API: {levels} levels in {total_s:,.0f} s or more, {runs}", err=True)
    if not yes and sys.stdin.isatty() and sys.stderr.isatty():
        typer.confirm("Continue?", abort=True, err=True)


# --- measuring and saving ---------------------------------------------------------------------------------------------


def _measure(plan: LoadPlan, interrupts: Sequence[int]) -> tuple[LoadResults, BaseException | None]:
    """Measure all levels; return the results so far, and the exception that stopped it, such as Ctrl-C, or `None`."""
    from ._load_measure import LoadTest
    from ._load_terminal import load_progress
    from ._machine import machine
    from ._noise import Readings, machine_warnings

    found: dict[str, list[LevelData]] = {case.id: [] for case in plan.cases}
    before = Readings.now()
    described = machine(load=before.load)
    baseline = None
    cause: BaseException | None = None
    try:
        with load_progress(len(plan.levels) * len(plan.cases)) as tell, ended_by_signals():
            if interrupts:
                raise KeyboardInterrupt
            with LoadTest(plan) as test:
                baseline = test.baseline
                for level in plan.levels:
                    for case in plan.cases:  # in turn, so that drift affects all cases alike
                        data = test.level(case, level, tell)
                        if data["runs"] or not data["interrupted"]:
                            found[case.id].append(data)
                        if data["interrupted"]:
                            raise KeyboardInterrupt
    except (KeyboardInterrupt, Exception) as error:
        cause = error
    warnings = list(machine_warnings(before, Readings.now(), cores=os.cpu_count() or 1))
    return _results(plan, found, baseline, described, warnings), cause


def _results(
    plan: LoadPlan,
    found: dict[str, list[LevelData]],
    baseline: BaselineData | None,
    machine: MachineData,
    warnings: list[str],
) -> LoadResults:
    from ._load_figures import baseline_warnings, knees_of, short_warnings
    from ._matrix import PROGRAM, Matrix

    simulation = plan.simulation
    settings: LoadSettingsData = {
        "ramp_s": plan.phases.ramp_s,
        "warmup_s": plan.phases.warmup_s,
        "duration_s": plan.phases.duration_s,
        "grace_s": plan.phases.grace_s,
        "arrivals": plan.arrivals.value,
        "clients": plan.clients,
        "max_concurrency": plan.max_concurrency,
        "timeout_s": plan.timeout_s,
        "limits": [{"figure": limit.figure, "limit_s": limit.limit_s} for limit in plan.limits],
        "seed": plan.seed,
        "profile": None if simulation is None else simulation.profile.name,
        "speed": None if simulation is None else simulation.speed,
        "measured_at": "proxy" if plan.is_proxied else "client",
    }
    if simulation is not None and not any(map(simulation.times, plan.cases)):
        settings["profile"] = "as recorded"
    labels = Matrix(cases=plan.cases, repetitions=1, warmup=0, seed=plan.seed).labels()
    results: LoadResults = {
        "eagerstream_load": 1,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "simulated": simulation is not None,
        "machine": machine,
        "warnings": [*warnings, *baseline_warnings(baseline)],
        "settings": settings,
        "baseline": baseline,
        "cases": [],
    }
    for case in plan.cases:
        results["cases"].append(
            {
                "id": case.id,
                "label": labels[case.id],
                "source": case.source.name,
                "tools": case.tools.name,
                "streaming": case.streaming,
                "model": case.model,
                "transport": case.transport.value if case.program is None else PROGRAM,
                "levels": found[case.id],
                "knees": knees_of(found[case.id]),
            }
        )
        if case.program is not None:
            results["cases"][-1]["program"] = case.program.name
        results["warnings"] += short_warnings(labels[case.id] or case.id, found[case.id])
    return results


def _save(results: LoadResults, out: Path, exports: Sequence[Path]) -> list[Path]:
    """Save the results, and return the paths of the files."""
    from ._load_exports import export_load
    from ._results import save_json

    files = [out / "load.json", *exports]
    for file in files:
        keep_earlier(file)
    save_json(files[0], results)
    for path in exports:
        export_load(results, path)
    return files


def _show(results: LoadResults, out: Path, files: list[Path], *, html: bool) -> None:
    """Write the report, and print the tables."""
    from ._load_terminal import print_load

    report = None
    if html:
        from ._load_report import write_load_report

        report = partial(write_load_report, results)
    report_and_print(out, files, report=report, show=partial(print_load, results))
