"""The tools of the tasks, and the moments at which they do something.

Both environments import this module.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final, Self

from eagerstream_toolkit import Calculator, Files

from .tasks import BEFORE, EDITS, FILE, Task, edited

_SLOW_S: Final = 1.0


@dataclass
class Marks:
    """Moments of one run, in seconds since its request.

    Attributes:
        origin_s: The request, on the clock of `perf_counter`.
        effect_s: The first line of the first tool.
        end_s: The end of the run, with the model's answer.
    """

    origin_s: float = 0.0
    effect_s: float | None = None
    end_s: float | None = None

    def start(self) -> None:
        """Note the request: the run starts now."""
        self.origin_s = perf_counter()

    def effect(self) -> None:
        """Note that a tool has started."""
        if self.effect_s is None:
            self.effect_s = perf_counter() - self.origin_s

    def end(self) -> None:
        """Note the end of the run."""
        self.end_s = perf_counter() - self.origin_s


class Workplace:
    """The tools of a run, and the file that they edit; a context manager.

    Args:
        marks: Takes the first effect.
        weather_url: Address of the server of `fetch`.
    """

    def __init__(self, marks: Marks, weather_url: str) -> None:
        self._marks = marks
        self._weather_url = weather_url
        self._folder = TemporaryDirectory()
        self._path = Path(self._folder.name) / FILE
        self._path.write_text(BEFORE, encoding="utf-8")
        self._files = Files(self._folder.name)
        self._calculator = Calculator()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    @property
    def text(self) -> str:
        """The file now."""
        return self._path.read_text(encoding="utf-8")

    def tools(self) -> Mapping[str, Callable[..., Any]]:
        """Return the tools as async functions, by name."""

        async def slow(n: int) -> int:
            """Multiply by ten, in a second."""
            self._marks.effect()
            await asyncio.sleep(_SLOW_S)
            return n * 10

        async def keep(lines: str) -> str:
            """Keep lines."""
            self._marks.effect()
            return f"{lines.count(chr(10))} lines"

        async def fetch(path: str) -> dict[str, Any]:
            """Fetch the weather of a city: {"city": str, "highs": [int], "lows": [int]}."""
            self._marks.effect()
            return await asyncio.to_thread(_fetched, self._weather_url + path)

        async def calculator(expression: str) -> str:
            """Calculate."""
            self._marks.effect()
            return str((await self._calculator.call({"expression": expression})).text)

        async def Edit(path: str, old_string: str, new_string: str) -> str:  # noqa: N802  # the name of the tool
            """Replace a piece of a text file, which must be in it once."""
            self._marks.effect()
            done = await self._files.edit.call({"path": path, "old_string": old_string, "new_string": new_string})
            return str(done.text)

        return {function.__name__: function for function in (slow, keep, fetch, calculator, Edit)}


def _fetched(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url) as response:
        got: dict[str, Any] = json.load(response)
        return got


def check(task: Task, results: Sequence[str], workplace: Workplace) -> None:
    """Check that the work was done.

    Raises:
        RuntimeError: It was not.
    """
    if task is EDITS and workplace.text != edited(BEFORE):
        raise RuntimeError(f"the file is not as it must be; results: {results}")
    expected = task.expected if len(results) == 1 else task.expected_of_calls
    if not any(expected in result for result in results):
        raise RuntimeError(f"{expected!r} is not in the results: {results}")
