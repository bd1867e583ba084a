"""Benchmarks in the terminal: progress and results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from eagerstream._support.wording import duration_text, visible

from ._analysis import Compared
from ._matrix import Matrix
from ._measure import Measured
from ._metrics import METRICS
from ._results import Estimate, Judged, Results
from ._selection import by_pair
from ._wording import (
    AT_PROXY,
    Names,
    cells,
    ended_text,
    interval_words,
    median_words,
    metric_name,
    notes_on,
    primary_first,
    program_notes,
    rounds_words,
    undecided,
    verdict_interval,
    verdict_words,
)

_PLAIN: Final = {ord("\u00a0"): " ", ord("\u2212"): "-"}
_SIMULATED: Final = "simulated: every time comes from the embedded server, and says nothing about the API"


def print_results(results: Results, console: Console) -> None:
    """Print a table for each pair of cases, with a line for each figure, and the medians of cases without a pair."""
    settings, cases = results["settings"], results["cases"]
    simulated = played = ""
    if results["simulated"]:
        _say(console, _SIMULATED, "bold")
        simulated = "; simulated"
        played = f"; profile {settings['profile']}, {settings['speed']:g} times as fast"
    rounds = rounds_words(results)
    _say(console, f"{rounds}, {settings['warmup']} to warm up, interleaved, seed {settings['seed']}{played}")
    if settings.get("measured_at") == "proxy":
        _say(console, AT_PROXY)
    names = Names(results)
    by_id = {case["id"]: case for case in cases}
    compared = by_pair(results["comparisons"])
    for (base, other), comparisons in compared.items():
        title = f"a: {names[base]}, b: {names[other]}{simulated}"
        medians = {
            one["metric"]: (by_id[base]["metrics"][one["metric"]], by_id[other]["metrics"][one["metric"]])
            for one in comparisons
        }
        _print_judged(console, title, "b", comparisons, medians)
    alone = [case for case in cases if not any(case["id"] in pair for pair in compared)]
    for case in alone:
        if case["metrics"]:
            table = _table(f"{names[case['id']]}{simulated}", "figure", "median", "interval", "n")
            for metric, data in case["metrics"].items():
                interval = interval_words(metric, data) if data["n"] > 1 else "-"
                table.add_row(*map(_text, (metric_name(metric), median_words(metric, data), interval, f"{data['n']}")))
            console.print(table)
    for case in cases:
        for text in (ended_text(case), program_notes(case, simulated=results["simulated"])):
            if text:
                _say(console, f"{case['label'] or case['id']}: {text}", "yellow")
    for note in notes_on(results["comparisons"], settings["confidence"]):
        _say(console, note)
    for warning in results["warnings"]:
        _say(console, f"warning: {warning}", "yellow")


def print_comparison(compared: Compared, console: Console) -> None:
    """Print the differences between two benchmarks, case by case."""
    for warning in compared["warnings"]:
        _say(console, f"warning: {warning}", "yellow")
    simulated = "; simulated" if compared["simulated"] else ""
    for case in compared["cases"]:
        name = case["label"] or case["id"]
        if case["metrics"]:
            medians = {one["metric"]: (one["a"], one["b"]) for one in case["metrics"]}
            _print_judged(console, f"{name}, b compared with a{simulated}", "b", case["metrics"], medians)
        else:
            _say(console, f"{name}: no figure that both have", "yellow")
    for side, ids in (("a", compared["only_a"]), ("b", compared["only_b"])):
        for id in ids:
            _say(console, f"only in {side}: {id}", "dim")
    for note in notes_on([one for case in compared["cases"] for one in case["metrics"]], compared["confidence"]):
        _say(console, note)
    _say(console, "a and b were not measured in turn: whatever changed in between may be the cause of a difference")


def _print_judged(
    console: Console,
    title: str,
    name: str,
    judged: Sequence[Judged],
    medians: Mapping[str, tuple[Estimate, Estimate]],
) -> None:
    """Print a line for each figure, primary ones first, and then their verdicts."""
    table = _table(title, "figure", "a", "b", "difference", "interval", "")
    for one in primary_first(judged):
        style = "" if one["verdict"] is None else "bold"
        table.add_row(*(_text(cell, style) for cell in cells(one, *medians[one["metric"]])))
    console.print(table)
    for one in judged:
        if one["verdict"] not in (None, "undecided"):
            _say(console, f"{metric_name(one['metric'])}: {_verdict(one, name)}", "bold")
    for figures, reason in undecided(judged):
        _say(console, f"{figures}: no verdict; {reason}")
    console.print()


def _verdict(judged: Judged, name: str) -> str:
    """Return the verdict, such as `b is 12.0 s earlier [11.8, 12.3] s`."""
    if judged["verdict"] == "equivalent":
        return f"{verdict_words(judged)} {verdict_interval(judged)}"
    metric = METRICS.get(judged["metric"])
    verb = "is" if metric is None or metric.lower in ("earlier", "shorter") else "has"
    return f"{name} {verb} {verdict_words(judged)} {verdict_interval(judged)}"


def _table(title: str, *columns: str) -> Table:
    table = Table(title=_text(title), box=None, pad_edge=False, padding=(0, 2, 0, 0), title_justify="left")
    for name in columns:
        # A narrow terminal must not cut off figures.
        table.add_column(name, justify="left" if name in ("figure", "") else "right", overflow="fold")
    return table


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(_text(text, style))


def _text(text: str, style: str = "") -> Text:
    """Return literal text without rich's markup, in characters that every terminal has."""
    return Text(visible(text).translate(_PLAIN), style=style)


