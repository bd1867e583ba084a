"""Fixtures of this folder."""

from __future__ import annotations

import pytest
from packages.adapters.tests.collected import Collected


@pytest.fixture
def collected() -> Collected:
    """An SDK of its own for a test."""
    return Collected()
