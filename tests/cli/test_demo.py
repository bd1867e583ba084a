"""The demo's own table; the rest of it is tried as users meet it, in `test_cli.py`."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from eagerstream.calls import RunStatus
from eagerstream.cli._demo.play import _table, play
from eagerstream.progress import CallView
from eagerstream.streaming import on_feed


def test_the_table_shows_markup_as_text() -> None:
    """The name of a tool is what the model wrote, too."""
    call = CallView(1, "toolu_1", "[red][link=http://evil]x\x1b[2J", "tool_use", 1, 0.5, input_stop_s=1.25)
    file = io.StringIO()
    Console(file=file, width=120).print(_table([call], [], simulated=True, width=120))
    assert "[red][link=http://evil]x " in file.getvalue()
    assert "1.25" in file.getvalue()
    assert "\x1b" not in file.getvalue()


def test_the_table_in_a_narrow_terminal() -> None:
    """What matters most of it, and that whole."""
    call = CallView(1, "toolu_1", "get_weather", "tool_use", 1, 0.5, first_item_s=0.75, input_stop_s=1.25)
    file = io.StringIO()
    Console(file=file, width=40).print(_table([call], [call], simulated=True, width=40))
    assert [line.split() for line in file.getvalue().splitlines() if "get_" in line] == [
        ["get_weather", side, "0.75", "1.25"] for side in ("eager", "buffered")
    ]


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_runs_that_are_compared_load_nothing() -> None:
    """An unseen run comes first: otherwise eager input could seem later than buffered input."""
    runs: list[Any] = []
    ended_before: list[int] = []

    def begins(run: Any) -> None:
        ended_before.append(sum(other.result.status is RunStatus.COMPLETED for other in runs))
        runs.append(run)

    file = io.StringIO()
    with on_feed(begins):
        await play(Console(file=file, width=120), live=False, model="", svg=None)
    assert ended_before == [0, 1, 1]
    assert file.getvalue().count("turn 1") == 1
