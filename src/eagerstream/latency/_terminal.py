"""Benchmarks in the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from .._support.wording import count_text, visible
from ._compare import Compared
from ._metrics import METRICS
from ._results import ComparisonData, Estimate, Results, Verdict
from ._verdicts import ended_text, median_text, metrics_of, pair_text, range_text, verdict_text

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
    pairs: dict[tuple[str, str], list[ComparisonData]] = {}
    for comparison in results["comparisons"]:
        pairs.setdefault((comparison["base"], comparison["other"]), []).append(comparison)
    for (base, other), comparisons in pairs.items():
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
