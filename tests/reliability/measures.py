"""What a process holds, and what it complains about: memory, our objects, tasks, threads, open files, warnings."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import os
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from eagerstream.calls import Turn
from eagerstream.inputs import GrowingInput
from eagerstream.loop import Conversation, Run, RunResult
from eagerstream.streaming._event_buffer import EventBuffer
from eagerstream.tools import InProcessExecutor, ToolCall
from eagerstream_wire import MessageAssembler, PartialJSON

WATCHED: Final = (
    Run,
    RunResult,
    Conversation,
    Turn,
    ToolCall,
    GrowingInput,
    MessageAssembler,
    PartialJSON,
    EventBuffer,
    InProcessExecutor,
)

_STATM: Final = Path("/proc/self/statm")
_FILES: Final = Path("/proc/self/fd")
_MB: Final = 1024 * 1024


@dataclass(frozen=True)
class Sample:
    """What the process holds at one moment; 0 where the system does not tell.

    Attributes:
        at_s: Seconds since the start.
        rss_mb: Resident memory.
        objects: Live objects of `WATCHED`, by class; None where they were not counted: it takes a moment.
    """

    at_s: float
    rss_mb: float
    tasks: int
    threads: int
    files: int
    objects: Counter[str] | None = None

    @classmethod
    def now(cls, at_s: float, *, with_objects: bool) -> Sample:
        """Look."""
        return cls(
            at_s, rss_mb(), count_tasks(), threading.active_count(), open_files(), live() if with_objects else None
        )


def rss_mb() -> float:
    """Resident memory."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / _MB if _STATM.exists() else 0.0


def open_files() -> int:
    """Open file descriptors."""
    return len(list(_FILES.iterdir())) if _FILES.exists() else 0


def live() -> Counter[str]:
    """Live objects of `WATCHED`, whether anybody can still reach them or not."""
    kinds = set(WATCHED)
    return Counter(kind.__name__ for each in gc.get_objects() if (kind := type(each)) in kinds)


def count_tasks() -> int:
    """Tasks of this event loop."""
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        import trio

        return trio.lowlevel.current_statistics().tasks_living


def growth_mb(samples: Sequence[Sample], seconds: float) -> float:
    """By how much the memory of the last quarter is over that of the second one, at the median; NaN without samples."""
    early = [each.rss_mb for each in samples if seconds / 4 <= each.at_s < seconds / 2]
    late = [each.rss_mb for each in samples if seconds * 3 / 4 <= each.at_s < seconds]
    return median(late) - median(early) if early and late else math.nan


@contextmanager
def complaints() -> Iterator[list[str]]:
    """All that is logged as a warning or worse, warned of, or raised where nobody can catch it, while in the block."""
    heard: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(f"{record.name}: {self.format(record)}")

    def on_unraisable(unraisable: Any) -> None:
        heard.append(f"unraisable: {unraisable.err_msg} {unraisable.object!r}: {unraisable.exc_value!r}")

    def on_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        heard.append(f"{category.__name__}: {message}")

    def on_thread(arguments: Any) -> None:
        heard.append(f"thread {arguments.thread}: {arguments.exc_value!r}")

    handler = Handler(logging.WARNING)
    hooks = sys.unraisablehook, threading.excepthook
    sys.unraisablehook, threading.excepthook = on_unraisable, on_thread
    logging.getLogger().addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = on_warning
            yield heard
    finally:
        logging.getLogger().removeHandler(handler)
        sys.unraisablehook, threading.excepthook = hooks
