"""Run the benchmarks: `python -m benchmarks [--quick] [--output DIR] [NAME...]`."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from . import machine, results

BENCHMARKS = ("early_start", "fault_matrix", "bedrock_frames", "bytes_to_events", "partial_values")
"""Modules, each with `main(console, *, quick)`, in the order in which they run."""

_messages = Console(stderr=True)


def main(
    names: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(BENCHMARKS)}; all without any.")] = None,
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller streams, fewer faults, less patience; a few minutes.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Where RESULTS.md and results.json go. A whole run writes them beside the benchmarks."),
    ] = None,
) -> None:
    """Measure eagerstream beside its peers, on this machine, in this run. Read the ratios, not the times.

    Ends with 1 where a target that a run fails on is not met, or a benchmark failed.
    """
    for name in names or ():
        if name not in BENCHMARKS:
            raise typer.BadParameter(f"{name}: not one of {', '.join(BENCHMARKS)}", param_hint="NAME")
    described = machine.describe()
    sections = [_run(name, quick=quick) for name in names or BENCHMARKS]
    if output is None and not names and not quick:
        output = Path(__file__).parent
    if output is not None:
        results.write(output, described, sections)
    faults = results.broken(sections)
    for fault in faults:
        _messages.print(f"not met: {fault}", style="red", markup=False)
    sys.exit(1 if faults else 0)


def _run(name: str, *, quick: bool) -> results.Section:
    """One benchmark; a failure is told and stays its own."""
    console = results.Recorder()
    if not console.is_terminal:
        console.width = 120  # of a pipe nobody knows the width, and a table that is cut is no use
    _messages.print(f"{name} ...", style="dim")
    method = error = ""
    figures = {}
    try:
        module = importlib.import_module(f"{__package__}.{name}")
        method = inspect.getdoc(module) or ""
        figures = module.main(console, quick=quick)
    except Exception as exception:
        traceback.print_exc()
        error = f"{type(exception).__name__}: {exception}"
    return results.Section(name=name, method=method, printed=console.printed, figures=figures, error=error)


typer.run(main)
