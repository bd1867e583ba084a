"""Progress about lines: a tool says which lines of one of its string parameters it works on.

The form is documented in `docs/guides/progress.md`. Any tool may report it; no tool is named here.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, Self

from eagerstream._support.wording import clean

_LINE_END: Final = re.compile(r"\r\n?|\n")  # the line ends of Python, and of most other languages
_ANCHOR_LINES: Final = 64
_ANCHOR_CHARS: Final = 4096
_CHECKED_CHARS: Final = 64
_MAX_LINE: Final = 2**53 - 1  # as on the page
_MAX_CALLS: Final = 20
_NAME_CHARS: Final = 60


class LineState(Enum):
    """The state of a line."""

    DONE = "done"
    RUNNING = "running"
    FAILED = "failed"
    WAITING = "waiting"


class LineProgress(NamedTuple):
    """The progress of a tool in the lines of a parameter.

    Attributes:
        parameter: The name of the parameter.
        line, end_line: The first and the last line of the statement that runs or ran last, from 1; 0: none has started.
        state: `"running"`, `"done"`, or a word for a bad end.
        calls: Names of the running calls, at most 20.
        output: The end of the output.
    """

    parameter: str
    line: int
    end_line: int
    state: str
    calls: tuple[str, ...] = ()
    output: str = ""

    @classmethod
    def of(cls, value: Any, fields: Mapping[str, Any]) -> Self | None:
        """Return the progress. None if `value` has another form, or `fields` has no such text.

        Args:
            value: The value that a tool reported.
            fields: The input of the call so far.
        """
        match value:
            case {"parameter": str(parameter), "line": int(line), "end_line": int(end_line), "state": str(state)} if (
                0 <= line <= end_line <= _MAX_LINE
                and not isinstance(line, bool)
                and not isinstance(end_line, bool)
                and isinstance(fields.get(parameter), str)
            ):
                calls, output = value.get("calls"), value.get("output")
                shown = calls[:_MAX_CALLS] if isinstance(calls, list) else []
                names = tuple(name for name in shown if isinstance(name, str))
                return cls(parameter, line, end_line, state, names, output if isinstance(output, str) else "")
            case _:
                return None

    @property
    def line_state(self) -> LineState:
        """The state of the statement. A word that is not known is the word for a bad end."""
        if self.line == 0:
            return LineState.WAITING
        return {"done": LineState.DONE, "running": LineState.RUNNING}.get(self.state, LineState.FAILED)

    def state_of(self, number: int) -> LineState:
        """Return the state of a line."""
        if number < self.line:
            return LineState.DONE
        return self.line_state if number <= self.end_line else LineState.WAITING

    @property
    def summary(self) -> str:
        """The statement's lines, its state and the running calls, on one line and without control characters."""
        if self.line == 0:
            return "no line has run"
        lines = f"line {self.line:,}" if self.line == self.end_line else f"lines {self.line:,} to {self.end_line:,}"
        running = [
            f"{clean(name, _NAME_CHARS)}{f' x{count}' if count > 1 else ''}"
            for name, count in Counter(self.calls).items()
        ]
        return " · ".join(filter(None, (f"{lines} {clean(self.state, _NAME_CHARS)}", ", ".join(running))))

    def output_lines(self, most: int, chars: int) -> list[str]:
        """Return the last lines of the output, at most `most` lines of the last `chars` characters."""
        tail = self.output[-chars:].removesuffix("\n")
        return tail.split("\n")[-most:] if tail and most > 0 else []


class TextLines:
    """The places of the lines in a text that grows. It examines each character once, and holds no text.

    Attributes:
        count: Number of lines so far. The last one may be empty.
    """

    def __init__(self) -> None:
        self._restart()

    def _restart(self) -> None:
        self.count = 1
        self._read = 0
        self._end = ""  # the last characters that were read
        # A line has an anchor if many lines or characters are between it and the last anchor. So the way to any line
        # from the anchor before it is short, and a million lines take little memory.
        self._numbers = [1]
        self._starts = [0]

    def read(self, text: str) -> bool:
        """Read what is new in the text. Return True if it is another one, after a repeated key: it is read anew."""
        is_other = not text.startswith(self._end, self._read - len(self._end))
        if is_other:
            self._restart()
        to = len(text) - text.endswith("\r")  # a line feed may follow
        for found in _LINE_END.finditer(text, self._read, to):
            self.count += 1
            if self.count - self._numbers[-1] >= _ANCHOR_LINES or found.end() - self._starts[-1] >= _ANCHOR_CHARS:
                self._numbers.append(self.count)
                self._starts.append(found.end())
        self._read = to
        self._end = text[max(0, to - _CHECKED_CHARS) : to]
        return is_other

    def start(self, text: str, number: int) -> int:
        """Return the place of the first character of a line. The text was read before."""
        anchor = bisect_right(self._numbers, number) - 1
        place = self._starts[anchor]
        for _ in range(number - self._numbers[anchor]):
            found = _LINE_END.search(text, place)
            assert found is not None  # the line exists
            place = found.end()
        return place

    def line(self, text: str, number: int, chars: int) -> str:
        """Return the first `chars` characters of a line, without its end. The text was read before."""
        start = self.start(text, number)
        piece = text[start : start + chars]
        found = _LINE_END.search(piece)
        return piece if found is None else piece[: found.start()]


def shown_lines(rows: int, count: int, progress: LineProgress, *, is_growing: bool) -> Iterator[range]:
    """Yield the lines to show in `rows` rows: one range, or two with a row between them.

    While the text grows, its end is among them. A statement that runs or has failed is among them, too, or its first
    lines if it is long. If the text is finished, the range is around the statement.
    """
    first = min(max(progress.line, 1), count)
    size = max(1, min(progress.end_line, count) - first + 1)
    if count <= rows:
        yield range(1, count + 1)
    elif not is_growing:
        before = min(rows // 3, max(0, rows - size))
        start = min(max(1, first - before), count - rows + 1)
        yield range(start, start + rows)
    elif first > count - rows or progress.line_state in (LineState.DONE, LineState.WAITING):
        yield range(count - rows + 1, count + 1)
    elif rows < 3:
        yield range(first, first + 1)
        if rows == 2:
            yield range(count, count + 1)
    else:
        upper = min(rows // 2, size + 2)
        start = max(1, first - 1) if upper > size else first
        yield range(start, start + upper)
        yield range(count - (rows - 1 - upper) + 1, count + 1)
