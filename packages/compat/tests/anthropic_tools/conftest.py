"""What the tests of anthropic-tools share."""

from __future__ import annotations

import pytest
from tests.loop.serial import Serial


@pytest.fixture
def environment(serial: Serial, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a client without arguments finds the server."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", serial.server.base_url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "simulated")
    monkeypatch.delenv("ANTHROPIC_MODEL", raising=False)
