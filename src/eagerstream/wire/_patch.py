"""`PatchMaker`: fragments of a JSON text in, patches out that keep a copy of the growing value up to date elsewhere.

A patch is a list of operations in the manner of RFC 6902, applied in order:

- `add` sets the root (`path` is `""`), a new key of an object, or the next item of an array;
- `replace` sets what is there already: only a repeated key leads to one;
- `append` lengthens a string by `value`: the one operation that RFC 6902 does not have, and nearly every one of a
  stream. Without it each piece of a long string would cost the whole string.

Paths are JSON pointers (RFC 6901).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from math import isinf
from typing import Any, Literal, NamedTuple, TypeAlias

from typing_extensions import TypedDict  # pydantic checks patches, and takes no other before Python 3.12

from ..limits import DEFAULT_LIMITS, Limits
from ._partial_json import STRING_STATES, PartialJSON
from ._values import JSON, copy_json


class PatchOp(TypedDict):
    """One operation of a patch."""

    op: Literal["add", "replace", "append"]
    path: str
    value: Any


Patch: TypeAlias = list[PatchOp]


def pointer(*steps: str | int) -> str:
    """Keys and indexes as a JSON pointer, from the root."""
    return "".join(f"/{_escaped(step)}" for step in steps)


def _escaped(step: str | int) -> str:
    return str(step).replace("~", "~0").replace("/", "~1")


def steps_of(path: str) -> list[str]:
    """The steps of a JSON pointer; indexes of arrays are digits still.

    Raises:
        ValueError: It is none.
    """
    if path and path[0] != "/":
        raise ValueError("a JSON pointer begins with a slash")
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]


class _Level(NamedTuple):
    """A container that was open at the last look; nothing else can have changed since."""

    node: Any  # where it stands, as the parser has it: the same object for as long as it is open
    container: Any
    size: int
    path: str


class PatchMaker:
    """Reads the fragments of one text, and says what each changes in the best-effort value.

    A feed costs O(len(fragment)), and so does its patch; a repeated key costs its old value once more, where that was
    not finished. The value is what `PartialJSON` makes of the text, but for numbers beyond floats, which no JSON can
    tell: they are null. Before it is an object there are no patches.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.finished: list[str] = []
        """Fields of the object that the last fragment finished."""
        self._parser = PartialJSON(limits=limits, track=True)
        self._shown = False
        self._levels: list[_Level] = []  # what is open, from the root
        self._places: dict[int, int] = {}  # by the id of its node, which of them a level is
        self._string: tuple[Any, Any, int, str] | None = None  # that is open: its container, key, length and path

    def feed(self, fragment: str) -> Patch:
        """What a fragment changes; empty where nothing that shows has changed."""
        parser = self._parser
        parser.feed(fragment)
        ended = parser._finished
        parser._finished = []
        self.finished = [key for node, key, _ in ended if node is None and type(key) is str]
        value = parser.value
        if type(value) is not dict:
            return []
        if not self._shown:
            self._shown = True
            patch: Patch = [{"op": "add", "path": "", "value": copy_json(value)}]
            self._note_open(0)
        elif not ended and self._string is not None:
            patch = self._appended()  # nearly every fragment of most streams
            self._note_string()
        elif self._levels:
            first = self._first_changed()
            patch = self._changes(first, ended)
            self._note_open(first)
        else:
            patch = []  # the root is finished
        return patch if parser.overflow_chars is None else _finite(patch)

    def _first_changed(self) -> int:
        """Which of the levels is the innermost that is still open: no other around it can have changed."""
        node = self._parser._node
        if self._parser._container is None:
            return 0
        while id(node) not in self._places:
            node = node[0]
        return self._places[id(node)]

    def _changes(self, first: int, ended: list[tuple[Any, Any, JSON]]) -> Patch:
        written = {id(level.node): 0 for level in self._levels[first:]}  # values that went on, or began, in each
        for node, key, _ in ended:
            if key is not None and id(node) in written:
                written[id(node)] += 1
        if self._has_open_value(self._levels[first].node):
            written[id(self._levels[first].node)] += 1
        patch = self._appended()
        innermost = len(self._levels) - 1
        for depth in range(first, len(self._levels)):
            node, container, size, path = self._levels[depth]
            went_on = depth < innermost or self._string is not None
            new = len(container) - size
            if type(container) is dict and written[id(node)] - went_on != new:
                # A key came once more. Which one, and when, is not worth knowing: all that were written are replaced.
                keys = dict.fromkeys([*(key for inner, key, _ in ended if inner is node), self._open_key(node)])
                added = _added(container, new, path)
                known = {op["path"] for op in added}
                places = {f"{path}/{_escaped(key)}": key for key in keys if key in container}
                again: Patch = [
                    {"op": "replace", "path": place, "value": copy_json(container[key])}
                    for place, key in places.items()
                    if place not in known
                ]
                return [*_outside(patch, path), *again, *added]
            patch += _added(container, new, path)
        return patch

    def _has_open_value(self, node: Any) -> bool:
        """A value shows in the open container at `node` and is not finished."""
        parser = self._parser
        return parser._container is not None and (parser._node is not node or self._is_in_string)

    def _open_key(self, node: Any) -> Any:
        """The key of the value that is open in the container at `node`; None where that is closed, or has none."""
        parser = self._parser
        if parser._container is None:
            return None
        if parser._node is node:
            return parser._key if self._is_in_string else None
        inner = parser._node
        while inner is not None and inner[0] is not node:
            inner = inner[0]
        return inner and inner[1]

    @property
    def _is_in_string(self) -> bool:
        parser = self._parser
        return parser._live_state in STRING_STATES and not parser._in_key

    def _appended(self) -> Patch:
        """How the string that was open has grown."""
        if self._string is None:
            return []
        container, key, length, path = self._string
        # Under a key that came once more there may be anything; that is found out elsewhere.
        piece = container[key][length:] if type(container[key]) is str else ""
        return [{"op": "append", "path": path, "value": piece}] if piece else []

    def _note_open(self, first: int) -> None:
        """Remember what is open from level `first` on: only that can change."""
        parser = self._parser
        for level in self._levels[first + 1 :]:
            del self._places[id(level.node)]
        del self._levels[first + 1 :]
        self._string = None
        if parser._container is None:
            self._levels.clear()
            self._places.clear()
            return
        if self._levels:
            node, container, _, path = self._levels.pop()
        else:
            node, container, path = None, parser.value, ""
        opened: list[Any] = []
        inner = parser._node
        while inner is not node:
            opened.append(inner)
            inner = inner[0]
        while True:
            self._places[id(node)] = len(self._levels)
            self._levels.append(_Level(node, container, len(container), path))
            if not opened:
                break
            node = opened.pop()
            container = container[node[1]]
            path = f"{path}/{_escaped(node[1])}"
        if self._is_in_string:
            key = parser._key
            self._string = container, key, len(container[key]), f"{path}/{_escaped(key)}"

    def _note_string(self) -> None:
        assert self._string is not None
        container, key, _, path = self._string
        self._string = container, key, len(container[key]), path


