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

from ._comparison import Compared
from ._matrix import Matrix
from ._measure import Measured
from ._metrics import METRICS
from ._results import Estimate, Judged, Results
from ._selection import by_pair
from ._trend import TREND_COLUMNS, trends
from ._wording import (
    AT_PROXY,
    LIMIT_STATES,
    NOT_IN_TURN,
    Names,
    cells,
    commit_words,
    ended_text,
    interval_words,
    limit_words,
    median_words,
    metric_name,
    moment,
    notes_on,
    primary_first,
    program_notes,
    rounds_words,
    undecided,
    verdict_interval,
    verdict_words,
)

_LEFT: Final = ("figure", "level", "date", "commit", "")
_PLAIN: Final = {ord("\u00a0"): " ", ord("\u2212"): "-"}
_LIMIT_STYLES: Final = {"exceeded": "bold red", "kept": "green", "undecided": "yellow", "unknown": "bold red"}
SIMULATED: Final = "simulated: every time comes from the embedded server, and says nothing about the API"


def print_results(results: Results, console: Console) -> None:
    """Print a table for each pair of cases, with a line for each figure, and the medians of cases without a pair."""
    settings, cases = results["settings"], results["cases"]
    simulated = played = ""
    if results["simulated"]:
        say(console, SIMULATED, "bold")
        simulated = "; simulated"
        played = f"; profile {settings['profile']}, {settings['speed']:g} times as fast"
    rounds = rounds_words(results)
    say(console, f"{rounds}, {settings['warmup']} to warm up, interleaved, seed {settings['seed']}{played}")
    if settings.get("measured_at") == "proxy":
        say(console, AT_PROXY)
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
            table = new_table(f"{names[case['id']]}{simulated}", "figure", "median", "interval", "n")
            for metric, data in case["metrics"].items():
                interval = interval_words(metric, data) if data["n"] > 1 else "-"
                table.add_row(
                    *map(as_text, (metric_name(metric), median_words(metric, data), interval, f"{data['n']}"))
                )
            console.print(table)
    for case in cases:
        for text in (ended_text(case), program_notes(case, simulated=results["simulated"])):
            if text:
                say(console, f"{case['label'] or case['id']}: {text}", "yellow")
    for note in notes_on(results["comparisons"], settings["confidence"]):
        say(console, note)
    for warning in results["warnings"]:
        say(console, f"warning: {warning}", "yellow")


def print_comparison(compared: Compared, console: Console) -> None:
    """Print the limits, then the differences between benchmarks case by case, and the primary figures of each."""
    files = compared["files"]
    simulated = "; simulated" if compared["simulated"] else ""
    if len(files) > 1:
        for side, file in (("a", files[0]), ("b", files[-1])):
            commit = f", commit {commit_words(file['commit'], dirty=file['dirty'])}" if file["commit"] else ""
            say(console, f"{side}: {file['name']}, {moment(file['created_at'])}{commit}")
    for warning in compared["warnings"]:
        say(console, f"warning: {warning}", "yellow")
    for case in compared["cases"]:
        if case["metrics"]:
            medians = {one["metric"]: (one["a"], one["b"]) for one in case["metrics"]}
            title = case["label"] if case["base"] else f"{case['label']}, b compared with a"
            _print_judged(console, f"{title}{simulated}", "b", case["metrics"], medians)
        else:
            say(console, f"{case['label']}: no figure that both have", "yellow")
        for metric, rows in trends(compared, case):
            table = new_table(f"{case['label']}: {metric}{simulated}", *TREND_COLUMNS)
            for row in rows:
                table.add_row(*map(as_text, row))
            console.print(table, "")
    for side, ids in (("a", compared["only_a"]), ("b", compared["only_b"])):
        for id in ids:
            say(console, f"{f'only in {side}' if len(files) > 1 else 'compared with no other case'}: {id}", "dim")
    for note in notes_on([one for case in compared["cases"] for one in case["metrics"]], compared["confidence"]):
        say(console, note)
    if len(files) > 1:
        say(console, NOT_IN_TURN)
    for limit in compared["limits"]:
        style = _LIMIT_STYLES[limit["state"]]
        say(console, f"{limit['limit']}: {LIMIT_STATES[limit['state']]}: {limit['label']}: {limit_words(limit)}", style)


def _print_judged(
    console: Console,
    title: str,
    name: str,
    judged: Sequence[Judged],
    medians: Mapping[str, tuple[Estimate, Estimate]],
) -> None:
    """Print a line for each figure, primary ones first, and then their verdicts."""
    table = new_table(title, "figure", "a", "b", "difference", "interval", "")
    for one in primary_first(judged):
        style = "" if one["verdict"] is None else "bold"
        table.add_row(*(as_text(cell, style) for cell in cells(one, *medians[one["metric"]])))
    console.print(table)
    for one in judged:
        if one["verdict"] not in (None, "undecided"):
            say(console, f"{metric_name(one['metric'])}: {_verdict(one, name)}", "bold")
    for figures, reason in undecided(judged):
        say(console, f"{figures}: no verdict; {reason}")
    console.print()


def _verdict(judged: Judged, name: str) -> str:
    """Return the verdict, such as `b is 12.0 s earlier [11.8, 12.3] s`."""
    if judged["verdict"] == "equivalent":
        return f"{verdict_words(judged)} {verdict_interval(judged)}"
    metric = METRICS.get(judged["metric"])
    verb = "is" if metric is None or metric.lower in ("earlier", "shorter") else "has"
    return f"{name} {verb} {verdict_words(judged)} {verdict_interval(judged)}"


def new_table(title: str, *columns: str) -> Table:
    table = Table(title=as_text(title), box=None, pad_edge=False, padding=(0, 2, 0, 0), title_justify="left")
    for name in columns:
        # A narrow terminal must not cut off figures.
        table.add_column(name, justify="left" if name in _LEFT else "right", overflow="fold")
    return table


def say(console: Console, text: str, style: str = "") -> None:
    console.print(as_text(text, style))


def as_text(text: str, style: str = "") -> Text:
    """Return literal text without rich's markup, in characters that every terminal has."""
    return Text(visible(text).translate(_PLAIN), style=style)


# --- progress ---------------------------------------------------------------------------------------------------------


class StderrConsole(Console):
    """Console on standard error. A closed pipe raises an exception. Rich would end the program."""

    def __init__(self) -> None:
        super().__init__(stderr=True)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@contextmanager
def progress_of(matrix: Matrix) -> Iterator[Callable[[Measured], None]]:
    """Yield a function to call with each measured run. It shows the progress, and ignores a closed standard error."""
    console = StderrConsole()
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
