"""Read a JSON text without building its value: the place of each string and number, and whether it is a secret."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from .spans import SecretSpan
from .structure import is_option, is_secret_key, is_secret_option, is_value_key, names_a_secret

_TOKEN: Final = re.compile(
    r"[ \t\r\n,]{0,1000}+(?:([{\[])|([}\]])|(\")|(:)|(-?[0-9][0-9.eE+-]{0,5000}+|true|false|null|NaN|-?Infinity)|)"
)
_COLON: Final = re.compile(r"[ \t\r\n]{0,1000}+:")
_MAX_BLANKS: Final = 1_000
MAX_SCALARS: Final = 250_000
"""Maximum number of scalars to read. A text with more is searched as plain text. Each scalar takes about 400 bytes."""
# The escapes that stand for one character of a decoded string.
_ESCAPE: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.")
_CUT_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")


class Scalar(NamedTuple):
    """A string, or a number, of a JSON text.

    Attributes:
        start, end: Its place; for a string, without its quotes.
        key: The name of its field; empty for an item of a list, and for a key.
        is_secret: Its place in the structure makes it a secret.
        is_number: It has no quotes.
    """

    start: int
    end: int
    key: str
    is_secret: bool
    is_number: bool

    def span(self) -> SecretSpan:
        """Return its complete place."""
        return SecretSpan(self.start, self.end, "9" if self.is_number else "*")


class JSONText(NamedTuple):
    """The scalars of a JSON text.

    Attributes:
        scalars: In the order of the text, without those that cannot hold a secret: most numbers, and short words.
        end: The place at which reading stopped: the end of the text, the first character that is not JSON, or the
            scalar after `MAX_SCALARS`. A text that is cut off is read to its end.
    """

    scalars: Sequence[Scalar]
    end: int


class _Container:
    __slots__ = (
        *("behind_option", "count", "first", "in_value", "is_named", "is_object", "is_secret", "key", "may_be_pair"),
        *("strings", "values"),
    )

    def __init__(self, around: _Container | None, *, is_object: bool, is_secret: bool, first: int) -> None:
        self.is_object = is_object
        self.is_secret = is_secret
        self.first = first  # the number of the first scalar in it
        # Inside a value whose name may come after it.
        self.in_value: bool = around is not None and (
            around.in_value or (around.is_object and is_value_key(around.key))
        )
        self.may_be_pair = around is not None and not around.is_object and not is_object
        self.key: str | None = None  # of the field whose value comes next
        self.count = 0  # of items
        self.strings: list[str] = []  # the items of a short list in a list
        self.behind_option = False  # the item before names a secret argument
        self.is_named = False  # a field in it says that its value is a secret
        self.values: tuple[int, int] | None = None  # the scalars in that value, if it came before the name

    @property
    def may_turn_secret(self) -> bool:
        """Return whether later text may show that the next value is a secret."""
        return self.in_value or self.may_be_pair or is_value_key(self.key)


def may_be_json(text: str) -> bool:
    """Tell, from its first characters, whether a text may be a JSON object, array or string."""
    return text[:100].lstrip()[:1] in ("{", "[", '"')


def read_json(text: str, key: str = "") -> JSONText:
    """Read a text as a JSON object, array or string, complete or cut off, as far as it is one. Takes linear time.

    Args:
        text: Of any length.
        key: Name of the field that the text is the value of: the key of a text that is one string.
    """
    return _Reader(text, key).read()


class _Reader:
    def __init__(self, text: str, key: str) -> None:
        self._text = text
        self._key = key
        self._scalars: list[Scalar] = []
        self._open: list[_Container] = []
        self._secret_ranges: list[tuple[int, int]] = []
        self._is_over = False  # the outermost container is closed

    def read(self) -> JSONText:
        at, end = 0, len(self._text)
        while at < end and len(self._scalars) < MAX_SCALARS:
            found = _TOKEN.match(self._text, at)
            assert found is not None  # it also matches nothing
            follow = self._take(found)
            if follow is None:
                break
            at = follow
        while self._open:
            self._close(self._open.pop())
        return JSONText(self._marked(), at)

    def _take(self, found: re.Match[str]) -> int | None:
        """Take one token. Return the place of the next one, or None if the token is wrong here."""
        opening, closing, quote, colon, plain = found.groups()
        around = self._open[-1] if self._open else None
        expects_key = around is not None and around.is_object and around.key is None
        if opening:
            if expects_key or self._is_over:
                return None
            is_secret, first = self._is_secret(around), len(self._scalars)
            self._open.append(_Container(around, is_object=opening == "{", is_secret=is_secret, first=first))
        elif closing:
            if around is None or around.is_object != (closing == "}") or (around.is_object and around.key is not None):
                return None
            self._close(self._open.pop())
        elif quote:
            if around is None:
                return self._take_document(found.end())
            return self._take_string(found.end(), around, is_key=expects_key)
        elif plain:
            if around is None or expects_key:
                return None
            first, is_secret = len(self._scalars), self._is_secret(around)
            if plain[-1] in "0123456789." and (is_secret or around.may_turn_secret):
                self._scalars.append(Scalar(*found.span(5), around.key or "", is_secret, True))
            self._value_ends(around, first)
        elif colon or found.end() == found.start():
            return None
        elif found.end() < len(self._text) and found.end() - found.start() < _MAX_BLANKS:
            return None  # something else follows the blanks of an empty token
        return found.end()

    def _is_secret(self, around: _Container | None) -> bool:
        """Return whether the next value is a secret."""
        if around is None:
            return False
        if around.is_secret or not around.is_object:
            return around.is_secret or around.behind_option
        return is_secret_key(around.key) or (around.is_named and is_value_key(around.key))

    def _take_document(self, start: int) -> int | None:
        """Take the string that is the complete text."""
        end = None if self._is_over else string_end(self._text, start)
        if end is None:
            return None
        self._is_over = True
        self._scalars.append(Scalar(start, end, self._key, False, False))
        return min(end + 1, len(self._text))

    def _take_string(self, start: int, around: _Container, *, is_key: bool) -> int | None:
        end = string_end(self._text, start)
        if end is None:
            return None
        follow = min(end + 1, len(self._text))
        if is_key:
            colon = _COLON.match(self._text, follow)
            if colon is None and follow + _MAX_BLANKS < len(self._text):
                return None
            around.key = decoded(self._text[start:end])
            if not says_little(self._text[start : min(end, start + 20)]):
                self._scalars.append(Scalar(start, end, "", False, False))
            return follow if colon is None else colon.end()
        first = len(self._scalars)
        said = decoded(self._text[start : min(end, start + 1000)]) if not around.is_object else ""
        is_secret = around.is_secret or (self._is_secret(around) and not is_option(said))
        if is_secret or around.may_turn_secret or not says_little(self._text[start : min(end, start + 20)]):
            self._scalars.append(Scalar(start, end, around.key or "", is_secret, False))
        is_name = around.is_object and around.key is not None and len(around.key) < 10 and end - start < 1000
        if is_name and names_a_secret(around.key, decoded(self._text[start:end])):
            around.is_named = True
        if around.may_be_pair and around.count < 2:
            around.strings.append(decoded(self._text[start:end]) if around.count == 0 and end - start < 1000 else "")
        self._value_ends(around, first)
        around.behind_option = end - start < 1000 and is_secret_option(said)
        return follow

    def _value_ends(self, around: _Container, first: int) -> None:
        """Note the end of a value of `around`; `first` is the number of the first scalar in it."""
        around.count += 1
        around.behind_option = False
        if around.is_object:
            if is_value_key(around.key):
                around.values = (first, len(self._scalars))
            around.key = None

    def _close(self, container: _Container) -> None:
        if container.is_named and container.values is not None:
            self._secret_ranges.append(container.values)
        if len(container.strings) == 2 == container.count and is_secret_key(container.strings[0]):
            self._secret_ranges.append((container.first + 1, container.first + 2))
        if self._open:
            self._value_ends(self._open[-1], container.first)
        else:
            self._is_over = True

    def _marked(self) -> list[Scalar]:
        """Return the scalars. Mark those that turned out to be secrets after they were read."""
        marked = self._scalars
        done = 0
        for first, last in sorted(self._secret_ranges):
            for number in range(max(first, done), last):
                marked[number] = marked[number]._replace(is_secret=True)
            done = max(done, last)
        return marked


def says_little(text: str) -> bool:
    """Tell whether a text is too short, and too plain, to hold a secret."""
    return len(text) < 4 or (len(text) < 16 and text.replace("_", "").isalnum())


def string_end(text: str, start: int) -> int | None:
    """Return the place of the quote that ends a string, or the end of the text; None if a line ends before it."""
    at = text.find('"', start)
    while at >= 0:
        first = at
        while first > start and text[first - 1] == "\\":
            first -= 1
        if (at - first) % 2 == 0:
            break
        at = text.find('"', at + 1)
    end = len(text) if at < 0 else at
    return None if text.find("\n", start, end) >= 0 or text.find("\r", start, end) >= 0 else end


def decoded(written: str) -> str:
    """Return the string that is written between two quotes. Text that is not JSON stays unchanged."""
    if "\\" not in written:
        return written
    try:
        return str(json.loads(f'"{_CUT_ESCAPE.sub("", written)}"', strict=False))
    except ValueError:
        return written


def written_spans(written: str, text: str, spans: Iterable[SecretSpan]) -> Iterator[SecretSpan]:
    """Yield the places of a decoded string's spans in the written string.

    Args:
        written: The string between its quotes.
        text: The decoded string.
        spans: In order; none overlaps another.
    """
    if len(text) == len(written):
        yield from spans
        return
    escapes = _ESCAPE.finditer(written)
    escape = next(escapes, None)
    shift = 0
    for span in spans:
        places: list[int] = []
        for place in (span.start, span.end):
            while escape is not None and escape.start() - shift < place:
                shift += len(escape[0]) - 1
                escape = next(escapes, None)
            places.append(min(place + shift, len(written)))
        yield SecretSpan(places[0], places[1], span.fill)
