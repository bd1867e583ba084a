"""What the tests of anthropic-tools share: one server for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.loop.serial import Serial


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
