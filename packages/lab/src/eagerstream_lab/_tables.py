"""Tables and texts of a report, and the parts of its sections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from eagerstream._support.markup import Child, Markup, element, joined, plain
from eagerstream._support.wording import count_text

from ._metrics import METRICS
from ._results import CaseData, ComparisonData, Results
from ._selection import by_pair, metrics
from ._waterfall import MAX_ROWS, Panel, described, hidden_rows, waterfall
from ._wording import (
    AT_PROXY,
    LABEL_CHARS,
    Names,
    Scale,
    cells,
    ended_text,
    interval_words,
    level_words,
    machine_facts,
    metric_name,
    moment,
    notes_on,
    primary_first,
    program_notes,
    ratio_words,
    rounds_words,
    undecided,
    verdict_interval,
    verdict_words,
)

MAX_FAILED: Final = 200
"""Maximum number of failed runs to list."""

MAX_WARNINGS: Final = 20
"""Maximum number of warnings to show."""

MAX_COMPARISONS: Final = 400
"""Maximum number of verdicts to show."""


SIMULATED: Final = (
    " Every time in this report comes from the embedded server, which plays a profile on this machine."
    " The times show how the reading program behaves, and nothing about the speed of the API."
)


def section(results: Mapping[str, object], title: str, *content: Child, how: str | None = None) -> Markup:
    """Return a section of the page. If the figures are simulated, its title says so. `how` explains how to read it."""
    if results["simulated"]:
        title += " (simulated)"
    return element("section", element("h2", title), element("p", how, class_="how") if how else None, *content)


def scroll(content: Markup, label: str) -> Markup:
    """Return a scrollable element for wide content, which can be reached with the keyboard."""
    return element("div", content, class_="scroll", tabindex=0, role="group", aria_label=label)


def time_line(panel: Panel, label: str, *, end_s: float, prefix: str) -> Markup:
    """Return one run on its time line, as a card. The arguments are those of `scroll` and `waterfall`."""
    hidden = hidden_rows(panel.latency, MAX_ROWS)
    return element(
        "figure",
        scroll(waterfall([panel], end_s=end_s, prefix=prefix), label),
        element("figcaption", f"The first {MAX_ROWS} rows; {hidden:,} left out.") if hidden else None,
        class_="card",
    )


def table(heads: Sequence[str], bodies: Iterable[Markup], *, numbers: Sequence[str] = ()) -> Markup:
    """Return a table; the columns of `numbers` are aligned right."""
    cells = (element("th", name, scope="col", class_="number" if name in numbers else None) for name in heads)
    return element("table", element("thead", element("tr", *cells)), *bodies)


def left_out(number: int, what: str) -> Markup | None:
    """Return a note about the number of hidden items; `None` if all are shown."""
    if number <= 0:
        return None
    return element("p", f"{count_text(number, what)} left out; the results as JSON have all.", class_="how")


def head(results: Results) -> Markup:
    """Return the header with time, machine and settings, and a note if the figures are simulated."""
    settings = results["settings"]
    runs = sum(len(case["runs"]) for case in results["cases"])
    parts = (moment(results["created_at"]), count_text(len(results["cases"]), "case"), count_text(runs, "run"))
    facts = {
        "Measured": ", ".join(parts),
        "Settings": f"{rounds_words(results)} of each case, {settings['warmup']} to warm up, seed {settings['seed']}",
    }
    if results["simulated"]:
        speed = "" if settings["speed"] in (None, 1) else f", played {settings['speed']:g} times as fast"
        facts["Simulated"] = f"profile {plain(settings['profile'] or 'of the recording', LABEL_CHARS)}{speed}"
    facts |= machine_facts(results["machine"])
    return header("Latency of streamed tool inputs", facts, results["warnings"], simulated=results["simulated"])


def header(title: str, facts: Mapping[str, str], warnings: Sequence[str], *notes: str, simulated: bool) -> Markup:
    """Return the header of a page with its facts, notes and warnings."""
    written = (
        joined(element("dt", plain(name, LABEL_CHARS)), element("dd", plain(text, 3 * LABEL_CHARS)))
        for name, text in facts.items()
    )
    warned = "; ".join(plain(text, 3 * LABEL_CHARS) for text in warnings[:MAX_WARNINGS])
    return element(
        "header",
        element("h1", title),
        element("p", element("strong", "Simulated."), SIMULATED, class_="band") if simulated else None,
        element("dl", *written, class_="facts"),
        *(element("p", f"{note[:1].upper()}{note[1:]}.", class_="how") for note in notes),
        element("p", element("strong", "Warnings."), f" {warned}.", class_="band") if warned else None,
    )


def verdicts(results: Results, names: Names) -> Markup:
    """Return the verdicts, a sentence for each figure of each comparison."""
    shown = results["comparisons"][:MAX_COMPARISONS]
    by_id = {case["id"]: case for case in results["cases"]}
    parts = [
        joined(
            element("h3", f"{names[other]} (b), compared with {names[base]} (a)"),
            element("ul", *_sentences(comparisons), class_="verdicts"),
            _differences(by_id[base], by_id[other], comparisons, names),
        )
        for (base, other), comparisons in by_pair(shown).items()
    ]
    notes = " ".join(notes_on(results["comparisons"], results["settings"]["confidence"]))
    how = (
        "Runs of the same repetition are compared with each other. The difference is the middle of theirs, and the"
        f" brackets contain its interval. {notes[:1].upper()}{notes[1:]}"
    )
    return section(
        results,
        "Verdicts",
        *parts,
        left_out(len(results["comparisons"]) - len(shown), "comparison"),
        how=how if parts else "Nothing was compared.",
    )


def _differences(base: CaseData, other: CaseData, comparisons: list[ComparisonData], names: Names) -> Markup:
    """Return a table with a row for each figure."""
    rows = []
    for one in primary_first(comparisons):
        metric = one["metric"]
        name, *figures, mark = cells(one, base["metrics"][metric], other["metrics"][metric])
        row = (
            element("th", name, scope="row", class_=None if one["verdict"] else "faint"),
            *(element("td", figure, class_="number") for figure in figures),
            element("td", mark),
        )
        rows.append(element("tr", *row))
    heads = ("Figure", "a", "b", "Difference", "Interval", "Verdict")
    content = table(heads, [element("tbody", *rows)], numbers=heads[1:-1])
    label = f"Differences of {names[other['id']]}, compared with {names[base['id']]}"
    return element("div", scroll(content, label), class_="card")


def _sentences(comparisons: list[ComparisonData]) -> Iterator[Markup]:
    for comparison in comparisons:
        if comparison["verdict"] not in (None, "undecided"):
            yield element(
                "li",
                f"{metric_name(comparison['metric'])}: ",
                element("strong", verdict_words(comparison), class_="number"),
                " ",
                element("span", f"{verdict_interval(comparison)}{ratio_words(comparison)}", class_="faint"),
            )
    for figures, reason in undecided(comparisons):
        yield element("li", f"{figures}: no verdict; ", element("span", reason, class_="faint"))


def medians(results: Results, names: Names) -> Markup:
    """Return each figure of each case, with its interval."""
    shown = metrics(results)
    bodies = [element("tbody", *_median_rows(metric, results["cases"], names)) for metric in shown]
    heads = ("Figure", "Case", "Median", "Interval", "Runs")
    content = (
        scroll(table(heads, bodies, numbers=heads[2:]), "Medians") if bodies else element("p", "No run has figures.")
    )
    how = (
        f"An interval holds the median with a confidence of {level_words(results['settings']['confidence'])}. With too"
        " few runs for that, their range is shown."
    )
    if results["settings"].get("measured_at") == "proxy":
        how += f" {AT_PROXY[:1].upper()}{AT_PROXY[1:]}."
    known = [METRICS[metric] for metric in shown if metric in METRICS]
    meanings = (
        joined(element("dt", metric_name(metric.name)), element("dd", f"{metric.meaning}.")) for metric in known
    )
    told = [
        f"{names[case['id']]}: {text}."
        for case in results["cases"]
        for text in (ended_text(case), program_notes(case, simulated=results["simulated"]))
        if text
    ]
    return section(
        results,
        "Medians",
        element("div", content, class_="card"),
        *(element("p", plain(text, 3 * LABEL_CHARS), class_="how") for text in told),
        joined(element("h3", "Meaning of the figures"), element("dl", *meanings, class_="facts")) if known else None,
        how=how,
    )


def _median_rows(metric: str, all_cases: list[CaseData], names: Names) -> Iterator[Markup]:
    cases = [case for case in all_cases if metric in case["metrics"]]
    for case in cases:
        data = case["metrics"][metric]
        scale = Scale.of_estimate(metric, data)
        is_first = case is cases[0]
        yield element(
            "tr",
            element("th", metric_name(metric), scope="rowgroup", rowspan=len(cases)) if is_first else None,
            element("th", names[case["id"]], scope="row"),
            element("td", scale.text(data["median"]), class_="number"),
            element("td", interval_words(metric, data), class_="number faint"),
            element("td", f"{data['n']}", class_="number"),
        )


def failed(results: Results, names: Names) -> Markup | None:
    """Return the runs that failed; `None` if none did."""
    runs = [(case, run) for case in results["cases"] for run in case["runs"] if run["error"] is not None]
    if not runs:
        return None
    rows = [
        element(
            "tr",
            element("th", names[case["id"]], scope="row"),
            element("td", f"{run['repetition'] + 1}", class_="number"),
            element("td", plain(run["error"] or "", LABEL_CHARS)),
            element("td", plain(run["status"], LABEL_CHARS)),
            element("td", described(run["latency"])),
        )
        for case, run in runs[:MAX_FAILED]
    ]
    heads = ("Case", "Repetition", "Error", "Status", "How far it came")
    content = table(heads, [element("tbody", *rows)], numbers=heads[1:2])
    return section(
        results,
        f"{count_text(len(runs), 'run')} failed",
        element("div", scroll(content, "Failed runs"), class_="card"),
        left_out(len(runs) - MAX_FAILED, "failed run"),
        how="They count in no figure.",
    )
