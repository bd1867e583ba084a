"""`PartialJSON`: fragments of a JSON text in, a value that grows out.

A push parser. Each character is looked at once, when it arrives; no prefix is ever read again, and nothing recurses.
The invariants, each with a property test of its name:

1.  *Any cut, same values.* However a text is cut into fragments, the same values show at the same offsets, and the
    same paths finish in the same order.
2.  *Whole equals json.loads.* After a whole valid document `value` is what `json.loads` gives: of a repeated key the
    last wins, integers are exact, `-0` is 0.
3.  *Accepts exactly RFC 8259.* Strictly: no NaN, no Infinity, no control characters in strings. A wrong character is
    an error at once, not at the end of the text.
4.  *Values only grow.* Strings and arrays only get longer, a key once seen stays, a finished value never changes;
    a repeated key, and nothing else, starts its value over.
5.  *Halves are never shown.* Half of an escape or of a surrogate pair is held back. A lone surrogate that the document
    really has stays in the value, as in `json.loads`.
6.  *Numbers show when they end.* `1` may become `10`: a number shows when a delimiter has ended it, a literal at its
    last letter, a string from its opening quote.
7.  *Errors freeze, and never raise.* After an error the last good value stays, and further fragments change nothing.
8.  *Changes rebuild the value.* The patches that `feed` reports, applied in order to a copy, keep it equal to `value`.

One typed, character-level source: plain Python runs it, and mypyc can compile it unchanged. That is why the states are
integer constants instead of enum members (an enum member costs two attribute look-ups per comparison). The median
fragment of real streams has 7 characters, where branches win against regular expressions; runs of whole values in long
fragments are found by a regular expression and handed to jiter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import isinf
from typing import Any, Final, NamedTuple

import jiter

from ..errors import UsageError
from ..limits import DEFAULT_LIMITS, Limits
from ._json_changes import Changes, steps
from ._mypyc import mypyc_attr
from ._patch import Patch, finite
from ._values import JSON, MISSING, Path, find


class ParseFault(NamedTuple):
    """Where and why a text stopped being JSON. A value, not an exception: a model's slip is an ordinary outcome."""

    message: str
    offset_chars: int
    """Offset of the offending character in the whole text, in characters."""
    character: str
    """The offending character; empty where the text ended too early."""

    def __str__(self) -> str:
        found = f", found {self.character!r}" if self.character else ""
        return f"{self.message} at character {self.offset_chars}{found}"


# What the next character may be. Below _TEXT the parser stands between tokens, where white space is allowed.
_VALUE: Final = 0  # a value
_FIRST_ITEM: Final = 1  # after "[": a value or "]"
_FIRST_KEY: Final = 2  # after "{": a key or "}"
_KEY: Final = 3  # after "," in an object: a key
_COLON: Final = 4
_AFTER: Final = 5  # after a value in a container: "," or its closing bracket
_DONE: Final = 6  # after the root: white space only
_TEXT: Final = 7  # inside a string
_ESCAPE: Final = 8  # after a backslash
_HEX: Final = 9  # inside the four digits of \uXXXX
_HIGH: Final = 10  # after the escape of a high surrogate: its low half, or anything else
_NUMBER: Final = 11
_LITERAL: Final = 12
_FAILED: Final = 13
STRING_STATES: Final = (_TEXT, _ESCAPE, _HEX, _HIGH)

# How far a number has come; the ones in _COMPLETE_NUMBER may end there.
_MINUS: Final = 0
_ZERO: Final = 1
_INTEGER: Final = 2
_POINT: Final = 3
_FRACTION: Final = 4
_E: Final = 5
_SIGN: Final = 6
_EXPONENT: Final = 7
_COMPLETE_NUMBER: Final = (_ZERO, _INTEGER, _FRACTION, _EXPONENT)

