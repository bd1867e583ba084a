"""What the tests of this package share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from packages.durable.tests.ray_cluster import ray_cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A cluster of Ray. To start one takes half a minute."""
    with ray_cluster() as cluster:
        yield cluster
