"""The primary figures of more than two benchmarks, one below the other, with their intervals drawn as text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from eagerstream._support.markup import plain

from ._comparison import Compared, ComparedCase, FileData
from ._results import Estimate
from ._wording import Scale, commit_words, metric_name

TREND_COLUMNS: Final = ("date", "commit", "median", "interval", "")

_WIDTH: Final = 24
_NAME_CHARS: Final = 14


def trends(compared: Compared, case: ComparedCase) -> Iterator[tuple[str, list[tuple[str, str, str, str, str]]]]:
    """Yield the name of each primary figure, and a row for each benchmark with the cells of `TREND_COLUMNS`.

    A benchmark without a commit has the name of its file instead. Yield nothing for two benchmarks or fewer.
    """
    if len(compared["files"]) <= 2:
        return
    for one in case["metrics"]:
        if one["verdict"] is None:
            continue
        known = [estimate for estimate in one["trend"] if estimate is not None]
        first, last = min(estimate["low"] for estimate in known), max(estimate["high"] for estimate in known)
        scale = Scale.of_estimate(one["metric"], {**known[0], "low": first, "high": last})
        rows = [
            (*_when(file), scale.text(estimate["median"]), scale.interval(estimate), _drawn(estimate, first, last))
            if estimate is not None
            else (*_when(file), "-", "-", "")
            for file, estimate in zip(compared["files"], one["trend"], strict=True)
        ]
        yield metric_name(one["metric"]), rows


def _when(file: FileData) -> tuple[str, str]:
    name = plain(PurePath(file["name"]).stem, _NAME_CHARS)
    return plain(file["created_at"][:10]), commit_words(file["commit"], dirty=file["dirty"]) if file["commit"] else name


def _drawn(estimate: Estimate, first: float, last: float) -> str:
    """Draw the interval of an estimate between two ends, with an `o` at its median."""
    low, median, high = (
        round((value - first) / (last - first) * (_WIDTH - 1)) if last > first else 0
        for value in (estimate["low"], estimate["median"], estimate["high"])
    )
    line = " " * low + "-" * (high - low + 1)
    return f"{line[:median]}o{line[median + 1 :]}".ljust(_WIDTH)
