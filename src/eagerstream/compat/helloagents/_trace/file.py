"""A file that grows while a program runs, and never gets in its way."""

from __future__ import annotations

import logging
from io import FileIO
from pathlib import Path
from typing import TextIO

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
