"""`JSONBuilder`: the value that a parser builds, and the changes that the last fragment made to it.

The parser consists of three classes, one on top of the other. This one handles containers and paths, and no characters.
`ScalarReader` reads strings, numbers and literals. `PartialJSON` reads everything between them. They are base classes,
not three objects that know each other: `_add`, `_push` and `_pop` run once per token, and separate objects would cost
each of them one more attribute look-up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ._json_changes import Changes, steps
from ._limits import ParsingLimits
from ._mypyc import mypyc_attr
from ._values import JSON, Path

# The expected next character. Below TEXT the parser is between tokens and white space is allowed: one comparison
# separates the two. Integer constants, not an enum: reading an enum member costs plain Python two attribute look-ups,
# and mypyc an object. mypyc compiles these to integers of C.
VALUE: Final = 0  # a value
FIRST_ITEM: Final = 1  # after "[": a value or "]". Not VALUE, because "]" may not follow a comma
FIRST_KEY: Final = 2  # after "{": a key or "}". Not KEY, because "}" may not follow a comma
KEY: Final = 3  # after "," in an object: a key
COLON: Final = 4
AFTER: Final = 5  # after a value in a container: "," or its closing bracket
DONE: Final = 6  # after the root: white space only
TEXT: Final = 7  # inside a string
ESCAPE: Final = 8  # after a backslash
HEX: Final = 9  # inside the four digits of \uXXXX
HIGH: Final = 10  # after the escape of a high surrogate: its low half, or anything else
NUMBER: Final = 11
LITERAL: Final = 12
FAILED: Final = 13

# RFC 8259 allows only white space, a comma, or the bracket of its own container after a number. `[1}` must not show the
# 1: the text is known to be wrong at the character that would end the number.
_OBJECT_NUMBER_ENDS: Final = " \t\n\r,}"
_ARRAY_NUMBER_ENDS: Final = " \t\n\r,]"
_ROOT_NUMBER_ENDS: Final = " \t\n\r"


@mypyc_attr(allow_interpreted_subclasses=True)
class JSONBuilder:
    """A JSON value under construction: its containers, the place of the current value, and a record of changes.

    Args:
        limits: `max_depth` applies.
        reports: As for `PartialJSON`.
        tracks: As for `PartialJSON`.
    """

    # The instances of a class share the names of at most 30 attributes, and a parser has more: without slots each would
    # have its own dict. A value after every fragment of 4 characters took 1.05 us without them, and 0.87 with them.
    __slots__ = (
        "_changes",
        "_container",
        "_key",
        "_max_depth",
        "_node",
        "_number_ends",
        "_root",
        "_stack",
        "_state",
        "ended",
        "mirrors",
        "started",
    )

    def __init__(self, *, limits: ParsingLimits, reports: bool, tracks: bool) -> None:
        self.started: bool = False
        """True once a value has started: False for white space alone, and for a text wrong from its first character."""
        self._max_depth = limits.max_depth
        self._state = VALUE
        self._root: Any = None
        # An explicit stack, because a model may nest to any depth: `json.loads` raises RecursionError at a depth of
        # about 1,000. `_container` is separate, so that a scalar does not read the end of a list.
        self._container: Any = None
        self._stack: list[Any] = []
        self._key: Any = None  # the place of the current value in `_container`
        # The path of `_container` as linked (parent, key) pairs: a step costs O(1). A tuple would cost O(depth) at each
        # bracket, and nearly all paths are never read.
        self._node: Any = None
        self._number_ends = _ROOT_NUMBER_ENDS
        self._changes = Changes() if reports else None
        self.ended: list[tuple[int, Any, Any, JSON]] | None = [] if reports or tracks else None
        """Depth, node, key and value of each value that the last `feed` finished; `finished` has their paths."""
        self.mirrors: list[tuple[Callable[[Any, Any], object], Any]] = []
        """Other places that show the open string: a function that sets one, and its key. Cleared for each new string.

        The parser keeps them up to date. A reference that it does not know would make each fragment copy the string.
        """

    @property
    def value(self) -> JSON:
        """The best-effort value of the text so far; None while there is none (`started` distinguishes it from null)."""
        value: JSON = self._root
        return value

    @property
    def strict_value(self) -> JSON:
        """The value by strict rules, also if a subclass shows another as `value`."""
        value: JSON = self._root
        return value

    @property
    def reports(self) -> bool:
        """True if `feed` records its changes. It can be switched on and off at any time."""
        return self._changes is not None

    @reports.setter
    def reports(self, reports: bool) -> None:
        self._changes = (self._changes or Changes()) if reports else None
        self.tracks = reports

    # Separate from `reports`, because it is cheaper, and most watchers of an input need no patch.
    @property
    def tracks(self) -> bool:
        """True if `feed` records the values it finishes. It can be switched on and off at any time."""
        return self.ended is not None

    @tracks.setter
    def tracks(self, tracks: bool) -> None:
        self.ended = (self.ended or []) if tracks else None

    @property
    def finished(self) -> list[tuple[Path, JSON]]:
        """The values that the last `feed` (or `close`) finished, with their paths, in the order of their ends.

        A container comes after its contents. A repeated key finishes again. Needs `reports=True` or `tracks=True`.
        """
        finished: list[tuple[Path, JSON]] = []
        for _, node, key, value in self.ended or ():
            finished += ((() if key is None else (*steps(node), key), value),)
        return finished

    def finished_in(self, max_depth: int) -> list[tuple[Path, str | int | None]]:
        """Return the container's path and the key of each value that the last `feed` finished, down to `max_depth`.

        Values in one container share one path: O(values), also at great depth. The root has the key None. If the root
        is not an object, the list is empty.
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
        """The keys of the root object whose values the last `feed` finished. Needs `reports` or `tracks`."""
        fields: list[str] = []
        if type(self._root) is dict:
            for depth, _, key, _ in self.ended or ():
                fields += (key,) if depth == 1 else ()
        return fields

    # `type(x) is dict` and not `isinstance`: all containers are made here, and the exact test is one comparison.

    def _add(self, value: JSON) -> None:
        """Show and end a scalar. In an array its key is the next index (an object's key was read before)."""
        container = self._container
        if type(container) is list:
            self._key = len(container)
        if self._changes is not None:
            self._changes.add(container, self._node, self._key, value)
        if self.ended is not None:
            self.ended.append((len(self._stack), self._node, self._key, value))
        if type(container) is list:
            container.append(value)
            self._state = AFTER
        elif type(container) is dict:
            container[self._key] = value
            self._state = AFTER
        else:
            self.started = True
            self._root = value
            self._state = DONE

    def _begin_string(self, string: str) -> None:
        """Show a string that may go on. It shows from its quote on: eager streaming exists for long strings."""
        container = self._container
        self.started = True
        self._state = TEXT
        if type(container) is list:
            self._key = len(container)
        if self.mirrors:
            self.mirrors.clear()
        if self._changes is not None:
            self._changes.add(container, self._node, self._key, string)
        if type(container) is dict:
            # A repeated key loses its old value only now, when the new one shows: a key without a value never shows.
            container[self._key] = string
        elif type(container) is list:
            container.append(string)
        else:
            self._root = string

    def _grow(self, run: str) -> None:
        """Lengthen the current string by `run`, in O(len(run)).

        CPython appends in place if nothing else refers to the string, so its place is emptied first. If a caller keeps
        or hashes the old string, the append costs a copy, and the result is still right. Pieces in a list, joined at
        each read, would make reading after every fragment quadratic.
        """
        container = self._container
        if self._changes is not None:
            self._changes.lengthen(container, self._node, self._key, run)
        string: str  # declared, because mypyc loses the append in place if it does not know the type
        if container is None:
            string = self._root
            self._root = None
            string += run
            self._root = string
        else:
            key = self._key
            if not self.mirrors:
                string = container[key]
                container[key] = None
                string += run
                container[key] = string
            else:
                self._grow_mirrored(container, key, run)

    def _grow_mirrored(self, container: Any, key: Any, run: str) -> None:
        """Do the same for a string that shows in other places, too. They are emptied first, for the same reason."""
        for put, place in self.mirrors:
            put(place, None)
        string: str = container[key]
        container[key] = None
        string += run
        container[key] = string
        for put, place in self.mirrors:
            put(place, string)

    def _end_value(self) -> None:
        """Finish the current value."""
        container = self._container
        if self.ended is not None:
            value = self._root if container is None else container[self._key]
            self.ended.append((len(self._stack), self._node, self._key, value))
        self._state = DONE if container is None else AFTER

    def _push(self, container: Any) -> bool:
        """Start a container. Return False if it would be nested too deep."""
        if len(self._stack) >= self._max_depth:
            return False
        outer = self._container
        if self._changes is not None:
            self._changes.add(outer, self._node, len(outer) if type(outer) is list else self._key, container)
        self._stack.append(outer)
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
            self._state = FIRST_KEY
        else:
            self._number_ends = _ARRAY_NUMBER_ENDS
            self._state = FIRST_ITEM
        return True

    def _pop(self) -> None:
        """Close the current container, which was the current value of the one around it."""
        container = self._container = self._stack.pop()
        if container is None:
            # `_number_ends` stays: only white space may follow the root, so no number starts.
            self._key = None
        else:
            self._node, self._key = self._node
            self._number_ends = _OBJECT_NUMBER_ENDS if type(container) is dict else _ARRAY_NUMBER_ENDS
        self._end_value()
