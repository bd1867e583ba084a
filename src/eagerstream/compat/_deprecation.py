"""What an older way is told: once, and with the way that takes its place."""

from __future__ import annotations

import threading
import warnings

_told: set[str] = set()
_lock = threading.Lock()


def deprecated(old: str, instead: str, *, stacklevel: int = 2) -> None:
    """Warn of an older way, the first time that it is taken in this process.

    Args:
        old: What is deprecated, as the beginning of a sentence.
        instead: The way that takes its place, as the end of one: "use ...".
        stacklevel: As of `warnings.warn`; 2 is the caller of who calls this.
    """
    with _lock:
        if old in _told:
            return
        _told.add(old)
    warnings.warn(f"{old} is deprecated: {instead}", DeprecationWarning, stacklevel=stacklevel + 1)
