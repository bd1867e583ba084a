"""`truncate_results` and `truncate_output`: within their bounds, and the reader is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.tables import rows

from eagerstream.errors import UsageError
from eagerstream_toolkit import truncate_output
from eagerstream_toolkit._truncation import truncate_results

FOUND = [{"id": number} for number in range(500)]


@rows(
    "found, limit, options, total",
    [
        (500, 100, {}, 500),
        (3, 5, {"total": 900}, 900),
        (3, 5, {"has_more": True}, None),
        (3, 5, {"total": 900, "has_more": True}, 900),
    ],
)
def test_too_many_results(found: int, limit: int, options: Any, total: int | None) -> None:
    """Here, or at a service that has more than it gave: what it counted is told, and nothing is made up."""
    response = truncate_results(FOUND[:found], limit, **options)
    shown = min(found, limit)
    assert response.status == "partial"
    assert response.data == {"results": FOUND[:shown], "total": total, "truncated": True}
    assert response.text == f"Search finished (first {shown} results)"
    assert response.reason == f"too many results, cut to {shown}"


def test_all_results() -> None:
    """Nothing is missing: a success."""
    response = truncate_results(FOUND, 500)
    assert (response.status, response.text, response.reason) == ("success", "Search finished (500 results)", None)
    assert response.data == {"results": FOUND, "total": 500, "truncated": False}


# --- outputs ----------------------------------------------------------------------------------------------------------

LINES = "".join(f"line {number}\n" for number in range(10))


def test_short_output() -> None:
    """Nothing is cut: the text as it is."""
    output = truncate_output(LINES)
    assert (output["truncated"], output["preview"], output["full_output_path"]) == (False, LINES, None)
    stats = output["stats"]
    assert (stats["direction"], stats["original_lines"], stats["kept_lines"]) == ("head", 10, 10)
    assert stats["original_bytes"] == stats["kept_bytes"] == 70


@rows(
    "direction, preview",
    [
        ("head", "line 0\nline 1\nline 2\n"),
        ("tail", "line 7\nline 8\nline 9\n"),
        ("head_tail", "line 0\nline 1\n...(middle left out)...\nline 9\n"),
    ],
)
def test_many_lines(direction: Any, preview: str) -> None:
    """Three lines of ten, from either end or both."""
    output = truncate_output(LINES, max_lines=3, direction=direction)
    assert (output["truncated"], output["preview"]) == (True, preview)
    assert (output["stats"]["kept_lines"], output["stats"]["original_lines"]) == (3, 10)


@rows("direction", ["head", "tail", "head_tail"])
def test_one_long_line(direction: Any) -> None:
    """A line of 60 kB is cut, although there is but one."""
    output = truncate_output("x" * 60_000, direction=direction)
    assert output["truncated"]
    assert 51_000 < len(output["preview"].encode()) <= 51_200
    assert output["stats"]["original_bytes"] == 60_000


@given(
    st.text(st.sampled_from("ab\n\r é中😀\ud800"), max_size=200),
    st.integers(1, 20),
    st.integers(1, 100),
    st.sampled_from(["head", "tail", "head_tail"]),
)
def test_bounds_hold(text: str, max_lines: int, max_bytes: int, direction: Any) -> None:
    """Whatever the text is, the preview is within both bounds, and what it says of itself is so."""
    output = truncate_output(text, max_lines, max_bytes, direction)
    preview, stats = output["preview"], output["stats"]
    assert len(preview.encode()) <= max_bytes
    assert stats["kept_bytes"] == len(preview.encode())
    assert stats["kept_lines"] <= max_lines
    if not output["truncated"]:
        assert stats["original_bytes"] == stats["kept_bytes"]


@rows(
    "options, told",
    [({"max_lines": 0}, "at least 1"), ({"max_bytes": 0}, "at least 1"), ({"direction": "middle"}, "must be one of")],
)
def test_wrong_options(options: Any, told: str) -> None:
    """A bound that leaves nothing is a mistake, and no text passes for a cut one."""
    with pytest.raises(UsageError, match=told):
        truncate_output("x", **options)
    with pytest.raises(UsageError, match="at least 1"):
        truncate_results(FOUND, 0)
