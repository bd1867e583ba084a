"""Output of a command: decoded incrementally, counted completely, and kept within a bound."""

from __future__ import annotations

import codecs
from typing import Final

MAX_REST_BYTES: Final = 64 * 1024
"""Bytes to keep of the output behind a mark: as many as a pipe holds. If a job prints more, the rest is lost."""
_CUT: Final = "... Output truncated ({lines} total lines) ..."


class Output:
    """The output of one command. If it is too long, only its start and its end are kept.

    Args:
        max_chars: Maximum number of characters to keep, at least 1. Memory use is a small multiple of it.

    Attributes:
        size_bytes: Number of bytes received.
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
        """Add bytes. Invalid UTF-8 becomes U+FFFD. An incomplete character is held back."""
        self.size_bytes += len(data)
        self._take(self._decoder.decode(data))

    def close(self) -> None:
        """End the output. An incomplete character at its end becomes U+FFFD."""
        self._take(self._decoder.decode(b"", final=True))

    @property
    def lines(self) -> int:
        """Number of all lines. A last line without a line feed counts."""
        return self._line_ends + (self._last != "\n")

    @property
    def is_truncated(self) -> bool:
        """True if the output is longer than the kept part."""
        return self._total_chars > self._max_chars

    def text(self) -> str:
        """Return the output without its last line feed. If it is too long, a notice replaces its middle."""
        kept = self._head + "".join(self._tail)
        if not self.is_truncated:
            return kept.removesuffix("\n")
        head = kept[: self._half].removesuffix("\n")
        tail = kept[len(kept) - self._half :].removesuffix("\n")
        return "\n".join((head, _CUT.format(lines=self.lines), tail))

    def end(self, max_chars: int) -> str:
        """Return the last characters, at most as many as are kept."""
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
            # More is dropped here than joined, so each character is copied only a few times.
            self._tail = ["".join(self._tail)[-self._max_chars :]]
            self._tail_chars = self._max_chars


class MarkFinder:
    """A filter that passes bytes up to a mark, in pieces of any size.

    Args:
        mark: The bytes that end the output. Not empty.

    Attributes:
        is_found: True after the mark was found.
        rest: Bytes behind the mark, up to `MAX_REST_BYTES`.
    """

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._held = b""
        self.is_found = False
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that are certainly before the mark. A possible start of the mark is held back."""
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
        """Return the held bytes: the mark will not come."""
        held, self._held = self._held, b""
        return held
