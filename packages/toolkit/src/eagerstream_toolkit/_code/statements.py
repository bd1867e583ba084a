"""`StatementSplitter`: Python source in pieces of any size, to its complete top-level statements.

Only the open statement is kept, and the cost is linear: a line is examined once, when it is complete. A character takes
up to 2 us, and a megabyte may come at once, so `steps` pauses. The splitter knows lines, brackets and strings, but no
grammar: whether a statement is valid is up to the interpreter that compiles it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

_CLAUSES: Final = frozenset({"else", "elif", "except", "finally"})
"""Words that continue a compound statement at its own indentation."""
_COMPOUND: Final = frozenset({"if", "for", "while", "try", "with", "async", "def", "class", "match"})
"""Words that begin a statement with a block. `match` may also be an ordinary name."""
_WORD: Final = re.compile(r"[\w\x80-\U0010ffff]*")
"""Python takes each character that is not ASCII for a part of a name, and checks the name later."""
_INDENT: Final = re.compile(r"[ \t\f]*")
_HEAD_CHARS: Final = max(map(len, _CLAUSES)) + 1
_STEP_CHARS: Final = 4_096
_STEP_MARKS: Final = 2_000


class _Waits(Enum):
    """The event that completes the open statement, once its logical line has ended."""

    NOT = "a simple statement: it is complete"
    FOR_NEXT = "a block: the next statement"
    FOR_DEFINITION = "decorators: the line that they decorate"


@dataclass(frozen=True, slots=True)
class Statement:
    """One complete top-level statement, or several on one line.

    Attributes:
        source: Its complete lines, without comments before and after it.
        line: The number of its first line in the code, from 1.
        end_line: The number of its last line.
    """

    source: str
    line: int
    end_line: int


class StatementSplitter:
    """Split source into statements while it is being written.

    A simple statement is complete at the end of its line. A statement with a block is complete when the next statement
    begins, because an `else` may follow until then. CR and CRLF end a line like LF, as in Python.

    If a bracket or a string is closed wrongly, the statement ends with that line: no interpreter accepts it. A
    backslash in the last line is a statement of its own, which no interpreter accepts either.
    """

    def __init__(self) -> None:
        self._newlines = io.IncrementalNewlineDecoder(None, translate=True)
        self._pieces: list[str] = []
        """The unfinished last line."""
        self._head = ""
        """The first characters of that line, enough to recognize a clause."""
        self._lexer = _Lexer()
        self._lines: list[str] = []
        """The lines of the open statement, and comments and empty lines behind it."""
        self._kept = 0
        """Number of these lines up to the end of its last logical line."""
        self._line = 0
        """Number of finished lines."""
        self._is_inside = False
        """True if the last finished line does not end a logical line."""
        self._waits = _Waits.NOT
        self._backslash = ""
        """The last finished line if it has only a backslash, which joins it to the next line."""
        self._may_be_name = False
        """True while the first logical line is open, and begins with `match`."""

    @property
    def open_line(self) -> int:
        """The number of the first line that is in no complete statement."""
        return self._line - len(self._lines) + 1

    @property
    def open(self) -> str:
        """The text of the statement that is not complete yet, with its unfinished line."""
        return "".join([*self._lines[: self._kept], *self._pieces])

    def feed(self, text: str) -> list[Statement]:
        """Take the next piece of the source, and return the statements that are complete now."""
        return [each for each in self.steps(text) if each is not None]

    def close(self) -> list[Statement]:
        """End the source, and return the rest: the open statement counts as complete."""
        return [each for each in self.last_steps() if each is not None]

    def steps(self, text: str) -> Iterator[Statement | None]:
        """Do the same as `feed`: yield each statement, and None after some milliseconds of work. Iterate to the end."""
        for start in range(0, len(text), _STEP_CHARS):
            if start:
                yield None
            lines = self._newlines.decode(text[start : start + _STEP_CHARS]).split("\n")
            for line in lines[:-1]:
                whole = "".join([*self._pieces, line, "\n"])
                self._pieces.clear()
                self._head = ""
                yield from self._take_line(whole)
            if lines[-1]:
                self._pieces.append(lines[-1])
                if len(self._head) < _HEAD_CHARS:
                    self._head += lines[-1][:_HEAD_CHARS]
                    if self._waits is _Waits.FOR_NEXT and not self._is_inside and _begins_statement(self._head):
                        yield self._finish()

    def last_steps(self) -> Iterator[Statement | None]:
        """Do the same as `close`, as `steps` does."""
        rest = "".join([*self._pieces, self._newlines.decode("", final=True)])
        self._pieces.clear()
        if rest:
            yield from self._take_line(rest)
        if self._is_inside:
            self._kept = len(self._lines)
        if self._kept:
            yield self._finish()
        if self._backslash:  # there is no next line: no interpreter accepts it
            yield Statement(self._backslash, self._line, self._line)

    def _take_line(self, line: str) -> Iterator[Statement | None]:
        self._backslash = ""
        if self._is_inside:
            self._lines.append(line)
        else:
            blank = _INDENT.match(line)
            assert blank is not None
            start = blank.end()
            column = start - (blank[0].rfind("\f") + 1)  # a form feed begins the line anew
            # After a lone backslash in the first column, the next line determines the indentation.
            is_code = line[start : start + 1] not in ("", "\n", "#") and (column > 0 or line[start:] != "\\\n")
            if is_code and self._waits is _Waits.FOR_NEXT and column == 0 and _word(line, start) not in _CLAUSES:
                yield self._finish()
            if is_code or self._lines:
                self._lines.append(line)
            if not is_code:
                self._line += 1
                self._backslash = line if line[start:] == "\\\n" else ""
                return
            if self._waits is not _Waits.FOR_NEXT:
                word = _word(line, start)
                self._may_be_name = word == "match"
                self._waits = _Waits.FOR_NEXT if word in _COMPOUND else _Waits.NOT
                if line[start] == "@":
                    self._waits = _Waits.FOR_DEFINITION
        self._line += 1
        for _ in self._lexer.take(line):
            yield None
        self._is_inside = not (self._lexer.is_over or self._lexer.is_broken)
        if self._is_inside:
            return
        self._kept = len(self._lines)
        if self._may_be_name and not self._lexer.opens_block(line):
            self._waits = _Waits.NOT
        self._may_be_name = False
        if self._lexer.is_broken or self._waits is _Waits.NOT:
            yield self._finish()

    def _finish(self) -> Statement:
        """Return the open statement, and begin anew."""
        end_line = self._line - (len(self._lines) - self._kept)
        statement = Statement("".join(self._lines[: self._kept]), end_line - self._kept + 1, end_line)
        self._lines.clear()
        self._kept = 0
        self._is_inside = False
        self._waits = _Waits.NOT
        self._lexer = _Lexer()
        return statement


def _word(line: str, start: int = 0) -> str:
    """Return the word at `start`, or the beginning of one that is longer than every keyword."""
    word = _WORD.match(line, start, start + _HEAD_CHARS)
    assert word is not None
    return word[0]


def _begins_statement(head: str) -> bool:
    """Return whether the first characters of an unfinished line certainly begin a new statement."""
    head = head.lstrip("\f")
    if not head or head[0] in " \t#\\":
        return False
    word = _word(head)
    if word == head:  # it may become longer
        return not any(clause.startswith(word) for clause in _CLAUSES)
    return word not in _CLAUSES


# --- brackets and strings ---------------------------------------------------------------------------------------------

_CODE: Final = re.compile(r"""["'\]()\[}{#\\:]""")
"""The next character in code that matters. A set is found ten times as fast as an alternative with a prefix."""
_PREFIX: Final = re.compile(r"(?<!\w)[A-Za-z]{1,2}\Z")
_FORMATS: Final = frozenset({"f", "fr", "rf", "t", "tr", "rt"})
_CLOSING: Final = {")": "(", "]": "[", "}": "{"}