# For each state, what a character leads to; what is missing ends the number or is an error. RFC 8259, section 6.
_ANY_DIGIT: Final = "0123456789"
_NUMBER_STEPS: Final[tuple[dict[str, int], ...]] = (
    {"0": _ZERO, **dict.fromkeys("123456789", _INTEGER)},  # _MINUS: also where a number without a sign begins
    {".": _POINT, "e": _E, "E": _E},  # _ZERO
    {".": _POINT, "e": _E, "E": _E, **dict.fromkeys(_ANY_DIGIT, _INTEGER)},  # _INTEGER
    dict.fromkeys(_ANY_DIGIT, _FRACTION),  # _POINT
    {"e": _E, "E": _E, **dict.fromkeys(_ANY_DIGIT, _FRACTION)},  # _FRACTION
    {"+": _SIGN, "-": _SIGN, **dict.fromkeys(_ANY_DIGIT, _EXPONENT)},  # _E
    dict.fromkeys(_ANY_DIGIT, _EXPONENT),  # _SIGN
    dict.fromkeys(_ANY_DIGIT, _EXPONENT),  # _EXPONENT
)

# Runs of whole values, up to a comma or the closing bracket: they need no state. The expressions only find where such a
# run ends; jiter says whether it is JSON, and reads it. What it would take that this parser must look at is left out:
# exponents, which may lead beyond floats, and long numbers. Everything is possessive, so that a long run leaves nothing
# to go back to: linear, without memory. (Python before 3.11.5 may find the end too late; then jiter says no.)
_LEXEME: Final = r'"(?:[^"\\]++|\\.)*+"|[-.0-9]{1,100}+(?![-+.0-9eE])|true|false|null|[ \t\n\r:]++'
_FLAT: Final = rf"[\[{{](?:{_LEXEME}|,)*+[\]}}]"
_NESTED: Final = rf"[\[{{](?:{_LEXEME}|,|{_FLAT})*+[\]}}]"
_RUN: Final = re.compile(rf"(?:(?:{_LEXEME}|{_NESTED})*+,)*+((?:{_LEXEME}|{_NESTED})++(?=[\]}}]))?", re.DOTALL)
_RUN_DEPTH: Final = 2  # containers inside one another in a value that a run takes whole
_LONG_DIGITS: Final = 100  # the most digits of a number in a run
# Characters left from which on it pays to look for runs, measured: compiled code is at home among characters.
_LONG_FRAGMENT: Final = 32 if __file__.endswith((".py", ".pyc")) else 256
_PAUSE: Final = 16  # characters without another look where there was none: in deep documents most looks are in vain

# Text in a string, up to its quote, to an escape that is not whole, or to one of a surrogate without its other half.
_PLAIN: Final = r'[^"\\\x00-\x1f\ud800-\udfff]'
_UNIT: Final = r"u(?:(?![dD][89a-fA-F])[0-9a-fA-F]{4}|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
_ESCAPED: Final = rf'\\(?:["\\/bfnrt]|{_UNIT})'
# Not possessive as a whole, which Python before 3.11.5 gets wrong (gh-106052); bounded, for it remembers each escape.
_TEXT_RUN: Final = re.compile(f"{_PLAIN}*+(?:{_ESCAPED}{_PLAIN}*+){{0,1000}}")

_WHITE_SPACE: Final = " \t\n\r"
_OBJECT_NUMBER_ENDS: Final = " \t\n\r,}"
_ARRAY_NUMBER_ENDS: Final = " \t\n\r,]"
_NUMBER_START: Final = "-0123456789"
_HEX_DIGITS: Final = "0123456789abcdefABCDEF"
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
_LITERALS: Final[dict[str, str]] = {"t": "true", "f": "false", "n": "null"}
_LITERAL_VALUES: Final[dict[str, JSON]] = {"true": True, "false": False, "null": None}
_EXPECTED: Final[dict[int, str]] = {
    _VALUE: "expected a value",
    _FIRST_ITEM: "expected a value or ']'",
    _FIRST_KEY: "expected a key in double quotes or '}'",
    _KEY: "expected a key in double quotes",
    _COLON: "expected ':'",
    _DONE: "expected nothing after the value",
}


