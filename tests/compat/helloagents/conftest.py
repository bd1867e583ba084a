"""What the tests of the tools of HelloAgents share: the event loops that they run on, and nothing told yet."""

from __future__ import annotations

import pytest

from eagerstream.compat import deprecation


@pytest.fixture(scope="module", params=["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """On trio they run among the slow tests: all of them reach the event loop through anyio."""
    return str(request.param)


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is deprecated is told once a process: each test is as the first."""
    monkeypatch.setattr(deprecation, "_told", set())
