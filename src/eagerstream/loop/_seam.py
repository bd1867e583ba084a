"""`Seam`: the text that continues a cut input, made from the input of `continue_input` while that is written.

Everything behind the seam is passed on as the model writes it, so the input grows as if it had never been cut. Nothing
is passed on before the seam is proven, so nothing can be doubled.
"""

from __future__ import annotations

import json
import re
from typing import Final

from ._cut_input import CutInput, whole_units

_STRING: Final = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_BETWEEN: Final = re.compile(r'[^"\[\]{}]+')
_WHITE_SPACE: Final = " \t\r\n"
_MOST_KEY_CHARS: Final = 1_000
_HEAD_CHARS: Final = 64
"""After so many characters, a text that began nowhere in the cut one is given up."""


class SeamError(Exception):
    """The model has not continued an input where it was cut off."""


class Seam:
    """Turns the input of `continue_input` into the text that continues a cut input.

    Args:
        cut: The input that is continued.

    Attributes:
        chars: Number of characters that it has returned.
    """

    # A scanner of its own, and not the parser: what the model writes inside `text` and `rest` is passed on unread.

    def __init__(self, cut: CutInput) -> None:
        self.chars: int = 0
        self._rest = _Rest(cut)
        self._text = _Text(cut)
        self._depth = 0
        self._in_string = False
        self._is_escaped = False  # the last character was a backslash in a string
        self._key: str | None = None  # of the current value of the input; None before
        self._is_key = False  # the current string is one

    def feed(self, fragment: str) -> str:
        """Take a fragment, and return the text by which it continues the cut input.

        Raises:
            SeamError: It does not continue it.
        """
        out: list[str] = []
        at = 0
        while at < len(fragment):
            at = self._in_a_string(fragment, at, out) if self._in_string else self._between(fragment, at, out)
        return self._taken(out)

    def end(self) -> str:
        """Return the rest, after the end of a complete input of `continue_input`.

        Raises:
            SeamError: Something is missing.
        """
        if not self._text.has_ended:
            raise SeamError("the text is missing")
        return self._taken([self._rest.end()])

    def _taken(self, out: list[str]) -> str:
        text = "".join(out)
        self.chars += len(text)
        return text

    def _in_a_string(self, fragment: str, at: int, out: list[str]) -> int:
        """Read up to the end of a string or of the fragment, and return the offset behind it."""
        start = at
        if self._is_escaped:
            self._is_escaped = False
            at += 1
        found = _STRING.match(fragment, at)
        assert found is not None
        at = found.end()
        has_ended = at < len(fragment) and fragment[at] == '"'
        if at < len(fragment) and not has_ended:  # a backslash is the last character
            self._is_escaped = True
            at += 1
        piece = fragment[start:at]
        if self._is_key:
            self._key = (self._key or "") + piece
            if len(self._key) > len("rest"):
                raise SeamError("not the form that was asked for")
        elif self._depth == 1:
            out.append(self._text.feed(piece))
        else:
            written = piece + '"' if has_ended else piece
            out.append(self._rest.feed(written, is_member=self._depth == 3, in_string=True, ends=has_ended))
        if has_ended:
            self._in_string = False
            if self._is_key:
                self._is_key = False
            elif self._depth == 1:
                out.append(self._text.end())
            at += 1
        return at

    def _between(self, fragment: str, at: int, out: list[str]) -> int:
        """Read one token outside of strings, and return the offset behind it."""
        character = fragment[at]
        if self._depth > 2 and character not in '"[]{}':
            found = _BETWEEN.match(fragment, at)
            assert found is not None
            out.append(self._rest.feed(found[0], is_member=self._depth == 3))
            return found.end()
        if character == '"':
            self._begin_string(out)
        elif character in "[{":
            self._depth += 1
            if self._depth > 3:
                out.append(self._rest.feed(character, is_member=False))
            elif self._depth == 3:
                if not self._text.has_ended:
                    raise SeamError("the rest came before the text")
                self._rest.begin(character)
            elif character != ("{" if self._depth == 1 else "[") or (self._depth == 2 and self._key != "rest"):
                raise SeamError("not the form that was asked for")
            elif self._depth == 2:
                self._rest.has_come = True
        elif character in "]}":
            self._depth -= 1
            if self._depth > 2:
                out.append(self._rest.feed(character, is_member=False))
            elif self._depth == 2:
                out.append(self._rest.close(character))
        elif character == "," and self._depth == 1:
            self._key = None
        elif character not in _WHITE_SPACE + ":,":
            raise SeamError("not the form that was asked for")
        return at + 1

    def _begin_string(self, out: list[str]) -> None:
        self._in_string = True
        if self._depth == 1:
            self._is_key = self._key is None
            if self._key not in (None, "text"):
                raise SeamError("not the form that was asked for")
        elif self._depth > 2:
            out.append(self._rest.feed('"', is_member=self._depth == 3, in_string=True))
        else:
            raise SeamError("not the form that was asked for")


