"""A second reading of unfinished JSON, for the expectations of the vectors. It shares no code with the library.

It is slow and simple: recursive descent by RFC 8259, over the complete text so far, anew for each fragment. It notes what
each character makes visible. `checks.py` compares it with `json.loads`.
"""

from __future__ import annotations

import copy
import json
import re
from typing import Any, Final, NamedTuple

NOTHING: Final = {"$nothing": True}

_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_BEGUN: Final = re.compile(r"-?((0|[1-9][0-9]*)(\.([0-9]+([eE][-+]?[0-9]*)?)?|[eE][-+]?[0-9]*)?)?")
_LETTERS: Final = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SPACE: Final = " \t\n\r"

Path = tuple[str | int, ...]


class Note(NamedTuple):
    """Something that a character makes visible.

    Attributes:
        read: Number of characters read by then. The end of the text counts as one more.
        op: `"add"`, `"replace"` or `"append"` for a change, `"finish"` for the end of a value.
    """

    read: int
    op: str
    path: Path
    value: Any = None


class _End(Exception):
    """The text ends here."""


class _Wrong(Exception):
    """No document continues with this character."""


class Reading:
    """Everything that a text shows, read from its start.

    Attributes:
        notes: In the order of the text.
        state: `"partial"`, `"complete"` or `"invalid"`.
        error_at: Place of the wrong character, if the text is invalid.
        closing: A text that completes a partial one to a document.
        early: Path and text of a number or literal that some implementations show at the end of the text already. Of a
            number that has just begun to go on, the longest part that is one.
        in_string: The text ends inside a string that shows.
    """

    def __init__(self, text: str) -> None:
        self.notes: list[Note] = []
        self.error_at: int | None = None
        self.closing = ""
        self.early: tuple[Path, str] | None = None
        self.in_string = False
        self._text = text
        self._at = 0
        self._brackets: list[str] = []
        try:
            self._space("0")
            self._value(())
            self.state = "complete"
            self._space()
            self._fail()
        except _End:
            self.state = "partial" if len(self._brackets) or not self._is_finished() else "complete"
            self.closing += "".join(reversed(self._brackets))
        except _Wrong:
            self.state = "invalid"
            self.error_at = self._at

    def _is_finished(self) -> bool:
        return any(note[1:3] == ("finish", ()) and note.read <= len(self._text) for note in self.notes)

    def _note(self, op: str, path: Path, value: Any = None) -> None:
        self.notes.append(Note(self._at, op, path, value))

    def _peek(self, closing: str) -> str:
        """Return the next character; `closing` would continue the text if there is none."""
        if self._at == len(self._text):
            self.closing = closing
            raise _End
        return self._text[self._at]

    def _fail(self) -> None:
        self._peek("")
        raise _Wrong

    def _space(self, closing: str = "") -> None:
        while self._peek(closing) in _SPACE:
            self._at += 1

    def _value(self, path: Path, *, op: str = "add", delimiters: str = _SPACE) -> None:
        character = self._peek("0")
        if character == "{":
            self._object(path, op)
        elif character == "[":
            self._array(path, op)
        elif character == '"':
            self._at += 1
            self._note(op, path, "")
            self.in_string = True
            self._string(path)
            self.in_string = False
        elif character in "tfn":
            self._literal(path, op, {"t": "true", "f": "false", "n": "null"}[character])
            return
        elif character in "-0123456789":
            self._read_number(path, op, delimiters)
            return
        else:
            raise _Wrong
        self._note("finish", path)

    def _object(self, path: Path, op: str) -> None:
        self._at += 1
        self._note(op, path, {})
        self._brackets.append("}")
        keys: set[str] = set()
        self._space()
        while self._peek("") != "}" or keys:
            if self._peek('"":0') != '"':
                raise _Wrong
            self._at += 1
            key = self._string(None)
            self._space(":0")
            if self._peek(":0") != ":":
                raise _Wrong
            self._at += 1
            self._space("0")
            self._value((*path, key), op="replace" if key in keys else "add", delimiters=_SPACE + ",}")
            keys.add(key)
            self._space()
            if self._peek("") == "}":
                break
            if self._peek("") != ",":
                raise _Wrong
            self._at += 1
            self._space('"":0')
        self._at += 1
        self._brackets.pop()

    def _array(self, path: Path, op: str) -> None:
        self._at += 1
        self._note(op, path, [])
        self._brackets.append("]")
        count = 0
        self._space()
        while self._peek("") != "]" or count:
            self._value((*path, count), delimiters=_SPACE + ",]")
            count += 1
            self._space()
            if self._peek("") == "]":
                break
            if self._peek("") != ",":
                raise _Wrong
            self._at += 1
            self._space("0")
        self._at += 1
        self._brackets.pop()

    def _string(self, path: Path | None) -> str:
        """Read up to the closing quote. A key (path None) shows nothing."""
        rest = '"' if path is not None else '":0'
        text = high = ""
        while True:
            character = self._peek(rest)
            if character < " ":
                raise _Wrong
            self._at += 1
            unit = "" if character == '"' else character
            if character == "\\":
                unit = self._escape(rest)
            if high and len(unit) == 1 and "\udc00" <= unit <= "\udfff" and character == "\\":
                unit, high = (high + unit).encode("utf-16", "surrogatepass").decode("utf-16"), ""
            shown = high + unit
            high = ""
            if character == "\\" and "\ud800" <= shown[-1:] <= "\udbff":
                shown, high = shown[:-1], shown[-1:]
            text += shown
            if shown and path is not None:
                self._note("append", path, shown)
            if character == '"':
                return text

    def _escape(self, rest: str) -> str:
        letter = self._peek("\\" + rest)
        if letter != "u":
            if letter not in _LETTERS:
                raise _Wrong
            self._at += 1
            return _LETTERS[letter]
        self._at += 1
        digits = ""
        while len(digits) < 4:
            digit = self._peek("0" * (4 - len(digits)) + rest)
            if digit not in "0123456789abcdefABCDEF":
                raise _Wrong
            digits += digit
            self._at += 1
        return chr(int(digits, 16))

    def _literal(self, path: Path, op: str, word: str) -> None:
        for place, letter in enumerate(word):
            if place and self._at == len(self._text):
                self.early = (path, word)
            if self._peek(word[place:]) != letter:
                raise _Wrong
            self._at += 1
        self._note(op, path, json.loads(word))
        self._note("finish", path)

    def _read_number(self, path: Path, op: str, delimiters: str) -> None:
        begun = _BEGUN.match(self._text, self._at)
        assert begun is not None
        number = begun.group()
        self._at += len(number)
        is_whole = _NUMBER.fullmatch(number) is not None
        part = _NUMBER.match(number)
        if self._at == len(self._text) and part is not None:
            self.early = (path, part.group())
            if is_whole and not path:  # the end of the text ends it
                self.notes += [Note(self._at + 1, op, path, json.loads(number)), Note(self._at + 1, "finish", path)]
        if self._peek("" if is_whole else "0") not in delimiters or not is_whole:
            raise _Wrong
        self.notes += [Note(self._at + 1, op, path, json.loads(number)), Note(self._at + 1, "finish", path)]


