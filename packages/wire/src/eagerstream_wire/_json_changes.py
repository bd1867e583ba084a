"""`Changes`: the operations by which one feed of a parser changes its value, recorded as they happen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._patch import escaped
from ._values import Path, copy_json

if TYPE_CHECKING:
    from ._patch_types import Patch


def steps(node: Any) -> Path:
    """Return a linked path of (parent, key) pairs as a tuple from the root."""
    keys: list[str | int] = []
    while node is not None:
        node, key = node
        keys.append(key)
    keys.reverse()
    return tuple(keys)


class Changes:
    """The operations of one feed.

    Recording one costs O(1). Paths and copies are made on request. Nothing is recorded inside a new container, because
    the operation that adds the container includes its content.

    Attributes:
        operations: `[operation, node, key, value, pieces of a string or None]` for each.
        written: The operation that the current string lengthens.
    """

    __slots__ = ("_fresh", "_key", "_node", "_path", "_pointer", "operations", "written")

    def __init__(self) -> None:
        self.operations: list[list[Any]] = []
        self._fresh: set[int] = set()  # ids of the new containers, which the value keeps alive
        self.written: list[Any] | None = None
        # The place of the last operation: most fragments lengthen the same value, or come next in its container.
        self._node: Any = None
        self._pointer = ""  # of the container
        self._key: Any = None
        self._path = ""  # of the value

    def clear(self) -> None:
        """Forget the last feed."""
        if self.operations:
            self.operations = []
            self._fresh.clear()
        self.written = None

    def add(self, container: Any, node: Any, key: Any, value: Any) -> None:
        """Record that `value` is about to appear in `container`, at `node`, under `key`; the root has no key."""
        self.written = None
        if id(container) not in self._fresh:
            is_new = type(container) is not dict or key not in container
            pieces = [value] if type(value) is str else None
            operation = ["add" if is_new else "replace", node, key, value, pieces]
            self.operations.append(operation)
            if pieces is not None:
                self.written = operation
        if type(value) in (dict, list):
            self._fresh.add(id(value))

    def lengthen(self, container: Any, node: Any, key: Any, piece: str) -> None:
        """Record that the string under `key` in `container` is about to grow by `piece`."""
        if self.written is not None:
            self.written[4].append(piece)
        elif piece and id(container) not in self._fresh:
            self.written = ["append", node, key, "", [piece]]
            self.operations.append(self.written)

    @property
    def patch(self) -> Patch:
        """The operations, with copies of their values."""
        patch: Patch = []
        for kind, node, key, value, pieces in self.operations:
            if node is not self._node:
                self._node, self._key = node, None
                self._pointer = "".join([f"/{step if type(step) is int else escaped(step)}" for step in steps(node)])
            if key != self._key:
                self._key = key
                self._path = f"{self._pointer}/{key if type(key) is int else escaped(key)}"
            if pieces is not None:
                value = "".join(pieces)
            elif type(value) in (dict, list):
                value = copy_json(value)
            patch.append({"op": kind, "path": "" if key is None else self._path, "value": value})
        return patch