class _Text:
    """The rest of the unfinished text. It begins with the end of what has come."""

    def __init__(self, cut: CutInput) -> None:
        self.has_ended = cut.key is None
        self._before = cut.text
        self._end = cut.anchor
        self._half = cut.half
        self._takes_none = cut.key is None
        self._is_found = False
        self._written = ""  # not decoded: half an escape or of a pair
        self._decoded: list[str] = []
        self._length = 0
        self._last = ""  # the last decoded characters, fewer than `_end` has

    def feed(self, piece: str) -> str:
        """Take a piece as it was written, and return what of it continues the text."""
        if self.has_ended:
            if piece:
                raise SeamError("a text where none was cut off" if self._takes_none else "a second text")
            return ""
        written = self._written + piece
        if self._is_found and not self._half:
            self._written = ""
            return written
        whole = whole_units(written)
        self._written = written[len(whole) :]
        return self._take(whole)

    def end(self) -> str:
        """Take the end of the text."""
        if self._takes_none:
            return ""
        if self.has_ended:
            raise SeamError("a second text")
        written, self._written = self._written, ""
        rest = self._take(written)
        if not self._is_found or self._half:
            raise SeamError("the text does not begin where the cut one ends")
        self.has_ended = True
        return rest + '"'

    def _take(self, written: str) -> str:
        try:
            decoded: str = json.loads(f'"{written}"')
        except ValueError:
            raise SeamError("the text is no JSON") from None
        if not self._is_found:
            decoded = self._found(decoded)
        if not self._is_found or not decoded:
            return ""
        begun = ""
        if self._half:
            units = decoded[0].encode("utf-16-be", "surrogatepass").hex()
            escape = "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
            if not escape.startswith(self._half.lower()):
                raise SeamError("the text does not continue half a character")
            begun, decoded, self._half = escape[len(self._half) :], decoded[1:], ""
        return begun + json.dumps(decoded)[1:-1]

    def _found(self, decoded: str) -> str:
        """Look for the seam, and return what comes behind it."""
        window = self._last + decoded
        at = window.find(self._end)
        begin = self._length - len(self._last)
        self._decoded.append(decoded)
        self._length += len(decoded)
        if at >= 0:
            # The first occurrence decides. If there were an earlier one in what both texts have in common, the end of
            # the cut text would occur in it twice.
            length = begin + at + len(self._end)
            text = "".join(self._decoded)
            self._decoded.clear()
            if length > len(self._before) or text[:length] != self._before[len(self._before) - length :]:
                raise SeamError("the text does not begin where the cut one ends")
            self._is_found = True
            return text[length:]
        keep = len(self._end) - 1
        self._last = window[len(window) - keep :] if len(window) > keep else window
        is_long = self._length > len(self._before)
        if is_long or self._length - len(decoded) < _HEAD_CHARS <= self._length:
            text = "".join(self._decoded)
            if is_long or text[:_HEAD_CHARS] not in self._before:
                raise SeamError("the text does not begin where the cut one ends")
        return ""


