"""Benchmarks in the terminal: how far one is, and what it came to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from rich import box
from rich.console import Console, JustifyMethod
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from .._support.wording import count_text, duration_text, visible
from ._analysis import Compared
from ._matrix import Matrix
from ._measure import Measured
from ._metrics import METRICS
from ._results import Estimate, Results, Verdict
from ._selection import by_pair
from ._wording import ended_text, median_text, metrics_of, pair_text, range_text, verdict_text

_SIMULATED = "simulated: every time is one of the embedded server, and says nothing of the API"


def print_results(results: Results, console: Console) -> None:
    """The medians of every case, and what can be said of each pair."""
    settings, cases = results["settings"], results["cases"]
    for line in _how(results):
        console.print(Text(line, style="bold" if line == _SIMULATED else ""))
    title = "medians" + ("; simulated" if results["simulated"] else "")
    table = _table(title, "figure", "case", "median", f"{settings['confidence'] * 100:.4g} % interval", "n")
    for metric in metrics_of(cases):
        label = metric.label
        for case in cases:
            found = case["metrics"].get(metric.name)
            table.add_row(label, _shown(case["label"]), *_cells(found, metric.name, settings["confidence"]))
            label = ""
        table.add_section()
    if table.row_count:
        console.print(table)
    for case in cases:
        if ended := ended_text(case):
            console.print(Text(f"{visible(case['label'])}: {ended}", style="yellow"))
    by_id = {case["id"]: case for case in cases}
    for (base, other), comparisons in by_pair(results["comparisons"]).items():
        name, beside = pair_text(by_id[base], by_id[other], cases)
        table = _table(visible(beside) + ("; simulated" if results["simulated"] else ""), "figure", "verdict")
        for one in comparisons:
            metric = METRICS[one["metric"]]
            told = verdict_text(
                one["difference"], one["verdict"], metric=metric, name=name, confidence=settings["confidence"]
            )
            table.add_row(metric.label, _verdict(told, one["verdict"]))
        console.print(table)


def print_comparison(compared: Compared, console: Console) -> None:
    """What is different between two benchmarks, case by case."""
    for warning in compared["warnings"]:
        console.print(Text(f"warning: {visible(warning)}", style="yellow"))
    for case in compared["cases"]:
        name = visible(case["label"] or case["id"])
        if not case["metrics"]:
            console.print(Text(f"{name}: no figure that both have", style="yellow"))
            continue
        table = _table(
            f"{name}, b beside a" + ("; simulated" if compared["simulated"] else ""), "figure", "a", "b", "verdict"
        )
        for one in case["metrics"]:
            metric = METRICS[one["metric"]]
            told = verdict_text(
                one["difference"], one["verdict"], metric=metric, name="b", confidence=compared["confidence"]
            )
            medians = (median_text(one["a"], metric), median_text(one["b"], metric))
            table.add_row(metric.label, *medians, _verdict(told, one["verdict"]))
        console.print(table)
    for side, ids in (("a", compared["only_a"]), ("b", compared["only_b"])):
        for id in ids:
            console.print(Text(f"only in {side}: {visible(id)}", style="dim"))


def _how(results: Results) -> Iterable[str]:
    settings = results["settings"]
    played = ""
    if results["simulated"]:
        yield _SIMULATED
        played = f"; profile {visible(str(settings['profile']))}, {settings['speed']:g} times as fast"
    yield (
        f"{count_text(settings['repetitions'], 'repetition')}, {settings['warmup']} to warm up, interleaved, "
        f"seed {settings['seed']}; intervals of medians by the bootstrap, "
        f"confidence {settings['confidence'] * 100:.4g} %{played}"
    )


def _table(title: str, *columns: str) -> Table:
    table = Table(title=Text(title), box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
    for name in columns:
        justify: JustifyMethod = "right" if name in ("median", "n", "a", "b") else "left"
        table.add_column(name, justify=justify, overflow="fold")  # a narrow terminal cuts no figure off
    return table


def _cells(estimate: Estimate | None, name: str, confidence: float) -> tuple[Text, ...]:
    if estimate is None:
        return Text("-"), Text(), Text("0")
    metric = METRICS[name]
    # As text: what is in brackets may be taken for markup.
    return (
        Text(median_text(estimate, metric)),
        Text(range_text(estimate, metric, confidence=confidence)),
        Text(str(estimate["n"])),
    )


def _shown(text: str) -> Text:
    return Text(visible(text))


def _verdict(text: str, verdict: Verdict) -> Text:
    return Text(visible(text), style="dim" if verdict == "undecided" else "bold")


# --- how far it is ----------------------------------------------------------------------------------------------------


class _Console(Console):
    """Standard error; a pipe that was closed is an error of it, and not the end of the program, as rich has it."""

    def __init__(self) -> None:
        super().__init__(stderr=True)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@contextmanager
def progress_of(matrix: Matrix) -> Iterator[Callable[[Measured], None]]:
    """Gives what is to be called with each run that was measured; nobody need be there to see it."""
    console = _Console()

    with _progress_on(console, matrix) as tell:

        def tell_if_anybody_reads(measured: Measured) -> None:
            with suppress(OSError):  # what was measured may have cost money
                tell(measured)

        yield tell_if_anybody_reads


@contextmanager
def _progress_on(console: Console, matrix: Matrix) -> Iterator[Callable[[Measured], None]]:
    if not console.is_terminal:
        yield _Lines(matrix.steps, console)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    # Over all of it: rounds take as long as rounds before, whatever the runs in them take.
    with Progress(*columns, console=console, speed_estimate_period=1e9, transient=True) as bar:
        task = bar.add_task("measuring", total=matrix.steps)

        def tell(measured: Measured) -> None:
            description = "warming up" if measured.step.repetition < 0 else f"round {measured.step.repetition + 1}"
            bar.update(task, advance=1, description=description)
            if measured.failure:
                bar.console.print(_failed(measured))

        yield tell


class _Lines:
    """A line for each run."""

    def __init__(self, total: int, console: Console) -> None:
        self._total = total
        self._console = console
        self._done = 0
        self._begun_s = time.monotonic()

    def __call__(self, measured: Measured) -> None:
        self._done += 1
        left_s = (time.monotonic() - self._begun_s) / self._done * (self._total - self._done)
        what = visible(measured.step.case.id) + (" (warm-up)" if measured.step.repetition < 0 else "")
        duration_s = measured.run["latency"]["duration_s"]
        took = f"{duration_s:.2f} s" if duration_s is not None and not measured.failure else "failed"
        line = f"{self._done}/{self._total} {what}: {took}, about {duration_text(left_s)} left"
        self._console.print(Text(line), soft_wrap=True)
        if measured.failure:
            self._console.print(_failed(measured), soft_wrap=True)


def _failed(measured: Measured) -> Text:
    return Text(f"{visible(measured.step.case.id)}: {visible(measured.failure or '')}", style="red")
