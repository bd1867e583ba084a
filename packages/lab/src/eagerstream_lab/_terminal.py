"""Benchmarks in the terminal: progress and results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Final

from rich import box
from rich.console import Console, JustifyMethod
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from eagerstream._support.wording import count_text, duration_text, visible

from ._analysis import Compared
from ._matrix import Matrix
from ._measure import Measured
from ._metrics import METRICS
from ._results import Estimate, Judged, Results
from ._selection import by_pair, metrics
from ._statistics import least_n
from ._wording import (
    AT_PROXY,
    Names,
    Scale,
    ended_text,
    interval_words,
    metric_name,
    no_verdict_reason,
    program_notes,
    verdict_interval,
    verdict_words,
)

_SIDES: Final = ("a", "b")
_PLAIN: Final = {ord("\u00a0"): " ", ord("\u2212"): "-"}
_SIMULATED = "simulated: every time comes from the embedded server, and says nothing about the API"


def print_results(results: Results, console: Console) -> None:
    """Print the medians of every case, and the verdicts on each pair."""
    settings, cases = results["settings"], results["cases"]
    simulated = played = ""
    if results["simulated"]:
        console.print(Text(_SIMULATED, style="bold"))
        simulated = "; simulated"
        played = f"; profile {visible(str(settings['profile']))}, {settings['speed']:g} times as fast"
    told = (
        f"{count_text(settings['repetitions'], 'repetition')}, {settings['warmup']} to warm up, interleaved, "
        f"seed {settings['seed']}; intervals of medians by the bootstrap, "
        f"confidence {settings['confidence'] * 100:.4g} %{played}"
    )
    console.print(Text(told))
    if settings.get("measured_at") == "proxy":
        console.print(Text(f"{AT_PROXY} (- is not available)"))
    names, needed = Names(results), least_n(settings["confidence"])
    table = _table(
        f"medians{simulated}", "figure", "case", "median", f"{settings['confidence'] * 100:.4g} % interval", "n"
    )
    for metric in metrics(results):
        label = metric_name(metric)
        for case in cases:
            table.add_row(label, _text(names[case["id"]]), *_cells(metric, case["metrics"].get(metric), needed))
            label = ""
        table.add_section()
    if table.row_count:
        console.print(table)
    for case in cases:
        if ended := ended_text(case):
            console.print(Text(f"{visible(case['label'])}: {ended}", style="yellow"))
        if notes := program_notes(case, simulated=results["simulated"]):
            console.print(Text(f"{visible(case['label'])}: {notes}", style="yellow"))
    for (base, other), comparisons in by_pair(results["comparisons"]).items():
        table = _table(f"{names[other]} compared with {names[base]}{simulated}", "figure", "verdict")
        for one in comparisons:
            table.add_row(metric_name(one["metric"]), _verdict(one, names[other], needed))
        console.print(table)


def print_comparison(compared: Compared, console: Console) -> None:
    """Print the differences between two benchmarks, case by case."""
    for warning in compared["warnings"]:
        console.print(Text(f"warning: {visible(warning)}", style="yellow"))
    for case in compared["cases"]:
        name = visible(case["label"] or case["id"])
        if not case["metrics"]:
            console.print(Text(f"{name}: no figure that both have", style="yellow"))
            continue
        simulated = "; simulated" if compared["simulated"] else ""
        table = _table(f"{name}, b compared with a{simulated}", "figure", "a", "b", "verdict")
        for one in case["metrics"]:
            medians = (_median(one["metric"], one[side]) for side in _SIDES)
            told = _verdict(one, "b", least_n(compared["confidence"]))
            table.add_row(metric_name(one["metric"]), *medians, told)
        console.print(table)
    for side, ids in (("a", compared["only_a"]), ("b", compared["only_b"])):
        for id in ids:
            console.print(Text(f"only in {side}: {visible(id)}", style="dim"))


def _table(title: str, *columns: str) -> Table:
    table = Table(title=Text(title), box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
    for name in columns:
        justify: JustifyMethod = "right" if name in ("median", "n", "a", "b") else "left"
        table.add_column(name, justify=justify, overflow="fold")  # a narrow terminal must not cut off figures
    return table


def _cells(metric: str, estimate: Estimate | None, needed: int) -> tuple[Text, ...]:
    if estimate is None:
        return Text("-"), Text(), Text("0")
    interval = interval_words(metric, estimate, needed=needed) if estimate["n"] > 1 else "-"
    return _median(metric, estimate), _text(interval), Text(str(estimate["n"]))


def _median(metric: str, estimate: Estimate) -> Text:
    return _text(Scale.of_estimate(metric, estimate).text(estimate["median"]))


def _verdict(judged: Judged, name: str, needed: int) -> Text:
    """Return the verdict, such as `eager is 12.0 s earlier [11.8, 12.3] s`, or the reason why there is none."""
    if judged["verdict"] == "undecided":
        return _text(f"no verdict: {no_verdict_reason(judged, needed=needed)}", "dim")
    metric = METRICS.get(judged["metric"])
    verb = "is" if metric is None or metric.lower in ("earlier", "shorter") else "has"
    return _text(f"{name} {verb} {verdict_words(judged)} {verdict_interval(judged)}", "bold")


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
