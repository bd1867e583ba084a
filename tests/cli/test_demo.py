"""The demo's own table; the rest of it is tried as users meet it, in `test_cli.py`."""

from __future__ import annotations

import io

from rich.console import Console

from eagerstream.cli._demo.play import _table
from eagerstream.progress import CallView


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