class _Rest:
    """The rest behind the unfinished text: the further members of each unfinished container."""

    def __init__(self, cut: CutInput) -> None:
        self.has_come = False
        self._closers = cut.closers
        self._closed = 0
        self._known = [
            frozenset(members) if isinstance(members, dict) else [*members]
            for members in map(cut.members, range(len(cut.closers)))
        ]
        self._member = cut.member
        self._matched = 0  # characters of `_member`
        self._is_due = cut.is_due
        self._needs_comma = cut.needs_comma
        self._expects_key = True
        self._key = ""
        # Nothing but its first item proves the place in a list that was cut between two items.
        self._first: list[str] | None = [] if cut.closers[0] == "]" and cut.key is None and not cut.member else None

    def begin(self, bracket: str) -> None:
        """Take the opening bracket of an item."""
        closers = self._closers
        if self._closed == len(closers) or bracket != ("{" if closers[self._closed] == "}" else "["):
            raise SeamError("the rest has another form than the input")
        self._expects_key, self._key = True, ""

    def feed(self, piece: str, *, is_member: bool, in_string: bool = False, ends: bool = False) -> str:
        """Take a piece inside an item as it was written, and return what of it continues the input.

        Args:
            piece: A part of a string, or something between strings.
            is_member: It is not inside a further container.
            in_string: It is a part of a string, its quotes included.
            ends: The string ends with it.
        """
        if is_member and self._closers[self._closed] == "}":
            self._look_for_keys(piece, in_string=in_string, ends=ends)
        written = self._unmatched(piece, in_string=in_string) if self._matched < len(self._member) else piece
        is_something = in_string or bool(written.strip(_WHITE_SPACE))
        if is_something:
            self._is_due = False
            if self._needs_comma:
                self._needs_comma = False
                written = "," + written
        if self._first is None:
            return written
        self._first.append(written)
        return self._first_item() if is_member and not in_string and "," in piece else ""

    def _look_for_keys(self, piece: str, *, in_string: bool, ends: bool) -> None:
        if not in_string:
            self._expects_key = self._expects_key or "," in piece
        elif self._expects_key:
            self._key += piece
            if len(self._key) > _MOST_KEY_CHARS:
                raise SeamError("a key that is too long")
            if ends:
                self._expects_key = False
                key, self._key = self._key, ""
                try:
                    is_known = json.loads(key) in self._known[self._closed]
                except ValueError:
                    raise SeamError("the rest is no JSON") from None
                if is_known:
                    raise SeamError("a field that has come before")

    def _unmatched(self, piece: str, *, in_string: bool) -> str:
        """Return a piece without the part of it that repeats the member that was being written."""
        for place, character in enumerate(piece):
            if self._matched == len(self._member):
                return piece[place:]
            if in_string or character not in _WHITE_SPACE:
                if character != self._member[self._matched]:
                    raise SeamError("the rest does not begin with what was being written")
                self._matched += 1
        self._is_due = self._is_due and self._matched < len(self._member)
        return ""

    def _first_item(self) -> str:
        """Return the first item of a list, with what has come behind it, if it is none that has come before."""
        assert self._first is not None
        written, self._first = "".join(self._first), None
        try:
            item, _ = json.JSONDecoder().raw_decode(written.lstrip(_WHITE_SPACE + ","))
        except ValueError:
            return written
        if item in self._known[0]:
            raise SeamError("an item that has come before")
        return written

    def close(self, bracket: str) -> str:
        """Take the closing bracket of an item."""
        if self._matched < len(self._member) or self._is_due:
            raise SeamError("what was being written is missing")
        if self._closed == len(self._closers) or bracket != self._closers[self._closed]:
            raise SeamError("the rest has another form than the input")
        first = self._first_item() if self._first is not None else ""
        self._closed += 1
        self._needs_comma = True
        # The last one proves that the input is complete, so it waits until the answer is.
        return first + bracket if self._closed < len(self._closers) else first

    def end(self) -> str:
        """Return the brackets that are missing: the model may leave out what is empty."""
        if not self.has_come:
            raise SeamError("the rest is missing")
        return "".join(map(self.close, self._closers[self._closed :])) + self._closers[-1]
