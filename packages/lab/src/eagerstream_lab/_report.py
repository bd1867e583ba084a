"""Report of a benchmark as one printable HTML file, which loads nothing and runs no scripts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from eagerstream._support.markup import Markup, element, plain
from eagerstream._support.wording import count_text
from eagerstream.loop import Gaps

from . import _tables as tables
from ._charts import GapCurve, distribution, gap_curves, percentiles
from ._drawing import matplotlib_settings
from ._page import page_html, write_page
from ._results import CaseData, MeasuredRun, Results
from ._selection import MAX_CASES, MAX_PAIRS, gaps_s, median_run, metrics, pairs, scales_s, shown_runs
from ._tables import left_out, scroll, section, table, time_line
from ._waterfall import Panel, hidden_rows, waterfall
from ._wording import LABEL_CHARS, Names, metric_name, moment, seconds


def write_report(results: Results, path: Path) -> None:
    """Write the report to a file. An existing file is replaced once the new one is complete.

    Raises:
        MissingExtraError: Matplotlib is not installed.
        OSError: The file cannot be written.
    """
    write_page(report_html(results), path)


def report_html(results: Results) -> str:
    """Return the report as HTML.

    Raises:
        MissingExtraError: Matplotlib is not installed.
    """
    names = Names(results)
    with matplotlib_settings():
        pictures = Pictures(results, names)
        main = element(
            "main",
            tables.verdicts(results, names),
            tables.medians(results, names),
            pictures.distributions(),
            pictures.beside(),
            pictures.gaps(),
            pictures.waterfalls(),
            tables.failed(results, names),
        )
    kind = "Simulated latency" if results["simulated"] else "Latency"
    return page_html(f"{kind} of streamed tool inputs, {moment(results['created_at'])}", tables.head(results), main)


# --- charts of a report, each section with an explanation -------------------------------------------------------------

_BESIDE_ROWS: Final = 30

_HOW_DISTRIBUTIONS: Final = (
    "Each mark is a run: filled circles eager, hollow squares buffered; up and down has no meaning. The box holds the"
    " middle half, the thick line is the median, the bracket beneath it its interval. The axes need not start at 0."
)
_HOW_BESIDE: Final = (
    "The median run of each, by its duration, on one time line. A bar is a content block, from its start to its"
    " stop: hollow before the first fragment, then filled. Each fine line in it is an arrival of fragments. Each"
    " short line beneath it is a finished field of the input. The dark bar below is the tool. While the call waits, the"
    " bar is hollow. The diamond is the first progress that the tool reported. The dashed line is the end of the"
    " response: work of tools before it costs no extra time."
)
_HOW_GAPS: Final = (
    "Gaps between one fragment of an input and the next, in all runs. If a curve is high at the left, fragments"
    " arrive together. If its top extends far to the right, there is a long wait. Marks: half of the gaps, 90 %, 99 %"
    " and all are at most this long. p50 is shown from 6 gaps on, p90 from 36 and p99 from 368. Eager is the solid"
    " line, buffered the dashed one."
)
_HOW_WATERFALLS: Final = (
    "As above, a time line for each run; those of one source have one scale. The median run is open. Click the others"
    " to open them. Only open ones are printed."
)


class Pictures:
    """Charts of one report. Their numbers start the ids."""

    def __init__(self, results: Results, names: Names) -> None:
        self._results = results
        self._cases = results["cases"]
        self._names = names
        self._pairs = pairs(results)
        self._scales_s = scales_s(results)
        self._charts = 0

    def _prefix(self) -> str:
        self._charts += 1
        return f"f{self._charts}-"

    def _section(self, title: str, parts: Sequence[Markup], left: tuple[int, str], how: str) -> Markup | None:
        """Return a section that also tells what is left out of it; `None` if it has no parts."""
        return section(self._results, title, *parts, left_out(*left), how=how) if parts else None

    def distributions(self) -> Markup | None:
        """Return a chart for each figure, with each run as a mark."""
        charts: list[Markup] = []
        for metric in metrics(self._results):
            chart = distribution(metric, self._cases, self._names, prefix=self._prefix())
            if chart is not None:
                charts.append(element("figure", element("h3", metric_name(metric)), chart, class_="card"))
        several = [element("div", *charts, class_="several")] if charts else []
        return self._section("Each run", several, (len(self._cases) - MAX_CASES, "case"), _HOW_DISTRIBUTIONS)

    def beside(self) -> Markup | None:
        """Return a chart for each pair, with the median run of the eager case above that of the buffered one."""
        figures: list[Markup] = []
        for pair in self._pairs[:MAX_PAIRS]:
            eager, buffered = median_run(pair.eager), median_run(pair.buffered)
            if eager is None or buffered is None:
                continue
            panels = [
                Panel(f"{name}, repetition {run['repetition'] + 1}", run["latency"])
                for name, run in (("Eager", eager), ("Buffered", buffered))
            ]
            end_s = self._scales_s[pair.eager["source"]]
            svg = waterfall(panels, end_s=end_s, prefix=self._prefix(), max_rows=_BESIDE_ROWS)
            hidden = sum(hidden_rows(panel.latency, _BESIDE_ROWS) for panel in panels)
            shared = self._names.shared(pair.eager)
            figure = element(
                "figure",
                element("h3", shared) if shared else None,
                scroll(svg, f"Eager compared with buffered, {shared}" if shared else "Eager compared with buffered"),
                element("figcaption", f"{count_text(hidden, 'row')} left out.") if hidden else None,
                class_="card",
            )
            figures.append(figure)
        left = len(self._pairs) - MAX_PAIRS
        return self._section("Eager compared with buffered", figures, (left, "pair"), _HOW_BESIDE)

    def gaps(self) -> Markup | None:
        """Return a chart of the gaps between fragments for each pair, and for each case without a pair."""
        groups: list[tuple[str, tuple[CaseData, ...]]] = [
            (self._names.shared(pair.eager), (pair.eager, pair.buffered)) for pair in self._pairs
        ]
        paired = {case["id"] for _, cases in groups for case in cases}
        groups += [(self._names[case["id"]], (case,)) for case in self._cases if case["id"] not in paired]
        figures: list[Markup] = []
        for title, cases in groups[:MAX_PAIRS]:
            listed = ((case, sorted(gaps_s(case))) for case in cases)
            curves = [
                GapCurve(self._names[case["id"]], gaps, figures_of, is_dashed=case["streaming"] == "buffered")
                for case, gaps in listed
                if (figures_of := Gaps.of(gaps)) is not None
            ]
            if curves:
                figures.append(self._gaps_of(title, curves))
        return self._section("Gaps between fragments", figures, (len(groups) - MAX_PAIRS, "chart"), _HOW_GAPS)

    def _gaps_of(self, title: str, curves: list[GapCurve]) -> Markup:
        rows = [
            element(
                "tr",
                element("th", curve.name, scope="row"),
                *(
                    element("td", "" if value is None else seconds(value), class_="number")
                    for value in (*(value for _, _, value in percentiles(curve.figures)), curve.figures.max_s)
                ),
                element("td", f"{curve.figures.count:,}", class_="number"),
            )
            for curve in curves
        ]
        heads = ("Case", "p50", "p90", "p99", "Longest", "Gaps")
        figures = table(heads, [element("tbody", *rows)], numbers=heads[1:])
        label = plain(f"Gaps between fragments {title}", LABEL_CHARS)
        return element(
            "figure",
            element("h3", title) if title else None,
            scroll(gap_curves(curves, prefix=self._prefix()), label),
            scroll(figures, f"{label}, as a table"),
            class_="card",
        )

    def waterfalls(self) -> Markup | None:
        """Return the time line of each run of each case."""
        shown = ((case, shown_runs(case, len(self._cases))) for case in self._cases[:MAX_CASES])
        parts = [self._case(case, runs) for case, runs in shown if runs]
        left = len(self._cases) - MAX_CASES
        return self._section("Every run on its time line", parts, (left, "case"), _HOW_WATERFALLS)

    def _case(self, case: CaseData, runs: list[MeasuredRun]) -> Markup:
        first, *others = [self._run(case, run) for run in runs]
        summary = element("summary", f"{count_text(len(others), 'other run')} of this case")
        return element(
            "details",
            element("summary", element("h3", self._names[case["id"]])),
            first,
            element("details", summary, *others) if others else None,
            left_out(len(case["runs"]) - len(runs), "run"),
            open=True,
        )

    def _run(self, case: CaseData, run: MeasuredRun) -> Markup:
        title = f"Repetition {run['repetition'] + 1}"
        if run["error"] is not None:
            title += f", failed: {plain(run['error'], LABEL_CHARS)}"
        elif run is median_run(case):
            title += ", the median run"
        panel, end_s = Panel(title, run["latency"]), self._scales_s[case["source"]]
        return time_line(panel, f"{title}, {self._names[case['id']]}", end_s=end_s, prefix=self._prefix())
