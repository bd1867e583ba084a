"""Run the benchmarks: `python -m benchmarks --help`."""

from __future__ import annotations

import importlib
import inspect
import sys
import time
import traceback
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from . import machine, readme, results
from .results import BENCHMARKS

_messages = Console(stderr=True)


def main(
    names: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(BENCHMARKS)}. Default: all.")] = None,
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller streams, fewer faults, shorter time-outs. Takes some minutes.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Folder of RESULTS.md and results.json. A complete run writes to benchmarks/, the README and the docs."
        ),
    ] = None,
    update: Annotated[
        bool,
        typer.Option("--update", help="Replace the sections of these NAMEs in RESULTS.md and in the docs."),
    ] = False,
    render: Annotated[
        bool,
        typer.Option("--render", help="Measure nothing. Write RESULTS.md and the figures of the docs again."),
    ] = False,
    compare: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Measure nothing. Print the verdicts and the versions of peers that changed since this results.json.",
        ),
    ] = None,
) -> None:
    """Compare eagerstream with its peers, on this machine, in this run. Read the ratios, not the times.

    The exit code is 1 if an asserted target is missed or a benchmark failed.
    """
    for name in names or ():
        if name not in BENCHMARKS:
            raise typer.BadParameter(f"{name}: not one of {', '.join(BENCHMARKS)}", param_hint="NAME")
    if render:
        results.render()
        readme.write()
        return
    if compare is not None:
        typer.echo(results.changes(results.load(compare), results.read()))
        return
    if update and (quick or not names or output is not None):
        raise typer.BadParameter("it needs NAMEs, and neither --quick nor --output", param_hint="--update")
    chosen = names or BENCHMARKS
    sections = [
        _run(name, f"{number} of {len(chosen)}: {name}", quick=quick) for number, name in enumerate(chosen, start=1)
    ]
    if output is None and not names and not quick:
        output = results.FOLDER
    faults = results.broken(sections)
    if update:
        results.write(results.FOLDER, [section for section in sections if not section.error], keep=True)
    if output is not None:
        results.write(output, sections)
    if update or output == results.FOLDER:
        try:
            readme.write()
        except LookupError as error:  # a compiler or a package is missing, or a benchmark failed
            faults.append(f"README.md and the docs are unchanged: the results have no {error}")
    for fault in faults:
        _messages.print(f"not met: {fault}", style="red", markup=False)
    sys.exit(1 if faults else 0)


def _run(name: str, title: str, *, quick: bool) -> results.Section:
    """Run one benchmark. Report its failure, and do not raise it. The progress goes to stderr."""
    console = results.Recorder()
    if not console.is_terminal:
        console.width = 160  # a pipe has no width, and a cut table is useless
    _messages.print(f"{title} ...", style="dim", highlight=False)
    method = error = ""
    figures = {}
    conditions = machine.describe()
    start = time.monotonic()
    try:
        module = importlib.import_module(f"{__package__}.{name}")
        method = inspect.getdoc(module) or ""
        figures = module.main(console, quick=quick)
    except Exception as exception:
        if isinstance(exception, ModuleNotFoundError) and exception.name in results.OPTIONAL:
            figures = results.left_out(name, exception.name)
            console.print(f"{exception.name} is not installed: make bench installs it")
        else:
            traceback.print_exc()
            error = f"{type(exception).__name__}: {exception}"
    took_s = time.monotonic() - start
    conditions["load"] += f" to {machine.load()}"
    _messages.print(f"{title}: {took_s:.0f} s", style="dim", highlight=False)
    return results.Section(
        name=name,
        method=method,
        conditions=conditions,
        printed=console.printed,
        figures=figures,
        error=error,
        took_s=took_s,
    )


typer.run(main)
