"""Exports: read back by other programs, with every figure, and with names that nobody should give a case."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from packages.lab.tests.lab import made_results
from packages.lab.tests.made_results import HOSTILE
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from eagerstream.errors import UsageError
from eagerstream_lab._exports import COLUMNS, check_exports, export
from eagerstream_lab._metrics import METRICS
from eagerstream_lab._results import CaseData, Results, load_results


@pytest.fixture(scope="module")
def results() -> Results:
    return made_results(failed=(2,))


def samples(results: Results, path: Path) -> dict[str, list[Sample]]:
    """All samples by family, as the strict parser of Prometheus' own client reads them."""
    export(results, path)
    parsed: Any = text_string_to_metric_families
    families = parsed(path.read_text("utf-8"))
    return {family.name: family.samples for family in families}


def test_openmetrics(results: Results, tmp_path: Path) -> None:
    """Each figure of each case has its median and interval in base units, each comparison its difference and verdict."""
    found = samples(results, tmp_path / "bench.prom")
    eager = results["cases"][0]
    duration = {sample.labels["bound"]: sample for sample in found["eagerstream_bench_duration_seconds"][:3]}
    assert duration["low"].labels["case"] == eager["id"]
    for bound in ("median", "low", "high"):
        assert duration[bound].value == eager["metrics"]["duration_s"][bound]
    families = {name for name in found if "difference" not in name} - {
        "eagerstream_bench",
        "eagerstream_bench_created_timestamp_seconds",
        "eagerstream_bench_values",
        "eagerstream_bench_verdict",
    }
    assert len(families) == len(METRICS)
    assert {"eagerstream_bench_hidden_ratio", "eagerstream_bench_chars_per_second"} < families
    judged = next(one for one in results["comparisons"] if one["metric"] == "duration_s")
    (difference,) = [
        sample.value
        for sample in found["eagerstream_bench_difference_duration_seconds"]
        if sample.labels["bound"] == "median"
    ]
    assert difference == judged["difference"]["median"]
    states = [
        sample.labels["eagerstream_bench_verdict"]
        for sample in found["eagerstream_bench_verdict"]
        if sample.labels["figure"] == "duration_s" and sample.value == 1
    ]
    assert states == ["lower"]
    assert {sample.value for sample in found["eagerstream_bench_values"]} == {7, 8}
    (info,) = found["eagerstream_bench"]
    assert info.labels == {"simulated": "true", "seed": "3", "confidence": "0.95", "profile": "documented"}


def test_openmetrics_without_intervals(tmp_path: Path) -> None:
    """Too few runs have a median and no interval."""
    found = samples(made_results(failed=range(4)), tmp_path / "bench.prom")
    eager, *_ = found["eagerstream_bench_duration_seconds"]
    bounds = [sample.labels["bound"] for sample in found["eagerstream_bench_duration_seconds"]]
    assert eager.labels["streaming"] == "eager"
    assert bounds == ["median", "median", "low", "high"]
    empty = samples({**made_results(), "cases": [], "comparisons": []}, tmp_path / "empty.prom")
    assert set(empty) == {"eagerstream_bench", "eagerstream_bench_created_timestamp_seconds"}


def test_any_name_of_a_case(results: Results, tmp_path: Path) -> None:
    """Quotes, backslashes and ends of lines in a label stay in the label."""
    name = f'{HOSTILE}\n"\\'.replace("\udc80", "")
    case: CaseData = {**results["cases"][0], "label": name, "model": name}
    found = samples({**results, "cases": [case], "comparisons": []}, tmp_path / "bench.prom")
    for sample in found["eagerstream_bench_duration_seconds"]:
        assert sample.labels["model"] == name


def test_csv(results: Results, tmp_path: Path) -> None:
    """One row for each run and figure; a failed run has no values."""
    export(results, tmp_path / "runs.csv")
    with (tmp_path / "runs.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == 2 * 8 * len(METRICS)
    values = [row["value"] for row in rows if row["streaming"] == "eager" and row["figure"] == "duration_s"]
    known = results["cases"][0]["metrics"]["duration_s"]["values"]
    assert values == ["" if value is None else str(value) for value in known]


def test_json(results: Results, tmp_path: Path) -> None:
    """All but the runs. `bench compare` still reads it."""
    export(results, tmp_path / "summary.json")
    found = json.loads((tmp_path / "summary.json").read_text())
    assert found["comparisons"] == results["comparisons"]
    assert [case["metrics"] for case in found["cases"]] == [case["metrics"] for case in results["cases"]]
    assert all(case["runs"] == [] for case in found["cases"])
    assert load_results(tmp_path / "summary.json") == found


def test_a_suffix_that_names_no_format(results: Results, tmp_path: Path) -> None:
    """It is refused before anything is measured, and nothing is written."""
    with pytest.raises(UsageError, match=r"must end in \.csv, \.json, \.prom"):
        check_exports([Path("a.csv"), Path("bench.xlsx")])
    with pytest.raises(UsageError, match="must end"):
        export(results, tmp_path / "bench")
    assert list(tmp_path.iterdir()) == []
