"""Comparisons: benchmarks beside each other, limits that they keep or exceed, their trend, and all of it as Markdown."""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Sequence
from typing import Any

import pytest
from markdown_it import MarkdownIt
from packages.lab.tests.lab import made_results
from packages.lab.tests.made_results import HOSTILE
from rich.console import Console
from tests.tables import rows

from eagerstream.errors import UsageError
from eagerstream_lab._comparison import Compared, Side, compare
from eagerstream_lab._limits import Limit
from eagerstream_lab._markdown import markdown
from eagerstream_lab._results import CaseData, Results
from eagerstream_lab._statistics import of_samples
from eagerstream_lab._terminal import print_comparison

EAGER, BUFFERED = (f"poem/poem/{way}/simulated/anthropic" for way in ("eager", "buffered"))


@pytest.fixture(scope="module")
def results() -> Results:
    return made_results()


def compared(*benchmarks: Results, limits: Sequence[str] = (), **options: Any) -> Compared:
    sides = [Side(f"{chr(ord('a') + number)}.json", one) for number, one in enumerate(benchmarks)]
    return compare(sides, limits=[Limit.parse(text) for text in limits], **options)


def terminal(comparison: Compared, width: int = 140) -> str:
    file = io.StringIO()
    print_comparison(comparison, Console(file=file, width=width))
    return file.getvalue()


def states(comparison: Compared) -> dict[str, str]:
    """The state of each limit, by streaming and limit."""
    return {f"{limit['case'].split('/')[2]} {limit['limit']}": limit["state"] for limit in comparison["limits"]}


# --- two benchmarks ---------------------------------------------------------------------------------------------------


def test_another_day(results: Results) -> None:
    """The case that became slower has verdicts, and the other one has none."""
    comparison = compared(results, made_results(buffered_s=15.0, eager_s=4.0, seed=2))
    verdicts = {case["id"]: {one["verdict"] for one in case["metrics"]} for case in comparison["cases"]}
    assert verdicts == {EAGER: {"higher", None}, BUFFERED: {"undecided", None}}
    assert comparison["verdict_confidence"] == pytest.approx(0.9875)  # two figures of two cases
    assert comparison["warnings"] == []
    assert json.loads(json.dumps(comparison)) == comparison
    text = terminal(comparison)
    assert re.search(r"First finished field: b is (1\.0|0\.9|9)\d* m?s later \[", text)
    assert "a and b were not measured in turn" in text
    assert "simulated" in text


@rows("what", ["two cases", "more than 1,000 cases", "more than 1,000 runs"])
def test_a_file_that_somebody_else_wrote(what: str, results: Results) -> None:
    """It does not keep the comparison busy for hours, or hide a case."""
    other = made_results()
    case = other["cases"][0]
    match what:
        case "two cases":
            other["cases"] = [case, case]
        case "more than 1,000 cases":
            other["cases"] = [{**case, "id": str(number)} for number in range(1_001)]
        case _:
            next(iter(case["metrics"].values()))["values"] = [1.0] * 1_001
    with pytest.raises(UsageError, match=f"^b.json has .*{what}"):
        compared(results, other)


def test_without_figures(results: Results) -> None:
    """An empty table says nothing."""
    other = made_results()
    for case in other["cases"]:
        case["metrics"].clear()
    assert "no figure that both have" in terminal(compared(results, other))


def test_other_causes(results: Results) -> None:
    """Whatever else is different may be the cause. The load and the commit always are."""
    other = made_results(seed=2)
    other["simulated"] = False
    packages = {"eagerstream": "0.1.0", "anthropic": "2.15.0"}
    other["machine"] |= {"cores": 96, "load": 7.0, "commit": "0" * 40, "dirty": True, "packages": packages}
    other["settings"]["speed"] = None
    other["cases"][0]["id"] = "elsewhere"
    comparison = compared(results, other)
    text = terminal(comparison)
    assert comparison["warnings"] == [
        "only a.json is simulated: the difference means nothing",
        "not the same number of processors: 2 (a.json), 96 (b.json)",
        "not the same anthropic: 2.14.0 (a.json), 2.15.0 (b.json)",
        "not the same speed: 10.0 (a.json), None (b.json)",
        "measured with changes that are in no commit: b.json",
    ]
    assert all(f"warning: {warning}" in text for warning in comparison["warnings"])
    assert "b: b.json, " in text
    assert ", commit 00000000+" in text
    assert "only in b: elsewhere" in text
    assert comparison["only_a"] == [EAGER]


def test_nothing_to_compare(results: Results) -> None:
    other = made_results(seed=2)
    for case in other["cases"]:
        case["id"] += "!"
    with pytest.raises(UsageError, match="no case in common"):
        compared(results, other)
    with pytest.raises(UsageError, match="confidence"):
        compared(results, results, confidence=2)
    with pytest.raises(UsageError, match="compares no cases"):
        compared({**results, "comparisons": []})


