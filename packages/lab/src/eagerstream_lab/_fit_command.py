"""`eagerstream bench fit`: a profile made from recordings, and how well its replays match them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eagerstream._support.markup import Markup, element, plain
from eagerstream._support.wording import count_text, visible
from eagerstream.errors import UsageError
from eagerstream.loop import Gaps

from ._charts import GapCurve, gap_curves
from ._drawing import matplotlib_settings
from ._goodness import REPLAYS, FigureFit, Fit, fit
from ._page import page_html, write_page
from ._setup import check_targets
from ._tables import scroll, table
from ._wording import LABEL_CHARS, Scale, seconds

_FIGURES: Final = ("figure", "recorded", "replayed", "95 % of replays", "lower", "outside", "")
_GAPS: Final = ("gaps up to", "recorded", "replayed")
_HOW: Final = (
    "The columns have the medians of the recordings and of their replays, and the middle 95 % of the replays."
    " Lower: share of the replays with a lower figure than their recording, about 50 % if the fit is good."
    " Outside: recordings whose figure is outside of all their replays. A cross marks a bad fit."
)


def fit_recordings(
    recordings: Annotated[
        list[Path], typer.Argument(help="Recordings with times (.jsonl), and folders of them.", exists=True)
    ],
    *,
    out: Annotated[Path, typer.Option(help="File for the profile (.json).", dir_okay=False)] = Path("profile.json"),
    report: Annotated[
        Path | None, typer.Option(help="Also write this page with a chart (.html).", dir_okay=False)
    ] = None,
) -> None:
    """Fit a profile to recorded responses, and show how well its replays match them.

    With several recordings, the replays of each come from a profile of the others. Three recordings are the minimum to
    find a bad fit, and ten are better. `eagerstream bench --profile FILE` plays the profile.
    """
    for path, suffix in ((out, ".json"), (report, ".html")):
        if path is not None and path.suffix.lower() != suffix:
            raise UsageError(f"{path}: the name must end in {suffix}")
    check_targets([out, *([report] if report else [])], sources=recordings)
    fitted = fit(recordings)
    if report is not None:
        with matplotlib_settings():
            page = _page(fitted)
        write_page(page, report)
    fitted.profile.save(out)
    console = Console()
    console.print(Text(f"{_told(fitted)}\n"), soft_wrap=True)
    for heads, rows in ((_FIGURES, _figure_rows(fitted)), (_GAPS, _gap_rows(fitted))):
        shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in heads:
            shown.add_column(name, justify="left" if name in (heads[0], "") else "right", overflow="fold")
        for row in rows:
            shown.add_row(*row)
        console.print(shown)
        console.print()
    for note in fitted.profile.notes:
        console.print(Text(f"warning: {visible(note)}", style="yellow"))
    console.print(Text(f"written: {', '.join(str(path) for path in (out, report) if path)}"), soft_wrap=True)


def _told(fitted: Fit) -> str:
    goodness = fitted.goodness
    sizes = f"{count_text(goodness.recordings, 'recording')}, {count_text(goodness.fragments, 'fragment')}"
    source = "fitted to the others" if goodness.held_out else "fitted to it"
    return f"{sizes}; each compared with {REPLAYS} replays of a profile {source}"


def _figure_rows(fitted: Fit) -> Iterator[tuple[str, ...]]:
    for figure in fitted.goodness.figures:
        scale = Scale.of(figure.unit, figure.recorded, figure.replayed, figure.high)
        yield (
            figure.label.capitalize(),
            scale.text(figure.recorded),
            scale.text(figure.replayed),
            f"[{scale.number(figure.low)}, {scale.number(figure.high)}]",
            _lower(figure),
            f"{figure.outside} of {figure.n}",
            "x" if figure.is_bad else "",
        )


def _lower(figure: FigureFit) -> str:
    return f"{figure.below:.0%}".replace("%", "\u00a0%")


def _gap_rows(fitted: Fit) -> Iterator[tuple[str, ...]]:
    for share, recorded, replayed in fitted.goodness.quantiles:
        name = "longest" if share == 1 else f"{share:.0%}".replace("%", "\u00a0%")
        yield name, seconds(recorded), seconds(replayed)


def _page(fitted: Fit) -> str:
    goodness, name = fitted.goodness, plain(fitted.profile.name, LABEL_CHARS)
    curves = [
        GapCurve(label, gaps_s, figures, is_dashed=is_dashed)
        for label, gaps_s, is_dashed in (
            ("recorded", goodness.recorded_s, False),
            ("replayed", goodness.replayed_s, True),
        )
        if (figures := Gaps.of(gaps_s)) is not None
    ]
    tables: list[Markup] = []
    for heads, rows in ((_FIGURES, _figure_rows(fitted)), (_GAPS, _gap_rows(fitted))):
        cells = (
            element("tr", element("th", label, scope="row"), *(element("td", one, class_="number") for one in row))
            for label, *row in rows
        )
        content = table(heads, [element("tbody", *cells)], numbers=heads[1:])
        tables.append(element("div", scroll(content, heads[0].capitalize()), class_="card"))
    notes = "; ".join(plain(note, 3 * LABEL_CHARS) for note in fitted.profile.notes)
    body = element(
        "main",
        element("h1", f"Profile {name}"),
        element("p", f"{_told(fitted)}.", class_="how"),
        element("p", element("strong", "Warnings."), f" {notes}.", class_="band") if notes else None,
        element("h2", "Figures"),
        element("p", _HOW, class_="how"),
        tables[0],
        element("h2", "Gaps between fragments"),
        element("figure", scroll(gap_curves(curves, prefix="f0-"), "Gaps"), class_="card") if curves else None,
        tables[1],
    )
    return page_html(f"Profile {name}", body)
