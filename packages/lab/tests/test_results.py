"""Results: what runs come to, files that hold them, and what two of them have in common."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from packages.lab.tests.lab import MACHINE, SETTINGS, made_measured, made_results, poem_cases
from packages.lab.tests.made_results import call_block, request_of
from rich.console import Console
from tests.tables import rows
from tests.written_files import Writer, check_links, check_pipes, mode, posix

from eagerstream.errors import UsageError
from eagerstream_lab._analysis import assemble
from eagerstream_lab._matrix import Matrix
from eagerstream_lab._metrics import METRICS
from eagerstream_lab._plan import verdict
from eagerstream_lab._results import Estimate, Judged, Results, load_results, save_json, save_results
from eagerstream_lab._terminal import _verdict, as_text, print_results
from eagerstream_lab._wording import ended_text, metric_name

EAGER, BUFFERED = (f"poem/poem/{way}/simulated/anthropic" for way in ("eager", "buffered"))


@pytest.fixture(scope="module")
def results() -> Results:
    return made_results()


def shown(results: Results, width: int = 120) -> str:
    file = io.StringIO()
    print_results(results, Console(file=file, width=width))
    return file.getvalue()


@pytest.mark.slow
def test_what_runs_come_to(results: Results) -> None:
    """Eight runs of each case that count, a median in its interval, and eager told from buffered in primary figures."""
    assert [case["id"] for case in results["cases"]] == [EAGER, BUFFERED]
    for case in results["cases"]:
        assert [run["repetition"] for run in case["runs"]] == [*range(8)]  # none of the warm-up
        assert list(case["metrics"]) == list(METRICS)
        for metric in case["metrics"].values():
            assert metric["n"] == len(metric["values"]) == 8
            assert metric["low"] <= metric["median"] <= metric["high"]
    assert len(results["comparisons"]) == len(METRICS)
    for comparison in results["comparisons"]:
        assert (comparison["base"], comparison["other"]) == (BUFFERED, EAGER)
        assert comparison["verdict"] == ("lower" if comparison["metric"] in SETTINGS["primary"] else None)
        assert comparison["difference"]["median"] == pytest.approx(-12, abs=0.3)
        assert comparison["ratio"] is not None
        assert comparison["ratio"]["median"] == pytest.approx(0.2, abs=0.02)


@pytest.mark.slow
def test_runs_that_fail() -> None:
    """They stay in the results and count in no figure, nor does the run that was their pair."""
    found = made_results(failed=(1, 4))
    (eager, buffered) = found["cases"]
    assert eager["metrics"]["duration_s"]["n"] == 6
    assert eager["metrics"]["duration_s"]["values"][1] is None
    assert buffered["metrics"]["duration_s"]["n"] == 8
    assert [run["error"] for run in eager["runs"]].count("StreamInterrupted") == 2
    assert {(one["difference"]["n"], one["verdict"]) for one in found["comparisons"]} == {(6, "undecided"), (6, None)}
    text = shown(found)
    assert "eager: 2 of 8 failed with StreamInterrupted" in text
    assert "First finished field and Complete run: no verdict; 6 of 7 values that it takes" in text


@pytest.mark.slow
def test_every_run_failed() -> None:
    """There is no figure then, and no comparison."""
    found = made_results(failed=range(8))
    assert found["cases"][0]["metrics"] == {}
    assert found["comparisons"] == []
    assert "8 of 8 failed" in shown(found)


@pytest.mark.slow
def test_an_interrupted_round() -> None:
    """What was measured counts, and pairs are made of what there is."""
    matrix = Matrix(cases=poem_cases(), repetitions=6, warmup=1, seed=3)
    steps = list(matrix.schedule())
    for count in (0, 2, 3, 8, 13):
        told = [made_measured(step, 1.0) for step in steps[:count]]
        found = assemble(matrix, told, settings=SETTINGS, simulated=True, machine=MACHINE)
        assert sum(len(case["runs"]) for case in found["cases"]) == max(0, count - 2)
        assert all(one["difference"]["n"] == (count - 2) // 2 for one in found["comparisons"])


def test_saved_and_loaded(results: Results, tmp_path: Path) -> None:
    """A file has all of it, and is written whole or not at all."""
    path = tmp_path / "results.json"
    save_results(results, path)
    assert load_results(path) == results
    assert [*tmp_path.iterdir()] == [path]
    with pytest.raises(UsageError, match="cannot be written"):
        save_results(results, tmp_path / "none" / "results.json")
    unsayable = deepcopy(results)
    unsayable["settings"]["speed"] = float("inf")
    with pytest.raises(ValueError, match="JSON"):
        save_results(unsayable, path)
    assert load_results(path) == results
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.slow
@rows(
    "change, told",
    [
        (lambda data: data.pop("eagerstream_bench"), "no benchmark"),
        (lambda data: data.update(eagerstream_bench=7), "version 7"),
        (lambda data: data["cases"][0]["runs"][0]["latency"].update(duration_s="long"), r"cases\.0\.runs\.0\.latency"),
        (lambda data: data["comparisons"][0].update(verdict="maybe"), r"comparisons\.0\.verdict"),
        (lambda data: data["settings"].pop("seed"), r"settings\.seed"),
        (lambda data: data.clear(), "there is no 'eagerstream_bench'"),
    ],
)
def test_results_that_are_none(
    results: Results, tmp_path: Path, change: Callable[[dict[str, Any]], object], told: str
) -> None:
    """The place is told where a file does not hold what it should."""
    path = tmp_path / "results.json"
    data = json.loads(json.dumps(results))
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(UsageError, match=told):
        load_results(path)


@rows("content", ["", "[]", "{", '{"eagerstream_bench": NaN}', "[" * 100_000, "\x00"])
def test_files_that_hold_something_else(tmp_path: Path, content: str) -> None:
    """Whatever is in the file, it is refused in one line."""
    path = tmp_path / "results.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=r"results\.json"):
        load_results(path)


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not read to its end."""
    path = tmp_path / "results.json"
    path.write_text(" " * 2_000)
    monkeypatch.setattr("eagerstream_lab._results.MAX_BYTES", 1_000)
    with pytest.raises(UsageError, match="larger than 1,000 bytes"):
        load_results(path)


