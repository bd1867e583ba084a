"""sqlglot without its log: it would repeat parts of the model's statements there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


class _Quiet(logging.Filter):
    """Drops what the threads log that are inside `without_logs`, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002
        return threading.get_ident() not in self.threads


@contextmanager
def without_logs() -> Iterator[None]:
    """While the block runs, sqlglot logs nothing in this thread."""
    quiet = _installed()
    thread = threading.get_ident()
    quiet.threads.add(thread)
    try:
        yield
    finally:
        quiet.threads.discard(thread)


@cache
def _installed() -> _Quiet:
    quiet = _Quiet()
    logging.getLogger("sqlglot").addFilter(quiet)
    return quiet
