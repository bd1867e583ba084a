"""`PartialJSON`: turns the fragments of a JSON text into a growing value.

A push parser. It reads each character once, when it arrives; it never rereads a prefix, and never recurses. The
invariants, each with a property test of its name:

1.  *Any cut, same values.* If a text is cut into fragments in any way, the same values show at the same offsets, and
    the same paths finish in the same order.
2.  *Whole equals json.loads.* After a complete valid document `value` equals the result of `json.loads`: of a repeated
    key the last wins, integers are exact, `-0` is 0.
3.  *Accepts exactly RFC 8259.* Strictly: no NaN, no Infinity, no control characters in strings. A wrong character is
    an error at once, not at the end of the text.
4.  *Values only grow.* Strings and arrays only get longer, a key once seen stays, a finished value never changes. Only
    a repeated key starts its value over.
5.  *Halves are never shown.* Half of an escape or of a surrogate pair is held back. A lone surrogate that the document
    really has stays in the value, as in `json.loads`.
6.  *Numbers show when they end.* `1` may become `10`: a number shows when a delimiter has ended it, a literal at its
    last letter, a string from its opening quote.
7.  *Errors freeze, and never raise.* After an error the last good value stays, and further fragments change nothing.
8.  *Changes rebuild the value.* The patches that `feed` reports, applied in order to a copy, keep it equal to `value`.

The rejected alternative completes the text so far, and rereads all of it at each fragment, as jiter's `partial_mode`
does. That is quadratic. In "Partial values" of `benchmarks/RESULTS.md`, a fragment of 16 characters costs jiter 10 us
in a document of 10,000 characters and 128 us in one of 100,000, and this parser 2 us in both. At 1,000 characters and
16 per fragment, jiter is cheaper than plain Python; at 7, which is the median, it is not.

One typed, character-level source: plain Python runs it, and mypyc can compile it unchanged. Compilation made a
prototype of regular expressions 5 to 25% faster, and one of characters 2 to 4.5 times as fast. The median fragment of
recorded streams has 7 characters, too few for the fixed cost of a regular expression. A document that is complete
before anybody looks at it needs no such parser: jiter reads it (`read_whole`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import jiter

from ._errors import UsageError
from ._json_builder import (
    AFTER,
    COLON,
    DONE,
    ESCAPE,
    FAILED,
    FIRST_ITEM,
    FIRST_KEY,
    HEX,
    HIGH,
    KEY,
    LITERAL,
    NUMBER,
    TEXT,
    VALUE,
)
from ._json_changes import steps
from ._json_scalars import (
    COMPLETE_NUMBER,
    EXPECTED,
    LITERAL_VALUES,
    LITERALS,
    ScalarReader,
)
from ._limits import DEFAULT_LIMITS, ParsingLimits
from ._mypyc import mypyc_attr
from ._patch import finite
from ._values import MISSING, JSONObject, Path, find

if TYPE_CHECKING:
    from ._patch_types import Patch

_WHITE_SPACE: Final = " \t\n\r"  # RFC 8259, section 2; str.isspace() accepts more
_NUMBER_START: Final = "-0123456789"
_STRING_STATES: Final = (TEXT, ESCAPE, HEX, HIGH)

# What jiter reads by the same rules: it refuses deeper documents (202 levels, of which the parser allows one less), and
# reads longer integers, which the parser counts, and which a Python may be set to refuse.
_JITER_DEPTH: Final = 201
_PLAIN_DIGITS: Final = 640
_LONG_INTEGER: Final = 10**_PLAIN_DIGITS


@mypyc_attr(allow_interpreted_subclasses=True)
class PartialJSON(ScalarReader):
    """An incremental JSON parser: `feed` it fragments, and read `value` at any time.

    `value` is live: containers grow in place, so a value kept across a `feed` changes. Copy values that must not change
    (`copy_json`). A new value for each fragment would cost O(size of the value) every time.

    Args:
        limits: `max_depth`, `max_integer_digits` and `max_input_chars` apply; beyond them the text is an `error`.
        reports: Record the changes that each `feed` makes, for `finished` and `patch`. It can be switched on later.
        tracks: Record the values that each `feed` finishes, for `finished` only, at less cost. If one fragment has
            several values under the same key, all except the last may be omitted.
    """

    __slots__ = ("_closed", "_max_chars")

    def __init__(
        self,
        *,
        limits: ParsingLimits = DEFAULT_LIMITS,
        reports: bool = False,
        tracks: bool = False,
    ) -> None:
        super().__init__(limits=limits, reports=reports, tracks=tracks)
        self._max_chars = limits.max_input_chars
        self._closed = False

    @property
    def complete(self) -> bool:
        """True if the root value is closed and no error has come after it."""
        return self._state == DONE

    def feed(self, fragment: str) -> None:
        """Read the next fragment, of any length; O(len(fragment)). Bad JSON sets `error` and raises nothing.

        Raises:
            UsageError: The parser was closed.
        """
        if self.ended:
            self.ended.clear()
        if self._changes is not None:
            self._changes.clear()
        self._base = self._length
        self._length += len(fragment)
        if self._length > self._max_chars:
            if self._closed:
                raise UsageError("PartialJSON.feed() after close()")
            # The first character beyond the limit is the fault. It is no `LimitError`: an input that is too long means
            # one call that does not run, not the stream's end.
            room = self._max_chars - self._base
            if self._state != FAILED and room >= 0:
                self._parse(fragment[:room])
                if self.error is None:
                    self._fail(f"longer than {self._max_chars} characters", room, fragment[room])
        elif (
            self._state == TEXT
            and not self._in_key
            and fragment.isprintable()
            and '"' not in fragment
            and "\\" not in fragment
        ):
            # Most fragments of most streams: plain text inside a long string. The three tests are calls of C and need
            # no regular expression. They stand here, not in a method, which would be one more call per fragment.
            self._grow(fragment)
        elif self._state != FAILED:
            self._parse(fragment)

    def close(self) -> None:
        """End the text, which settles a number at the root. Further calls change nothing.

        A text that stops inside a value is no `error`: it is cut, not wrong, and the caller decides about that.
        """
        if self.ended:
            self.ended.clear()
        if self._changes is not None:
            self._changes.clear()
        if self._state == NUMBER and self._container is None and self._number in COMPLETE_NUMBER:
            self._base = self._length
            self._end_number(0)
        self._closed = True
        self._max_chars = -1  # any further text is too long: `feed` needs no check of its own

    @property
    def patch(self) -> Patch:
        """The operations that repeat the changes of the last `feed` in a copy of `value`; see `Patch`.

        It is empty if nothing visible has changed, and while the root is no object. It shares no container with
        `value`. Numbers beyond floats, which JSON cannot express, are null. Costs O(changes). Needs `reports=True`.
        """
        # An input that is no object is never shown (`ToolInput.partial`), so it has no changes to repeat.
        if self._changes is None or type(self._root) is not dict:
            return []
        patch = self._changes.patch
        return patch if self.overflow_chars is None else finite(patch)

    def is_finished(self, path: Path) -> bool:
        """Return True if the value at `path` shows and can no longer change, except under a repeated key; O(depth)."""
        if find(self._root, path) is MISSING:
            return False
        # Text after the root is an error, but takes back nothing of the value.
        if self._state == DONE or (self._state == FAILED and self._failed_in == DONE):
            return True
        if self._container is None:
            return False
        # A value is finished unless it contains the current value. Nothing is stored per value: the path is enough.
        open_path = self.open_path
        return open_path is None or open_path[: len(path)] != path

    @property
    def open_path(self) -> Path | None:
        """The path of the innermost value that shows and is not finished; None if there is none."""
        state = self._failed_in if self._state == FAILED else self._state  # after an error: the state at the error
        # Only strings show before they end: numbers and literals have no path until they are finished.
        if state in _STRING_STATES and not self._in_key:
            return (*steps(self._node), self._key) if self._container is not None else ()
        return steps(self._node) if self._container is not None else None

    # --- between the scalars ------------------------------------------------------------------------------------------

    def _parse(self, text: str) -> None:
        """Run the state machine over one fragment. Every `_read_*` reads as many characters as it can."""
        at = 0
        end = len(text)
        self._quote = -2
        # Plain branches, in the order in which fragments of streams need them, not a table of methods. A bound method
        # from a dict costs a look-up and an object for each step, and mypyc compiles branches to jumps.
        while at < end:
            state = self._state
            if state == TEXT:
                at = self._read_text(text, at)
            elif state < TEXT:
                at = self._read_structure(text, at)
            elif state == NUMBER:
                at = self._read_number(text, at)
            elif state == LITERAL:
                at = self._read_literal(text, at)
            elif state == FAILED:
                return
            else:
                at = self._read_escape(text, at)

    def _read_structure(self, text: str, at: int) -> int:
        """Read between tokens: brackets, commas, colons, white space, and scalars complete within the fragment.

        A separate loop, because most steps here lead to another one here: `{"a":1,"b":2}` never leaves it. A scalar
        complete within the fragment needs no state and no list of pieces, so records in long fragments are cheap.
        """
        end = len(text)
        while at < end:
            character = text[at]
            state = self._state
            if character in _WHITE_SPACE:
                at += 1
            elif state == AFTER:
                if character == ",":
                    self._state = KEY if type(self._container) is dict else VALUE
                elif character == ("}" if type(self._container) is dict else "]"):
                    self._pop()
                else:
                    return self._fail(self._expected_after(), at, character)
                at += 1
            elif state == COLON:
                if character != ":":
                    return self._fail(EXPECTED[state], at, character)
                self._state = VALUE
                at += 1
            elif FIRST_KEY <= state <= KEY:  # a tuple of names would be made anew for each character
                if character == '"':
                    # Three calls of C instead of a loop over characters, as in `feed`. A key that is not printable need
                    # not be wrong: it takes the long way, which finds that out.
                    at += 1
                    quote = text.find('"', at)
                    key = text[at:quote]
                    if quote < 0 or "\\" in key or not key.isprintable():
                        self._in_key = True
                        self._state = TEXT
                        return at
                    self._key = key
                    self._state = COLON
                    at = quote + 1
                elif state == FIRST_KEY and character == "}":
                    self._pop()
                    at += 1
                else:
                    return self._fail(EXPECTED[state], at, character)
            elif state == DONE:
                # `{"a":1}{"b":2}` is no input. jiter's partial mode accepts the first object, and drops the rest.
                return self._fail(EXPECTED[state], at, character)
            else:
                if character in _NUMBER_START:
                    at = self._begin_number(text, at)
                else:
                    at = self._begin_value(text, at, character)
                if self._state > DONE:
                    return at
        return at

    def _begin_value(self, text: str, at: int, character: str) -> int:
        """Start a value at its first character. Add a scalar at once if it is complete within the fragment."""
        if character == '"':
            at += 1
            quote = text.find('"', at)
            string = text[at:quote] if quote >= 0 else text[at:]
            is_plain = "\\" not in string and string.isprintable()
            if quote >= 0 and is_plain:
                self._add(string)
                return quote + 1
            self._begin_string(string if is_plain else "")
            return at + len(string) if is_plain else at
        if character in "{[":
            if not self._push({} if character == "{" else []):
                return self._fail(f"nested deeper than {self._max_depth}", at, character)
            return at + 1
        if character in LITERALS:
            literal = LITERALS[character]
            if text.startswith(literal, at):
                self._add(LITERAL_VALUES[literal])
                return at + len(literal)
            self.started = True
            self._literal = literal
            self._literal_at = 1
            self._state = LITERAL
            return at + 1
        # Only as the first token: `[1,]` is no JSON.
        if character == "]" and self._state == FIRST_ITEM:
            self._pop()
            return at + 1
        return self._fail(EXPECTED[self._state], at, character)


def read_whole(text: bytes, limits: ParsingLimits) -> JSONObject | None:
    """Return a complete object, read by one call of jiter: at a tenth of the cost of a parser.

    None if jiter refuses the text, if it is no object, or if jiter reads it by other rules. Then a `PartialJSON` must
    read it. jiter accepts nothing that the parser refuses, but it refuses lone surrogates and long integers.
    """
    if limits.max_depth < _JITER_DEPTH or limits.max_integer_digits < _PLAIN_DIGITS:
        return None
    try:
        root: Any = jiter.from_json(text, allow_inf_nan=False)
    except ValueError:
        return None
    if type(root) is not dict:
        return None
    # Infinite floats and long integers need care.
    waiting: list[Any] = [root]
    while waiting:
        container = waiting.pop()
        for value in container.values() if type(container) is dict else container:
            kind = type(value)
            if kind is str:
                continue
            if kind is dict or kind is list:
                waiting.append(value)
            elif kind is float:
                if value - value != 0.0:
                    return None
            elif kind is int and not -_LONG_INTEGER < value < _LONG_INTEGER:
                return None
    return root
