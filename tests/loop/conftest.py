"""What the tests of this folder share: one server for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.loop.serial import Serial


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that goes on after its message is given up soon: for tests in which it does."""
    monkeypatch.setattr("eagerstream.streaming._deadline._GRACE_S", 0.01)


@pytest.fixture(scope="package")
def serial() -> Iterator[Serial]:
    """A server that answers one conversation after the other; starting one takes longer than a test."""
    server = Serial()
    with server.server:
        yield server