def shown(notes: list[Note], read: int) -> Any:
    """Return the value after `read` characters."""
    holder: list[Any] = [NOTHING]
    for note in notes:
        if note.read <= read and note.op != "finish":
            _apply(holder, (0, *note.path), note)
    return holder[0]


def changes(notes: list[Note], after: int, read: int) -> list[dict[str, Any]]:
    """Return the operations of the characters after the first `after`, up to `read`.

    An operation inside a container that the same fragment has added is a part of that addition, and a piece of a string
    lengthens the operation before it.
    """
    found: list[tuple[Path, str, list[Any]]] = []
    for note in notes:
        if not after < note.read <= read or note.op == "finish":
            continue
        outer = next(
            (one for one in reversed(found) if one[1] != "append" and note.path[: len(one[0])] == one[0]), None
        )
        if outer is not None and (note.path != outer[0] or note.op == "append"):
            _apply(outer[2], (0, *note.path[len(outer[0]) :]), note)
        elif found and note.op == "append" and found[-1][:2] == (note.path, "append"):
            found[-1][2][0] += note.value
        else:
            found.append((note.path, note.op, [copy.deepcopy(note.value)]))
    return [{"op": op, "path": pointer(path), "value": value} for path, op, (value,) in found]


def pointer(path: Path) -> str:
    """Return a path as a JSON pointer."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def _apply(holder: list[Any], path: Path, note: Note) -> None:
    parent: Any = holder
    for step in path[:-1]:
        parent = parent[step]
    if note.op == "append":
        parent[path[-1]] += note.value
    elif isinstance(parent, list) and path[-1] == len(parent):
        parent.append(copy.deepcopy(note.value))
    else:
        parent[path[-1]] = copy.deepcopy(note.value)
