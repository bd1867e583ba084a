"""mypy and basedpyright find every mistake of a list, and none in correct programs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent, indent

import pytest

import eagerstream
from tests.types.programs import CORRECT, HEAD, MISTAKES

pytestmark = pytest.mark.slow

SOURCE = str(Path(eagerstream.__file__).parents[1])

CHECKERS = ("mypy", "basedpyright")


@pytest.fixture(scope="module", params=CHECKERS)
def faulty(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The errors of a checker, by the name of the program."""
    programs = CORRECT | MISTAKES
    text, ends = HEAD, {}
    for number, (name, body) in enumerate(programs.items()):
        text += f"\n\nasync def program_{number}() -> None:\n{indent(dedent(body).strip(), '    ')}\n"
        ends[name] = text.count("\n")
    path = tmp_path_factory.mktemp(request.param) / "program.py"
    path.write_text(text, encoding="utf-8")
    found: dict[str, list[str]] = {name: [] for name in programs}
    for line, message in _errors(request.param, path):
        name = next((name for name, end in ends.items() if HEAD.count("\n") < line <= end), "")
        assert name, f"an error in the head: {message}"
        found[name].append(message)
    return found


def _errors(checker: str, path: Path) -> list[tuple[int, str]]:
    if checker == "mypy":
        command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary", path.name]
        done = subprocess.run(
            command,
            cwd=path.parent,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env={**os.environ, "MYPYPATH": SOURCE},
        )
        assert not done.stderr, done.stderr
        return [
            (int(line), text)
            for line, text in re.findall(r"^program\.py:(\d+): error: (.*)$", done.stdout, re.MULTILINE)
        ]
    settings = path.with_name("pyrightconfig.json")
    settings.write_text(json.dumps({"typeCheckingMode": "standard", "pythonVersion": "3.11", "extraPaths": [SOURCE]}))
    python = Path(sys.executable)
    command = [str(python.with_name(checker)), "--pythonpath", str(python), "--outputjson", "--project", str(settings)]
    done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, check=False, timeout=300)
    diagnostics = json.loads(done.stdout)["generalDiagnostics"]
    return [
        (each["range"]["start"]["line"] + 1, each["message"]) for each in diagnostics if each["severity"] == "error"
    ]


def test_correct_programs(faulty: dict[str, list[str]]) -> None:
    """A correct use is never an error."""
    assert {name: faulty[name] for name in CORRECT if faulty[name]} == {}


def test_mistakes(faulty: dict[str, list[str]]) -> None:
    """Each mistake is an error before the program runs."""
    assert [name for name in MISTAKES if not faulty[name]] == []
    assert len(MISTAKES) >= 20
