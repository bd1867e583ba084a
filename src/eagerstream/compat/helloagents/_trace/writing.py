"""Files that grow while a program runs, and a thread that writes them: neither ever gets in its way."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Final, TextIO

from ...._support.files import open_private

_log = logging.getLogger(__name__)


def new_file(path: Path) -> TextIO:
    """A text file to write, with line feeds at ends of lines; for its owner only, where the system knows such a thing.

    Raises:
        OSError: It cannot be made; `FileExistsError` where there is something, be it a link.
    """
    return open(path, "x", encoding="utf-8", newline="\n", opener=open_private)


class GrowingLog:
    """A `new_file` that has each text at once.

    It is written without a buffer: that would have a lock, and a process that is forked meanwhile would find it held.

    Args:
        path: Where nothing is yet.

    Raises:
        OSError: As `new_file`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = FileIO(path, "x", opener=open_private)
        self._is_over = False

    def write(self, text: str) -> None:
        """Write it to its end; nothing once that has failed, which the log tells once, or once it is closed."""
        if self._is_over:
            return
        try:
            left = memoryview(text.encode())
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            self.close()  # first: handlers of the log may write to this
            _log.warning("%s cannot be written any more: %s", self.path.name, error.strerror or type(error).__name__)

    def close(self) -> None:
        """As often as one likes; never raises."""
        self._is_over = True
        try:
            self._file.close()
        except OSError:
            pass  # what could not be written was told, or is lost with the last flush: nothing is buffered


_MAX_WAITING: Final = 10_000
_IDLE_S: Final = 1.0
"""So long the thread waits for more, before it ends."""
_AT_EXIT_S: Final = 5.0
"""So long the end of the program waits for what is still to be done."""


class Background:
    """Does in a thread what it is given, one thing after the other; what does not fit in the queue is dropped.

    The thread is there while there is something to do, and ends by itself. The end of the program waits for it, a few
    seconds at most.
    """

    def __init__(self, max_waiting: int = _MAX_WAITING) -> None:
        self._max_waiting = max_waiting
        self._dropped = 0
        self.renew()
        _backgrounds.add(self)

    def renew(self) -> None:
        """Begin anew in a process that was forked: the thread did not come along, but locks that it held did."""
        self._waiting: deque[Callable[[], object]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_busy = False

    def submit(self, work: Callable[[], object]) -> None:
        """Have it done; returns at once. That something was dropped is in the log once."""
        with self._changed:
            if len(self._waiting) < self._max_waiting and self._has_thread():
                self._waiting.append(work)
                self._changed.notify_all()
                return
            self._dropped += 1
            if self._dropped == 1:
                _log.warning("a trace is written too slowly: some of its events are dropped")

    def run(self, work: Callable[[], object], timeout_s: float) -> bool:
        """Have it done after everything that was submitted, and wait for it. Return whether all is done.

        If there can be no thread, as at the very end of a program, or if this is the thread, do it at once.
        """
        with self._changed:
            is_here = threading.current_thread() is self._thread or not self._has_thread()
            if not is_here:  # beyond the bound, too: each caller waits for its own
                self._waiting.append(work)
                self._changed.notify_all()
        if is_here:
            _do(work)
            return True
        return self.drain(timeout_s)

    def drain(self, timeout_s: float) -> bool:
        """Wait until all is done; True if it is, which it never is for the thread itself."""
        with self._changed:
            if threading.current_thread() is self._thread:
                return False
            return self._changed.wait_for(lambda: not (self._waiting or self._is_busy), timeout_s)

    def _has_thread(self) -> bool:
        """There is one, or one could be started."""
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="eagerstream-trace", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has no more of them, or the program is ending
                return False
            self._thread = thread
            atexit.register(self.drain, _AT_EXIT_S)
        return True

    def _work(self) -> None:
        while True:
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()
                if not self._changed.wait_for(lambda: self._waiting, _IDLE_S):
                    self._thread = None
                    atexit.unregister(self.drain)
                    return
                work = self._waiting.popleft()
                self._is_busy = True
            _do(work)
            del work  # it may hold much, and the next may be long in coming


def _do(work: Callable[[], object]) -> None:
    try:
        work()
    except BaseException as error:  # what is logged is any code's: nothing of it may end the thread
        # Its text may quote what a model wrote, which does not belong in a log.
        _log.warning("an event of a trace is lost (%s)", type(error).__name__)


_backgrounds: Final[weakref.WeakSet[Background]] = weakref.WeakSet()


def _renew_all() -> None:
    for background in list(_backgrounds):
        background.renew()


if hasattr(os, "register_at_fork"):  # only where processes are forked
    os.register_at_fork(after_in_child=_renew_all)
