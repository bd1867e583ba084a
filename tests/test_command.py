"""The `eagerstream` command: it finds the commands of packages, and tells errors in one line."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import eagerstream
from eagerstream import APIError, __version__, _command
from eagerstream_wire import is_compiled
from tests.commands import InProcess, assert_one_line
from tests.tables import rows


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Sequence[str]], int]], None]:
    """Have one command installed, `echo`, and nothing else."""

    def install(command: Callable[[Sequence[str]], int]) -> None:
        entry = EntryPoint("echo", "tests.test_command:_echo", "eagerstream.commands")
        monkeypatch.setattr("importlib.metadata.entry_points", lambda *, group: [entry] if group else [])
        monkeypatch.setattr(EntryPoint, "load", lambda _: command)

    return install


def test_the_version(in_process: InProcess) -> None:
    """The command tells which version runs, and in which flavor; the changelog and the package's metadata agree."""
    done = in_process("--version")
    flavor = "compiled" if is_compiled() else "pure Python"
    assert (done.returncode, done.stdout) == (0, f"eagerstream {__version__} ({flavor})\n")
    assert importlib.metadata.version("eagerstream") == __version__
    changelog = (Path(__file__).parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[(.+)\]", changelog, re.MULTILINE)[0] == __version__


def test_what_follows_belongs_to_the_command(installed: Any, in_process: InProcess) -> None:
    """Options and `--` as well, and its exit code is the program's."""
    given: list[Sequence[str]] = []

    def echo(arguments: Sequence[str]) -> int:
        given.append(arguments)
        return 7

    installed(echo)
    assert in_process("echo", "--version", "-x", "--", "echo", "--help").returncode == 7
    assert given == [["--version", "-x", "--", "echo", "--help"]]


def test_the_help_names_all_commands(installed: Any, in_process: InProcess) -> None:
    """Those of other packages too, and for a package that is missing what installs it."""
    installed(lambda _: 0)
    for arguments in ([], ["--help"]):
        done = in_process(*arguments)
        assert done.returncode == 0
        assert re.search(r"^  echo     of another package$", done.stdout, re.MULTILINE)
        assert re.search(r"^  serve    .* \(pip install 'eagerstream\[testing\]'\)$", done.stdout, re.MULTILINE)


@rows("name, package", [(name, package) for name, (package, _) in _command._COMMANDS.items()])
def test_a_command_whose_package_is_missing(name: str, package: str, installed: Any, in_process: InProcess) -> None:
    """It says what to install."""
    installed(lambda _: 0)
    assert_one_line(in_process(name, "--help"), 2, f"pip install 'eagerstream[{package}]'")


def test_commands_are_those_of_the_packages() -> None:
    """The list in the core has each of them, with the package that it belongs to."""
    entries = importlib.metadata.entry_points(group="eagerstream.commands")
    known = {name: f"eagerstream_{package}" for name, (package, _) in _command._COMMANDS.items()}
    installed = {name: package for name, package in known.items() if find_spec(package)}
    assert {entry.name: entry.module.partition(".")[0] for entry in entries} == installed


@rows("arguments", [["dance"], ["--nonsense"], ["--nonsense", "echo"]])
def test_a_wrong_command_line(arguments: list[str], in_process: InProcess) -> None:
    """Usage, no traceback, and exit code 2."""
    done = in_process(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: eagerstream")


def test_errors_are_one_line(installed: Any, in_process: InProcess) -> None:
    """Without secrets, and what a server says of its error does nothing to the terminal."""
    error: BaseException = APIError("\x1b[2Jno\nway: sk-ant-abc\x07", request_id="\x1b]0;t\x07req_1")

    def fail(_: Sequence[str]) -> int:
        raise error

    installed(fail)
    done = in_process("echo")
    assert (done.returncode, done.stderr) == (1, "eagerstream: no way: [redacted] (request req_1)\n")
    error = BaseExceptionGroup("", [eagerstream.UsageError("it cannot be")])
    assert_one_line(in_process("echo"), 2, "it cannot be")
    error = OSError("the disk is full")
    assert_one_line(in_process("echo"), 1, "the disk is full")
    error = KeyboardInterrupt()
    assert (in_process("echo").returncode, in_process("echo").stderr) == (130, "")
    error = SystemExit(3)
    assert in_process("echo").returncode == 3


@pytest.mark.parametrize(
    "imported",
    [
        pytest.param("eagerstream.errors", marks=pytest.mark.slow),
        pytest.param("eagerstream_wire", marks=pytest.mark.slow),
        "typer",
    ],
)
def test_interrupted_while_it_imports(imported: str) -> None:
    """Ctrl-C in the first half second, which Python spends on imports, ends as at any other time: without a word."""
    code = f"""
import sys
class Interrupts:
    def find_spec(self, name, *_):
        if name == {imported!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
from eagerstream._command import main
sys.argv = ["eagerstream", "serve", "--script"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
