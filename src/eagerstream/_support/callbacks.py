"""Callbacks that are all called, whatever one of them does."""

from __future__ import annotations

import logging
from collections.abc import Callable

_log = logging.getLogger(__name__)


def call_all(callbacks: list[Callable[[], object]]) -> None:
    """Call each callback once, the newest first, and remove it. Log an exception by its class, and continue."""
    while callbacks:
        try:
            callbacks.pop()()
        except Exception as error:
            _log.warning("a callback for the end of a run raised %s", type(error).__name__)