@dataclass(slots=True)
class _String:
    """An open string.

    Attributes:
        end: A pattern for the next character that matters.
        quotes: The quotes that close it.
        is_formatted: True if braces in it contain code (PEP 701, PEP 750).
        is_raw: True if a backslash is an ordinary character before a brace.
        is_format: True for the format of a value (`{value:>10}`), which ends with its brace.
    """

    end: re.Pattern[str]
    quotes: str
    is_formatted: bool
    is_raw: bool
    is_format: bool = False


_FIELD: Final = "field"
"""The braces of a value in a string. The code in them is not part of the string."""
_PLAIN: Final = {quote: re.compile(rf"[\\{quote}]") for quote in ('"', "'")}
_FORMATTED: Final = {quote: re.compile(rf"[\\{{}}{quote}]") for quote in _PLAIN}


class _Lexer:
    """The brackets and strings that are open after each line.

    A formatted string is read as in Python 3.12 and later, where it may contain its own quotes. Earlier versions reject
    such strings, so nothing that they accept is read differently.
    """

    def __init__(self) -> None:
        self._stack: list[str | _String] = []
        self._is_continued = False
        self._colon: int | None = None
        """The position behind the last colon of the line that is in no bracket."""
        self._comment: int | None = None
        self.is_broken = False

    @property
    def is_over(self) -> bool:
        """True if the last line that was taken ends a logical line."""
        return not self._stack and not self._is_continued

    def take(self, line: str) -> Iterator[None]:
        """Take the next complete line. It is taken at the end of the iteration, which has a step for 2,000 marks."""
        self._is_continued = False
        self._colon = self._comment = None
        position = marks = 0
        while position < len(line) and not self.is_broken:
            marks += 1
            if marks % _STEP_MARKS == 0:
                yield
            inner = self._stack[-1] if self._stack else ""
            position = (
                self._in_string(line, position, inner)
                if isinstance(inner, _String)
                else self._in_code(line, position, inner)
            )

    def opens_block(self, line: str) -> bool:
        """Return whether the last line that was taken ends with a colon."""
        return self._colon is not None and not line[self._colon : self._comment].strip()

    def _in_code(self, line: str, position: int, inner: str) -> int:
        """Go on in code, and return the position behind the next character that matters."""
        found = _CODE.search(line, position)
        if found is None:
            return len(line)
        match found[0]:
            case ("'" | '"') as quote:
                before = _PREFIX.search(line, max(position, found.start() - 2), found.start())
                prefix = before[0].lower() if before is not None else ""
                is_formatted = prefix in _FORMATS  # `if` may stand before quotes, too
                quotes = quote * 3 if line.startswith(quote * 3, found.start()) else quote
                end = (_FORMATTED if is_formatted else _PLAIN)[quote]
                self._stack.append(_String(end, quotes, is_formatted, "r" in prefix))
                return found.start() + len(quotes)
            case "#":
                self._comment = found.start()
                return len(line)
            case "\\":
                self._is_continued = line[found.end() : found.end() + 1] in ("", "\n")
                self.is_broken = not self._is_continued
            case "(" | "[" | "{":
                self._stack.append(found[0])
            case "}" if inner == _FIELD:
                self._stack.pop()
            case ")" | "]" | "}":
                if inner != _CLOSING[found[0]]:
                    self.is_broken = True
                else:
                    self._stack.pop()
            case ":" if inner == _FIELD:
                outer = self._stack[-2]
                assert isinstance(outer, _String)
                self._stack.append(replace(outer, is_format=True))
            case _:
                self._colon = None if inner else found.end()
        return found.end()

    def _in_string(self, line: str, position: int, string: _String) -> int:
        """Go on in a string, and return the position behind the next character that matters."""
        found = string.end.search(line, position)
        if found is None:
            # It must end on its line. Python 3.12 allows several lines in a format.
            if len(string.quotes) == 1 and not string.is_format and line.endswith("\n"):
                self.is_broken = True
            return len(line)
        end = found.end()
        following = line[end : end + 1]
        match found[0]:
            case "\\" if string.is_formatted and following in ("{", "}"):
                return end
            case "\\" if string.is_formatted and not string.is_raw and line.startswith("N{", end):
                return line.find("}", end) + 1 or len(line)
            case "\\":
                return end + 1
            case "{" if following == "{" and not string.is_format:
                return end + 1
            case "{":
                self._stack.append(_FIELD)
            case "}" if string.is_format:
                del self._stack[-2:]  # and the field
            case "}":
                pass
            case _ if not line.startswith(string.quotes, found.start()):
                pass  # one of its three quotes
            case _ if string.is_format:
                self.is_broken = True
            case _:
                self._stack.pop()
                return found.start() + len(string.quotes)
        return end
