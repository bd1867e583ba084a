"""The input that took longest, kept as a file: where a parser is slower than linear, this is where to look first."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

_PREFIX = "slowest-"


def timed(check: Callable[[bytes], None], folder: Path) -> Callable[[bytes], None]:
    """`check`, which also keeps its slowest input so far in `folder`, its milliseconds in the file's name."""
    check(b"")  # what is made once is no input's fault
    longest_s = 0.001

    def check_timed(data: bytes) -> None:
        nonlocal longest_s
        start = time.process_time()
        check(data)
        if (took_s := time.process_time() - start) > longest_s:
            longest_s = took_s
            forget_slowest(folder)
            (folder / f"{_PREFIX}{took_s * 1000:.0f}ms").write_bytes(data)

    return check_timed


def slowest_in(folder: Path) -> Path | None:
    """The file that `timed` has left."""
    return next(folder.glob(f"{_PREFIX}*"), None)


def forget_slowest(folder: Path) -> None:
    """Remove it."""
    if (path := slowest_in(folder)) is not None:
        path.unlink()
