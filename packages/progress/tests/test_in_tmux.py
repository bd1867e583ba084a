"""Runs in a real terminal: `terminal_program.py` in tmux, at several sizes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len
from tests.source_tree import ROOT

TMUX = shutil.which("tmux")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(TMUX is None and not os.environ.get("CI"), reason="tmux is not installed"),
]


class Tmux:
    """A terminal of some size with a program in it, on a server of its own."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "tmux"
        self.width, self.height = 0, 0

    def _tmux(self, *arguments: str) -> str:
        assert TMUX is not None, "these tests need tmux"
        command = [TMUX, "-S", str(self._socket), "-f", "/dev/null", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20, env=ENVIRONMENT)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *arguments: str, width: int, height: int) -> None:
        """Start the program; when it ends, the terminal says so and stays."""
        self.width, self.height = width, height
        program = shlex.join([sys.executable, "-m", "packages.progress.tests.terminal_program", *arguments])
        size = ("-x", str(width), "-y", str(height))
        shell = f"trap : INT; cd {shlex.quote(str(ROOT))}; echo before; {program}; echo ended; exec sleep 60"
        self._tmux("new-session", "-d", *size, "sh", "-c", shell)

    def screen(self) -> list[str]:
        """The rows that can be seen, without the empty ones at the end."""
        return self._tmux("capture-pane", "-p").rstrip("\n").split("\n")

    def history(self) -> list[str]:
        """All rows, also those that went out at the top."""
        return self._tmux("capture-pane", "-p", "-S", "-").rstrip("\n").split("\n")

    def has_cursor(self) -> bool:
        """The cursor can be seen."""
        return self._tmux("display-message", "-p", "#{cursor_flag}").strip() == "1"

    def title(self) -> str:
        """What a program can set, and ours does not."""
        return self._tmux("display-message", "-p", "#{pane_title}").strip()

    def resize(self, width: int, height: int) -> None:
        """As a person does with the mouse."""
        self.width, self.height = width, height
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self._tmux("send-keys", "C-c")

    def wait(self, condition: Callable[[list[str]], bool]) -> list[str]:
        """The screen, once the condition holds for it."""
        deadline_s = time.monotonic() + 20
        while not condition(screen := self.screen()):
            assert time.monotonic() < deadline_s, "\n".join(screen)
            time.sleep(0.05)
        return screen

    def close(self) -> None:
        """End everything in it."""
        self._tmux("kill-server")


ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "TMUX", "TERM")
} | {
    "LC_ALL": "C.UTF-8",
    "TERM": "xterm-256color",
    "PYTHONPATH": os.pathsep.join(sys.path),
}


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    terminal = Tmux(tmp_path)
    yield terminal
    terminal.close()


def is_one_frame(tmux: Tmux, screen: list[str]) -> bool:
    """The program waits in the middle of its second input: all of it so far is drawn, within the size, and no more."""
    frame = [row for row in screen if row != "before"]
    text = "\n".join(frame)
    return (
        len(screen) <= tmux.height
        and all(cell_len(row) <= tmux.width for row in frame)
        and len(re.findall("^running ·", text, re.MULTILINE)) == 1
        and [cell_len(row) for row in frame if row.startswith(("╭", "╰"))] == [tmux.width, tmux.width]
        and ("never f▌" in text or (tmux.height < 8 and "│ … lines_of" in text))
        and text.count("get_weather") == text.count("make_file") == 1
        and text.count("見てみます") <= 1
        and not any(stolen in text for stolen in ("stolen", "[2J", "31m", "\x1b", "\x07"))
    )


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 12), (20, 5)])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_call_that_is_being_written_and_ctrl_c(width: int, height: int, backend: str, tmux: Tmux) -> None:
    """Wide characters stay in their cells, control characters do nothing, and Ctrl-C gives the cursor back."""
    tmux.start("held", backend, width=width, height=height)
    screen = tmux.wait(lambda screen: is_one_frame(tmux, screen))
    assert not tmux.has_cursor()
    assert tmux.title() != "stolen"
    if height > 5:
        assert any("東京の港は時を守る" in row for row in screen)
        assert any("[red]x[/red]" in row for row in screen)
        plain = next(row for row in screen if "東京の港" in row)
        assert (cell_len(plain), plain[-1]) == (width, "│")
    tmux.interrupt()
    screen = tmux.wait(lambda screen: "ended" in screen)
    assert screen[-2:] == ["interrupted", "ended"]
    assert tmux.has_cursor()
    text = "\n".join(screen)
    assert re.search(r"^✗ make_file +c", text, re.MULTILINE)
    assert re.search("^cancelled · ", text, re.MULTILINE)
    assert "running ·" not in text


def test_it_is_resized_in_the_middle(tmux: Tmux) -> None:
    """Whatever a terminal makes of what was drawn when it becomes narrower, lower, wider or higher: one frame is seen."""
    tmux.start("held", width=80, height=24)
    tmux.wait(lambda screen: is_one_frame(tmux, screen))
    for width, height in [(40, 12), (100, 30), (50, 20), (20, 5), (80, 24), (30, 24), (80, 6), (80, 24)]:
        tmux.resize(width, height)
        tmux.wait(lambda screen: is_one_frame(tmux, screen))


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 12)])
def test_a_run_to_its_end(width: int, height: int, tmux: Tmux) -> None:
    """What stays is a line for each call; what the program printed stands above, what comes next below."""
    tmux.start(width=width, height=height)
    tmux.wait(lambda screen: "ended" in screen)
    screen = tmux.history()
    assert screen[:2] == ["before", "printed for 詩.txt"]
    assert [row.split(" ")[0] for row in screen[2:]] == ["I'll", "✓", "✓", "I'll", "completed", "ended"]
    assert all(cell_len(row) <= width for row in screen)
    assert tmux.has_cursor()
