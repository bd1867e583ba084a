"""What a command prints: decoded as it comes, counted as a whole, kept within a bound."""

from __future__ import annotations

import codecs
from typing import Final

MAX_REST_BYTES: Final = 64 * 1024
"""Bytes that are kept of what comes behind a mark, as many as wait in a pipe. A job that prints more loses the rest."""
_CUT: Final = "... Output truncated ({lines} total lines) ..."


class Output:
    """The output of one command: its beginning and its end, whatever lies between.

    Args:
        max_chars: Characters that are kept, at least 1; memory is a small multiple of it.

    Attributes:
        size_bytes: How much has come in all.
    """

    def __init__(self, max_chars: int) -> None:
        self._half = max_chars // 2
        self._max_chars = max_chars
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head = ""
        self._tail: list[str] = []
        self._tail_chars = 0
        self._total_chars = 0
        self._line_ends = 0
        self._last = "\n"
        self.size_bytes = 0

    def feed(self, data: bytes) -> None:
        """More of it; invalid UTF-8 becomes U+FFFD, a character that is not whole yet waits."""
        self.size_bytes += len(data)
        self._take(self._decoder.decode(data))

    def close(self) -> None:
        """No more will come: what was left of a character is none."""
        self._take(self._decoder.decode(b"", final=True))

    @property
    def lines(self) -> int:
        """How many there are in all; a last one without its line feed counts."""
        return self._line_ends + (self._last != "\n")

    @property
    def is_truncated(self) -> bool:
        """It is longer than what is kept."""
        return self._total_chars > self._max_chars

    def text(self) -> str:
        """All of it without the last line feed; where that is too long, without its middle, and with a notice."""
        kept = self._head + "".join(self._tail)
        if not self.is_truncated:
            return kept.removesuffix("\n")
        head = kept[: self._half].removesuffix("\n")
        tail = kept[len(kept) - self._half :].removesuffix("\n")
        return "\n".join((head, _CUT.format(lines=self.lines), tail))

    def end(self, max_chars: int) -> str:
        """Its last characters, no more than are kept."""
        max_chars = min(max_chars, self._max_chars)
        text = ""
        for piece in (*reversed(self._tail), self._head):
            text = piece + text
            if len(text) >= max_chars:
                return text[-max_chars:]
        return text

    def _take(self, text: str) -> None:
        if not text:
            return
        self._total_chars += len(text)
        self._line_ends += text.count("\n")
        self._last = text[-1]
        room = self._half - len(self._head)
        if room > 0:
            self._head += text[:room]
            text = text[room:]
        self._tail.append(text)
        self._tail_chars += len(text)
        if self._tail_chars > 2 * self._max_chars:
            # What is dropped here is more than what is joined, so that each character is copied a few times at most.
            self._tail = ["".join(self._tail)[-self._max_chars :]]
            self._tail_chars = self._max_chars


class MarkFinder:
    """Passes bytes on up to a mark, in whatever pieces they come.

    Args:
        mark: The bytes that end it; not empty.

    Attributes:
        is_found: It has come.
        rest: What came behind it, up to `MAX_REST_BYTES`.
    """

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._held = b""
        self.is_found = False
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        """What is certain to stand before the mark; what may be its beginning waits."""
        if self.is_found:
            self.rest += data[: MAX_REST_BYTES - len(self.rest)]
            return b""
        data = self._held + data
        before, found, after = data.partition(self._mark)
        if found:
            self.is_found, self.rest, self._held = True, after[:MAX_REST_BYTES], b""
            return before
        held = next(n for n in range(min(len(self._mark) - 1, len(data)), -1, -1) if data.endswith(self._mark[:n]))
        self._held = data[len(data) - held :]
        return data[: len(data) - held]

    def close(self) -> bytes:
        """The mark will not come: what waited."""
        held, self._held = self._held, b""
        return held
