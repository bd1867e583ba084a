"""Tests that lack packages or recordings: they are skipped, and one line at the end of the run says what is missing.

`make test` does not install packages of more than 50 MB that only a few tests need. CI sets EAGERSTREAM_ALL_PACKAGES,
with which a missing package fails the run.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pytest

_PACKAGES: Final = ("testing", "progress", "lab", "toolkit", "durable", "adapters", "compat")
"""Those of this repository that the tests of one package may do without."""

_OPTIONAL: Final = (
    *(f"eagerstream_{name}" for name in _PACKAGES),
    "PIL",
    "claude_agent_sdk",
    "dbos",
    "duckdb",
    "furo",
    "langchain_openai",
    "litellm",
    "matplotlib",
    "msgspec",
    "myst_parser",
    "nbclient",
    "numpy",
    "psycopg",
    "ray",
    "selenium",
    "sphinx",
    "temporalio",
)
"""What only the dependency group `all` installs, and the other packages of this repository."""

_ABSENT: Final = frozenset(name for name in _OPTIONAL if importlib.util.find_spec(name) is None)
_REASON: Final = "not installed: "

NO_RECORDINGS: Final = "no recordings of real responses"
"""The reason of every skip of a test that needs them; `skips` finds these tests by it."""


def require_all_packages() -> None:
    """End the run if a package is missing and the environment does not allow that.

    Raises:
        pytest.UsageError: EAGERSTREAM_ALL_PACKAGES is set, and a package is missing.
    """
    if _ABSENT and os.environ.get("EAGERSTREAM_ALL_PACKAGES"):
        raise pytest.UsageError(f"{_REASON}{', '.join(sorted(_ABSENT))}")


def skip_if_missing(report: Any, error: BaseException | None) -> None:
    """Turn the report of a test or of a test file into a skip if the reason of its failure is an absent package."""
    package = _absent_package(error)
    if package is not None:
        report.outcome = "skipped"
        report.longrepr = (str(report.fspath), 0, f"{_REASON}{package}")


def _absent_package(error: BaseException | None) -> str | None:
    """Return the absent package that is the reason of a failure; of a group, such as a table raises, if all have one."""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            packages = [_absent_package(member) for member in error.exceptions]
            return packages[0] if all(packages) else None
        # By its name: in an environment for one package alone, there may be no module to import it from.
        lacks_extra = type(error).__name__ == "MissingExtraError"
        package = str(getattr(error, "module" if lacks_extra else "name", None)).partition(".")[0]
        if (lacks_extra or isinstance(error, ModuleNotFoundError)) and package in _ABSENT:
            return package
        error = error.__cause__ or error.__context__
    return None


def skips(skipped: list[Any]) -> Iterator[str]:
    """Yield a line about the skipped tests that lack packages, and one about those that lack recordings."""
    reasons = {report.nodeid: report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)}
    if lacking := {nodeid: reason.partition(_REASON)[2] for nodeid, reason in reasons.items() if _REASON in reason}:
        names = ", ".join(sorted(set(lacking.values())))
        yield f"Not installed, so {_files(lacking)} were skipped: {names}. `make test-all` installs all packages."
    if unrecorded := [nodeid for nodeid, reason in reasons.items() if NO_RECORDINGS in reason]:
        files = _files(unrecorded)
        yield f"No recordings of real responses, so {files} were skipped: set EAGERSTREAM_RECORDINGS to their folder."


def _files(nodeids: Iterable[str]) -> str:
    files = len({nodeid.partition("::")[0] for nodeid in nodeids})
    return f"tests in {files} {'file' if files == 1 else 'files'}"


def anthropic_since(version: str) -> pytest.MarkDecorator:
    """Leaves out a test of what the anthropic package has only since `version`, where an older one is installed."""
    installed = importlib.metadata.version("anthropic")
    older = [int(number) for number in installed.split(".")[:2]] < [int(number) for number in version.split(".")]
    return pytest.mark.skipif(
        older, reason=f"the anthropic package has it since {version}, and {installed} is installed"
    )
