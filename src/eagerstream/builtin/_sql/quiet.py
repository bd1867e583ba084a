"""sqlglot without its log: it would repeat parts of the model's statements there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

_quiet_threads: Final[set[int]] = set()


@contextmanager
def without_logs() -> Iterator[None]:
    """While the block runs, sqlglot logs nothing in this thread."""
    _install_filter()
    thread = threading.get_ident()
    _quiet_threads.add(thread)
    try:
        yield
    finally:
        _quiet_threads.discard(thread)


@cache
def _install_filter() -> None:
    logging.getLogger("sqlglot").addFilter(_may_be_logged)


def _may_be_logged(_record: logging.LogRecord) -> bool:
    """Return False in a thread that is inside `without_logs`; the log of other threads is theirs."""
    return threading.get_ident() not in _quiet_threads
