"""CPU seconds of the quick tests by folder, and whether they keep within `budget.toml`.

    python -m tests.budget            run the quick tests, twice if a folder exceeds its budget, and fail if both times
    python -m tests.budget --update   write the seconds of this run into budget.toml

CPU seconds, of a worker and its children, change little with what else the machine does: what shares the cores costs up
to a third more, so CI runs this alone. They do change from machine to machine, so all are given as on the machine on
which the reference program takes `REFERENCE_S`.

As a plugin of pytest, `-p tests.budget`, it measures a run and writes `build/ci/cpu.json`.
"""

from __future__ import annotations

import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

_ROOT: Final = Path(__file__).resolve().parents[1]
BUDGET: Final = Path(__file__).with_name("budget.toml")
MEASURED: Final = _ROOT / "build" / "ci" / "cpu.json"
ALLOWED: Final = 1.1
"""A folder may take so many times its budget."""

ROOM: Final = 1.15
"""A budget is so many times what was measured: that much may differ from machine to machine, and from seed to seed."""

COLD_ROOM: Final = 3.2
"""The same for collection: in a clean clone, nearly every module that it imports has to be compiled."""

SLACK_S: Final = 0.5
"""And so much more: a package that several folders import is paid for by the first one."""

REFERENCE_S: Final = 0.0025
"""CPU seconds of `_reference` on the machine whose seconds the budget counts."""

COLLECTION: Final = "collection"
"""The row of what each worker takes to find the tests."""


def excess(measured: Mapping[str, float], budget: Mapping[str, float]) -> dict[str, str]:
    """Return the folders that take more than they may, each with both figures.

    A folder without a budget exceeds it, and so does a budget without a folder: both are rows to correct.
    """
    found = {}
    for folder in sorted(measured.keys() | budget.keys()):
        if folder not in budget:
            found[folder] = f"{measured[folder]:.1f} s, without a budget"
        elif folder not in measured:
            found[folder] = "has a budget, but no tests"
        elif measured[folder] > budget[folder] * ALLOWED + SLACK_S:
            found[folder] = f"{measured[folder]:.1f} s; its budget is {budget[folder]:.1f} s"
    return found


def load(path: Path = BUDGET) -> dict[str, float]:
    """Return the budget of each folder.

    Raises:
        ValueError: The budgets of the folders exceed the one of all.
    """
    content = tomllib.loads(path.read_text())
    folders: dict[str, float] = content["seconds"]
    if (total := sum(folders.values())) > content["all"]:
        raise ValueError(f"the folders may take {total:.1f} s together, and all of them {content['all']} s")
    return folders


def _reference() -> float:
    """Return the CPU seconds of a program of the kind that the tests are: dicts, strings and calls."""
    start = time.process_time()
    for number in range(400):
        value = {"key": [str(number)] * 3, "other": {"n": number}}
        assert json.loads(json.dumps(value)) == value
        assert min(range(40), key=lambda at: -at) == 39
    return time.process_time() - start


def _cpu_s() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


class _Measuring:
    """Of one worker, or of a run without workers. The controller of workers adds up what they hand over."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._references: list[float] = []
        self._workers: list[dict[str, Any]] = []
        self._count = 0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        start_s = _cpu_s()
        try:
            return (yield)
        finally:
            self._seconds[COLLECTION] += _cpu_s() - start_s

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        if self._count % 100 == 0:
            self._references.append(_reference())
        self._count += 1
        start_s = _cpu_s()
        try:
            return (yield)
        finally:
            folders = Path(item.nodeid.partition("::")[0]).parts[1:-1]
            self._seconds[folders[0] if folders else "top"] += _cpu_s() - start_s

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._workers.append(getattr(node, "workeroutput", {}).get("cpu", {}))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        mine = {"seconds": dict(self._seconds), "references": self._references}
        if (output := getattr(self._config, "workeroutput", None)) is not None:
            output["cpu"] = mine
            return
        runs = [run for run in self._workers if run] or [mine]
        references = [each for run in runs for each in run["references"]]
        scale = REFERENCE_S / statistics.median(references) if references else 1.0
        total: defaultdict[str, float] = defaultdict(float)
        for run in runs:
            for folder, seconds in run["seconds"].items():
                total[folder] += seconds * scale
        total[COLLECTION] /= len(runs)
        MEASURED.parent.mkdir(parents=True, exist_ok=True)
        MEASURED.write_text(json.dumps({"scale": scale, "seconds": total}))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Measuring(config))


def _measure() -> tuple[int, dict[str, float]]:
    """Run the quick tests as `make test` does; return pytest's exit code and the seconds of each folder."""
    MEASURED.unlink(missing_ok=True)
    command = [
        "-m",
        "pytest",
        "-p",
        "tests.budget",
        "--numprocesses",
        "auto",
        "--maxprocesses",
        "4",
        "--dist",
        "worksteal",
    ]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["CI"] = "1"  # property tests try as many examples as in CI, wherever this runs
    code = subprocess.run([sys.executable, *command], cwd=_ROOT, env=environment, check=False).returncode
    measured: dict[str, float] = json.loads(MEASURED.read_text())["seconds"] if MEASURED.exists() else {}
    return code, measured


def _update(measured: Mapping[str, float]) -> None:
    lines = BUDGET.read_text().splitlines()
    lines = lines[: lines.index("[seconds]") + 1]
    for folder, seconds in sorted(measured.items()):
        room = COLD_ROOM if folder == COLLECTION else ROOM
        lines.append(f"{folder} = {math.ceil(seconds * room * 2) / 2}")
    BUDGET.write_text("\n".join(lines) + "\n")


def main() -> int:
    """Measure, compare, and measure again if a folder exceeds its budget."""
    budget = load()
    code, measured = _measure()
    if code or not measured:
        return code or 1
    if "--update" in sys.argv[1:]:
        _update(measured)
        load()
        return 0
    over = excess(measured, budget)
    if over:
        print("more than the budget, so measured again:", over, flush=True)
        code, measured = _measure()
        over = {folder: text for folder, text in excess(measured, budget).items() if folder in over}
    for folder, seconds in sorted(measured.items(), key=lambda each: -each[1]):
        print(f"{folder:16} {seconds:7.2f} s of {budget.get(folder, 0):6.1f}")
    print(f"{'all':16} {sum(measured.values()):7.2f} s of {sum(budget.values()):6.1f}")
    for folder, text in over.items():
        print(
            f"tests/{folder}: {text}. Make its tests cheaper, or take the seconds from another folder in {BUDGET.name}."
        )
    return code or bool(over)


if __name__ == "__main__":
    sys.exit(main())
