"""Settings for the whole suite."""

from __future__ import annotations

import functools
import gc
import os
import signal
import ssl
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from tests import missing, sampling

# Time limits per example would make slow machines fail; pytest-timeout guards against hangs. CI tries more examples. It
# gives the seed by `--hypothesis-seed`, so it has no use for examples that failed earlier.
_IN_CI = bool(os.environ.get("CI"))
settings.register_profile(
    "eagerstream",
    deadline=None,
    max_examples=100 if _IN_CI else 15,
    suppress_health_check=[HealthCheck.too_slow],
    database=None if _IN_CI else DirectoryBasedExampleDatabase(".hypothesis/examples"),
)
settings.load_profile("eagerstream")

# Shells start what they put in the background with Ctrl-C ignored, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Reading the system's certificates takes 25 ms for each client, and no test needs them.
ssl.create_default_context = functools.cache(ssl.create_default_context)  # type: ignore[assignment]


@pytest.fixture(scope="module", params=["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loop: asyncio with the quick tests, and trio with the slow ones, as all reach it through anyio."""
    return str(request.param)


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The `eagerstream` command, in this process: see `tests.commands`."""
    from tests.commands import InProcess

    return InProcess(monkeypatch, capsys)


def pytest_configure() -> None:
    missing.require_all_packages()


def pytest_report_header() -> str:
    return f"chosen by EAGERSTREAM_SEED={sampling.SEED}" + (
        f" EAGERSTREAM_PART={sampling.PART}" if sampling.PART else ""
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    # A million objects stay until the end. To look for cycles among them again and again takes a fifth of the time.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    sampling.choose(config, items)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    report: Any = yield
    missing.skip_if_missing(report, report.call.excinfo and report.call.excinfo.value)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    report = yield
    missing.skip_if_missing(report, call.excinfo and call.excinfo.value)
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for line in missing.skips(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(line)
