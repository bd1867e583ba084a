"""Fixtures of this folder."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """pydantic-ai runs on asyncio only."""
    return "asyncio"
