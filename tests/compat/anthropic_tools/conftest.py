"""What the tests of anthropic-tools share: the event loops that they run on, and one server for all of them."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator

import pytest

from tests.run.serial import Serial

with warnings.catch_warnings():  # told once, when it is first imported: here, and by a test in a process of its own
    warnings.simplefilter("ignore", DeprecationWarning)
    importlib.import_module("eagerstream.compat.anthropic_tools")


@pytest.fixture(scope="module", params=["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """On trio they run among the slow tests: all of them reach the event loop through anyio."""
    return str(request.param)


@pytest.fixture(scope="package")
def serial() -> Iterator[Serial]:
    """A server that answers one conversation after the other; starting one takes longer than a test."""
    server = Serial()
    with server.server:
        yield server


@pytest.fixture
def environment(serial: Serial, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a client without arguments finds the server."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", serial.server.base_url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "simulated")
    monkeypatch.delenv("ANTHROPIC_MODEL", raising=False)
