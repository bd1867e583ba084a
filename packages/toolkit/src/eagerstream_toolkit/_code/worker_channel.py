"""A part of `worker`: the messages, and the output of the code."""

from __future__ import annotations

import asyncio
import codecs
import collections
import io
import json
import os
import threading

TYPE_CHECKING = False  # importing it from `typing` would take some of the start's time
if TYPE_CHECKING:
    from typing import Any

MAX_PRINTED_CHARS = 32_768


class Channel:
    """Writes the messages. A line is never left incomplete: the signal that interrupts code waits for its end."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._lines: collections.deque[bytes] = collections.deque()
        self._lock = threading.RLock()  # a finalizer may print at any time, in any thread
        self._writer = 0
        """The thread that writes."""
        self._main = threading.get_ident()
        self.is_interrupted = False
        """True if an interruption came while the main thread wrote."""

    @property
    def is_open(self) -> bool:
        return self._pipe >= 0

    @property
    def is_writing(self) -> bool:
        """True if the main thread writes."""
        return self._writer == self._main

    def send(self, message: dict[str, object]) -> None:
        self.write(encoded(message))

    def write(self, line: bytes) -> None:
        self._lines.append(line)
        thread = threading.get_ident()
        if self._writer == thread:
            return  # a finalizer: its line follows the one that is being written
        with self._lock:
            self._writer = thread
            try:
                while self._lines and self._pipe >= 0:
                    data = memoryview(self._lines.popleft())
                    while data:
                        data = data[os.write(self._pipe, data) :]
            except BrokenPipeError:
                os._exit(0)  # the program has ended
            finally:
                self._writer = 0
        if self.is_interrupted and thread == self._main:
            self.is_interrupted = False
            raise asyncio.CancelledError

    def close_copy(self) -> None:
        """Close it in a forked process: nobody would understand two workers."""
        os.close(self._pipe)
        self._pipe = -1
        self._lines.clear()
        self._lock = threading.RLock()
        self._writer = 0


def encoded(message: dict[str, object]) -> bytes:
    """Return a message as a line. A half of a surrogate pair becomes a question mark."""
    return json.dumps(message, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n"


class Printed(io.BufferedIOBase):
    """The buffer of `sys.stdout` or `sys.stderr` of the code: what is written becomes messages."""

    def __init__(self, channel: Channel, number: int) -> None:
        self._channel = channel
        self._number = number
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def fileno(self) -> int:
        return self._number

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: the end of each statement follows its output."""

    def write(self, data: Any) -> int:
        if not self._channel.is_open:  # in a forked process
            return os.write(self._number, data)
        text = self._decoder.decode(data)
        for start in range(0, len(text), MAX_PRINTED_CHARS):
            self._channel.send({"print": text[start : start + MAX_PRINTED_CHARS]})
        return len(data)


def printing(channel: Channel, number: int) -> io.TextIOWrapper:
    """Return a stream for the code. Each line becomes a message at once."""
    buffer: Any = Printed(channel, number)
    return io.TextIOWrapper(buffer, encoding="utf-8", errors="replace", newline="\n", line_buffering=True)
