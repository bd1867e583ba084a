"""`eagerstream bench`, with `compare`, `fit`, `load` and `show`; needs the extra `bench`."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import anyio
import typer

from eagerstream._support.checks import check_positive
from eagerstream._support.typer_app import new_app, run_app
from eagerstream._support.wording import count_text
from eagerstream.errors import EagerStreamError, UsageError

from . import _options as options
from ._compare import compare_results
from ._fit_command import fit_recordings
from ._kinds import EAGER_PRIMARY, MAX_RUNS, MEANINGS, MIN_RUNS, PRIMARY, Streaming, TransportName
from ._load_command import load
from ._saved_runs import show_runs
from ._setup import (
    LIVE_MODEL,
    SIMULATED_MODEL,
    check_live,
    check_packages,
    check_targets,
    keep_earlier,
    make_folder,
    report_and_print,
    requested_by,
    simulation_of,
    sources_of,
)
from ._signals import ended_by_signals, interrupts_wait

if TYPE_CHECKING:
    from ._fitted import Fitted
    from ._matrix import Matrix
    from ._measure import Conditions, Measured
    from ._plan import Plan
    from ._results import Results, SettingsData

_FIGURES: Final = "\n\n".join(["The figures:", *(f"- {label}: {meaning}" for label, meaning in MEANINGS.items())])


_FILES: Final = ("results.json", "profile.json", "report.html")
"""Files in the folder of the results."""

app = new_app(invoke_without_command=True)


@app.callback(epilog=_FIGURES)
def bench(
    context: typer.Context,
    *,
    prompt: options.Prompts = None,
    prompt_file: options.PromptFiles = None,
    recording: options.Recordings = None,
    tools: options.Tools = None,
    eager: Annotated[
        bool | None, typer.Option("--eager/--buffered", help="Measure only one of the two.", show_default="both")
    ] = None,
    program: Annotated[
        list[str] | None,
        typer.Option(
            help='Command of a program with its own loop, such as "python other.py", to measure from the wire; '
            "repeatable. {prompt} and {model} in it are replaced.",
        ),
    ] = None,
    name: options.ProgramNames = None,
    programs_only: options.ProgramsOnly = False,
    model: options.Models = None,
    transport: options.Transports = None,
    live: options.Live = False,
    yes: options.Yes = False,
    repetitions: Annotated[
        int | None, typer.Option("--repetitions", "-n", help="Runs of each case.", show_default=f"{MIN_RUNS}")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            help="Repeat until the intervals of the primary figures reach at most this far to both sides, such as 2% "
            "of the base, or 20ms. The verdicts stay as certain.",
        ),
    ] = None,
    min_runs: Annotated[
        int | None, typer.Option(help="Minimum number of runs of each case, with --until.", show_default=f"{MIN_RUNS}")
    ] = None,
    max_runs: Annotated[
        int | None, typer.Option(help="Maximum number of runs of each case, with --until.", show_default=f"{MAX_RUNS}")
    ] = None,
    warmup: Annotated[int, typer.Option(help="Earlier runs of each case, which do not count.")] = 1,
    seed: options.Seed = None,
    profile: options.ProfileName = None,
    speed: options.Speed = None,
    tool_seconds: options.ToolSeconds = 0.0,
    max_tokens: options.MaxTokens = 16_384,
    max_turns: options.MaxTurns = 10,
    timeout_s: options.TimeoutSeconds = 300.0,
    primary: Annotated[
        list[str] | None,
        typer.Option(
            help="Figure with a verdict, by its name in results.json; repeatable. The more, the wider the intervals.",
            show_default=f"{' and '.join(PRIMARY)}, or {' and '.join(EAGER_PRIMARY)} to compare eager with buffered",
        ),
    ] = None,
    min_effect: Annotated[
        str | None, typer.Option(help="Smallest difference that matters, such as 2% of the base, or 20ms.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of all verdicts together.")] = 0.95,
    out: Annotated[Path, typer.Option(help="Folder for the results.", file_okay=False)] = Path("bench-results"),
    no_html: options.NoHTML = False,
    export: options.Exports = None,
) -> None:
    """Measure repeatedly how early inputs and tools start, eager compared with buffered, and report the verdicts.

    Without options, it measures the demo's poem on a server on this machine, in less than a minute. These results are
    simulated. That server answers every prompt with a script that calls the tools. Every combination of the repeatable
    options is measured. Their runs are interleaved, so drift affects all alike.

    Two figures get a verdict. Without any difference, at most 5 % of all benchmarks report one (--confidence).

    It writes results.json, which contains every arrival of every run, and report.html. Earlier results in the folder
    are renamed. Ctrl-C stops the measurement, and keeps the results so far.

    A program of --program runs as a process of its own, once for each run. ANTHROPIC_BASE_URL points it at a proxy,
    which measures its requests to POST .../messages. EAGERSTREAM_BENCH_PROMPT and EAGERSTREAM_BENCH_MODEL have the
    prompt and the model. Our own cases pass the same proxy then. The proxy does not see when a tool starts.
    """
    if context.invoked_subcommand is not None:
        for option in context.command.params:
            source = context.get_parameter_source(option.name or "")
            if source is not None and source.name == "COMMANDLINE":
                command = f"bench {context.invoked_subcommand}"
                raise UsageError(f"{option.opts[0]} is for measuring: options of {command} come after its name")
        return
    from ._exports import check_exports
    from ._machine import machine
    from ._matrix import Matrix, cross
    from ._measure import Conditions
    from ._noise import Readings, machine_warnings
    from ._plan import Plan, default_primary
    from ._programs import of_commands
    from ._sources import named_tools

    check_exports(export or ())
    looks = _looks(repetitions, until, min_runs, max_runs)
    seed = secrets.randbelow(2**32) if seed is None else seed
    check_positive("--timeout-s", timeout_s, is_finite=True)
    check_packages(html=not no_html)
    check_live(profile, speed, live=live)
    if programs_only and not program:
        raise UsageError("--programs-only needs a --program")
    streamings: Sequence[Streaming] = ("eager", "buffered") if eager is None else ("eager",) if eager else ("buffered",)
    sources = sources_of(prompt or (), prompt_file or (), recording or (), tool_s=tool_seconds)
    models = model or [LIVE_MODEL if live else SIMULATED_MODEL]
    programs = of_commands(program or (), name or ())
    tool_sets = [named_tools(tool_name, tool_s=tool_seconds) for tool_name in tools or ()]
    if programs_only and not (live or tools or recording):
        tool_sets = requested_by(programs, prompt=sources[0].prompt, model=models[0], timeout_s=timeout_s)
    cases = cross(
        sources=sources,
        tools=tool_sets,
        streamings=streamings,
        models=models,
        transports=transport or [TransportName.ANTHROPIC],
        live=live,
        programs=programs,
        programs_only=programs_only,
    )
    matrix = Matrix(cases=cases, repetitions=looks[-1], warmup=warmup, seed=seed)
    simulation = None if live else simulation_of(matrix.cases, profile, speed, seed)
    is_played = simulation and any(map(simulation.times, matrix.cases))
    settings: SettingsData = {
        "repetitions": matrix.repetitions,
        "warmup": warmup,
        "seed": seed,
        "confidence": confidence,
        "primary": [*(primary or default_primary(matrix))],
        "min_effect": min_effect,
        "until": until,
        "looks": [*looks],
        "profile": None if not simulation else simulation.profile.name if is_played else "as recorded",
        "speed": simulation.speed if simulation else None,
        "measured_at": "proxy" if matrix.has_programs else "client",
    }
    plan = Plan.of(settings, pairs=len(matrix.pairs()))
    if until is not None and not plan.pairs:
        raise UsageError("--until needs two cases to compare")
    conditions = Conditions(simulation=simulation, max_tokens=max_tokens, max_turns=max_turns, timeout_s=timeout_s)
    exports = export or []
    check_targets([*(out / name for name in _FILES), *exports], sources=map(Path, recording or ()))
    make_folder(out, exports)
    _warn_of_no_verdict(plan)
    if live:
        _ask(matrix, max_turns, yes=yes)
    measured: list[Measured] = []
    with interrupts_wait() as interrupts:  # once measuring has ended, Ctrl-C loses nothing
        before = Readings.now()
        described = machine(load=before.load)
        cause = _measure(matrix, conditions, plan, measured, interrupts)
        warnings = list(machine_warnings(before, Readings.now(), cores=os.cpu_count() or 1))
        if cause is not None and not any(one.step.repetition >= 0 for one in measured):
            raise cause  # there is nothing to keep
        from ._analysis import assemble
        from ._fitted import Fitted

        fitted = simulation.profile if simulation and isinstance(simulation.profile, Fitted) else None
        was_saved = profile is not None and profile.lower().endswith(".json")
        warnings += fitted.notes if fitted else ()
        results = assemble(
            matrix, measured, settings=settings, simulated=not live, machine=described, warnings=warnings
        )
        files = _save(results, out, exports, fitted=None if was_saved else fitted)
    if interrupts and cause is None:
        cause = KeyboardInterrupt()
    _show(results, out, files, html=not no_html and not interrupts)
    if cause is not None:
        raise cause
    counted = [one for one in measured if one.step.repetition >= 0]
    if all(one.failure for one in counted):
        raise EagerStreamError("every run failed")
    completed = {one.step.case.id for one in counted if not one.failure}
    labels = matrix.labels()
    if failed := [labels[case.id] for case in matrix.cases if case.id not in completed]:
        raise EagerStreamError(f"every run of {', '.join(failed)} failed")


app.command("load")(load)
app.command("compare")(compare_results)
app.command("fit")(fit_recordings)
app.command("show")(show_runs)


# --- settings ---------------------------------------------------------------------------------------------------------


def _looks(repetitions: int | None, until: str | None, least: int | None, most: int | None) -> tuple[int, ...]:
    """Return the numbers of rounds after which the benchmark may end."""
    from ._plan import looks_between

    if until is not None and repetitions is not None:
        raise UsageError("--until takes --min-runs and --max-runs, not --repetitions")
    if until is None and (least is not None or most is not None):
        raise UsageError("--min-runs and --max-runs need --until")
    if until is None:
        return (MIN_RUNS if repetitions is None else repetitions,)
    return looks_between(MIN_RUNS if least is None else least, MAX_RUNS if most is None else most)


# --- checks before the measurement ------------------------------------------------------------------------------------


def _warn_of_no_verdict(plan: Plan) -> None:
    """Warn if there are too few repetitions for any verdict, before they take time or money."""
    most, needed = plan.looks[-1], plan.least_n
    if most < needed and plan.pairs:
        verdicts = count_text(plan.pairs * len(plan.primary), "verdict")
        option = "-n" if plan.until is None else "--max-runs"
        with suppress(OSError):
            typer.echo(
                f"warning: {count_text(most, 'repetition')} cannot give {verdicts} with a confidence of "
                f"{plan.confidence * 100:.4g} %, whatever they measure. That takes at least {needed}: "
                f"{option} {needed}",
                err=True,
            )


def _ask(matrix: Matrix, max_turns: int, *, yes: bool) -> None:
    """Print the number of requests that cost money, and ask for confirmation on a terminal.

    Raises:
        typer.Abort: The user declined.
    """
    programs = " (programs decide on theirs)" if matrix.has_programs else ""
    told = f"on the live API: {matrix.steps} runs, of up to {max_turns} requests each{programs}, which cost money"
    typer.echo(told, err=True)
    if not yes and sys.stdin.isatty() and sys.stderr.isatty():
        typer.confirm("Continue?", abort=True, err=True)


# --- measuring and saving ---------------------------------------------------------------------------------------------


def _measure(
    matrix: Matrix, conditions: Conditions, plan: Plan, measured: list[Measured], interrupts: Sequence[int]
) -> BaseException | None:
    """Measure into the list; return the exception that stopped it, such as Ctrl-C, or `None`."""
    from ._analysis import is_enough
    from ._measure import measure
    from ._terminal import progress_of

    try:
        anyio.run(anyio.sleep, 0)  # imports asyncio: during an import, Python can lose an interrupt
        with progress_of(matrix) as tell, ended_by_signals():
            if interrupts:
                raise KeyboardInterrupt

            def keep(one: Measured) -> None:
                measured.append(one)
                tell(one)

            anyio.run(measure, matrix, conditions, keep, partial(is_enough, matrix, plan, measured))
    except (KeyboardInterrupt, Exception) as error:
        return error
    return None


def _save(results: Results, out: Path, exports: Sequence[Path], *, fitted: Fitted | None) -> list[Path]:
    """Save the results, and return the paths of the files."""
    from ._exports import export
    from ._results import save_results

    files = [out / "results.json"]
    files += [out / "profile.json"] if fitted is not None else []
    files += exports
    for file in files:
        keep_earlier(file)
    save_results(results, files[0])
    if fitted is not None:
        fitted.save(out / "profile.json")
    for path in exports:
        export(results, path)
    return files


def _show(results: Results, out: Path, files: list[Path], *, html: bool) -> None:
    """Write the report, and print the tables."""
    from ._terminal import print_results

    report = None
    if html:
        from ._report import write_report

        report = partial(write_report, results)
    report_and_print(out, files, report=report, show=partial(print_results, results))


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run_app(app, "bench", arguments)
