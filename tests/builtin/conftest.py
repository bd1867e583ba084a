"""What the tests of the builtin tools share: the event loops that they run on."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", params=["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """On trio they run among the slow tests: all of them reach the event loop through anyio."""
    return str(request.param)
