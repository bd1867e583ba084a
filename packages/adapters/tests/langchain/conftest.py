"""Fixtures of this folder."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """LangChain is for asyncio alone."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _forgotten_clients() -> Iterator[None]:
    """LangChain's models never close their clients: each test collects its own, or a later test would be blamed."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
