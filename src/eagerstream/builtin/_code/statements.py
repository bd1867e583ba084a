"""`StatementSplitter`: Python source in pieces of any size, to its complete top-level statements.

Only the open statement is kept, and the cost is linear: a line is examined once, when it is complete. The splitter
knows lines, brackets and strings, but no grammar: whether a statement is valid is up to the interpreter that compiles
it.
"""

from __future__ import annotations

import io
import re
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

    If a bracket or a string is closed wrongly, the statement ends with that line: no interpreter accepts it.
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
        complete: list[Statement] = []
        lines = self._newlines.decode(text).split("\n")
        for line in lines[:-1]:
            self._take_line("".join([*self._pieces, line, "\n"]), complete)
            self._pieces.clear()
            self._head = ""
        if lines[-1]:
            self._pieces.append(lines[-1])
            if len(self._head) < _HEAD_CHARS:
                self._head += lines[-1][:_HEAD_CHARS]
                if self._waits is _Waits.FOR_NEXT and not self._is_inside and _begins_statement(self._head):
                    complete.append(self._finish())
        return complete

    def close(self) -> list[Statement]:
        """End the source, and return the rest: the open statement counts as complete."""
        complete: list[Statement] = []
        rest = "".join([*self._pieces, self._newlines.decode("", final=True)])
        self._pieces.clear()
        if rest:
            self._take_line(rest, complete)
        if self._is_inside:
            self._kept = len(self._lines)
        if self._kept:
            complete.append(self._finish())
        return complete

    def _take_line(self, line: str, complete: list[Statement]) -> None:
        if self._is_inside:
            self._lines.append(line)
        else:
            start, column = _indent(line)
            # After a lone backslash in the first column, the next line determines the indentation.
            is_code = line[start : start + 1] not in ("", "\n", "#") and (column > 0 or line[start:] != "\\\n")
            if is_code and self._waits is _Waits.FOR_NEXT and column == 0 and _word(line, start) not in _CLAUSES:
                complete.append(self._finish())
            if is_code or self._lines:
                self._lines.append(line)
            if not is_code:
                self._line += 1
                return
            if self._waits is not _Waits.FOR_NEXT:
                self._waits = _wait_of(line, start)
                self._may_be_name = _word(line, start) == "match"
        self._line += 1
        is_over = self._lexer.take(line)
        self._is_inside = not is_over and not self._lexer.is_broken
        if self._is_inside:
            return
        self._kept = len(self._lines)
        if self._may_be_name and not self._lexer.opens_block(line):
            self._waits = _Waits.NOT
        self._may_be_name = False
        if self._lexer.is_broken or self._waits is _Waits.NOT:
            complete.append(self._finish())

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


def _indent(line: str) -> tuple[int, int]:
    """Return the index of a line's first character, and its column. A form feed begins the line anew."""
    blank = _INDENT.match(line)
    assert blank is not None
    return blank.end(), blank.end() - (blank[0].rfind("\f") + 1)


def _word(line: str, start: int = 0) -> str:
    word = _WORD.match(line, start)
    assert word is not None
    return word[0]


def _wait_of(line: str, start: int) -> _Waits:
    """Return the event that completes a statement with this first line."""
    if line[start] == "@":
        return _Waits.FOR_DEFINITION
    return _Waits.FOR_NEXT if _word(line, start) in _COMPOUND else _Waits.NOT


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

_CODE: Final = re.compile(r"""(?:(?<!\w)([A-Za-z]{1,2}))?(\"{3}|'{3}|["'])|[]()[{}#\\:]""")
"""The next character in code that matters. Group 1 is the prefix of a string, group 2 its quotes."""
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
_PLAIN: Final = {quotes: re.compile(rf"\\|{quotes}") for quotes in ('"', "'", '"""', "'''")}
_FORMATTED: Final = {quotes: re.compile(rf"[\\{{}}]|{quotes}") for quotes in _PLAIN}


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

    def take(self, line: str) -> bool:
        """Take the next complete line, and return whether it ends a logical line."""
        self._is_continued = False
        self._colon = self._comment = None
        position = 0
        while position < len(line) and not self.is_broken:
            inner = self._stack[-1] if self._stack else ""
            position = (
                self._in_string(line, position, inner)
                if isinstance(inner, _String)
                else self._in_code(line, position, inner)
            )
        return not self._stack and not self._is_continued

    def opens_block(self, line: str) -> bool:
        """Return whether the last line that was taken ends with a colon."""
        return self._colon is not None and not line[self._colon : self._comment].strip()

    def _in_code(self, line: str, position: int, inner: str) -> int:
        """Go on in code, and return the position behind the next character that matters."""
        found = _CODE.search(line, position)
        if found is None:
            return len(line)
        prefix, quotes = found[1], found[2]
        if quotes is not None:
            prefix = (prefix or "").lower()
            is_formatted = prefix in _FORMATS  # `if` may stand before quotes, too
            end = (_FORMATTED if is_formatted else _PLAIN)[quotes]
            self._stack.append(_String(end, quotes, is_formatted, "r" in prefix))
            return found.end()
        match found[0]:
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
            case _ if string.is_format:
                self.is_broken = True
            case _:
                self._stack.pop()
        return end
