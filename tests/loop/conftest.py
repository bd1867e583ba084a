"""What the tests of this folder share: one server for all of them."""

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
