"""Settings for the whole suite."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# Time limits per example would make slow machines fail; pytest-timeout guards against hangs. In CI there are more
# examples, the same on every run, so that a red build is about the change that it builds.
settings.register_profile(
    "eagerstream",
    deadline=None,
    max_examples=100 if os.environ.get("CI") else 25,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("eagerstream")

# Shells start what they put in the background with Ctrl-C ignored, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module", params=["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loop: asyncio with the quick tests, and trio with the slow ones, as all reach it through anyio."""
    return str(request.param)
