"""`Changes`: what one feed of a parser changes in its value, noted while it happens."""

from __future__ import annotations

from typing import Any

from ._patch import Patch, PatchOp, escaped, pointer
from ._values import JSON, Path, copy_json


def steps(node: Any) -> Path:
    """A linked path, of (parent, key) pairs, as a tuple from the root."""
    keys: list[str | int] = []
    while node is not None:
        node, key = node
        keys.append(key)
    keys.reverse()
    return tuple(keys)


class Changes:
    """The operations and the finished values of one feed.

    Noting one costs O(1); paths and copies are made when somebody asks. Nothing is noted inside a container that is
    itself new: the operation that adds it brings all of it.
    """

    __slots__ = ("_finished", "_fresh", "_operations", "_written")

    def __init__(self) -> None:
        # [operation, node, key, value, pieces of a string or None]
        self._operations: list[list[Any]] = []
        self._finished: list[tuple[Any, Any, JSON]] = []
        self._fresh: set[int] = set()  # ids of the new containers, which the value keeps alive
        self._written: list[Any] | None = None  # the operation that the string under way lengthens

    def clear(self) -> None:
        """Forget the last feed."""
        self._written = None
        if self._operations or self._finished:
            self._operations = []
            self._finished = []
            self._fresh.clear()

    def add(self, container: Any, node: Any, key: Any, value: Any) -> None:
        """`value` is about to show in `container`, which is at `node`, under `key`; None for the root."""
        self._written = None
        is_container = type(value) in (dict, list)
        if id(container) not in self._fresh:
            is_new = type(container) is not dict or key not in container
            pieces = [value] if type(value) is str else None
            operation = ["add" if is_new else "replace", node, key, value, pieces]
            self._operations.append(operation)
            if pieces is not None:
                self._written = operation
        if is_container:
            self._fresh.add(id(value))

    def lengthen(self, container: Any, node: Any, key: Any, piece: str) -> None:
        """The string under `key` in `container` is about to grow by `piece`."""
        if piece and id(container) not in self._fresh:
            if self._written is None:
                self._written = ["append", node, key, "", []]
                self._operations.append(self._written)
            self._written[4].append(piece)

    def finish(self, node: Any, key: Any, value: JSON) -> None:
        """The value under `key` in the container at `node` is finished."""
        self._finished.append((node, key, value))

    @property
    def finished(self) -> list[tuple[Path, JSON]]:
        """The finished values with their paths, in the order of their ends."""
        return [((*steps(node), key) if key is not None else (), value) for node, key, value in self._finished]

    @property
    def patch(self) -> Patch:
        """The operations, with copies of their values."""
        patch: Patch = []
        node: Any = None
        path = ""
        for kind, parent, key, value, pieces in self._operations:
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
