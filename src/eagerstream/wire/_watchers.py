"""`Watchers`: the callbacks that wait for a part of an input, by its path."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

from ._values import MISSING, Path

Table: TypeAlias = dict[Path, list[Callable[..., object]]]


class Watchers:
    """Callbacks for the values of one input, each called once.

    The paths of a fragment's changes are looked up here. Asking every watcher after every fragment would cost 39 times
    as much as no watcher if there are 100 of them.

    Attributes:
        on_finish: Called with the value at the path, when it is finished.
        on_item: Called when an item of the array at the path is finished, or when the value there turns out to be
            something else, or ends.
        on_growth: Called when the value at the path begins, grows or ends.
        on_text: Called when there is more of the JSON text, whatever it changes; the path is `()`.
        due: Those to call now; some are left if one of them raised.
        max_depth: The length of the longest path of a value that anybody waits for.
    """

    def __init__(self) -> None:
        self.on_finish: Table = {}
        self.on_item: Table = {}
        self.on_growth: Table = {}
        self.on_text: Table = {}
        self.max_depth = 0
        self._parents: set[Path] = set()  # of the values that are waited for: all others are passed over
        self.due: deque[Callable[..., object]] = deque()

    def __bool__(self) -> bool:
        return bool(self.on_finish or self.on_item or self.on_growth or self.on_text or self.due)

    def add(self, table: Table, path: Path, callback: Callable[..., object]) -> None:
        """Have a callback wait, in one of the tables."""
        table.setdefault(path, []).append(callback)
        self.max_depth = max(self.max_depth, len(path) + (table is self.on_item))  # an item is one step below its array
        self._parents.add(path)
        self._parents.add(path[:-1])

    def remove(self, table: Table, path: Path, callback: Callable[..., object]) -> None:
        """Have a callback wait no more; nothing if it was called."""
        if callback in table.get(path, ()):
            table[path].remove(callback)
            if not table[path]:
                del table[path]

    def finish(self, finished: Iterable[tuple[Path, str | int | None]], value_at: Callable[[Path], Any]) -> None:
        """Note whom the end of values concerns.

        Args:
            finished: Path of the container and key of each; the key is None for the root.
            value_at: Returns the value at a path, or `MISSING` if a repeated key has started it over.
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
        """Note whom the growth of the value at `open_path`, and of all around it, concerns.

        Of an array only its items count, which are not finished.

        Args:
            value: The root. A tolerant parser may show less of it than the path says.
            open_path: The path of the value under way.
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
        """Call those who are concerned. True if others still wait.

        If a callback raises, the exception is passed on, and the other callbacks are called next time.
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
