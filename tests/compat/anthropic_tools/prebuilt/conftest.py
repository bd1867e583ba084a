"""What the tests of the prebuilt tools share: the event loops that they run on."""

from __future__ import annotations

import importlib
import warnings

import pytest

with warnings.catch_warnings():  # it says that it is deprecated when it is first imported
    warnings.simplefilter("ignore", DeprecationWarning)
    importlib.import_module("eagerstream.compat.anthropic_tools")


@pytest.fixture(scope="module", params=["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """On trio they run among the slow tests: all of them reach the event loop through anyio."""
    return str(request.param)
