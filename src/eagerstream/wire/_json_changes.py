"""`Changes`: the operations by which one feed of a parser changes its value, noted while it happens."""

from __future__ import annotations

from typing import Any

from ._patch import Patch, PatchOp, escaped, pointer
from ._values import Path, copy_json


def steps(node: Any) -> Path:
    """A linked path, of (parent, key) pairs, as a tuple from the root."""
    keys: list[str | int] = []
    while node is not None:
        node, key = node
        keys.append(key)
    keys.reverse()
    return tuple(keys)


class Changes:
    """The operations of one feed.

    Noting one costs O(1); paths and copies are made when somebody asks. Nothing is noted inside a container that is
    itself new: the operation that adds it brings all of it.

    Attributes:
        operations: [operation, node, key, value, pieces of a string or None] for each.
        written: The operation that the string under way lengthens.
    """

    __slots__ = ("_fresh", "operations", "written")

    def __init__(self) -> None:
        self.operations: list[list[Any]] = []
        self._fresh: set[int] = set()  # ids of the new containers, which the value keeps alive
        self.written: list[Any] | None = None

    def clear(self) -> None:
        """Forget the last feed."""
        if self.operations:
            self.operations = []
            self._fresh.clear()
        self.written = None

    def add(self, container: Any, node: Any, key: Any, value: Any) -> None:
        """`value` is about to show in `container`, which is at `node`, under `key`; None for the root."""
        self.written = None
        is_container = type(value) in (dict, list)
        if id(container) not in self._fresh:
            is_new = type(container) is not dict or key not in container
            pieces = [value] if type(value) is str else None
            operation = ["add" if is_new else "replace", node, key, value, pieces]
            self.operations.append(operation)
            if pieces is not None:
                self.written = operation
        if is_container:
            self._fresh.add(id(value))

    def lengthen(self, container: Any, node: Any, key: Any, piece: str) -> None:
        """The string under `key` in `container` is about to grow by `piece`."""
        if piece and id(container) not in self._fresh:
            if self.written is None:
                self.written = ["append", node, key, "", []]
                self.operations.append(self.written)
            self.written[4].append(piece)

    @property
    def patch(self) -> Patch:
        """The operations, with copies of their values."""
        patch: Patch = []
        node: Any = None
        path = ""
        for kind, parent, key, value, pieces in self.operations:
            if parent is not node:
                node = parent
                path = pointer(*steps(node))
            operation: PatchOp = {
                "op": kind,
                "path": path if key is None else f"{path}/{escaped(key)}",
                "value": "".join(pieces) if pieces is not None else copy_json(value),
            }
            patch.append(operation)
        return patch
