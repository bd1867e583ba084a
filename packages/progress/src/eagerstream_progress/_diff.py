"""The diff of a text edit, line by line, while the new text is being written. `diff.js` of the page has the same rules.

While the new text grows, its lines are compared with the replaced ones from the front. The first difference ends this:
all further lines are new. So each character is compared once, whatever the size of the file. When the new text is
finished, both are compared properly.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from itertools import accumulate
from typing import Any, Final, NamedTuple

from ._lines import TextLines
from ._record import EditRecord

_LINE_END: Final = re.compile(r"\r\n?|\n")
_MAX_CELLS: Final = 65_536
"""Maximum size of the table that compares lines: 256 lines with 256. If there are more, they count as replaced."""


class LineChange(Enum):
    """The state of a line in a diff."""

    SAME = "same"
    REMOVED = "removed"
    ADDED = "added"
    PENDING = "pending"
    """A line that is being replaced: the new text has not come so far."""


class DiffLine(NamedTuple):
    """A line of a diff.

    Attributes:
        change: Its state.
        number: Its number in the old file if it is removed or pending, otherwise in the new one. None if not known.
        text: The line without its end, or the first characters of it. Of the line that is being written, the last ones.
        is_open: True if it is being written.
    """

    change: LineChange
    number: int | None
    text: str
    is_open: bool


class _Part(NamedTuple):
    """Lines with the same state, next to each other. `old` and `new` count the lines of both texts with the context."""

    change: LineChange
    old: int
    new: int
    size: int


class TextDiff:
    """The diff of one edit. It holds no text that grows: CPython appends in place only to a text without other owners.

    Args:
        edit: The record of the edit.
        old: The text that is replaced; empty if there is none.

    Attributes:
        added, removed: Numbers of lines.
        count: Number of lines of the diff, with those around the edit.
        newest: Number of the line of the diff that is being written or replaced, from 1. At the end, the last change.
        compared_chars: Number of characters of the new text that were compared while it grew.
    """

    def __init__(self, edit: EditRecord, old: str) -> None:
        context = edit["context"] or {"before": "", "head": "", "tail": None, "after": ""}
        self._head, self._tail = context["head"], context["tail"]
        before, replaced = _split(context["before"]), self._whole(old)
        self._start, self._end = len(before), len(before) + len(replaced)  # of the replaced lines
        self._old = [*before, *replaced, *_split(context["after"])]
        # If the replaced text ends with a line end, so does the new one, probably: the line behind it stays meanwhile.
        self._growing_end = self._end - (self._tail is not None and old.endswith(("\n", "\r")))
        self._first = edit["line"]
        self._replaced_lines = edit["replaced_lines"] or 0
        self._lines = TextLines()
        self.compared_chars = 0
        self._restart()
        self._is_whole = False
        self._chars = 0
        self._new: list[str] = []  # the lines of the complete new text
        self._update("")

    def _whole(self, text: str) -> list[str]:
        """Return the lines with a text in place of the edit."""
        if self._tail is None:
            return _split(f"{self._head}{text}")
        return _LINE_END.split(f"{self._head}{text}{self._tail}")

    def _restart(self) -> None:
        self._same = self._start  # the line that is compared next; those before it are the same
        self._at = len(self._head)  # compared characters of this line
        self._place = 0  # compared characters of the new text
        self._differs = self._start == self._growing_end

    def read(self, text: str, *, is_whole: bool) -> None:
        """Read what is new in the new text. If it is complete, compare both texts properly, once."""
        if is_whole == self._is_whole and len(text) == self._chars:
            return
        self._chars, self._is_whole = len(text), is_whole
        if self._lines.read(text):
            self._restart()
        self._compare(text)
        self._update(text)

    def _compare(self, text: str) -> None:
        """Compare the new characters with the replaced lines."""
        to = len(text) - text.endswith("\r")  # a line feed may follow
        while not self._differs and self._place < to:
            found = _LINE_END.search(text, self._place, to)
            stop = to if found is None else found.start()
            line = self._old[self._same] if self._same < self._growing_end else None
            at = self._at + stop - self._place
            self.compared_chars += stop - self._place
            if line is None or line[self._at : at] != text[self._place : stop] or (found and at != len(line)):
                self._differs = True
            elif found is None:
                self._place, self._at = stop, at
            else:
                self._place, self._at, self._same = found.end(), 0, self._same + 1

    def _update(self, text: str) -> None:
        start, same, end = self._start, self._same, self._end if self._is_whole else self._growing_end
        new_end = end
        changes = [_Part(LineChange.SAME, start, start, same - start)]
        if self._is_whole:
            self._new = self._whole(text)
            changes = _changes(self._old[start:end], self._new, start)
            new_end = start + len(self._new)
        elif self._differs:
            new_end = start + self._lines.count
            changes.append(_Part(LineChange.REMOVED, same, same, end - same))
            changes.append(_Part(LineChange.ADDED, end, same, new_end - same))
        else:
            changes.append(_Part(LineChange.PENDING, same, same, end - same))
        parts = [
            _Part(LineChange.SAME, 0, 0, start),
            *changes,
            _Part(LineChange.SAME, end, new_end, len(self._old) - end),
        ]
        self._parts = [part for part in parts if part.size]
        self._ends = list(accumulate(part.size for part in self._parts))
        self.count = self._ends[-1] if self._ends else 0
        self.added = sum(part.size for part in changes if part.change is LineChange.ADDED)
        self.removed = self._replaced_lines + sum(part.size for part in changes if part.change is LineChange.REMOVED)
        if self._is_whole or self._differs:
            changed = (
                stop for part, stop in zip(self._parts, self._ends, strict=True) if part.change is not LineChange.SAME
            )
            self.newest = max(changed, default=min(1, self.count))
        else:
            self.newest = min(same + 1, self.count)

    def line(self, text: str, number: int, chars: int) -> DiffLine:
        """Return a line of the diff, with at most `chars` characters.

        Args:
            text: The new text that was read before.
            number: Its number in the diff, from 1.
            chars: Number of characters.
        """
        place = bisect_left(self._ends, number)
        part = self._parts[place]
        offset = number - 1 - (self._ends[place] - part.size)
        is_new = part.change in (LineChange.SAME, LineChange.ADDED)
        count = None if self._first is None else self._first + offset + (part.new if is_new else part.old)
        if part.change is not LineChange.ADDED:
            return DiffLine(part.change, count, self._old[part.old + offset][:chars], is_open=False)
        line = part.new + offset - self._start  # in the new text, from 0
        if self._is_whole:
            return DiffLine(part.change, count, self._new[line][:chars], is_open=False)
        head = self._head if line == 0 else ""
        if line < self._lines.count - 1:
            shown = f"{head}{self._lines.line(text, line + 1, chars)}"
            return DiffLine(part.change, count, shown[:chars], is_open=False)
        shown = f"{head}{text[max(self._lines.start(text, line + 1), len(text) - chars) :]}"
        return DiffLine(part.change, count, shown[-chars:].removesuffix("\r"), is_open=True)


class CallDiff:
    """The diffs of the edits of a call.

    Args:
        edits: The records of the edits. More may be added to it.

    Attributes:
        path: The file.
        parameters: The parameters that the diff is shown in place of.
        diffs: The diffs so far.
    """

    def __init__(self, edits: Sequence[EditRecord]) -> None:
        self._edits = edits
        self.path: str = edits[0]["path"]
        self.parameters: set[str] = {_steps(edits[0][name] or edits[0]["new"])[0] for name in ("new", "old")}
        self.diffs: list[TextDiff] = []

    @property
    def added(self) -> int:
        """Number of added lines."""
        return sum(diff.added for diff in self.diffs)

    @property
    def removed(self) -> int:
        """Number of removed lines."""
        return sum(diff.removed for diff in self.diffs)

    @property
    def counts(self) -> str:
        """The numbers of added and removed lines: `+12 -3`."""
        return f"+{self.added:,} -{self.removed:,}"

    def new_text(self, fields: Mapping[str, Any], number: int) -> str:
        """Return the new text of an edit, by its number from 0, as far as it is in the input."""
        return _text_at(fields, self._edits[number]["new"]) or ""

    def read(self, fields: Mapping[str, Any], finished: Collection[str], *, is_valid: bool) -> bool:
        """Read what is new in the input. Return False if it has no such texts.

        Args:
            fields: The input so far.
            finished: The finished parameters.
            is_valid: True if the input is complete and valid.
        """
        for number, edit in enumerate(self._edits):
            old = "" if edit["old"] is None else _text_at(fields, edit["old"])
            new = _text_at(fields, edit["new"])
            if old is None or (new is None and edit["old"] is None):
                return False
            if number == len(self.diffs):
                self.diffs.append(TextDiff(edit, old))
            is_last = number == len(self._edits) - 1
            is_whole = is_valid or not is_last or _steps(edit["new"])[0] in finished
            self.diffs[number].read(new or "", is_whole=is_whole)
        return True


def _steps(pointer: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]] or [""]


def _text_at(fields: Mapping[str, Any], pointer: str) -> str | None:
    value: Any = fields
    for step in _steps(pointer):
        if isinstance(value, list):
            place = int(step) if step.isdecimal() and len(step) < 10 else len(value)
            value = value[place] if place < len(value) else None
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else None


def _split(text: str) -> list[str]:
    """Return the lines of a text without their ends."""
    lines = _LINE_END.split(text)
    return lines if lines[-1] else lines[:-1]


def _changes(old: Sequence[str], new: Sequence[str], at: int) -> list[_Part]:
    """Return the changes between two texts. The numbers of their lines start at `at`.

    Common lines at the front and at the end are left out first. The others are compared by their longest common
    subsequence, or count as replaced if they are many.
    """
    most = min(len(old), len(new))
    front = next((place for place in range(most) if old[place] != new[place]), most)
    most -= front
    back = next((place for place in range(most) if old[-1 - place] != new[-1 - place]), most)
    one, other = old[front : len(old) - back], new[front : len(new) - back]
    parts = [_Part(LineChange.SAME, at, at, front)]
    i = j = 0
    for same_i, same_j in [*_common(one, other), (len(one), len(other))]:
        first, second = at + front + i, at + front + j
        parts.append(_Part(LineChange.REMOVED, first, second, same_i - i))
        parts.append(_Part(LineChange.ADDED, first + same_i - i, second, same_j - j))
        if same_i < len(one):
            parts.append(_Part(LineChange.SAME, at + front + same_i, at + front + same_j, 1))
        i, j = same_i + 1, same_j + 1
    parts.append(_Part(LineChange.SAME, at + len(old) - back, at + len(new) - back, back))
    return parts


def _common(one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int]]:
    """Return the places of the longest common subsequence; of several, the first of the longest at each step."""
    if len(one) * len(other) > _MAX_CELLS:
        return []
    longest = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i in reversed(range(len(one))):
        for j in reversed(range(len(other))):
            is_same = one[i] == other[j]
            longest[i][j] = longest[i + 1][j + 1] + 1 if is_same else max(longest[i + 1][j], longest[i][j + 1])
    i = j = 0
    pairs: list[tuple[int, int]] = []
    while i < len(one) and j < len(other):
        if one[i] == other[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif longest[i + 1][j] >= longest[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs
