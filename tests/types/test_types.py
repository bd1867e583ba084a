"""mypy, basedpyright and pyright find every mistake of a list, and none in correct programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import dedent, indent

import pytest

import eagerstream
from tests.docs.programs import PAGES, ROOT, programs
from tests.types.programs import CORRECT, HEAD, MISTAKES

pytestmark = pytest.mark.slow

SOURCE = str(Path(eagerstream.__file__).parents[1])

CHECKERS = ("mypy", "basedpyright", "pyright")

_WITHOUT_TYPES = {
    "anthropic-runner": "takes the text of whichever block comes first",
    "langgraph": "LangChain does not declare the short names of its parameters",
    "quickstart-notebook": "awaits outside of functions",
}
"""Programs of pages that are not correct for type checkers, and the reason."""
_SAVED_AS = {"testing-agent": "agent.py"}
"""Programs that others of their page import."""


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
    # With the rules that see a run which nobody enters. That of pyright is about all calls.
    rules = {"reportUnusedCallResult": "error"}
    for _, line, message in _mypy(path) if request.param == "mypy" else _pyright(request.param, path.parent, **rules):
        if message.startswith("Result of call expression") and "Run[" not in message:
            continue
        name = next((name for name, end in ends.items() if HEAD.count("\n") < line <= end), "")
        assert name, f"an error in the head: {message}"
        found[name].append(message)
    return found


def _mypy(path: Path) -> list[tuple[str, int, str]]:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary"]
    command += ["--enable-error-code", "unused-awaitable", path.name]
    done = _run(command, path.parent, {**os.environ, "MYPYPATH": SOURCE})
    assert not done.stderr, done.stderr
    found = re.findall(r"^(program\.py):(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    return [(file, int(line), text) for file, line, text in found]


def _pyright(checker: str, folder: Path, **rules: str) -> list[tuple[str, int, str]]:
    """The errors in the files of a folder. Both checkers use the rules that pyright has without settings, and these."""
    settings = {"typeCheckingMode": "standard", "pythonVersion": "3.11", "extraPaths": [SOURCE], **rules}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    python = Path(sys.executable)
    command = [str(python.with_name(checker)), "--pythonpath", str(python), "--outputjson", "--project", str(folder)]
    return [
        (Path(each["file"]).stem, each["range"]["start"]["line"] + 1, each["message"])
        for each in json.loads(_run(command, folder, os.environ).stdout)["generalDiagnostics"]
        if each["severity"] == "error"
    ]


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_correct_programs(faulty: dict[str, list[str]]) -> None:
    """A correct use is never an error."""
    assert {name: faulty[name] for name in CORRECT if faulty[name]} == {}


def test_mistakes(faulty: dict[str, list[str]]) -> None:
    """Each mistake is an error before the program runs."""
    assert [name for name in MISTAKES if not faulty[name]] == []
    assert len(MISTAKES) >= 20


@pytest.mark.parametrize("checker", ["pyright", pytest.param("basedpyright", marks=pytest.mark.nightly)])
def test_pages_and_examples(checker: str, tmp_path: Path) -> None:
    """Whoever copies a program gets no error from an editor. The two checkers share nearly all of their code."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for page in (ROOT / "README.md", *PAGES):
        for number, program in enumerate(programs(page)):
            if program.name and program.name not in _WITHOUT_TYPES:
                name = _SAVED_AS.get(program.name, f"{page.stem}_{number}_{program.name}.py")
                (tmp_path / name).write_text(program.code, encoding="utf-8")
    assert _pyright(checker, tmp_path) == []
