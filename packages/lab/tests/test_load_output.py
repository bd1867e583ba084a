"""What a load test shows and writes: the terminal, the schema, and the exports."""

from __future__ import annotations

import csv
import io
import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator
from packages.lab.tests.loads import busy, made_load
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from rich.console import Console

from eagerstream.errors import UsageError
from eagerstream_lab._load_exports import COLUMNS, csv_text, export_load, json_text, openmetrics_text
from eagerstream_lab._load_figures import baseline_warnings, knees_of, short_warnings
from eagerstream_lab._load_results import load_load, load_schema
from eagerstream_lab._load_terminal import print_load
from eagerstream_lab._results import save_json


def shown(**options: Any) -> str:
    """The output of these results on a terminal of 80 columns."""
    console = Console(width=80, record=True, file=io.StringIO(), color_system=None)
    print_load(made_load(**options), console)
    return console.export_text()


def test_the_terminal() -> None:
    """Eighty columns hold every level, its percentiles, the bottlenecks and the knee; no figure is cut or wrapped."""
    text = shown()
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines())
    assert "simulated: every time comes from the embedded server" in text
    assert "good: First finished field within 500 ms" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["16", "concurrent", "160", "0", "16", "16", "100", "%", "80", "%", "40", "%"] in rows
    assert "64 concurrent: the clients were a bottleneck: 100 % of a processor" in text
    assert "Knee: 16 concurrent with a goodput of 16 runs/s; beyond it, bottlenecks" in text
    assert ["Complete", "run", "1", "concurrent", "1.08", "s", "-", "-", "-", "10"] in rows


def test_failures_in_the_terminal() -> None:
    """They are named and counted."""
    text = shown(failed=1, loads=(4,))
    assert "4 concurrent: failed with APIError 529 (4)" in text
    assert "Knee" not in text


def test_a_label_is_text() -> None:
    """A name cannot act on the terminal."""
    assert "\x1b" not in shown(label="[red]\x1b[2J", loads=(1,))
    assert "[red]" in shown(label="[red]\x1b[2J", loads=(1,))


def test_the_schema(tmp_path: Path) -> None:
    """The file in the package is that of the types, and results fit it and come back."""
    packaged = json.loads((resources.files("eagerstream_lab") / "load.schema.json").read_text())
    assert packaged == load_schema()
    results = made_load(failed=1)
    save_json(tmp_path / "load.json", results)
    assert load_load(tmp_path / "load.json") == results
    validator = Draft202012Validator(load_schema())
    validator.validate(json.loads((tmp_path / "load.json").read_text()))
    assert not validator.is_valid({**results, "cases": 3})
    (tmp_path / "load.json").write_text('{"eagerstream_bench": 1}')
    with pytest.raises(UsageError, match="no load test of eagerstream"):
        load_load(tmp_path / "load.json")


def test_exports(tmp_path: Path) -> None:
    """Each format is read by a reader of its own, and has the figures of the results."""
    results = made_load((1, 16), failed=1)
    table = list(csv.DictReader(io.StringIO(csv_text(results))))
    assert tuple(table[0]) == COLUMNS
    assert len(table) == 4 * sum(level["runs"] for level in results["cases"][0]["levels"])
    assert {row["error"] for row in table} == {"", "APIError 529"}
    summary = json.loads(json_text(results))
    assert "each" not in summary["cases"][0]["levels"][0]
    parsed: Any = text_string_to_metric_families
    families = {family.name: family.samples for family in parsed(openmetrics_text(results))}
    rates = {sample.labels["level"]: sample.value for sample in families["eagerstream_load_throughput_per_second"]}
    assert rates == {level["name"]: level["throughput_per_s"] for level in results["cases"][0]["levels"]}
    (median,) = (
        sample.value
        for sample in families["eagerstream_load_duration_seconds"]
        if sample.labels["percentile"] == "50" and sample.labels["level"] == "16 concurrent"
    )
    assert median == results["cases"][0]["levels"][1]["figures"]["duration_s"]["p50"]
    export_load(results, tmp_path / "x.prom")
    assert (tmp_path / "x.prom").read_text().endswith("# EOF\n")
    with pytest.raises(UsageError, match="must end in"):
        export_load(results, tmp_path / "x.txt")


def test_warnings() -> None:
    """A machine that is busy without any load, and a window that is short compared with its runs."""
    late = busy(lag_p99_s=0.2)
    (warning,) = baseline_warnings({"client": late, "server": busy(), "proxy_added_s": None})
    assert "the event loop of the client was already 200" in warning
    assert [*baseline_warnings(None)] == []
    levels = made_load((1, 256))["cases"][0]["levels"]
    (warning,) = short_warnings("poem", levels)
    assert warning.startswith("poem, 256 concurrent: runs of 14.1")
    assert knees_of(levels) == []