# --- in words ---------------------------------------------------------------------------------------------------------


def test_the_table(results: Results) -> None:
    """One line for each figure, with the decided ones first, in 80 columns. Simulated figures say so in each title."""
    text = shown(results, width=80)
    assert "simulated: every time comes from the embedded server" in text
    assert "a: buffered, b: eager; simulated" in text
    lines = [line.rstrip() for line in text.splitlines()]
    at = next(number for number, line in enumerate(lines) if line.startswith("figure "))
    names = [re.split("  +", line)[0] for line in lines[at + 1 : at + 1 + len(METRICS)]]
    assert names[:2] == ["First finished field", "Complete run"]
    assert set(names) == {metric_name(name) for name in METRICS}
    assert re.fullmatch(r"Complete run +1[45]\.\d s +[23]\.\d+ s +-1[12]\.\d s +\[-1[\d., -]+\] +-", lines[at + 2])
    assert re.fullmatch(r"First byte +1[45]\.\d s +[23]\.\d+ s +-1[12]\.\d s +\[-1[\d., -]+\]", lines[at + 4])
    assert re.search(r"^Complete run: b is 1[12]\.\d s shorter \[1", text, re.MULTILINE)
    assert "95 % is the confidence of the 2 verdicts together, and 97.5 % that of each." in " ".join(text.split())
    assert "\x1b" not in text
    assert "simulated" not in shown({**results, "simulated": False}).replace("/simulated/", "")


def test_names_are_shown_as_text(results: Results) -> None:
    """A label may be anything that somebody named a file."""
    renamed = deepcopy(results)
    for case in renamed["cases"]:
        case["label"] = f"[red]\x1b[2J{case['label']}"
    text = shown(renamed)
    assert "[red]eager" in text
    assert "\x1b" not in text


@rows(
    "difference, metric, told",
    [
        ((-12.0, -12.3, -11.8), "large_parameter_s", "eager is 12.0 s earlier [11.8, 12.3] s"),
        ((0.25, 0.2, 0.31), "duration_s", "eager is 250 ms longer [200, 310] ms"),
        ((-1234.0, -1300.0, -1200.0), "chars_per_s", "eager has 1,234/s fewer [1,200, 1,300]/s"),
        ((0.12, 0.1, 0.14), "hidden_share", "eager has 12.0 points more [10.0, 14.0] points"),
    ],
)
def test_verdicts_in_words(difference: tuple[float, float, float], metric: str, told: str) -> None:
    """They name who, how much, how certain and in which direction."""
    median, low, high = difference
    estimate: Estimate = {"n": 6, "median": median, "low": low, "high": high, "confidence": 0.95}
    judged: Judged = {"metric": metric, "difference": estimate, "margin": 0.0, "verdict": verdict(estimate)}
    assert as_text(_verdict(judged, "eager")).plain == told


@rows("number", ["1e308", "-1e308"])
@rows("figure", ['"values":[', '"median":'])
def test_a_figure_that_is_no_figure(number: str, figure: str, results: Results, tmp_path: Path) -> None:
    """The sum of two such numbers is infinite, and was a traceback."""
    path = tmp_path / "results.json"
    text = json.dumps(results, separators=(",", ":"))
    path.write_text(re.sub(re.escape(figure) + r"[-0-9.e]+", f"{figure}{number}", text, count=1))
    with pytest.raises(UsageError, match="should be less"):
        load_results(path)


@pytest.mark.slow
def test_broken_tools_are_told() -> None:
    """The time of a tool that fails at once is not what its author wants to know."""
    case = made_results()["cases"][0]
    assert ended_text(case) == ""
    call = call_block("look", 1.0)
    assert call["call"] is not None
    call["call"]["is_error"] = True
    case["runs"][1]["latency"]["requests"] = [request_of(call)]
    assert ended_text(case) == "1 of 8 with calls that were answered with an error"


@posix
@pytest.mark.parametrize("check", [check_links, check_pipes])
def test_where_measurements_are_saved(check: Callable[[Writer, Path], None], tmp_path: Path) -> None:
    """Never through a link or over a pipe."""
    check(lambda path: save_json(path, {}), tmp_path)


@posix
def test_measurements_are_for_those_whom_the_umask_lets(tmp_path: Path) -> None:
    """Times and pictures are made to be shown."""
    before = os.umask(0o022)
    try:
        save_json(tmp_path / "a.json", {})
    finally:
        os.umask(before)
    assert mode(tmp_path / "a.json") == 0o644
