"""What the tests of this folder share."""

from __future__ import annotations

import importlib
from typing import Any

import pytest


@pytest.fixture(params=["httpx", "httpx2"])
def library(request: pytest.FixtureRequest) -> Any:
    """Each of the libraries whose clients an `HTTPTransport` may have."""
    return importlib.import_module(request.param)
