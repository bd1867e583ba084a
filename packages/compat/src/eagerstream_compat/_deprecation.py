"""Deprecation warnings: one per process and per deprecated use, with its replacement."""

from __future__ import annotations

import threading
import warnings

_told: set[str] = set()
_lock = threading.Lock()


def deprecated(old: str, instead: str, *, stacklevel: int = 2) -> None:
    """Warn of a deprecated use, the first time in this process.

    Args:
        old: Name of the deprecated use, as the beginning of a sentence.
        instead: Name of its replacement, as the end of a sentence: "use ...".
        stacklevel: As for `warnings.warn`. 2 is the caller of the function that calls this.
    """
    with _lock:
        if old in _told:
            return
        _told.add(old)
    warnings.warn(f"{old} is deprecated: {instead}", DeprecationWarning, stacklevel=stacklevel + 1)
