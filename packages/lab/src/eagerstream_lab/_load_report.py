"""Report of a load test as one printable HTML file, which loads nothing and runs no scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from eagerstream._support.markup import Markup, element, joined, plain
from eagerstream._support.wording import count_text

from . import _load_charts as charts
from ._drawing import matplotlib_settings
from ._load_figures import PERCENTILES
from ._load_plan import FIGURES
from ._load_results import LevelData, LoadCaseData, LoadResults
from ._load_terminal import (
    PERCENTILE_NAMES,
    busy_words,
    knee_words,
    level_notes,
    notes,
    percentile_words,
    phases_words,
    share_words,
)
from ._load_watch import BusyData
from ._metrics import METRICS
from ._page import page_html, write_page
from ._tables import header, left_out, scroll, section, table
from ._wording import LABEL_CHARS, machine_facts, metric_name, moment, seconds

MAX_CASES: Final = 20
"""Maximum number of cases to draw."""
_MAX_OVER_TIME: Final = 12
"""Maximum number of levels of a case to draw run by run."""

_HOW_LEVELS: Final = (
    "Runs are those that should have started within the window of the level. Each was followed to its end, under the"
    " same load. Failed ones include those that did not end. Throughput and goodput count the runs that ended within"
    " the window. The last columns are the shares of a processor that the busiest client, the server and the proxy"
    " used, and how late their event loops were (p99)."
)
_HOW_LATENCIES: Final = (
    "Percentiles over the runs of all clients together, from the intended start of each run. A run that failed or did"
    " not end is later than all others. A percentile is left out if it falls on such a run, or if too few runs are"
    " behind it: p50 needs 6, p90 36, p99 368 and p99.9 3,688."
)
_HOW_TIME: Final = (
    "Each mark is a run, by its intended start within the window. Crosses at the top are runs that failed, or did not"
    " end. If the marks rise from left to right, the level is no steady state: more runs start than end."
)
_HOW_KNEE: Final = (
    "The knee is the last level before throughput grew by less than half of what the load grew; goodput, if there are"
    " limits."
)


def write_load_report(results: LoadResults, path: Path) -> None:
    """Write the report to a file. An existing file is replaced once the new one is complete.

    Raises:
        MissingExtraError: Matplotlib is not installed.
        OSError: The file cannot be written.
    """
    write_page(load_report_html(results), path)


def load_report_html(results: LoadResults) -> str:
    """Return the report as HTML.

    Raises:
        MissingExtraError: Matplotlib is not installed.
    """
    with matplotlib_settings():
        pictures = _Pictures(results)
        shown = [pictures.case(case) for case in results["cases"][:MAX_CASES] if case["levels"]]
    main = element("main", *shown, left_out(len(results["cases"]) - MAX_CASES, "case"))
    kind = "Simulated latency" if results["simulated"] else "Latency"
    return page_html(f"{kind} under load, {moment(results['created_at'])}", _head(results), main)


def _head(results: LoadResults) -> Markup:
    settings = results["settings"]
    levels = sum(len(case["levels"]) for case in results["cases"])
    runs = sum(level["runs"] for case in results["cases"] for level in case["levels"])
    counts = (count_text(len(results["cases"]), "case"), count_text(levels, "level"), count_text(runs, "run"))
    facts = {"Measured": ", ".join((moment(results["created_at"]), *counts))}
    facts["Settings"] = f"{phases_words(results)}, seed {settings['seed']}"
    if results["simulated"]:
        speed = "" if settings["speed"] in (None, 1) else f", played {settings['speed']:g} times as fast"
        facts["Simulated"] = f"profile {plain(settings['profile'] or '', LABEL_CHARS)}{speed}"
    baseline = results["baseline"]
    if baseline is not None:
        late = [("client", baseline["client"]), ("server", baseline["server"])]
        told = [f"{name} {seconds(busy['lag_p99_s'])} late" for name, busy in late if busy is not None]
        facts["Without load"] = ", ".join(told)
    facts |= machine_facts(results["machine"])
    return header("Latency under load", facts, results["warnings"], *notes(results), simulated=results["simulated"])


class _Pictures:
    """Charts and tables of one report. Numbers of charts start the ids."""

    def __init__(self, results: LoadResults) -> None:
        self._results = results
        self._charts = 0

    def _prefix(self) -> str:
        self._charts += 1
        return f"f{self._charts}-"

    def case(self, case: LoadCaseData) -> Markup:
        """Return all that there is about one case."""
        name = plain(case["label"] or case["id"], LABEL_CHARS)
        several = len(self._results["cases"]) > 1
        of = f", {name}" if several else ""
        parts: list[Markup | None] = [self._levels(case, f"Levels{of}")]
        kinds: tuple[charts.Kind, ...] = ("concurrency", "rate")
        for kind in kinds:
            levels = sorted(
                (level for level in case["levels"] if level[kind] is not None), key=lambda level: level[kind] or 0
            )
            if levels:
                parts.append(self._by_load(case, levels, kind, of))
        parts.append(self._percentiles(case, f"Percentiles{of}"))
        parts.append(self._over_time(case, f"Each run{of}"))
        return joined(*parts)

    def _levels(self, case: LoadCaseData, title: str) -> Markup:
        has_proxy = any(level["proxy"] is not None for level in case["levels"])
        has_limits = any(level["goodput_per_s"] is not None for level in case["levels"])
        heads = ["Level", "Runs", "Failed", "Under way", "Runs/s"]
        heads += ["Good/s", "Good"] if has_limits else []
        heads += ["Clients", "Server", *(["Proxy"] if has_proxy else [])]
        rows: list[Markup] = []
        for level in case["levels"]:
            cells = [f"{level['runs']:,}", f"{level['failed'] + level['unfinished']:,}"]
            cells += [f"{level['mean_concurrency']:,.3g}", f"{level['throughput_per_s']:,.3g}"]
            if has_limits:
                cells += [f"{level['goodput_per_s'] or 0:,.3g}", share_words(level["good_share"])]
            groups: list[list[BusyData | None]] = [[*level["clients"]], [level["server"]]]
            groups += [[level["proxy"]]] if has_proxy else []
            for group in groups:
                lags_s = [busy["lag_p99_s"] for busy in group if busy is not None]
                cells.append(f"{busy_words(group)}, {seconds(max(lags_s))}" if lags_s else "")
            shown = (element("td", cell, class_="number") for cell in cells)
            rows.append(element("tr", element("th", level["name"], scope="row"), *shown))
        content = table(heads, [element("tbody", *rows)], numbers=heads[1:])
        told = [
            element("li", element("strong", level["name"]), f": {plain(words, 3 * LABEL_CHARS)}")
            for level in case["levels"]
            for words in level_notes(level)
        ]
        knees = [element("li", element("strong", plain(knee_words(knee), 3 * LABEL_CHARS))) for knee in case["knees"]]
        return section(
            self._results,
            title,
            element("div", scroll(content, "Levels"), class_="card"),
            element("ul", *knees, *told, class_="verdicts") if knees or told else None,
            how=f"{_HOW_LEVELS} {_HOW_KNEE}" if case["knees"] else _HOW_LEVELS,
        )

    def _by_load(self, case: LoadCaseData, levels: Sequence[LevelData], kind: charts.Kind, of: str) -> Markup:
        knee = next((knee for knee in case["knees"] if knee["kind"] == kind), None)
        chart = charts.throughput(levels, kind, knee, prefix=self._prefix())
        figures: list[Markup] = []
        for name in FIGURES:
            picture = charts.latencies(name, levels, kind, prefix=self._prefix())
            if picture is not None:
                figures.append(element("figure", element("h3", metric_name(name)), picture, class_="card"))
        return section(
            self._results,
            f"By load{of}",
            element("figure", scroll(chart, "Throughput by load"), class_="card"),
            element("div", *figures, class_="several") if figures else None,
            how=_HOW_LATENCIES,
        )

    def _percentiles(self, case: LoadCaseData, title: str) -> Markup:
        heads = ("Figure", "Level", *PERCENTILE_NAMES.values(), "Runs")
        bodies = [element("tbody", *self._rows(case, name)) for name in FIGURES]
        content = table(heads, bodies, numbers=heads[2:])
        meanings = (
            joined(element("dt", metric_name(name)), element("dd", f"{METRICS[name].meaning}.")) for name in FIGURES
        )
        return section(
            self._results,
            title,
            element("div", scroll(content, "Percentiles"), class_="card"),
            joined(element("h3", "Meaning of the figures"), element("dl", *meanings, class_="facts")),
        )

    def _rows(self, case: LoadCaseData, name: str) -> Iterator[Markup]:
        levels = [(level, data) for level in case["levels"] if (data := level["figures"].get(name)) is not None]
        for number, (level, data) in enumerate(levels):
            head = element("th", metric_name(name), scope="rowgroup", rowspan=len(levels)) if number == 0 else None
            values = [percentile_words(data, key) for key, _ in PERCENTILES]
            cells = (element("td", cell, class_="number") for cell in (*values, f"{data['n']:,}"))
            yield element("tr", head, element("th", level["name"], scope="row"), *cells)

    def _over_time(self, case: LoadCaseData, title: str) -> Markup | None:
        name = FIGURES[-1]
        shown = case["levels"][:_MAX_OVER_TIME]
        known = [value for level in shown for value in level["each"]["figures"][name] if value is not None]
        parts: list[Markup] = []
        for level in shown:
            chart = charts.over_time(level, name, top_s=max(known, default=1.0), prefix=self._prefix())
            if chart is not None:
                parts.append(element("figure", element("h3", level["name"]), chart, class_="card"))
        if not parts:
            return None
        rest = left_out(len(case["levels"]) - len(shown), "level")
        several = element("div", *parts, class_="several")
        return section(self._results, f"{title}: {metric_name(name).lower()}", several, rest, how=_HOW_TIME)
