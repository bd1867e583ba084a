"""What the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integrations.collected import Collected
from tests.integrations.ray_cluster import ray_cluster


@pytest.fixture
def collected() -> Collected:
    """An SDK of its own for a test."""
    return Collected()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A cluster of Ray. To start one takes half a minute."""
    with ray_cluster() as cluster:
        yield cluster
