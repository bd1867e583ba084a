"""Run the tests about transports with several versions of the anthropic package, and say what came of each."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
import venv
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from .requirements import EXTRAS, ROOT, dependencies, oldest_constraints, tools_for

_TESTS: Final = (
    "tests/transports",
    "tests/streaming/test_message_stream.py",  # each client, and every way in which its stream can end
    "tests/streaming/test_reading.py",
    "tests/streaming/test_deadline.py",
    "tests/test_nothing_leaks.py",  # the client's own log
    "packages/testing/tests/test_server.py",  # the client against the server that answers it in most other tests
    "packages/testing/tests/test_strict.py",
    "tests/loop/test_interruption.py",
    "tests/loop/test_cache_breakpoints.py",  # the client's own blocks in a history
    "tests/documents",  # the client's own stream helpers, in the programs of the API's documents
    "packages/compat/tests/anthropic_tools/test_automatic.py",  # the clients of older programs
    "packages/compat/tests/anthropic_tools/test_manual.py",
    "tests/tools/test_foreign.py",
    "packages/wire/tests/test_history.py",
    "tests/tools/test_official_tools.py",  # the package's own tools, from the version that brings each
    "tests/tools/test_response.py",
    "tests/tools/test_results.py",
)
_OLDEST_TESTS: Final = (  # what else the lower bounds are for
    *_TESTS[:-5],
    "tests/tools",
    "tests/test_command.py",
    "packages/testing/tests/test_serve_command.py",
)
_SHOWN_LINES: Final = 60  # of what failed
_PROBE: Final = """
import importlib.metadata, json, pathlib, anthropic, eagerstream
where = pathlib.Path(eagerstream.__file__)
assert "site-packages" in where.parts, where
modules = [base.__module__.partition(".")[0] for base in anthropic.DefaultAsyncHttpxClient.__mro__]
library = next(name for name in modules if name in ("httpx", "httpx2"))
print(json.dumps([anthropic.__version__, f"{library} {importlib.metadata.version(library)}"]))
"""


class Row(NamedTuple):
    """A version of the anthropic package, by the requirement that asks for it."""

    requested: str
    oldest: bool = False  # and the oldest declared versions of everything else


ROWS: Final = (Row("==0.78.*", oldest=True), Row("<1"), Row("==1.0.*"), Row("<2"), Row("<3"))
"""The declared minimum, the last before httpx2, the first with it, the last 1.x, the newest."""


@dataclass
class Outcome:
    """What came of a row; `failure` is empty where all is well."""

    row: Row
    installed: str = "-"
    library: str = "-"
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    failure: str = ""


class _StepError(Exception):
    """A step did not succeed; the text ends with what it printed."""


def main() -> int:
    """See `--help`."""
    known = {row.requested: row for row in ROWS}
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=__doc__)
    parser.add_argument("requested", nargs="*", help=f"versions of anthropic; by default {' '.join(known)}")
    parser.add_argument("--count", type=int, metavar="N", help="only N of them, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0, help="for --count; the same versions again")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "compat", help="for environments and logs")
    options = parser.parse_args()
    rows = [known.get(requested, Row(requested)) for requested in options.requested] or list(ROWS)
    if options.count is not None:
        rows = random.Random(options.seed).sample(rows, min(options.count, len(rows)))
    if gone := [test for test in {*_TESTS, *_OLDEST_TESTS} if not (ROOT / test).exists()]:
        parser.error(f"{', '.join(gone)}: these tests are not where this file says")
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        wheels = _build_wheels(options.folder / "wheels")
    except _StepError as error:
        print(error)
        return 1
    start = time.monotonic()
    outcomes = [_run(row, options.folder, wheels) for row in rows]
    print(f"\n{table(outcomes)}\n{len(outcomes)} versions in {time.monotonic() - start:.0f} s")
    for outcome in outcomes:
        if outcome.failure:
            print(f"\nanthropic{outcome.row.requested} failed:\n\n{outcome.failure}")
    return 1 if any(outcome.failure for outcome in outcomes) else 0


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes, a line each."""
    lines: list[tuple[str, ...]] = [
        ("requested", "installed", "made on", "others", "passed", "failed", "skipped", "seconds")
    ]
    for outcome in outcomes:
        others = "oldest" if outcome.row.oldest else "newest"
        numbers = (outcome.passed, outcome.failed, outcome.skipped, round(outcome.seconds))
        told = (outcome.row.requested, outcome.installed, outcome.library, others)
        lines.append((*told, *(f"{number:,}" for number in numbers)))
    return "\n".join("{:<11}{:<11}{:<15}{:<8}{:>8}{:>8}{:>9}{:>9}".format(*line) for line in lines)


