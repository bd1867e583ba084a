"""Growing files, and a thread that writes them. Neither ever fails or delays the program."""

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
    """Return a new text file to write, with line feeds. It is readable only by its owner, if the system supports that.

    Raises:
        OSError: The file cannot be made. `FileExistsError` if the path exists, also as a link.
    """
    return open(path, "x", encoding="utf-8", newline="\n", opener=open_private)


class GrowingLog:
    """A `new_file` in which each text is written at once.

    It is written without a buffer. A buffer has a lock, and a forked process could find this lock held.

    Args:
        path: Path that does not exist yet.

    Raises:
        OSError: As for `new_file`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = FileIO(path, "x", opener=open_private)
        self._is_over = False

    def write(self, text: str) -> None:
        """Append a text. After the first failure, which is logged once, and after `close`, do nothing."""
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
        """Close the file. Further calls do nothing. It never raises."""
        self._is_over = True
        try:
            self._file.close()
        except OSError:
            pass  # the failed write was logged; there is no buffer to flush


_MAX_WAITING: Final = 10_000
_IDLE_S: Final = 1.0
"""Seconds that the thread waits for more work before it ends."""
_AT_EXIT_S: Final = 5.0
"""Maximum time that the end of the program waits for the remaining work, in seconds."""


class Background:
    """Thread that runs functions one after another. If the queue is full, a function is dropped.

    The thread exists while there is work, and ends by itself. The end of the program waits for it, at most 5 seconds.
    """

    def __init__(self, max_waiting: int = _MAX_WAITING) -> None:
        self._max_waiting = max_waiting
        self._dropped = 0
        self.renew()
        _backgrounds.add(self)

    def renew(self) -> None:
        """Reset in a forked process: it does not have the thread, but it has copies of the thread's held locks."""
        self._waiting: deque[Callable[[], object]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_busy = False

    def submit(self, work: Callable[[], object]) -> None:
        """Queue a function, and return at once. The first dropped function is logged."""
        with self._changed:
            if len(self._waiting) < self._max_waiting and self._has_thread():
                self._waiting.append(work)
                self._changed.notify_all()
                return
            self._dropped += 1
            if self._dropped == 1:
                _log.warning("a trace is written too slowly: some of its events are dropped")

    def run(self, work: Callable[[], object], timeout_s: float) -> bool:
        """Run a function after all earlier ones, and wait for it. Return whether all are done.

        If no thread can start, as at the very end of a program, or if this is the thread, run it at once.
        """
        with self._changed:
            is_here = threading.current_thread() is self._thread or not self._has_thread()
            if not is_here:  # beyond the bound, too: each caller waits for its own function
                self._waiting.append(work)
                self._changed.notify_all()
        if is_here:
            _do(work)
            return True
        return self.drain(timeout_s)

    def drain(self, timeout_s: float) -> bool:
        """Wait until all work is done, and return whether it is. In the thread itself, return `False` at once."""
        with self._changed:
            if threading.current_thread() is self._thread:
                return False
            return self._changed.wait_for(lambda: not (self._waiting or self._is_busy), timeout_s)

    def _has_thread(self) -> bool:
        """Return whether there is a thread, after an attempt to start one."""
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="eagerstream-trace", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads, or the program is ending
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
            del work  # it may hold much memory, and the next work may come late


def _do(work: Callable[[], object]) -> None:
    try:
        work()
    except BaseException as error:  # logged values can run any code, which must not end the thread
        # The error's text may quote the model's output, which does not belong in a log.
        _log.warning("an event of a trace is lost (%s)", type(error).__name__)


_backgrounds: Final[weakref.WeakSet[Background]] = weakref.WeakSet()


def _renew_all() -> None:
    for background in list(_backgrounds):
        background.renew()


if hasattr(os, "register_at_fork"):  # only on platforms with fork
    os.register_at_fork(after_in_child=_renew_all)
