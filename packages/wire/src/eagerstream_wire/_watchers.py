"""`Watchers`: the callbacks that wait for a part of an input, found by its path."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

from ._values import MISSING, Path

Table: TypeAlias = dict[Path, list[Callable[..., object]]]


class Watchers:
    """Callbacks for the values of one input, each called once.

    The paths of a fragment's changes are looked up here. With 100 watchers, asking each one after every fragment would
    cost 39 times as much as having none.

    Attributes:
        on_finish: Called with the value at the path when it is finished.
        on_item: Called when an item of the array at the path is finished, when the value there ends, or when it is not
            an array.
        on_growth: Called when the value at the path starts, grows or ends.
        on_text: Called when there is more JSON text, whatever it changes. The path is `()`.
        due: Callbacks to call now. Some stay if one of them raised.
        max_depth: Length of the longest path of a value that a callback waits for.
    """

    def __init__(self) -> None:
        self.on_finish: Table = {}
        self.on_item: Table = {}
        self.on_growth: Table = {}
        self.on_text: Table = {}
        self.max_depth = 0
        self._parents: set[Path] = set()  # of the awaited values: all others are skipped
        self.due: deque[Callable[..., object]] = deque()

    def __bool__(self) -> bool:
        return bool(self.on_finish or self.on_item or self.on_growth or self.on_text or self.due)

    def add(self, table: Table, path: Path, callback: Callable[..., object]) -> None:
        """Add a callback to one of the tables."""
        table.setdefault(path, []).append(callback)
        self.max_depth = max(self.max_depth, len(path) + (table is self.on_item))  # an item is one step below its array
        self._parents.add(path)
        self._parents.add(path[:-1])

    def remove(self, table: Table, path: Path, callback: Callable[..., object]) -> None:
        """Remove a callback. Does nothing if it was called."""
        if callback in table.get(path, ()):
            table[path].remove(callback)
            if not table[path]:
                del table[path]

    def finish(self, finished: Iterable[tuple[Path, str | int | None]], value_at: Callable[[Path], Any]) -> None:
        """Mark the callbacks that wait for these ended values as due.

        Args:
            finished: Path of the container and key of each value. The key is `None` for the root.
            value_at: Returns the value at a path, or `MISSING` if a repeated key has started it again.
        """
        due = self.due
        parent: Path | None = None
        is_awaited = False
        for container, key in finished:
            if container is not parent:
                parent = container
                is_awaited = container in self._parents
            if not is_awaited:
                continue
            path = container if key is None else (*container, key)
            if path in self.on_finish and (value := value_at(path)) is not MISSING:
                due.extend([partial(callback, value) for callback in self.on_finish.pop(path)])
            if self.on_growth:
                due.extend(self.on_growth.pop(path, ()))
            if self.on_item:
                due.extend(self.on_item.pop(path, ()))
                due.extend(self.on_item.pop(container, ()))

    def grow(self, value: Any, open_path: Path) -> None:
        """Mark the callbacks as due that wait for growth of the value at `open_path`, or of a value around it.

        A callback for items of an array is not due here, because the item is not finished. It is due if the value is
        not an array.

        Args:
            value: The root. A tolerant parser may show less of it than the path says.
            open_path: The path of the open value.
        """
        for length in range(len(open_path) + 1):
            path = open_path[:length]
            self.due.extend(self.on_growth.pop(path, ()))
            if path in self.on_item and type(value) is not list:
                self.due.extend(self.on_item.pop(path))
            if length < len(open_path):
                try:
                    value = value[open_path[length]]
                except (KeyError, IndexError, TypeError):
                    value = None

    def call(self) -> bool:
        """Call the callbacks that are due. Return True if others still wait.

        If a callback raises, the exception passes through, and the other callbacks are called next time.
        """
        due = self.due
        due.extend(self.on_text.pop((), ()))
        while due:
            due.popleft()()
        if self.on_finish or self.on_item or self.on_growth or self.on_text:
            return True
        self._parents.clear()
        self.max_depth = 0
        return False
