"""`ScalarReader`: strings, numbers and literals, from fragments that may end inside any of them.

Each reader here takes the text of a fragment and an offset, and returns the offset at which reading continues. "Needs
more" is neither an exception nor a special value: the reader keeps a state, and the next fragment continues from it.
"""

from __future__ import annotations

import re
from math import isinf
from typing import Final, NamedTuple

from ._json_builder import (
    COLON,
    DONE,
    ESCAPE,
    FAILED,
    FIRST_ITEM,
    FIRST_KEY,
    HEX,
    HIGH,
    KEY,
    NUMBER,
    TEXT,
    VALUE,
    JSONBuilder,
)
from ._limits import ParsingLimits
from ._mypyc import mypyc_attr
from ._values import JSON


class ParseFault(NamedTuple):
    """The place and reason of a JSON fault. A value, not an exception: a model's slip is an ordinary outcome."""

    message: str
    offset_chars: int
    """Offset of the offending character in the complete text, in characters."""
    character: str
    """The offending character; empty if the text ended too early."""

    def __str__(self) -> str:
        found = f", found {self.character!r}" if self.character else ""
        return f"{self.message} at character {self.offset_chars}{found}"


# The progress of a number. It may end in the states of COMPLETE_NUMBER.
_MINUS: Final = 0
_ZERO: Final = 1
_INTEGER: Final = 2
_POINT: Final = 3
_FRACTION: Final = 4
_E: Final = 5
_SIGN: Final = 6
_EXPONENT: Final = 7
COMPLETE_NUMBER: Final = (_ZERO, _INTEGER, _FRACTION, _EXPONENT)

# The next state for each character; a missing character ends the number or is an error. RFC 8259, section 6. A table,
# not `float(text)`, which accepts "1_000", "infinity", "1." and "+1", and which would have to read a number in two
# fragments twice. A leading zero has its own state, because `01` is wrong at the 1.
_ANY_DIGIT: Final = "0123456789"
_NUMBER_STEPS: Final[tuple[dict[str, int], ...]] = (
    {"0": _ZERO, **dict.fromkeys("123456789", _INTEGER)},  # _MINUS: also the start of a number without a sign
    {".": _POINT, "e": _E, "E": _E},  # _ZERO
    {".": _POINT, "e": _E, "E": _E, **dict.fromkeys(_ANY_DIGIT, _INTEGER)},  # _INTEGER
    dict.fromkeys(_ANY_DIGIT, _FRACTION),  # _POINT
    {"e": _E, "E": _E, **dict.fromkeys(_ANY_DIGIT, _FRACTION)},  # _FRACTION
    {"+": _SIGN, "-": _SIGN, **dict.fromkeys(_ANY_DIGIT, _EXPONENT)},  # _E
    dict.fromkeys(_ANY_DIGIT, _EXPONENT),  # _SIGN
    dict.fromkeys(_ANY_DIGIT, _EXPONENT),  # _EXPONENT
)
# Every Python converts integers of up to 640 digits, with any value of sys.set_int_max_str_digits().
_ALWAYS_CONVERTED_DIGITS: Final = 640

_UNIT: Final = re.compile("(?![dD][89a-fA-F])[0-9a-fA-F]{4}")  # no half of a surrogate pair
_HEX_DIGITS: Final = "0123456789abcdefABCDEF"
# RFC 8259, section 7. \u is missing: it needs four more characters, and therefore its own state.
_ESCAPES: Final[dict[str, str]] = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}
_MAX_LONG_INTEGERS: Final = 20
LITERALS: Final[dict[str, str]] = {"t": "true", "f": "false", "n": "null"}
LITERAL_VALUES: Final[dict[str, JSON]] = {"true": True, "false": False, "null": None}
EXPECTED: Final[dict[int, str]] = {
    VALUE: "expected a value",
    FIRST_ITEM: "expected a value or ']'",
    FIRST_KEY: "expected a key in double quotes or '}'",
    KEY: "expected a key in double quotes",
    COLON: "expected ':'",
    DONE: "expected nothing after the value",
}


