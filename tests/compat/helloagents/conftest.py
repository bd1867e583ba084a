"""What the tests of the tools of HelloAgents share: nothing is told yet."""

from __future__ import annotations

import pytest

from eagerstream.compat import deprecation


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is deprecated is told once a process: each test is as the first."""
    monkeypatch.setattr(deprecation, "_told", set())
