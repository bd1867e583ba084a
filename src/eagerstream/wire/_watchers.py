"""`Watchers`: the callbacks that wait for a part of an input, by its path."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

from ._values import JSON, Path

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
    """

    def __init__(self) -> None:
        self.on_finish: Table = {}
        self.on_item: Table = {}
        self.on_growth: Table = {}
        self.on_text: Table = {}
        self._due: deque[Callable[..., object]] = deque()

    def __bool__(self) -> bool:
        return bool(self.on_finish or self.on_item or self.on_growth or self.on_text or self._due)

    def call(self, value: JSON, finished: Iterable[tuple[Path, JSON]], open_path: Path | None) -> bool:
        """Call those who wait for what a fragment has changed. True if others still wait.

        If a callback raises, the exception is passed on, and the other callbacks are called next time.

        Args:
            value: The root.
            finished: The values that the fragment finished, with their paths.
            open_path: The path of the value under way; None if there is none.
        """
        due = self._due
        due.extend(self.on_text.pop((), ()))
        for path, item in finished:
            if path in self.on_finish:
                due.extend([partial(callback, item) for callback in self.on_finish.pop(path)])
            if self.on_growth:
                due.extend(self.on_growth.pop(path, ()))
            if self.on_item:
                due.extend(self.on_item.pop(path, ()))
                due.extend(self.on_item.pop(path[:-1], ()))
        if open_path is not None and (self.on_growth or self.on_item):
            self._look_along(value, open_path)
        while due:
            due.popleft()()
        return bool(self.on_finish or self.on_item or self.on_growth or self.on_text)

    def _look_along(self, value: Any, open_path: Path) -> None:
        """The value at each step of `open_path` has grown. Of an array only its items count, which are not finished."""
        for length in range(len(open_path) + 1):
            path = open_path[:length]
            self._due.extend(self.on_growth.pop(path, ()))
            if path in self.on_item and type(value) is not list:
                self._due.extend(self.on_item.pop(path))
            if length < len(open_path):
                value = value[open_path[length]]
