"""The small picture of a run's calls."""

from __future__ import annotations

from eagerstream.loop._latency_picture import CallTimes, time_line


def test_a_time_line_is_bounded_and_escaped() -> None:
    """A model may make many calls, and names them as it likes."""
    call = CallTimes("<b>", start_s=0.0, stop_s=None, tool_start_s=None, tool_end_s=None)
    picture = time_line([call] * 1000, 2.0)
    assert picture.count("<rect") == 40
    assert "&lt;b&gt;" in picture
    assert "<b>" not in picture
