"""`eagerstream demo`: as its users meet it, and its table."""

from __future__ import annotations

import io
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.commands import ENVIRONMENT, assert_one_line, eagerstream, shown_code, started

from eagerstream.calls import RunStatus
from eagerstream.streaming import on_feed
from eagerstream_progress import CallView
from eagerstream_progress._demo.play import _table, play


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


@pytest.mark.slow
def test_live_with_an_api_that_cannot_be_reached() -> None:
    """A run that fails is no traceback either, and is told from a wrong command by its exit code."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    unreachable = f"http://127.0.0.1:{port}"
    done = eagerstream("demo", "--live", ANTHROPIC_API_KEY="k", ANTHROPIC_BASE_URL=unreachable)
    assert_one_line(done, 1, "could not be reached")


@pytest.mark.slow
def test_the_demo_in_a_pipe(tmp_path: Path) -> None:
    """Without a terminal the main job is told in plain lines, in the order in which it happens, and a table."""
    svg = tmp_path / "demo.svg"
    done = eagerstream("demo", "--svg", str(svg), COLUMNS="120")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()

    def line_of(*words: str) -> int:
        return next(number for number, line in enumerate(lines) if all(word in line for word in words))

    written = line_of("make_file", "✓ lines_of_text")
    for quick in ("get_weather", "get_tide"):
        assert line_of(quick, "running") < line_of(quick, "done") < written
    assert line_of("make_file", "✓ filename") < line_of("make_file", "running") < written < line_of("2 turns")
    assert "simulated" in done.stdout

    table = [line.split("│")[1:-1] for line in lines if "│ eager" in line or "│ buffered" in line]
    rows = {(name.strip(), side.strip()): [cell.strip() for cell in cells] for name, side, *cells in table}
    assert len(rows) == 6
    first_item = 1
    assert float(rows["make_file", "eager"][first_item]) < float(rows["make_file", "buffered"][first_item])

    picture = svg.read_text()
    assert picture.startswith("<svg")
    assert "lines_of_text" in picture
    assert "make_file" in picture
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.slow
def test_the_demo_into_a_pipe_that_closes() -> None:
    """`eagerstream demo | head -1` ends without a word."""
    with started("demo") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=60) == 1
        assert process.stderr.read() == ""


@pytest.mark.slow
def test_the_demo_interrupted() -> None:
    """Ctrl-C in the middle closes servers and connections, and is no traceback.

    Its output knows ASCII only: there are question marks instead of ticks, and no traceback either.
    """
    with started("demo", env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"}) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while "? filename" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert shown_code(process.wait(timeout=60)) == 130
        assert process.stderr.read() == ""