@mypyc_attr(allow_interpreted_subclasses=True)
class ScalarReader(JSONBuilder):
    """A `JSONBuilder` that reads scalars and keys, and records the first fault of the text.

    Args:
        limits: As for `PartialJSON`.
        reports: As for `PartialJSON`.
        tracks: As for `PartialJSON`.
    """

    __slots__ = (
        "_base",
        "_failed_in",
        "_hex",
        "_high",
        "_in_key",
        "_length",
        "_literal",
        "_literal_at",
        "_long_digits",
        "_max_digits",
        "_number",
        "_number_start",
        "_parts",
        "_quote",
        "_short_digits",
        "error",
        "overflow_chars",
    )

    def __init__(self, *, limits: ParsingLimits, reports: bool, tracks: bool) -> None:
        super().__init__(limits=limits, reports=reports, tracks=tracks)
        self.error: ParseFault | None = None
        """The first fault of the text; None while it may still become a document."""
        self.overflow_chars: int | None = None
        """Offset of the first number too large for a float. It becomes infinity, as in `json.loads`."""
        self._max_digits = limits.max_integer_digits
        self._short_digits = min(limits.max_integer_digits, _ALWAYS_CONVERTED_DIGITS)
        self._long_digits = 0  # of all integers that are longer than that
        self._failed_in = VALUE
        self._length = 0  # characters fed, all fragments together
        self._base = 0  # offset of the current fragment
        self._in_key = False
        self._quote = -2  # in the current fragment: the next quote, -1 if there is none, -2 if not yet sought
        # Parts of a key or a number. These do not show while they are written. `tail + piece` would copy all earlier
        # parts with each fragment: quadratic for a number of thousands of digits, which models do write.
        self._parts: list[str] = []
        self._hex = ""
        self._high = 0  # a high surrogate whose low half may still come
        self._number = _MINUS
        self._number_start = 0
        self._literal = ""
        self._literal_at = 0

    # --- strings ------------------------------------------------------------------------------------------------------

    def _read_text(self, text: str, at: int) -> int:
        """Read inside a string: up to its closing quote, or to an escape that is cut, or that is half a pair."""
        end = len(text)
        run = ""
        while at < end:
            # Each quote is searched for once: a search per escape would make a fragment full of escapes quadratic.
            if -1 != self._quote < at:
                self._quote = text.find('"', at)
            stop = self._quote if self._quote >= 0 else end
            backslash = text.find("\\", at, stop)
            if backslash >= 0:
                stop = backslash
            piece = text[at:stop]
            # RFC 8259 forbids control characters in strings, and models write raw line feeds into them. Reading on
            # would be a guess. str.isprintable() is False for more than these (U+00A0, for example): a quick pre-check.
            if not piece.isprintable() and min(piece) < " ":
                length = next(offset for offset, character in enumerate(piece) if character < " ")
                self._append(run + piece[:length])
                return self._fail("expected no control character in a string", at + length, piece[length])
            run += piece
            at = stop
            if at == end:
                break
            at += 1
            if backslash < 0:
                if self._in_key:
                    self._in_key = False
                    self._key = "".join((*self._parts, run))
                    self._parts.clear()
                    self._state = COLON
                else:
                    if run:
                        self._grow(run)
                    self._end_value()
                return at
            # A complete escape is decoded here, without a state change: code in an input has one per line, and texts in
            # other alphabets often have one per character.
            escaped = _ESCAPES.get(text[at]) if at < end else None
            if escaped is not None:
                at += 1
            elif text[at : at + 1] == "u" and (unit := _UNIT.match(text, at + 1)):
                escaped = chr(int(unit[0], 16))
                at += 5
            else:
                self._state = ESCAPE
                break
            run += escaped
        self._append(run)
        return at

    def _read_escape(self, text: str, at: int) -> int:
        """Read one character of an escape, or the one after the escape of a high surrogate."""
        character = text[at]
        if self._state == HIGH:
            if character == "\\":
                # It may be the low half. The high one is held back until that is known: UTF-8 has no form for half a
                # pair, so printing or sending the value between two fragments would fail.
                self._state = ESCAPE
                return at + 1
            self._release_high()
            self._state = TEXT
            return at
        if self._state == ESCAPE:
            if character == "u":
                self._hex = ""
                self._state = HEX
                return at + 1
            if character not in _ESCAPES:
                return self._fail('expected one of "\\/bfnrtu after a backslash', at, character)
            self._release_high()
            self._append(_ESCAPES[character])
            self._state = TEXT
            return at + 1
        if character not in _HEX_DIGITS:
            return self._fail("expected four hexadecimal digits after \\u", at, character)
        self._hex += character
        if len(self._hex) < 4:
            return at + 1
        # The UTF-16 code unit is complete: join surrogates that belong together, hold back a high one.
        unit = int(self._hex, 16)
        if self._high and 0xDC00 <= unit <= 0xDFFF:
            self._append(chr(0x10000 + ((self._high - 0xD800) << 10) + (unit - 0xDC00)))
            self._high = 0
            self._state = TEXT
            return at + 1
        self._release_high()
        if 0xD800 <= unit <= 0xDBFF:
            self._high = unit
            self._state = HIGH
        else:
            self._append(chr(unit))
            self._state = TEXT
        return at + 1

    def _release_high(self) -> None:
        """Append a held-back high surrogate that turned out to be alone: it is part of the document.

        RFC 8259 allows it (section 8.2), and `json.loads` keeps it. U+FFFD replaces it when a value is sent or printed,
        not here: otherwise the parsed value would differ from that of `json.loads`.
        """
        if self._high:
            self._append(chr(self._high))
            self._high = 0

    def _append(self, run: str) -> None:
        if self._in_key:
            self._parts.append(run)
        else:
            self._grow(run)

    # --- literals and numbers -----------------------------------------------------------------------------------------

    def _read_literal(self, text: str, at: int) -> int:
        # `tr` shows nothing, although it can only become `true`. Showing it early would gain at most a fragment. If the
        # text then goes wrong, it would have shown a value that it does not contain.
        literal = self._literal
        end = len(text)
        while at < end and self._literal_at < len(literal):
            if text[at] != literal[self._literal_at]:
                return self._fail(f"expected {literal!r}", at, text[at])
            self._literal_at += 1
            at += 1
        if self._literal_at == len(literal):
            self._add(LITERAL_VALUES[literal])
        return at

    def _begin_number(self, text: str, at: int) -> int:
        """Start a number at `at`. If it is complete within the fragment, with its delimiter, add it at once."""
        # `_read_number` repeats this loop: it has two results, and a tuple for them would cost more than the loop.
        start = at
        end = len(text)
        number = _MINUS
        if text[at] == "-":
            at += 1
        while at < end:
            following = _NUMBER_STEPS[number].get(text[at])
            if following is None:
                break
            number = following
            at += 1
        if (
            at < end
            and at - start <= self._short_digits
            and number in COMPLETE_NUMBER
            and text[at] in self._number_ends
        ):
            if number <= _INTEGER:
                self._add(int(text[start:at]))
            else:
                self._add(self._checked(float(text[start:at]), self._base + start))
            return at
        # No delimiter yet. jiter shows `1`, then nothing at `1.`, then `1.0`, then `1.5`. Other parsers and Anthropic's
        # TypeScript SDK hold back unfinished numbers. So does this one: a number that shows is final.
        self.started = True
        self._number_start = self._base + start
        self._number = number
        self._state = NUMBER
        self._parts = [text[start:at]]
        return at if at == end else self._read_number(text, at)

    def _read_number(self, text: str, at: int) -> int:
        start = at
        end = len(text)
        number = self._number
        while at < end:
            following = _NUMBER_STEPS[number].get(text[at])
            if following is None:
                break
            number = following
            at += 1
        self._number = number
        if at > start:
            self._parts.append(text[start:at])
        if at == end:
            return at
        if number not in COMPLETE_NUMBER:
            return self._fail("expected a digit", at, text[at])
        if text[at] not in self._number_ends:
            return self._fail(self._expected_after(), at, text[at])
        return self._end_number(at)

    def _end_number(self, at: int) -> int:
        """End the current number before the character at `at`; return the offset at which reading continues.

        The digits are counted before any conversion: int() of a decimal text is quadratic. An integer over the limit is
        a fault, not an exception. It is no float either, which would be another number than the model wrote. So are
        many long ones: to write 3,000 integers of 4,000 digits takes 0.6 s, each time that the value is sent.
        """
        text = "".join(self._parts)
        number: int | float
        if self._number > _INTEGER:
            number = self._checked(float(text), self._number_start)
        else:
            beyond = self._max_digits + (text[0] == "-")
            if len(text) > beyond:
                at = self._number_start - self._base + beyond
                return self._fail(f"an integer of more than {self._max_digits} digits", at, text[beyond])
            self._long_digits += len(text) if len(text) > self._short_digits else 0
            if self._long_digits > _MAX_LONG_INTEGERS * self._max_digits:
                at = self._number_start - self._base
                return self._fail(f"more long integers than {_MAX_LONG_INTEGERS} of the longest", at, text[0])
            try:
                number = int(text)
            except ValueError:  # sys.set_int_max_str_digits() is lower than `Limits.max_integer_digits`
                at = self._number_start - self._base
                return self._fail("an integer of more digits than this Python converts", at, text[0])
        self._parts.clear()
        self._add(number)
        return at

    def _checked(self, number: float, offset: int) -> float:
        # `1e400` is JSON, and infinity for `json.loads`. It cannot be sent back, so `ToolInput` treats the input as
        # invalid. Here it is no fault: the parser accepts everything that RFC 8259 accepts.
        if isinf(number) and self.overflow_chars is None:
            self.overflow_chars = offset
        return number

    # --- faults -------------------------------------------------------------------------------------------------------

    def _expected_after(self) -> str:
        if self._container is None:
            return EXPECTED[DONE]
        return "expected ',' or '}'" if type(self._container) is dict else "expected ',' or ']'"

    def _fail(self, message: str, at: int, character: str) -> int:
        """Record that the text is not JSON from `at` on; return the offset of the fragment's end."""
        self.error = ParseFault(message, self._base + at, character)
        self._failed_in = self._state  # for `open_path`: watchers of the cut value must be told
        self._state = FAILED
        return self._length - self._base
