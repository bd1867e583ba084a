"""`truncate_results` and `truncate_output`: within their bounds, and the reader is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from eagerstream.builtin import truncate_output, truncate_results
from eagerstream.errors import UsageError
from tests.tables import rows

FOUND = [{"id": number} for number in range(500)]


def test_too_many_results() -> None:
    """The response and its data say that there is more."""
    response = truncate_results(FOUND, 100)
    assert response.status == "partial"
    assert response.data == {"results": FOUND[:100], "total": 500, "truncated": True}
    assert (response.text, response.reason) == ("Search finished (first 100 results)", "too many results, cut to 100")


def test_all_results() -> None:
    """Nothing is missing: a success."""
    response = truncate_results(FOUND, 500)
    assert (response.status, response.text) == ("success", "Search finished (500 results)")
    assert response.data == {"results": FOUND, "total": 500, "truncated": False}
    assert response.reason is None


@rows("options, total", [({"total": 900}, 900), ({"has_more": True}, None), ({"total": 900, "has_more": True}, 900)])
def test_more_elsewhere(options: Any, total: int | None) -> None:
    """A service that has more than it gave: what it counted is told, and nothing is made up."""
    response = truncate_results(FOUND[:3], 5, **options)
    assert response.status == "partial"
    assert response.data == {"results": FOUND[:3], "total": total, "truncated": True}
    assert response.reason == "too many results, cut to 3"


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


@rows("bounds", [{"max_lines": 0}, {"max_bytes": 0}])
def test_no_room(bounds: Any) -> None:
    """A bound that leaves nothing is a mistake."""
    with pytest.raises(UsageError, match="at least 1"):
        truncate_output("x", **bounds)


def test_unknown_direction() -> None:
    """A direction that is not known is told of, and no text passes for a cut one."""
    middle: Any = "middle"
    with pytest.raises(UsageError, match="direction must be one of"):
        truncate_output(LINES, 3, direction=middle)


def test_no_results_wanted() -> None:
    """As is a limit of none."""
    with pytest.raises(UsageError, match="at least 1"):
        truncate_results(FOUND, 0)
