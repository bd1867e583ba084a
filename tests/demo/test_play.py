"""The demo's own table; the rest of it is tried as users meet it, in `test_cli.py`."""

from __future__ import annotations

import io

from rich.console import Console

from eagerstream.demo.play import _table
from eagerstream.progress.view import CallView


def test_the_table_shows_markup_as_text() -> None:
    """The name of a tool is what the model wrote, too."""
    call = CallView(1, "toolu_1", "[red][link=http://evil]x\x1b[2J", "tool_use", 1, 0.5, input_stop_s=1.25)
    file = io.StringIO()
    Console(file=file, width=120).print(_table([call], [], simulated=True))
    assert "[red][link=http://evil]x " in file.getvalue()
    assert "1.25" in file.getvalue()
    assert "\x1b" not in file.getvalue()
