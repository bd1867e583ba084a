"""The `eagerstream` command as its users meet it: a process, its output, its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from eagerstream._command import main

COMMAND = [sys.executable, "-m", "eagerstream"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC_")}


def eagerstream(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env={**ENVIRONMENT, **environment},
    )


def started(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Return the command under way."""
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENVIRONMENT, **options}
    return subprocess.Popen([*COMMAND, *arguments], text=True, **given)


def shown_code(code: int) -> int:
    """Return the exit code of a process as a shell shows it: 130 for one that ended by Ctrl-C, however it ended.

    CPython remembers that Ctrl-C came while `exec()` ran a text, as the definition of a dataclass does. If that was the
    last text, the process ends by the signal, although the program has handled Ctrl-C and ends with an exit code
    (`unhandled_keyboard_interrupt` in its `pythonrun.c`).
    """
    return 128 - code if code < 0 else code


def assert_one_line(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("eagerstream: ")
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


@dataclass(frozen=True)
class InProcess:
    """Runs the command in this process, which saves the start of another one."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
            self.monkeypatch.delenv(name)
        self.monkeypatch.setattr(sys, "argv", ["eagerstream", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        return subprocess.CompletedProcess([*arguments], ended.value.code, *self.capsys.readouterr())