def _run(row: Row, folder: Path, wheels: Path) -> Outcome:
    """One row; what fails is in the outcome, and the other rows go on."""
    outcome = Outcome(row)
    start = time.monotonic()
    try:
        version = _resolve(row.requested)
        environment = folder / (f"{version}-oldest" if row.oldest else version)
        python = _environment(row, version, environment, wheels)
        outcome.installed, outcome.library = json.loads(_output(str(python), "-c", _PROBE))
        _say(row, f"{outcome.installed} on {outcome.library}")
        _test(outcome, python, environment)
    except _StepError as error:
        outcome.failure = str(error)
    outcome.seconds = time.monotonic() - start
    _say(row, f"{'FAILED' if outcome.failure else 'passed'} in {outcome.seconds:.0f} s")
    return outcome


def _build_wheels(folder: Path) -> Path:
    """The packages as users get them."""
    shutil.rmtree(folder, ignore_errors=True)
    packages = (ROOT, *(file.parent for file in sorted(ROOT.glob("packages/*/pyproject.toml"))))
    _pip("wheel", "--no-deps", "--wheel-dir", str(folder), *map(str, packages))
    return folder


def _resolve(requested: str) -> str:
    """The newest version that fits, as pip sees it: "the last 1.x" is another one tomorrow."""
    options = ["--dry-run", "--quiet", "--no-deps", "--ignore-installed", "--report", "-"]
    report = json.loads(_pip("install", *options, f"anthropic{requested}"))
    version: str = report["install"][0]["metadata"]["version"]
    return version


def _environment(row: Row, version: str, folder: Path, wheels: Path) -> Path:
    """The interpreter of an environment with the wheels in it; all but these stays from the last time where it fits."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    into = ("--python", str(python), "install", "--no-compile")
    constraints = [f"anthropic=={version}", *(oldest_constraints() if row.oldest else [])]
    tools = tools_for(oldest=row.oldest)
    wanted = json.dumps([sys.version, dependencies(), constraints, tools])
    ready = folder / "ready.json"
    if ready.is_file() and ready.read_text() == wanted and python.exists():
        _pip(*into, "--no-deps", "--force-reinstall", *map(str, wheels.glob("*.whl")))
        return python
    _say(row, f"{version} gets an environment")
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    listed = folder / "constraints.txt"
    listed.write_text("\n".join(constraints))
    _pip(*into, "--constraint", str(listed), "--find-links", str(wheels), f"eagerstream[{','.join(EXTRAS)}]", *tools)
    ready.write_text(wanted)
    return python


def _test(outcome: Outcome, python: Path, folder: Path) -> None:
    report, log = folder / "report.xml", folder / "log.txt"
    report.unlink(missing_ok=True)
    tests = _OLDEST_TESTS if outcome.row.oldest else _TESTS
    options = ["-q", "--tb=short", "-p", "no:cacheprovider", f"--junit-xml={report}"]
    with log.open("wb") as file:
        command = [str(python), "-m", "pytest", *options, *tests]
        done = subprocess.run(command, check=False, cwd=ROOT, env=_environ(), stdout=file, stderr=subprocess.STDOUT)
    if report.is_file():
        suite = next(ET.parse(report).iter("testsuite")).attrib
        outcome.failed = int(suite["failures"]) + int(suite["errors"])
        outcome.skipped = int(suite["skipped"])
        outcome.passed = int(suite["tests"]) - outcome.failed - outcome.skipped
    if done.returncode:
        ending = "\n".join(log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:])
        raise _StepError(f"{ending}\n\npytest ended with {done.returncode}; all that it said is in {log}")


def _pip(*arguments: str) -> str:
    return _output(sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments)


def _output(*command: str) -> str:
    done = subprocess.run(command, check=False, cwd=ROOT, env=_environ(), capture_output=True, text=True)
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-_SHOWN_LINES:])
        raise _StepError(f"{' '.join(command[:6])} ... ended with {done.returncode}:\n{said}")
    return done.stdout


def _environ() -> dict[str, str]:
    # With PYTHONPATH the checkout would be tested in place of the wheel.
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _say(row: Row, what: str) -> None:
    print(f"anthropic{row.requested}: {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