def _outside(patch: Patch, path: str) -> Patch:
    """The operations of a patch that change nothing below `path`."""
    return [op for op in patch if not op["path"].startswith(f"{path}/")]


def _added(container: Any, new: int, path: str) -> Patch:
    """The last `new` values of a container, which it did not have before."""
    if not new:
        return []
    keys: list[Any]
    if type(container) is dict:
        keys = [*islice(reversed(container), new)][::-1]
    else:
        keys = [*range(len(container) - new, len(container))]
    return [{"op": "add", "path": f"{path}/{_escaped(key)}", "value": copy_json(container[key])} for key in keys]


def _finite(patch: Patch) -> Patch:
    """A patch without the numbers that no JSON can tell."""
    root: list[Any] = [op["value"] for op in patch]
    pending: list[Any] = [root]
    while pending:
        container = pending.pop()
        for place, item in list(container.items() if isinstance(container, dict) else enumerate(container)):
            if isinstance(item, float) and isinf(item):
                container[place] = None
            elif isinstance(item, dict | list):
                pending.append(item)
    return [{**op, "value": value} for op, value in zip(patch, root, strict=True)]


def apply_patch(value: Any, patch: Patch) -> Any:
    """`value` after a patch; it is changed in place, the patch is not, and shares nothing with it.

    An `append` costs O(len of its text) where nobody else holds the string.

    Raises:
        ValueError: The patch does not fit the value.
    """
    root: Any = value
    try:
        for op in patch:
            item = op["value"]
            if isinstance(item, dict | list):
                item = copy_json(item)
            if not op["path"]:
                root = root + item if op["op"] == "append" else item
                continue
            *outer, last = steps_of(op["path"])
            parent: Any = root
            for step in outer:
                parent = parent[_key_in(parent, step)]
            _set(parent, last, op["op"], item)
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError("the patch does not fit the value") from error
    return root


def _set(parent: Any, step: str, kind: str, item: Any) -> None:
    key = _key_in(parent, step)
    if kind == "append":
        text = parent[key]
        if not isinstance(text, str):
            raise TypeError("only a string can be lengthened")
        parent[key] = None  # nobody else holds the string: it grows in place
        text += item
        parent[key] = text
    elif isinstance(parent, list) and key == len(parent):
        parent.append(item)
    else:
        parent[key] = item


def _key_in(parent: Any, step: str) -> Any:
    if not isinstance(parent, list):
        return step
    if not step.isdecimal():
        raise KeyError(step)
    return int(step)


def merge_patches(patches: Iterable[Patch]) -> Patch:
    """One patch that does what several do, one after another; pieces of one string become one piece."""
    merged: Patch = []
    pieces: list[str] = []  # of the last operation

    def join() -> None:
        if len(pieces) > 1:
            merged[-1] = {**merged[-1], "value": "".join(pieces)}

    for patch in patches:
        for op in patch:
            if op["op"] == "append" and pieces and merged[-1]["path"] == op["path"]:
                pieces.append(op["value"])
                continue
            join()
            merged.append(op)
            pieces = [op["value"]] if isinstance(op["value"], str) else []
    join()
    return merged
