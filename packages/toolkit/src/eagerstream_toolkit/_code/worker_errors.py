"""A part of `worker`: errors in terms of the code, in short and within bounds."""

from __future__ import annotations

import asyncio
import collections
import linecache
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable

MAX_ERROR_CHARS = 2_000
MAX_LINE_CHARS = 200
MAX_TRACEBACK_CHARS = 20_000
HALF = MAX_TRACEBACK_CHARS // 2
MAX_FRAMES = 5
"""Frames to show at each end of a traceback."""
MAX_NESTED = 3
"""Causes and levels of exception groups to show."""
MAX_GROUP = 10
_LINE = re.compile(r"\b((?:on|at) line )(\d+)")
"""A line of the source in the message of a `SyntaxError`."""


class Sources:
    """The lines of the code, by the name of their file: each call of `run_code` has one."""

    def __init__(self) -> None:
        self.part = 0

    @property
    def file(self) -> str:
        return f"<code {self.part}>"

    def add(self, part: int, line: int, source: str) -> None:
        """Keep the lines of a statement, also for `traceback` and `inspect`."""
        self.part = part
        lines = linecache.getlines(self.file)
        lines += ["\n"] * (line - 1 - len(lines))
        lines[line - 1 :] = [text + "\n" for text in source.split("\n")]
        linecache.cache[self.file] = (1, None, lines, self.file)

    def error(self, error: BaseException) -> str:
        """Return a short traceback, with the lines of the code only."""
        try:
            text = "\n".join(self._error(error, 0, set()))
        except Exception:  # no memory is left, or the code made an attribute raise
            error.__traceback__ = None
            return str(type.__dict__["__name__"].__get__(type(error)))  # whatever its metaclass does
        return text if len(text) <= MAX_TRACEBACK_CHARS else f"{text[:HALF]}\n...\n{text[-HALF:]}"

    def _error(self, error: BaseException, depth: int, seen: set[int]) -> list[str]:
        seen.add(id(error))
        lines = []
        cause = error.__cause__
        if isinstance(cause, asyncio.CancelledError):
            cause = None  # a time limit of asyncio's
        if cause is not None and depth < MAX_NESTED and id(cause) not in seen:
            lines += [*self._error(cause, depth + 1, seen), "The exception above was the cause of:"]
        first: list[types.TracebackType] = []
        last: collections.deque[types.TracebackType] = collections.deque(maxlen=MAX_FRAMES)
        count = 0
        traceback = error.__traceback__
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename.startswith("<code "):
                count += 1
                (first if count <= MAX_FRAMES else last).append(traceback)
            traceback = traceback.tb_next
        left_out = count - len(first) - len(last)
        notice = [f"  ... {left_out} more"] if left_out else []
        lines += ["Traceback:"] if first else []
        lines += [*map(self._frame, first), *notice, *map(self._frame, last), message_of(error)]
        notes = getattr(error, "__notes__", None)
        for note in notes[:MAX_GROUP] if isinstance(notes, list) else ():
            lines.append(text_of(note, str, MAX_ERROR_CHARS))
        inner = getattr(error, "exceptions", None)
        if isinstance(inner, tuple) and depth < MAX_NESTED:
            for number, each in enumerate(inner[:MAX_GROUP], 1):
                lines.append(f"  {number} of {len(inner)}:")
                text = "\n".join(self._error(each, depth + 1, seen))
                lines += ["    " + line for line in text.splitlines()]
        return lines

    def _frame(self, traceback: types.TracebackType) -> str:
        code, line = traceback.tb_frame.f_code, traceback.tb_lineno
        earlier = "" if code.co_filename == self.file else " of an earlier call"
        name = "" if code.co_name == "<module>" else f", in {code.co_name[:MAX_LINE_CHARS]}"
        text = linecache.getline(code.co_filename, line).strip()[:MAX_LINE_CHARS]
        return f"  line {line}{earlier}{name}" + (f"\n    {text}" if text else "")

    def invalid(self, error: BaseException, first_line: int) -> str:
        """Return the text for a statement that does not compile."""
        if not isinstance(error, SyntaxError):
            return message_of(error)
        message = _LINE.sub(lambda found: f"{found[1]}{first_line - 1 + int(found[2])}", error.msg)
        text = f"{type(error).__name__}: {message}"[:MAX_ERROR_CHARS]
        if not error.lineno:
            return text
        line = first_line - 1 + error.lineno
        shown = linecache.getline(self.file, line).strip()[:MAX_LINE_CHARS]
        return f"{text} (line {line})" + (f"\n    {shown}" if shown else "")


def text_of(value: object, form: Callable[[object], str], max_chars: int) -> str:
    """Return a value's text within a bound, whatever its methods do."""
    try:
        text = str.__str__(form(value))
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return f"<{type(value).__name__} whose text cannot be made: {type(error).__name__}>"
    return text if len(text) <= max_chars else f"{text[:max_chars]}... ({len(text)} characters)"


def message_of(error: BaseException) -> str:
    """Return `Class: message`."""
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ not in ("__main__", "builtins"):
        name = f"{kind.__module__}.{name}"
    text = text_of(error, str, MAX_ERROR_CHARS)
    return f"{name[:MAX_LINE_CHARS]}: {text}" if text else name[:MAX_LINE_CHARS]
