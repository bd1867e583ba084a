"""`EditFinder`: finds out which text files the calls of a run edit, and where.

Tools say it, see `eagerstream.TextEdit`. They read files, so they are asked in threads: a slow or hanging disk delays
only the diff. The file's text stays here. A record has the lines around an edit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from eagerstream import TextEdit
from eagerstream._support.event_loops import LoopThread
from eagerstream.inputs import GrowingInput
from eagerstream.tools import Tool, report_failure

CONTEXT_LINES: Final = 3
MAX_LINE_CHARS: Final = 1000
"""Maximum length of a line of the context, and of a path. If a line of the context is longer, it is left out."""
_MAX_EDITS: Final = 256
_MAX_ASKED: Final = 16
"""A tool is not asked again when so many parameters have finished."""
_threads: Final = threading.BoundedSemaphore(8)
"""Bounds the threads of the process: those that wait for a hanging disk never end."""


class EditFinder:
    """Asks the tools of calls about their edits. All methods are called in the thread of the event loop.

    Args:
        tool_of: Returns the tool of a call.
        tell: Called with the input of a call and the fields of an `edit` record. A call has one for each edit.

    Attributes:
        calls: The inputs that it looks at.
    """

    def __init__(
        self,
        tool_of: Callable[[GrowingInput], Tool | None],
        tell: Callable[[GrowingInput, dict[str, Any]], object],
    ) -> None:
        self._tool_of = tool_of
        self._tell = tell
        self._loop: LoopThread | None = None
        self.calls: dict[GrowingInput, _Call] = {}

    def grow(self, input: GrowingInput, finished: Iterable[str]) -> None:
        """Look at an input that has grown, if it was started.

        Args:
            input: The input.
            finished: Names of the parameters that have finished since the last call.
        """
        call = self.calls.get(input)
        if call is None:
            return
        call.finished.update(finished)
        self._go_on(call)

    def start(self, input: GrowingInput) -> None:
        """Look at an input from now on, if its tool edits text files."""
        tool = self._tool_of(input)
        if tool is not None and tool.edits is not None:
            self._loop = self._loop or LoopThread()
            self.calls[input] = _Call(input, tool)

    def stop(self, input: GrowingInput) -> None:
        """Look no longer at an input: its call has its result, or is void. A thread that still reads is left alone."""
        self.calls.pop(input, None)

    def _go_on(self, call: _Call) -> None:
        if call.is_busy or (job := call.next_job()) is None or not _threads.acquire(blocking=False):
            return
        loop = self._loop
        assert loop is not None
        call.is_busy = True

        def work() -> None:
            found: Any = None
            try:
                found = job()
            except Exception as error:  # any code may run in here; the call itself does not depend on it
                report_failure(call.tool.name, error)
            finally:
                _threads.release()
            loop.do_soon(lambda: self._take(call, found))

        # A daemon, and no pool: the program must not wait for it when it ends.
        try:
            threading.Thread(target=work, name="eagerstream edits", daemon=True).start()
        except RuntimeError:  # the system has no more threads
            _threads.release()
            self.stop(call.input)

    def _take(self, call: _Call, found: Any) -> None:
        call.is_busy = False
        if self.calls.get(call.input) is not call:
            return
        if isinstance(found, TextEdit):
            call.edit = found if found.old is not None else replace(found, each=None)
        elif isinstance(found, dict):
            call.told += 1
            self._tell(call.input, found)
        elif call.edit is not None:  # its fields are of other types
            self.stop(call.input)
            return
        if call.is_over:
            self.stop(call.input)
        else:
            self._go_on(call)


class _Call:
    """A call whose edits are sought: first the file, then the place of each edit in it."""

    def __init__(self, input: GrowingInput, tool: Tool) -> None:
        self.input = input
        self.tool = tool
        self.finished: set[str] = set()
        self.edit: TextEdit | None = None
        self.told = 0
        self.is_busy = False
        self._asked = 0  # number of finished parameters when the tool was asked
        self._text: _Text | None = None

    @property
    def is_over(self) -> bool:
        if self.edit is None:
            return self._asked >= _MAX_ASKED
        return self.told >= (1 if self.edit.each is None else _MAX_EDITS)

    def next_job(self) -> Callable[[], object] | None:
        """Return what to do next in a thread; None if it has to wait for more of the input."""
        input, edits = self.input, self.tool.edits
        edit = self.edit
        if edit is None:
            if edits is None or len(self.finished) == self._asked:
                return None
            self._asked = len(self.finished)
            given = {name: value for name, value in input.partial.items() if name in self.finished}
            return lambda: edits(given)
        base: tuple[str | int, ...] = () if edit.each is None else (edit.each, self.told)
        old = before = None
        if edit.old is not None:
            if not input.is_finished(*base, edit.old):
                return None
            fields: Any = input.partial
            if edit.each is not None:
                items = fields[edit.each]
                fields, before = items[self.told], items[self.told - 1] if self.told else None
            old = fields[edit.old]
        return lambda: self._found(edit, base, old, before)

    def _found(self, edit: TextEdit, base: tuple[str | int, ...], old: Any, before: Any) -> dict[str, Any]:
        """Return the fields of the record of an edit. It runs in a thread: the time grows with the file."""
        if self._text is None:
            self._text = _Text(edit.text if isinstance(edit.text, str) else "")
        if isinstance(before, dict) and edit.old is not None:
            self._text.replace(before.get(edit.old), before.get(edit.new))
        place = line = replaced = context = None
        if edit.text is None:
            pass
        elif edit.after_line is not None:
            place = self._text.after(edit.after_line)
        elif edit.old is None:
            line, replaced = 1, self._text.count
        elif isinstance(old, str):
            place = self._text.place_of(old)
        if place is not None:
            line, context = self._text.around(*place, is_insert=edit.after_line is not None)
        return {
            "path": edit.path[-MAX_LINE_CHARS:],
            "new": _pointer(*base, edit.new),
            "old": None if edit.old is None else _pointer(*base, edit.old),
            "line": line,
            "replaced_lines": replaced,
            "context": context,
        }


def _pointer(*steps: str | int) -> str:
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)


class _Text:
    """The text of a file, with the edits so far."""

    def __init__(self, text: str) -> None:
        self._text = text

    @property
    def count(self) -> int:
        return self._text.count("\n") + (bool(self._text) and not self._text.endswith("\n"))

    def place_of(self, sought: str) -> tuple[int, int] | None:
        """Return the start and the end of a text that occurs once, also if matches may overlap."""
        start = self._text.find(sought) if sought else -1
        return None if start < 0 or self._text.find(sought, start + 1) >= 0 else (start, start + len(sought))

    def after(self, line: int) -> tuple[int, int] | None:
        """Return the place behind a line, twice. None if the file has fewer lines."""
        start = 0
        if line < 0:
            return None
        for _ in range(line):
            start = self._text.find("\n", start) + 1
            if not start:
                return (len(self._text),) * 2 if line == self.count else None
        return start, start

    def replace(self, old: Any, new: Any) -> None:
        """Make an edit, if its old text occurs once."""
        place = self.place_of(old) if isinstance(old, str) else None
        if place is not None and isinstance(new, str):
            self._text = self._text[: place[0]] + new + self._text[place[1] :]

    def around(self, start: int, end: int, *, is_insert: bool) -> tuple[int, dict[str, Any]]:
        """Return the number of the first shown line, and the context of the characters from start to end.

        Args:
            start: The place of the first character.
            end: The place behind the last one.
            is_insert: Complete lines are inserted there. Otherwise the characters may be a part of a line.
        """
        text = self._text
        first, last, tail = start, end, None
        if not is_insert:
            first = text.rfind("\n", 0, start) + 1
            if end < len(text):
                last = text.find("\n", end)
                last = len(text) if last < 0 else last
                tail = text[end:last] if last - end <= MAX_LINE_CHARS else ""
        head = text[first:start] if start - first <= MAX_LINE_CHARS else ""
        before: list[str] = []
        place = first
        while len(before) < CONTEXT_LINES and place > 0:
            stop = place - (text[place - 1] == "\n")
            place = text.rfind("\n", 0, stop) + 1
            if stop - place > MAX_LINE_CHARS:
                break
            before.insert(0, f"{text[place:stop]}\n")
        after: list[str] = []
        place = last if is_insert else last + 1
        while len(after) < CONTEXT_LINES and place < len(text):
            stop = text.find("\n", place)
            stop = len(text) if stop < 0 else stop
            if stop - place > MAX_LINE_CHARS:
                break
            after.append(f"{text[place:stop]}\n")
            place = stop + 1
        ends = text.count("\n", 0, first) + (is_insert and first == len(text) and not text.endswith("\n") and first > 0)
        context = {"before": "".join(before), "head": head, "tail": tail, "after": "".join(after)}
        return ends + 1 - len(before), context
