"""Truncation of results and outputs that are too long for a model. Each cut is reported."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, Literal, TypedDict, get_args

from eagerstream._support.checks import check_choice, check_count
from eagerstream._support.json_values import encodable
from eagerstream.tools import ToolResponse

KeptPart = Literal["head", "tail", "head_tail"]
"""The part of an output to keep."""


def truncate_results(
    results: Sequence[Any], limit: int, *, total: int | None = None, has_more: bool = False
) -> ToolResponse:
    """Return the first `limit` results. The response is a success if these are all, else `PARTIAL`.

    Args:
        results: Search results. Each must have a JSON form.
        limit: Maximum number of results to keep.
        total: Number of all results, if the service counted them. By default, the number of given results.
        has_more: The service has more results than given. If `total` is `None`, it stays `None`.

    Returns:
        A response with the data `{"results": list, "total": int | None, "truncated": bool}`.

    Raises:
        UsageError: `limit` is less than 1.
    """
    check_count("limit", limit)
    shown = list(results[:limit])
    if total is None and not has_more:
        total = len(results)
    truncated = has_more or len(results) > limit or (total is not None and total > len(shown))
    data = {"results": shown, "total": total, "truncated": truncated}
    if not truncated:
        return ToolResponse.success(f"Search finished ({len(shown)} results)", data)
    reason = f"too many results, cut to {len(shown)}"
    return ToolResponse.partial(f"Search finished (first {len(shown)} results)", data, reason=reason)


class TruncationStats(TypedDict):
    """Sizes before and after truncation. Bytes are those of UTF-8."""

    direction: KeptPart
    original_lines: int
    original_bytes: int
    kept_lines: int
    kept_bytes: int
    time_ms: int


class TruncatedOutput(TypedDict):
    """Result of `truncate_output`. `full_output_path` is always `None`: no file is written."""

    truncated: bool
    preview: str
    full_output_path: None
    stats: TruncationStats


def truncate_output(
    text: str,
    max_lines: int = 2000,
    max_bytes: int = 51_200,
    direction: KeptPart = "head",
    *,
    omitted: str = "...(middle left out)...",
) -> TruncatedOutput:
    """Return the start, the end, or both ends of a text, within both bounds.

    Args:
        text: The complete output. Half surrogates, which UTF-8 cannot encode, are replaced.
        max_lines: Maximum number of lines of the text to keep.
        max_bytes: Maximum size of the preview in UTF-8, including the `omitted` line. Lines may be cut to fit.
        direction: The part to keep. With `"head_tail"`, a line of its own marks the missing middle.
        omitted: The text of that line.

    Raises:
        UsageError: A bound is less than 1, or the direction is unknown.
    """
    check_count("max_lines", max_lines)
    check_count("max_bytes", max_bytes)
    check_choice("direction", direction, get_args(KeptPart))
    started_s = perf_counter()
    text = str(encodable(text))
    lines = text.splitlines(keepends=True)
    original_bytes = len(text.encode())
    preview, kept_lines = text, len(lines)
    truncated = len(lines) > max_lines or original_bytes > max_bytes
    if truncated:
        if direction == "tail":
            preview = _last_bytes("".join(lines[-max_lines:]), max_bytes)
            kept_lines = _count_lines(preview)
        elif direction == "head" or (room := max_bytes - len(f"\n{omitted}\n".encode())) < 2:
            # There is no room for a character of each end.
            preview = _first_bytes("".join(lines[:max_lines]), max_bytes)
            kept_lines = _count_lines(preview)
        else:
            if len(lines) > max_lines:
                first, last = "".join(lines[: (max_lines + 1) // 2]), "".join(lines[len(lines) - max_lines // 2 :])
            else:  # a few long lines
                first, last = text[: (len(text) + 1) // 2], text[(len(text) + 1) // 2 :]
            head = _first_bytes(first, (room + 1) // 2).rstrip("\n")
            tail = _last_bytes(last, room // 2)
            preview = f"{head}\n{omitted}\n{tail}"
            kept_lines = min(_count_lines(head) + _count_lines(tail), len(lines))  # a line may be cut in two
    stats = TruncationStats(
        direction=direction,
        original_lines=len(lines),
        original_bytes=original_bytes,
        kept_lines=kept_lines,
        kept_bytes=len(preview.encode()),
        time_ms=round((perf_counter() - started_s) * 1000),
    )
    return TruncatedOutput(truncated=truncated, preview=preview, full_output_path=None, stats=stats)


def _first_bytes(text: str, max_bytes: int) -> str:
    # A character has at least one byte, so the rest need not be encoded. Half a character at the end is dropped.
    return text[:max_bytes].encode()[:max_bytes].decode(errors="ignore")


def _last_bytes(text: str, max_bytes: int) -> str:
    return text[-max_bytes:].encode()[-max_bytes:].decode(errors="ignore")


def _count_lines(text: str) -> int:
    return len(text.splitlines())