# --- limits -----------------------------------------------------------------------------------------------------------


@rows(
    "text, error",
    [
        ("duration_s", "takes FIGURE"),
        ("duration_s:10%", "takes FIGURE"),
        ("duration_s:+10", "must be a share or a time"),
        ("speed:+10%", "is no figure"),
        ("chars_per_s:-10ms", "is a time"),
    ],
)
def test_what_is_no_limit(text: str, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        Limit.parse(text)


@rows(
    "eager_s, limit, state",
    [
        (4.0, "duration_s:+10%", "exceeded"),
        (4.0, "duration_s:+500ms", "exceeded"),
        (4.0, "duration_s:+2s", "kept"),
        (3.3, "duration_s:+10%", "undecided"),
        (3.0, "duration_s:+10%", "kept"),
        (2.0, "duration_s:+10%", "kept"),
        (2.0, "duration_s:-10%", "exceeded"),
        (4.0, "duration_s:+0%", "exceeded"),
        (3.0, "duration_s:+0%", "undecided"),
        (4.0, "duration_s:-10%", "kept"),
    ],
)
def test_a_limit(eager_s: float, limit: str, state: str, results: Results) -> None:
    """Between two benchmarks: what changed is beyond it, within it, or around it. The other case keeps it."""
    comparison = compared(results, made_results(eager_s=eager_s, seed=2), limits=[limit])
    same = "undecided" if limit.endswith("0%") and "10%" not in limit else "kept"
    assert states(comparison) == {f"eager {limit}": state, f"buffered {limit}": same}
    shown = terminal(comparison)
    assert re.search(rf"^{re.escape(limit)}: {state}: .*(beyond|within) it$", shown, re.MULTILINE)
    # Only the figure with a limit has verdicts: each has half of the error.
    assert comparison["verdict_confidence"] == pytest.approx(0.975)


def test_several_limits(results: Results) -> None:
    limits = ["duration_s:+10%", "duration_s:-10%", "first_field_s:+50%"]
    other = made_results(eager_s=4.0, seed=2)
    found = states(compared(results, other, limits=limits))
    assert [found[f"eager {limit}"] for limit in limits] == ["exceeded", "kept", "kept"]
    assert len(found) == 6


def test_a_limit_that_cannot_be_checked(results: Results) -> None:
    """Whatever cannot be told is not kept: a case has gone, a figure has gone, runs failed, or they are too few."""
    limit = "duration_s:+10%"

    def reasons(a: Results, b: Results) -> set[str | None]:
        comparison = compared(a, b, limits=[limit])
        assert all((one["state"] == "unknown") == (one["reason"] is not None) for one in comparison["limits"])
        return {one["reason"] for one in comparison["limits"]} - {None}

    other = made_results(seed=2)
    other["cases"] = other["cases"][:1]
    assert reasons(results, other) == {"it was not measured again"}
    assert reasons(other, results) == set()  # a new case

    other = made_results(seed=2)
    del other["cases"][0]["metrics"]["duration_s"]
    assert reasons(results, other) == {"b has no value"}
    assert reasons(other, results) == {"a has no value"}

    assert reasons(results, made_results(seed=2, failed=[1])) == {"1 of 8 runs failed, and 0 of 8 of a"}
    assert reasons(made_results(failed=[3]), made_results(seed=2, failed=[1])) == set()
    assert reasons(results, made_results(seed=2, failed=range(5))) == {"3 of 7 values that it takes"}
    slower = compared(results, made_results(eager_s=9.0, seed=2, failed=[1]), limits=[limit])
    assert states(slower)[f"eager {limit}"] == "exceeded"
    assert slower["warnings"] == ["eager: 1 of 8 runs of b failed, and are in no figure"]

    for case in other["cases"]:
        case["metrics"].pop("duration_s", None)
    with pytest.raises(UsageError, match="no case has the figure"):
        compared(other, other, limits=[limit])

    # In one benchmark, a case of which all runs failed is in no pair.
    failed = compared(made_results(failed=range(8)), limits=[limit])
    assert {one["state"] for one in failed["limits"]} == {"unknown"}


def test_how_often_a_limit_is_wrong() -> None:
    """Runs that are exactly at the limit exceed it in at most half of the error. What is far beyond it is found."""
    noise = random.Random(5)
    limit = Limit.parse("duration_s:+10%")

    def exceeded(factor: float) -> float:
        count = 0
        for _ in range(500):
            base, other = ([noise.lognormvariate(0, 0.2) for _ in range(10)] for _ in range(2))
            checked = limit.check(
                base,
                [factor * value for value in other],
                shift=lambda a, b, level: of_samples(a, b, confidence=level),
                confidence=0.95,
            )
            count += checked["state"] == "exceeded"
        return count / 500

    assert exceeded(1.1) < 0.025 + 3 * (0.025 * 0.975 / 500) ** 0.5
    assert exceeded(1.6) > 0.9


def test_limits_in_one_benchmark() -> None:
    """Cases that were measured in turn are compared by their pairs. The base is the first case of each pair."""
    results = made_results()
    comparison = compared(results, limits=["duration_s:-50%", "duration_s:-90%"])
    assert [case["base"] for case in comparison["cases"]] == [BUFFERED]
    assert {limit["limit"]: limit["state"] for limit in comparison["limits"]} == {
        "duration_s:-50%": "exceeded",
        "duration_s:-90%": "kept",
    }
    pairs = [one for one in results["comparisons"] if one["metric"] == "duration_s"]
    (found,) = (one for one in comparison["cases"][0]["metrics"] if one["metric"] == "duration_s")
    assert found["difference"]["median"] == pairs[0]["difference"]["median"]
    assert "not measured in turn" not in terminal(comparison)
    # A program that got other responses than the base is in no pair.
    alone: CaseData = {**results["cases"][0], "id": "alone", "label": "alone"}
    comparison = compared({**results, "cases": [*results["cases"], alone]}, limits=["duration_s:-90%"])
    assert [limit["reason"] for limit in comparison["limits"]] == [None, "it is compared with no other case"]


# --- many benchmarks --------------------------------------------------------------------------------------------------


def history() -> list[Results]:
    """Four benchmarks, one for each day, which become slower. One has no commit, another one no figures."""
    found = [made_results(eager_s=3 + day / 2, seed=day) for day in range(4)]
    for day, results in enumerate(found):
        results["created_at"] = f"2026-11-0{day + 1}T10:00:00+00:00"
        results["machine"] |= {"commit": None if day == 2 else f"{day}" * 40, "dirty": day == 3}
    found[1]["cases"][0]["metrics"].clear()
    return found


def test_a_trend() -> None:
    """The last one is compared with the first one, and each has a line with its commit."""
    comparison = compared(*history())
    text = terminal(comparison, width=80)
    lines = [line.rstrip() for line in text.splitlines() if line.startswith("2026-")]
    commits = ("00000000", "11111111", "c", "33333333+")
    assert [line.split()[:2] for line in lines[:4]] == [
        [f"2026-11-0{day}", commit] for day, commit in enumerate(commits, 1)
    ]
    marks = [line.rindex("o") for line in lines[:4] if "o" in line]
    assert marks == sorted(marks)
    assert marks[-1] - marks[0] > 20
    assert len(lines) == 4 * 2 * 2  # two primary figures of two cases
    assert max(map(len, text.splitlines())) <= 80
    (eager, _) = comparison["cases"]
    trend = [one and one["median"] for one in eager["metrics"][0]["trend"]]
    assert trend == [pytest.approx(3.0, rel=0.05), None, pytest.approx(4.0, rel=0.05), pytest.approx(4.5, rel=0.05)]


# --- Markdown ---------------------------------------------------------------------------------------------------------


def html(text: str) -> str:
    page: str = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    return page


def test_markdown() -> None:
    """A pull request shows the limits and the verdicts first, then the trend, and all figures when they are opened."""
    page = html(markdown(compared(*history(), limits=["duration_s:+10%"])))
    assert "<h3>Benchmark: 1 of 2 limits exceeded (simulated)</h3>" in page
    assert re.search(r"<code>duration_s:\+10%</code></td>\s*<td>exceeded</td>", page)
    assert re.search(r"<td>kept</td>\s*<td><code>buffered</code>", page)
    assert re.search(r"<li><code>eager</code>: Complete run 1\.5\d.s longer \[", page)
    assert "<td><code>00000000</code></td>" in page
    assert page.index("<summary>All figures</summary>") < page.index("First finished field")
    assert page.count("<table>") == 5  # limits, two trends, the figures of two cases
    assert "warning: measured with changes that are in no commit: d.json" in page


ATTACK = "`|</code>\n\n| [x](https://evil.example) <img src=x onerror=alert(1)> @everyone #1 https://evil.example $x$ `"


@rows("text", [HOSTILE, ATTACK])
def test_markdown_of_hostile_texts(text: str, results: Results) -> None:
    """A benchmark of somebody else's branch cannot write markup into the page of the pull request."""
    other = made_results(seed=2)
    for one in (results, other):
        for case in one["cases"]:
            case["label"] = text + case["id"]
    texts: Any = dict.fromkeys(("system", "cpu", "python", "core", "commit"), text)
    other["machine"] = {**other["machine"], **texts, "packages": {text: text}}
    other["created_at"] = text
    other["cases"].append({**other["cases"][0], "id": text})
    sides = [Side("a.json", results), Side(text, other)]
    page = html(markdown(compare(sides, limits=[Limit.parse("duration_s:+10%")])))
    assert not re.search(r"<(a|img|script|svg|title)\b", page)
    assert not re.search(r"[@$#]|evil|alert", re.sub(r"<code>[^<]*</code>", "", page))
    assert page.count("<table>") == 3