# --- progress ---------------------------------------------------------------------------------------------------------


class _Console(Console):
    """Console on standard error. A closed pipe raises an exception. Rich would end the program."""

    def __init__(self) -> None:
        super().__init__(stderr=True)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@contextmanager
def progress_of(matrix: Matrix) -> Iterator[Callable[[Measured], None]]:
    """Yield a function to call with each measured run. It shows the progress, and ignores a closed standard error."""
    console = _Console()
    if not console.is_terminal:
        yield _if_anybody_reads(_lines(matrix.steps, console))
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    # Estimate over the complete time: rounds take equally long, but runs in a round do not.
    with Progress(*columns, console=console, speed_estimate_period=1e9, transient=True) as bar:
        task = bar.add_task("measuring", total=matrix.steps)

        def tell(measured: Measured) -> None:
            description = "warming up" if measured.step.repetition < 0 else f"round {measured.step.repetition + 1}"
            bar.update(task, advance=1, description=description)
            if measured.failure:
                bar.console.print(_failed(measured))

        yield _if_anybody_reads(tell)


def _if_anybody_reads(tell: Callable[[Measured], None]) -> Callable[[Measured], None]:
    def told(measured: Measured) -> None:
        with suppress(OSError):  # a measured run may have cost money: keep it
            tell(measured)

    return told


def _lines(total: int, console: Console) -> Callable[[Measured], None]:
    """Return a function that prints the progress as a line for each run."""
    begun_s = time.monotonic()
    numbers = count(1)

    def tell(measured: Measured) -> None:
        done = next(numbers)
        left_s = (time.monotonic() - begun_s) / done * (total - done)
        what = visible(measured.step.case.id) + (" (warm-up)" if measured.step.repetition < 0 else "")
        duration_s = measured.run["latency"]["duration_s"]
        took = f"{duration_s:.2f} s" if duration_s is not None and not measured.failure else "failed"
        console.print(Text(f"{done}/{total} {what}: {took}, about {duration_text(left_s)} left"), soft_wrap=True)
        if measured.failure:
            console.print(_failed(measured), soft_wrap=True)

    return tell


def _failed(measured: Measured) -> Text:
    return Text(f"{visible(measured.step.case.id)}: {visible(measured.failure or '')}", style="red")
