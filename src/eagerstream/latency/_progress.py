"""How far a benchmark is: a bar with the time left, or lines where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from .._support.wording import duration_text, visible
from ._matrix import Matrix
from ._measure import Measured


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
