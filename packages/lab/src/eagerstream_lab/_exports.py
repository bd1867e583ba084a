"""Exports of results for other programs: `--export results.csv`, `summary.json` or `bench.prom`.

| suffix | content |
|---|---|
| `.csv` | one row for each run and figure |
| `.json` | `results.json` without the runs: figures, comparisons, settings |
| `.prom` | OpenMetrics text: medians, intervals and verdicts as gauges and states, for Prometheus' textfile collector |
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, get_args

from eagerstream.errors import UsageError

from ._metrics import METRICS, Metric
from ._results import CaseData, Estimate, Results, Verdict, save_whole
from ._statistics import has_interval

COLUMNS: Final = (
    *("case", "label", "source", "tools", "streaming", "model", "transport", "program"),
    *("simulated", "measured_at", "repetition", "order", "status", "error", "figure", "unit", "value"),
)


def check_exports(paths: Sequence[Path], formats: Iterable[str] | None = None) -> None:
    """Check that the suffix of each file names a format: one of these, or of those that a benchmark has.

    Raises:
        UsageError: One does not.
    """
    suffixes = [*(_FORMATS if formats is None else formats)]
    for path in paths:
        if path.suffix not in suffixes:
            raise UsageError(f"--export {path}: the name must end in {', '.join(suffixes)}")


def export(results: Results, path: Path) -> None:
    """Write results in the format of the file's suffix. An existing file is replaced once the new one is complete.

    Raises:
        UsageError: The suffix names no format, or the file cannot be written.
    """
    check_exports([path])
    save_whole(path, _FORMATS[path.suffix](results).encode("utf-8", "replace"))


# --- CSV --------------------------------------------------------------------------------------------------------------


def csv_text(results: Results) -> str:
    """Return one row for each run and figure.

    A run without a value for a figure has an empty `value`. Times are in seconds, shares from 0 to 1.
    """
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(_rows(results))
    return text.getvalue()


def _rows(results: Results) -> Iterator[tuple[object, ...]]:
    simulated = "true" if results["simulated"] else "false"
    measured_at = results["settings"].get("measured_at", "client")
    for case in results["cases"]:
        named = (*_parts(case).values(), simulated, measured_at)
        for run in case["runs"]:
            ended = (run["repetition"], run["order"], run["status"], run["error"] or "")
            for name, metric in METRICS.items():
                values = case["metrics"][name]["values"] if name in case["metrics"] else []
                value = values[run["repetition"]] if run["repetition"] < len(values) else None
                yield (*named, *ended, name, metric.unit, "" if value is None else value)


def _parts(case: CaseData) -> dict[str, str]:
    parts = {"case": case["id"], "label": case["label"], "source": case["source"], "tools": case["tools"]}
    how = {"streaming": case["streaming"], "model": case["model"], "transport": case["transport"]}
    return {**parts, **how, "program": case.get("program", "")}


# --- JSON -------------------------------------------------------------------------------------------------------------


def json_text(results: Results) -> str:
    """Return the results with empty lists of runs, whose arrivals are most of `results.json`.

    They are still results: `bench compare` reads them.
    """
    cases = [{**case, "runs": []} for case in results["cases"]]
    return json.dumps({**results, "cases": cases}, allow_nan=False, indent=2) + "\n"


# --- OpenMetrics ------------------------------------------------------------------------------------------------------

_PREFIX: Final = "eagerstream_bench"
_UNITS: Final = {"s": ("_s", "seconds"), "share": ("_share", "ratio"), "/s": ("_per_s", "per_second")}
"""Suffix of a figure's name, and the one that takes its place, by unit."""


def openmetrics_text(results: Results) -> str:
    """Return the figures in the text format of OpenMetrics 1.0.

    The median of a figure has the label `bound="median"`, and the ends of its interval have `low` and `high`. They are
    left out if there are too few runs for an interval. `..._difference_...` are the differences of two cases.
    """
    settings = results["settings"]
    facts = {"simulated": str(results["simulated"]).lower(), "seed": str(settings["seed"])}
    facts |= {"confidence": f"{settings['confidence']:g}", "profile": settings["profile"] or ""}
    lines = [f"# TYPE {_PREFIX} info", f"# HELP {_PREFIX} The benchmark.", f"{_PREFIX}_info{labels_text(facts)} 1"]
    created = f"{_PREFIX}_created_timestamp_seconds"
    lines += [f"# TYPE {created} gauge", f"# UNIT {created} seconds", f"# HELP {created} Time of the benchmark."]
    lines.append(f"{created} {datetime.fromisoformat(results['created_at']).timestamp():.0f}")
    for name, metric in METRICS.items():
        families: tuple[tuple[str, str, list[tuple[dict[str, str], Estimate]]], ...] = (
            ("", "", [(_parts(case), case["metrics"][name]) for case in results["cases"] if name in case["metrics"]]),
            (
                "difference_",
                "Difference of two cases: ",
                [
                    ({"base": one["base"], "other": one["other"]}, one["difference"])
                    for one in results["comparisons"]
                    if one["metric"] == name
                ],
            ),
        )
        for kind, words, found in families:
            if found:
                lines += _family(kind, metric, f"{words}{metric.meaning}.", found)
    counts = [
        f"{_PREFIX}_values{labels_text({'case': case['id'], 'figure': name})} {data['n']}"
        for case in results["cases"]
        for name, data in case["metrics"].items()
    ]
    if counts:
        lines += [f"# TYPE {_PREFIX}_values gauge", f"# HELP {_PREFIX}_values Number of runs with the figure.", *counts]
    states = [
        f"{_PREFIX}_verdict{labels_text({**parts, f'{_PREFIX}_verdict': verdict})} {int(verdict == one['verdict'])}"
        for one in results["comparisons"]
        if one["verdict"] is not None
        for parts in ({"base": one["base"], "other": one["other"], "figure": one["metric"]},)
        for verdict in get_args(Verdict)
    ]
    if states:
        told = "Verdict on a primary figure of a case compared with its base."
        lines += [f"# TYPE {_PREFIX}_verdict stateset", f"# HELP {_PREFIX}_verdict {told}", *states]
    return "\n".join([*lines, "# EOF", ""])


def _family(kind: str, metric: Metric, words: str, found: list[tuple[dict[str, str], Estimate]]) -> Iterator[str]:
    suffix, unit = _UNITS[metric.unit]
    family = f"{_PREFIX}_{kind}{metric.name.removesuffix(suffix)}_{unit}"
    yield f"# TYPE {family} gauge"
    if metric.unit != "/s":  # a unit is one word there
        yield f"# UNIT {family} {unit}"
    yield f"# HELP {family} {words[:1].upper()}{words[1:]}"
    for labels, estimate in found:
        bounds = {"median": estimate["median"], "low": estimate["low"], "high": estimate["high"]}
        for bound, value in bounds.items():
            if bound == "median" or has_interval(estimate):
                yield f"{family}{labels_text({**labels, 'bound': bound})} {value!r}"


def labels_text(labels: Mapping[str, str]) -> str:
    escaped = (
        (name, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")) for name, value in labels.items()
    )
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped) + "}"


_FORMATS: Final[Mapping[str, Callable[[Results], str]]] = {
    ".csv": csv_text,
    ".json": json_text,
    ".prom": openmetrics_text,
}
