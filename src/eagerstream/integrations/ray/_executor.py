"""`RayExecutor`: the executor of tools on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...tools import Toolbox
from ...workers import RemoteExecutor, Workers


class RayExecutor(RemoteExecutor):
    """Runs tools in the actors of `RayPool`s.

    Everything that the executor in this process keeps is kept: approval, groups, time limits, the circuit breaker. For
    each tool there may be another pool, `pools={"render": gpus}`, of Ray or of processes, or None for this process.

    Args:
        tools: Those of the run.
        pool: Where tools run that `pools` does not name.
        options: As for `RemoteExecutor`: `pools`, `limits`, `max_concurrency`, `circuit_breaker`, `retries`,
            `cancel_grace_s`.

    Raises:
        UsageError: As `RemoteExecutor`.
    """

    def __init__(self, tools: Toolbox | Iterable[object] = (), *, pool: Workers, **options: Any) -> None:
        super().__init__(tools, pool=pool, **options)
