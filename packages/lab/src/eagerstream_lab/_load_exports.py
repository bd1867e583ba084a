"""Exports of a load test for other programs: `--export runs.csv`, `summary.json` or `load.prom`.

| suffix | content |
|---|---|
| `.csv` | one row for each run that counts, and each figure |
| `.json` | `load.json` without the runs |
| `.prom` | OpenMetrics text: throughput, goodput and percentiles of each level as gauges |
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from ._exports import check_exports, labels_text
from ._load_figures import PERCENTILES
from ._load_plan import FIGURES
from ._load_results import LevelData, LoadCaseData, LoadResults
from ._metrics import METRICS
from ._results import save_whole

COLUMNS: Final = (
    *("case", "label", "source", "tools", "streaming", "model", "transport", "program", "simulated", "measured_at"),
    *("level", "concurrency", "rate", "intended_s", "late_s", "end_s", "error", "figure", "value_s"),
)
_PREFIX: Final = "eagerstream_load"


def export_load(results: LoadResults, path: Path) -> None:
    """Write results in the format of the file's suffix. An existing file is replaced once the new one is complete.

    Raises:
        UsageError: The suffix names no format, or the file cannot be written.
    """
    check_exports([path])
    save_whole(path, _FORMATS[path.suffix](results).encode("utf-8", "replace"))


def csv_text(results: LoadResults) -> str:
    """Return one row for each run that counts, and each figure. Unknown values are empty, and times in seconds."""
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for case, level in _levels(results):
        facts = (*_parts(case).values(), str(results["simulated"]).lower(), results["settings"]["measured_at"])
        each = level["each"]
        for run in range(len(each["intended_s"])):
            ended = (each["intended_s"][run], each["late_s"][run], each["end_s"][run], each["error"][run])
            for figure in FIGURES:
                value = each["figures"][figure][run]
                row = (*facts, level["name"], level["concurrency"], level["rate"], *ended, figure, value)
                table.writerow(["" if cell is None else cell for cell in row])
    return text.getvalue()


def json_text(results: LoadResults) -> str:
    """Return the results without the runs."""
    cases = [
        {**case, "levels": [{key: value for key, value in level.items() if key != "each"} for level in case["levels"]]}
        for case in results["cases"]
    ]
    return json.dumps({**results, "cases": cases}, allow_nan=False, indent=2) + "\n"


def openmetrics_text(results: LoadResults) -> str:
    """Return throughput, goodput, counts and percentiles in the text format of OpenMetrics 1.0."""
    families: dict[tuple[str, str, str], list[str]] = {}
    for case, level in _levels(results):
        labels = {**_parts(case), "level": level["name"]}
        values = {
            ("throughput_per_second", "", "Runs that ended without an error, in a second."): level["throughput_per_s"],
            ("goodput_per_second", "", "Those of them that were within all limits."): level["goodput_per_s"],
            ("runs", "", "Runs that count."): level["runs"],
            ("failed_runs", "", "Those of them that failed or did not end."): level["failed"] + level["unfinished"],
        }
        for (name, unit, told), value in values.items():
            if value is not None:
                family = families.setdefault((f"{_PREFIX}_{name}", unit, told), [])
                family.append(f"{_PREFIX}_{name}{labels_text(labels)} {value!r}")
        for figure, data in level["figures"].items():
            name = f"{_PREFIX}_{figure.removesuffix('_s')}_seconds"
            family = families.setdefault((name, "seconds", f"{METRICS[figure].meaning}.".capitalize()), [])
            shown = {"p50": data["p50"], "p90": data["p90"], "p99": data["p99"], "p999": data["p999"]}
            for key, share in PERCENTILES:
                if (value := shown[key]) is not None:
                    family.append(f"{name}{labels_text({**labels, 'percentile': f'{share * 100:g}'})} {value!r}")
    lines: list[str] = []
    for (name, unit, told), samples in families.items():
        lines += [f"# TYPE {name} gauge", *([f"# UNIT {name} {unit}"] if unit else []), f"# HELP {name} {told}"]
        lines += samples
    return "\n".join([*lines, "# EOF", ""])


def _levels(results: LoadResults) -> Iterator[tuple[LoadCaseData, LevelData]]:
    for case in results["cases"]:
        for level in case["levels"]:
            yield case, level


def _parts(case: LoadCaseData) -> dict[str, str]:
    parts = {"case": case["id"], "label": case["label"], "source": case["source"], "tools": case["tools"]}
    how = {"streaming": case["streaming"], "model": case["model"], "transport": case["transport"]}
    return {**parts, **how, "program": case.get("program", "")}


_FORMATS: Final[Mapping[str, Callable[[LoadResults], str]]] = {
    ".csv": csv_text,
    ".json": json_text,
    ".prom": openmetrics_text,
}
