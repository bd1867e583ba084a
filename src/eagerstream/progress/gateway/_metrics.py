"""Metrics of all workers, in the text format of Prometheus: each writes files, and any of them adds them up."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from ...errors import MissingExtraError

FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the folder of the files. prometheus_client reads it when it is imported."""

_GAUGES: Final = re.compile(r"gauge_live[a-z]*_(\d+)\.db")


class Metrics:
    """Counts of one worker.

    Args:
        worker: Its name, a label of each count.

    Raises:
        MissingExtraError: The extra `gateway` is not installed.
    """

    def __init__(self, worker: str) -> None:
        try:
            from prometheus_client import Counter, Gauge
        except ModuleNotFoundError as error:
            raise MissingExtraError("gateway", "prometheus_client") from error

        def gauge(name: str, text: str) -> Gauge:
            made = Gauge(f"eagerstream_gateway_{name}", text, ["worker"], multiprocess_mode="livesum")
            return made.labels(worker)

        self.running = gauge("runs_running", "Runs that have started and not ended.")
        self.watchers = gauge("watchers", "Responses with server-sent events to GET requests.")
        self._worker = worker
        self._ended = Counter("eagerstream_gateway_runs_ended", "Runs that have ended.", ["worker", "status"])
        self._forwarded = Counter(
            "eagerstream_gateway_requests_forwarded", "Requests passed on to the process of their run.", ["worker"]
        )

    def count_end(self, status: str) -> None:
        """Count a run that has ended: `completed`, `error` or another value of `RunStatus`."""
        self._ended.labels(self._worker, status).inc()

    def count_forwarded(self) -> None:
        """Count a request that is passed on."""
        self._forwarded.labels(self._worker).inc()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count a watcher for the time of the block."""
        self.watchers.inc()
        try:
            yield
        finally:
            self.watchers.dec()


def exposition() -> tuple[bytes, str]:
    """Return the metrics of all workers, and their content type.

    Counts of workers that have ended stay, as counts must never fall; what they had in progress is over.
    """
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

    multiprocess: Any = import_module("prometheus_client.multiprocess")  # it has no types

    folder = Path(os.environ[FOLDER_VARIABLE])
    for file in folder.iterdir():
        if (match := _GAUGES.fullmatch(file.name)) and not _is_alive(int(match[1])):
            multiprocess.mark_process_dead(int(match[1]))
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)
    return generate_latest(registry), CONTENT_TYPE_LATEST


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
