"""A Ray cluster of two nodes on this machine, each with processes of its own."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

NODE: Final[dict[str, Any]] = {"num_cpus": 4, "object_store_memory": 100 * 1024 * 1024, "include_dashboard": False}


@contextmanager
def ray_cluster() -> Iterator[Any]:
    """The cluster, with this process connected to it, as a program's own `ray.init` does it.

    Its second node has one `gpu_box`.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray._private import ray_constants
    from ray.cluster_utils import Cluster

    # What keeps Ray to 127.0.0.1 on macOS and Windows; elsewhere its nodes would listen to the network.
    with patch.object(ray_constants, "ENABLE_RAY_CLUSTER", new=False):
        cluster = Cluster(initialize_head=True, head_node_args=NODE)
        try:
            cluster.add_node(**NODE, resources={"gpu_box": 1})
            ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()  # type: ignore[no-untyped-call]
