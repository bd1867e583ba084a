"""Results as CSV: one row for each run and figure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ._metrics import METRICS
from ._results import CaseData, MeasuredRun, Results, save_whole

COLUMNS: Final = (
    *("case", "label", "source", "tools", "streaming", "model", "transport", "program"),
    *("simulated", "measured_at", "repetition", "order", "status", "error", "figure", "unit", "value"),
)


def save_csv(results: Results, path: Path) -> None:
    """Write one row for each run and figure. An existing file is replaced once the new one is complete.

    A run without a value for a figure has an empty `value`. Times are in seconds, shares from 0 to 1.

    Raises:
        UsageError: The file cannot be written.
    """
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(_rows(results))
    save_whole(path, text.getvalue().encode("utf-8", "replace"))


def _rows(results: Results) -> Iterator[tuple[object, ...]]:
    simulated = "true" if results["simulated"] else "false"
    measured_at = results["settings"].get("measured_at", "client")
    for case in results["cases"]:
        parts = (case["id"], case["label"], case["source"], case["tools"], case["streaming"], case["model"])
        named = (*parts, case["transport"], case.get("program", ""), simulated, measured_at)
        for run in case["runs"]:
            ended = (run["repetition"], run["order"], run["status"], run["error"] or "")
            for name, metric in METRICS.items():
                yield (*named, *ended, name, metric.unit, _value(case, run, name))


def _value(case: CaseData, run: MeasuredRun, name: str) -> float | str:
    values = case["metrics"][name]["values"] if name in case["metrics"] else []
    value = values[run["repetition"]] if run["repetition"] < len(values) else None
    return "" if value is None else value
