"""`eagerstream bench show`: the figures and the time lines of saved runs, also of those that were resumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eagerstream._support.markup import Markup, element, joined, plain
from eagerstream._support.wording import count_text, gap_text, visible
from eagerstream.loop import RunLatency
from eagerstream_progress import Record, joined_runs, latency_of, load_records

from ._drawing import matplotlib_settings
from ._metrics import METRICS, figures
from ._page import page_html, write_page
from ._selection import run_end_s
from ._tables import table, time_line
from ._waterfall import Panel
from ._wording import LABEL_CHARS, Scale, metric_name

_MAX_DRAWN: Final = 200
_HOW: Final = (
    "Each run on a time line of its own, from its first request. A bar is a content block, filled from its first"
    " fragment to its last; the dark bar below is the tool. A dashed line is the end of a response. At a thick line,"
    " another process continued the run: the time between the processes is left out of all figures."
)


@dataclass(frozen=True)
class SavedRun:
    """A run as its records tell it. Its ending has its status, and each process that continued it."""

    name: str
    ending: str
    latency: RunLatency
    figures: dict[str, str]

    @classmethod
    def of(cls, records: Sequence[Record]) -> SavedRun:
        """Read the run from its records, which start with the start of a run."""
        start, latency = records[0], latency_of(records)
        assert start["type"] == "run_start"
        gaps = [gap_text(record["gap_s"]) for record in records if record["type"] == "run_resumed"]
        told = {
            metric_name(name): Scale.of(METRICS[name].unit, value).text(value)
            for name, value in figures(latency).items()
            if value is not None
        }
        sizes = count_text(len(latency.requests), "request"), count_text(len(latency.calls), "call")
        return cls(start["name"] or start["run"], ", ".join((latency.status, *sizes, *gaps)), latency, told)


def show_runs(
    runs: Annotated[list[Path], typer.Argument(help="Saved runs (.jsonl).", exists=True, dir_okay=False)],
    *,
    out: Annotated[
        Path | None, typer.Option(help="Also write their time lines to this page (.html).", dir_okay=False)
    ] = None,
) -> None:
    """Show the figures of saved runs. The files of several processes that drove one run count as one run with a gap."""
    saved = [SavedRun.of(records) for records in joined_runs([load_records(path) for path in runs])]
    if out is not None:
        with matplotlib_settings():
            page = _page(saved)
        write_page(page, out)
    console = Console()
    for run in saved:
        console.print(Text(f"{visible(run.name)}: {run.ending}"), soft_wrap=True)
        rows = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=False)
        for name, text in run.figures.items():
            rows.add_row(name, visible(text))
        console.print(rows)
    if out is not None:
        console.print(Text(f"written: {out}"), soft_wrap=True)


def _page(runs: Sequence[SavedRun]) -> str:
    left_out = len(runs) - _MAX_DRAWN
    body = element(
        "main",
        element("h1", "Saved runs"),
        element("p", _HOW, class_="how"),
        *(_section(run, number) for number, run in enumerate(runs[:_MAX_DRAWN])),
        element("p", f"{count_text(left_out, 'run')} left out.", class_="how") if left_out > 0 else None,
    )
    return page_html("Saved runs", body)


def _section(run: SavedRun, number: int) -> Markup:
    name, data = plain(run.name, LABEL_CHARS), run.latency.to_dict(arrivals=True)
    end_s = run_end_s(data) or 1.0
    rows = (
        element("tr", element("th", figure, scope="row"), element("td", text, class_="number"))
        for figure, text in run.figures.items()
    )
    return element(
        "section",
        element("h2", name),
        element("p", run.ending, class_="how"),
        time_line(Panel(name, data), f"Time line of {name}", end_s=end_s, prefix=f"f{number}-"),
        table(("figure", "value"), [element("tbody", joined(*rows))], numbers=("value",)),
    )