@mypyc_attr(allow_interpreted_subclasses=True)
class PartialJSON:
    """An incremental JSON parser: `feed` it fragments, look at `value` whenever you like.

    `value` is live: containers grow in place, so whoever keeps one across a `feed` sees it change. Copy what must
    stay (`copy_json`).

    Args:
        limits: `max_depth`, `max_integer_digits` and `max_input_chars` apply; beyond them the text is an `error`.
        reports: Record the changes that each `feed` makes, for `finished` and `patch`. It can be switched on later.
        tracks: Record the values that each `feed` finishes, for `finished` only, at less cost. Of several values in one
            fragment under the same key, all but the last may be left out.
    """

    __slots__ = (  # more attributes than the 30 whose names the instances of a class would share
        "_base",
        "_changes",
        "_closed",
        "_container",
        "_failed_in",
        "_hex",
        "_high",
        "_in_key",
        "_key",
        "_length",
        "_literal",
        "_literal_at",
        "_max_chars",
        "_max_depth",
        "_max_digits",
        "_no_run_before",
        "_node",
        "_number",
        "_number_ends",
        "_number_start",
        "_parts",
        "_quote",
        "_root",
        "_short_digits",
        "_stack",
        "_state",
        "_takes_runs",
        "ended",
        "error",
        "overflow_chars",
        "started",
    )

    def __init__(
        self,
        *,
        limits: Limits = DEFAULT_LIMITS,
        reports: bool = False,
        tracks: bool = False,
    ) -> None:
        self.error: ParseFault | None = None
        """The first fault of the text; None while it may still become a document."""
        self.started: bool = False
        """A value has begun: False for white space alone, and for a text wrong from its first character."""
        self.overflow_chars: int | None = None
        """Offset of the first number too large for a float: it reads as infinity, as `json.loads` reads it."""
        self._max_chars = limits.max_input_chars
        self._max_depth = limits.max_depth
        self._max_digits = limits.max_integer_digits
        # Every Python converts integers of up to 640 digits, whatever sys.set_int_max_str_digits() was told.
        self._short_digits = min(limits.max_integer_digits, 640)
        self._takes_runs = limits.max_integer_digits >= _LONG_DIGITS
        self._state = _VALUE
        self._failed_in = _VALUE
        self._closed = False
        self._length = 0  # characters fed, all fragments together
        self._base = 0  # offset of the fragment under way
        self._root: Any = None
        # The container under way and those around it; `_key` is where its value under way stands.
        self._container: Any = None
        self._stack: list[Any] = []
        self._key: Any = None
        # The path of `_container` as linked (parent, key) pairs: a step costs O(1), a tuple is made on demand.
        self._node: Any = None
        # What may stand behind a number in the container under way; anything else is an error, and it does not show.
        self._number_ends = _WHITE_SPACE
        self._in_key = False
        self._quote = -2  # in the fragment under way: the next quote, -1 where there is none, -2 where not yet sought
        self._no_run_before = 0  # in the fragment under way
        self._parts: list[str] = []  # of a key or a number
        self._hex = ""
        self._high = 0  # a high surrogate whose low half may still come
        self._number = _MINUS
        self._number_start = 0
        self._literal = ""
        self._literal_at = 0
        self._changes = Changes() if reports else None
        self.ended: list[tuple[int, Any, Any, JSON]] | None = [] if reports or tracks else None
        """Depth, node, key and value of what the last `feed` finished; `finished` has their paths."""

    @property
    def value(self) -> JSON:
        """The best-effort value of the text so far; None while nothing shows (`started` tells it from a null)."""
        value: JSON = self._root
        return value

    @property
    def complete(self) -> bool:
        """The root value is closed, and nothing wrong has come after it."""
        return self._state == _DONE

    def feed(self, fragment: str) -> None:
        """Take in the next fragment, of any length; O(len(fragment)). Bad JSON sets `error` and raises nothing.

        Raises:
            UsageError: After `close`.
        """
        if self._closed:
            raise UsageError("PartialJSON.feed() after close()")
        if self.ended:
            self.ended = []
        if self._changes is not None:
            self._changes.clear()
        self._base = self._length
        self._length += len(fragment)
        if self._length > self._max_chars:
            self._feed_up_to_limit(fragment)
        elif (
            self._state == _TEXT
            and not self._in_key
            and fragment.isprintable()
            and '"' not in fragment
            and "\\" not in fragment
        ):
            # Most fragments of most streams: plain text inside a long string.
            self._grow(fragment)
        elif self._state != _FAILED:
            self._parse(fragment)

    def close(self) -> None:
        """The text ends here: settles a number at the root. Further calls change nothing."""
        if self.ended:
            self.ended = []
        if self._changes is not None:
            self._changes.clear()
        if self._state == _NUMBER and self._container is None and self._number in _COMPLETE_NUMBER:
            self._base = self._length
            self._end_number(0)
        self._closed = True

    @property
    def reports(self) -> bool:
        """`feed` records what it changes. It can be switched on and off at any time."""
        return self._changes is not None

    @reports.setter
    def reports(self, reports: bool) -> None:
        self._changes = (self._changes or Changes()) if reports else None
        self.tracks = reports

    @property
    def tracks(self) -> bool:
        """`feed` records what it finishes. It can be switched on and off at any time."""
        return self.ended is not None

    @tracks.setter
    def tracks(self, tracks: bool) -> None:
        self.ended = (self.ended or []) if tracks else None

    @property
    def finished(self) -> list[tuple[Path, JSON]]:
        """The values that the last `feed` (or `close`) finished, with their paths, in the order of their ends.

        A container comes after what is in it. A repeated key finishes again. Needs `reports=True` or `tracks=True`.
        """
        finished: list[tuple[Path, JSON]] = []
        for _, node, key, value in self.ended or ():
            finished += ((() if key is None else (*steps(node), key), value),)
        return finished

    def finished_in(self, max_depth: int) -> list[tuple[Path, str | int | None]]:
        """The path of the container, and the key, of what the last `feed` finished in an object, to some depth.

        Values in one container share one path: O(values), also far down. The root has the key None.
        """
        found: list[tuple[Path, str | int | None]] = []
        if type(self._root) is not dict:
            return found
        last: Any = ()
        path: Path = ()
        for depth, node, key, _ in self.ended or ():
            if depth <= max_depth:
                if node is not last:
                    last, path = node, steps(node)
                found.append((path, key))
        return found

    @property
    def finished_fields(self) -> list[str]:
        """The keys of the object at the root whose values the last `feed` finished. Needs `reports` or `tracks`."""
        fields: list[str] = []
        if type(self._root) is dict:
            for depth, _, key, _ in self.ended or ():
                fields += (key,) if depth == 1 else ()
        return fields

    @property
    def patch(self) -> Patch:
        """The operations that repeat in a copy of `value` what the last `feed` changed; see `Patch`.

        Empty if nothing that shows has changed, and as long as the root is no object. They share no container with
        `value`. Numbers beyond floats, which no JSON can tell, are null. Costs O(changes). Needs `reports=True`.
        """
        if self._changes is None or type(self._root) is not dict:
            return []
        patch = self._changes.patch
        return patch if self.overflow_chars is None else finite(patch)

    def is_finished(self, path: Path) -> bool:
        """True once the value at `path` shows and can no longer change, except under a repeated key; O(depth)."""
        if find(self._root, path) is MISSING:
            return False
        if self._state == _DONE or (self._state == _FAILED and self._failed_in == _DONE):
            return True
        if self._container is None:
            return False
        open_path = self.open_path
        return open_path is None or open_path[: len(path)] != path

    @property
    def open_path(self) -> Path | None:
        """The path of the innermost value that shows and is not finished; None where there is none."""
        state = self._failed_in if self._state == _FAILED else self._state  # after an error, where it struck
        if state in STRING_STATES and not self._in_key:
            return (*steps(self._node), self._key) if self._container is not None else ()
        return steps(self._node) if self._container is not None else None

    # --- characters ---------------------------------------------------------------------------------------------------

    def _parse(self, text: str) -> None:
        """Run the state machine over one fragment: every `_read_*` takes as many characters as it can."""
        at = 0
        end = len(text)
        self._quote = -2
        self._no_run_before = 0
        while at < end:
            state = self._state
            if state == _TEXT:
                at = self._read_text(text, at)
            elif state < _TEXT:
                at = self._read_structure(text, at)
            elif state == _NUMBER:
                at = self._read_number(text, at)
            elif state == _LITERAL:
                at = self._read_literal(text, at)
            elif state == _FAILED:
                return
            else:
                at = self._read_escape(text, at)

    def _read_structure(self, text: str, at: int) -> int:
        """Between tokens: brackets, commas, colons, white space; and scalars, as far as the fragment has them whole."""
        end = len(text)
        while at < end:
            character = text[at]
            state = self._state
            if character in _WHITE_SPACE:
                at += 1
            elif state == _AFTER:
                if character == ",":
                    self._state = _KEY if type(self._container) is dict else _VALUE
                elif character == ("}" if type(self._container) is dict else "]"):
                    self._pop()
                else:
                    return self._fail(self._expected_after(), at, character)
                at += 1
            elif state == _COLON:
                if character != ":":
                    return self._fail(_EXPECTED[state], at, character)
                self._state = _VALUE
                at += 1
            elif state in (_KEY, _FIRST_KEY):
                if character == '"':
                    if end - at >= _LONG_FRAGMENT and self._takes_runs and self._changes is None:
                        after = self._take_run(text, at)
                        if after > at:
                            at = after
                            continue
                    at = self._begin_key(text, at + 1)
                    if self._state == _TEXT:
                        return at
                elif state == _FIRST_KEY and character == "}":
                    self._pop()
                    at += 1
                else:
                    return self._fail(_EXPECTED[state], at, character)
            elif state == _DONE:
                return self._fail(_EXPECTED[state], at, character)
            else:
                if (
                    end - at >= _LONG_FRAGMENT
                    and self._takes_runs
                    and self._changes is None
                    and type(self._container) is list
                ):
                    after = self._take_run(text, at)
                    if after > at:
                        at = after
                        continue
                if character in _NUMBER_START:
                    at = self._begin_number(text, at)
                else:
                    at = self._begin_value(text, at, character)
                if self._state > _DONE:
                    return at
        return at

    def _take_run(self, text: str, at: int) -> int:
        """Take in the whole values, or members, from `at` on, all at once; `at` itself where there are none."""
        if at < self._no_run_before or len(self._stack) + _RUN_DEPTH > self._max_depth:
            return at
        run = _RUN.match(text, at)
        end = at if run is None else run.end()
        is_last = run is not None and run.lastindex is not None  # it goes up to the closing bracket: no comma ends it
        if end > at and not is_last:
            end -= 1
        whole = text[at:end]
        if not whole or whole.isspace():
            self._no_run_before = at + _PAUSE
            return at
        closing = "]" if type(self._container) is list else "}"
        if text[end] != (closing if is_last else ","):
            self._no_run_before = len(text)  # the wrong bracket: it is found character by character
            return at
        try:
            if type(self._container) is list:
                items = jiter.from_json(f"[{whole}]".encode(), allow_inf_nan=False)
                if self.ended is not None:
                    self._end_run(enumerate(items, len(self._container)))
                self._container += items
                self._state = _AFTER if is_last else _VALUE
            else:
                members = jiter.from_json(f"{{{whole}}}".encode(), allow_inf_nan=False)
                if self.ended is not None:
                    self._end_run(members.items())
                self._container.update(members)
                self._state = _AFTER if is_last else _KEY
        except ValueError:
            # It is no JSON: character by character it is found out where. Or it has lone surrogates.
            self._no_run_before = len(text)
            return at
        return end if is_last else end + 1

    def _end_run(self, values: Iterable[tuple[Any, Any]]) -> None:
        """The values of a run, by their keys, are finished, and so is what is in them."""
        assert self.ended is not None
        depth = len(self._stack)
        for key, value in values:
            self._end_whole(depth, self._node, key, value)

    def _end_whole(self, depth: int, node: Any, key: Any, value: Any) -> None:
        """A value came whole; no more than `_RUN_DEPTH` containers are inside one another in it."""
        if type(value) is dict:
            for inner, item in value.items():
                self._end_whole(depth + 1, (node, key), inner, item)
        elif type(value) is list:
            for place, item in enumerate(value):
                self._end_whole(depth + 1, (node, key), place, item)
        if self.ended is not None:
            self.ended.append((depth, node, key, value))

    def _begin_key(self, text: str, at: int) -> int:
        """Take in a key that the fragment has whole; else what comes is the text of a key."""
        quote = text.find('"', at)
        key = text[at:quote]
        if quote >= 0 and "\\" not in key and key.isprintable():
            self._key = key
            self._state = _COLON
            return quote + 1
        self._in_key = True
        self._state = _TEXT
        return at

    def _begin_value(self, text: str, at: int, character: str) -> int:
        """The first character of a value; a scalar that the fragment has whole is taken in at once."""
        if character == '"':
            quote = text.find('"', at + 1)
            string = text[at + 1 : quote]
            if quote >= 0 and "\\" not in string and string.isprintable():
                self._add(string)
                return quote + 1
            self._step_into()
            self._put("")
            self._state = _TEXT
            return at + 1
        if character in "{[":
            if not self._push({} if character == "{" else []):
                return self._fail(f"nested deeper than {self._max_depth}", at, character)
            return at + 1
        if character in _LITERALS:
            literal = _LITERALS[character]
            if text.startswith(literal, at):
                self._add(_LITERAL_VALUES[literal])
                return at + len(literal)
            self._step_into()
            self._literal = literal
            self._literal_at = 1
            self._state = _LITERAL
            return at + 1
        if character == "]" and self._state == _FIRST_ITEM:
            self._pop()
            return at + 1
        return self._fail(_EXPECTED[self._state], at, character)

    def _read_text(self, text: str, at: int) -> int:
        """Inside a string: up to its closing quote, or to an escape that is not one backslash and one letter."""
        end = len(text)
        run = ""
        while at < end:
            # Each quote is searched for once: a search per escape would make a fragment full of escapes quadratic.
            if -1 != self._quote < at:
                self._quote = text.find('"', at)
            stop = self._quote if self._quote >= 0 else end
            backslash = text.find("\\", at, stop)
            if backslash >= 0:
                if stop - backslash >= _LONG_FRAGMENT and (after := _end_of_run(text, at)) > backslash:
                    run += jiter.from_json(f'"{text[at:after]}"'.encode())
                    at = after
                    continue
                stop = backslash
            piece = text[at:stop]
            # str.isprintable() is False for more than control characters (U+00A0, say); it is a quick first look.
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
                self._append(run)
                self._end_string()
                return at
            escaped = _ESCAPES.get(text[at]) if at < end else None
            if escaped is None:
                self._state = _ESCAPE
                break
            run += escaped
            at += 1
        self._append(run)
        return at

    def _read_escape(self, text: str, at: int) -> int:
        """One character of an escape, or the one after the escape of a high surrogate."""
        character = text[at]
        if self._state == _HIGH:
            if character == "\\":
                self._state = _ESCAPE
                return at + 1
            self._release_high()
            self._state = _TEXT
            return at
        if self._state == _ESCAPE:
            if character == "u":
                self._hex = ""
                self._state = _HEX
                return at + 1
            if character not in _ESCAPES:
                return self._fail('expected one of "\\/bfnrtu after a backslash', at, character)
            self._release_high()
            self._append(_ESCAPES[character])
            self._state = _TEXT
            return at + 1
        if character not in _HEX_DIGITS:
            return self._fail("expected four hexadecimal digits after \\u", at, character)
        self._hex += character
        if len(self._hex) == 4:
            self._end_hex(int(self._hex, 16))
        return at + 1

    def _end_hex(self, unit: int) -> None:
        """A UTF-16 code unit was written: join surrogates that belong together, hold back a high one."""
        if self._high and 0xDC00 <= unit <= 0xDFFF:
            self._append(chr(0x10000 + ((self._high - 0xD800) << 10) + (unit - 0xDC00)))
            self._high = 0
            self._state = _TEXT
            return
        self._release_high()
        if 0xD800 <= unit <= 0xDBFF:
            self._high = unit
            self._state = _HIGH
        else:
            self._append(chr(unit))
            self._state = _TEXT

    def _release_high(self) -> None:
        """The high surrogate held back turned out to stand alone: it is part of the document."""
        if self._high:
            self._append(chr(self._high))
            self._high = 0

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
        if number not in _COMPLETE_NUMBER:
            return self._fail("expected a digit", at, text[at])
        if text[at] not in self._number_ends:
            return self._fail(self._expected_after(), at, text[at])
        return self._end_number(at)

    def _read_literal(self, text: str, at: int) -> int:
        literal = self._literal
        end = len(text)
        while at < end and self._literal_at < len(literal):
            if text[at] != literal[self._literal_at]:
                return self._fail(f"expected {literal!r}", at, text[at])
            self._literal_at += 1
            at += 1
        if self._literal_at == len(literal):
            self._put(_LITERAL_VALUES[literal])
            self._end_value()
        return at

    # --- values -------------------------------------------------------------------------------------------------------

    def _step_into(self) -> None:
        """A value begins: in an array its key is the next index (an object's key was read before)."""
        self.started = True
        if type(self._container) is list:
            self._key = len(self._container)

    def _add(self, value: JSON) -> None:
        """A scalar that the fragment has whole: it begins, shows and ends."""
        container = self._container
        if type(container) is list:
            self._key = len(container)
        if self._changes is not None:
            self._changes.add(container, self._node, self._key, value)
        if self.ended is not None:
            self.ended.append((len(self._stack), self._node, self._key, value))
        if type(container) is list:
            container.append(value)
            self._state = _AFTER
        elif type(container) is dict:
            container[self._key] = value
            self._state = _AFTER
        else:
            self.started = True
            self._root = value
            self._state = _DONE

    def _put(self, value: Any) -> None:
        """Show `value` where the value under way stands."""
        container = self._container
        if self._changes is not None:
            self._changes.add(container, self._node, self._key, value)
        if type(container) is dict:
            container[self._key] = value
        elif type(container) is list:
            container.append(value)
        else:
            self._root = value

    def _grow(self, run: str) -> None:
        """Lengthen the string under way by `run`, in O(len(run)).

        CPython appends in place when nobody else holds the string, so its place is emptied first. A caller that keeps
        or hashes the old string pays for a copy, and is still right.
        """
        container = self._container
        if self._changes is not None:
            self._changes.lengthen(container, self._node, self._key, run)
        string: str
        if container is None:
            string = self._root
            self._root = None
            string += run
            self._root = string
        else:
            key = self._key
            string = container[key]
            container[key] = None
            string += run
            container[key] = string

    def _append(self, run: str) -> None:
        if self._in_key:
            self._parts.append(run)
        else:
            self._grow(run)

    def _end_string(self) -> None:
        if self._in_key:
            self._in_key = False
            self._key = "".join(self._parts)
            self._parts.clear()
            self._state = _COLON
        else:
            self._end_value()

    def _end_value(self) -> None:
        """The value under way is finished."""
        container = self._container
        if self.ended is not None:
            value = self._root if container is None else container[self._key]
            self.ended.append((len(self._stack), self._node, self._key, value))
        self._state = _DONE if container is None else _AFTER

    def _push(self, container: Any) -> bool:
        """A container begins; False where it would be nested too deep."""
        if len(self._stack) >= self._max_depth:
            return False
        outer = self._container
        if self._changes is not None:
            self._changes.add(outer, self._node, len(outer) if type(outer) is list else self._key, container)
        self._stack.append(outer)
        # What `_step_into` and `_put` do, in one look at what is around it: brackets are the dearest characters.
        if type(outer) is list:
            self._node = (self._node, len(outer))
            outer.append(container)
        elif type(outer) is dict:
            self._node = (self._node, self._key)
            outer[self._key] = container
        else:
            self.started = True
            self._root = container
        self._container = container
        self._key = None
        if type(container) is dict:
            self._number_ends = _OBJECT_NUMBER_ENDS
            self._state = _FIRST_KEY
        else:
            self._number_ends = _ARRAY_NUMBER_ENDS
            self._state = _FIRST_ITEM
        return True

    def _pop(self) -> None:
        """The container under way is closed: it was the value under way of the one around it."""
        container = self._container = self._stack.pop()
        if container is None:
            self._key = None
        else:
            self._node, self._key = self._node
            self._number_ends = _OBJECT_NUMBER_ENDS if type(container) is dict else _ARRAY_NUMBER_ENDS
        self._end_value()

    # --- numbers ------------------------------------------------------------------------------------------------------

    def _begin_number(self, text: str, at: int) -> int:
        """A number begins at `at`; one that the fragment has whole, with its delimiter, is taken in at once."""
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
            and number in _COMPLETE_NUMBER
            and text[at] in self._number_ends
        ):
            if number <= _INTEGER:
                self._add(int(text[start:at]))
            else:
                self._add(self._checked(float(text[start:at]), self._base + start))
            return at
        self._step_into()
        self._number_start = self._base + start
        self._number = number
        self._state = _NUMBER
        self._parts = [text[start:at]]
        return at if at == end else self._read_number(text, at)

    def _end_number(self, at: int) -> int:
        """The number under way has ended before the character at `at`; returns where reading goes on."""
        text = "".join(self._parts)
        number = _to_number(text)
        if type(number) is not float:
            sign = 1 if text[0] == "-" else 0
            if len(text) - sign > self._max_digits:
                beyond = sign + self._max_digits
                at = self._number_start - self._base + beyond
                return self._fail(f"an integer of more than {self._max_digits} digits", at, text[beyond])
            if number is None:
                at = self._number_start - self._base
                return self._fail("an integer of more digits than this Python converts", at, text[0])
        else:
            self._checked(number, self._number_start)
        self._parts.clear()
        self._put(number)
        self._end_value()
        return at

    def _checked(self, number: float, offset: int) -> float:
        if isinf(number) and self.overflow_chars is None:
            self.overflow_chars = offset
        return number

    # --- faults -------------------------------------------------------------------------------------------------------

    def _expected_after(self) -> str:
        if self._container is None:
            return _EXPECTED[_DONE]
        return "expected ',' or '}'" if type(self._container) is dict else "expected ',' or ']'"

    def _fail(self, message: str, at: int, character: str) -> int:
        """The text is not JSON from `at` on; returns where the fragment's reading ends."""
        self.error = ParseFault(message, self._base + at, character)
        self._failed_in = self._state
        self._state = _FAILED
        return self._length - self._base

    def _feed_up_to_limit(self, fragment: str) -> None:
        """Parse what is within the limit; the first character beyond it is the fault."""
        room = self._max_chars - self._base
        if self._state != _FAILED and room >= 0:
            self._parse(fragment[:room])
            if self.error is None:
                self._fail(f"longer than {self._max_chars} characters", room, fragment[room])


def _end_of_run(text: str, at: int) -> int:
    """Where the text of a string, and escapes that stand for a character each, end."""
    run = _TEXT_RUN.match(text, at)
    return run.end() if run else at


def _to_number(text: str) -> int | float | None:
    """As `json.loads` reads it; None for an integer longer than this Python converts, and for no number at all."""
    if "." in text or "e" in text or "E" in text:
        return float(text)
    try:
        return int(text)
    except ValueError:
        return None
