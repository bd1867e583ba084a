"""`notebook_progress`: shows active runs below a cell of a notebook. It needs no ipywidgets."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from io import StringIO
from typing import Any, Final

from eagerstream.errors import UsageError

from .terminal import Output, TerminalProgress, Watchable  # without `rich`, it raises the error that names the extra

# isort: split
from rich.console import Console

from ._frame import Frame, RunState

_COLUMNS: Final = 100
_ROWS: Final = 30
_PAGE: Final = '<pre style="line-height: 1.3; overflow-x: auto">{code}</pre>'


def notebook_progress(
    run: Watchable | None = None, *, clock: Callable[[], float] = time.monotonic, contents: bool = True
) -> NotebookProgress:
    """Show runs below the cell: each call as a growing panel, as `terminal_progress` shows it in a terminal.

        async with eagerstream.run(client, ...) as run, notebook_progress(run):
            await run.finish()

    The output is updated in place, at most nine times a second. After any end or cancellation of the block, it shows
    the last state. It has at most 30 rows while runs are active, and 200 at the end, whatever the size of the inputs.
    Text of models and tools is escaped. The notebook file keeps the last output, which quotes inputs and results.

    Args:
        run: As for `terminal_progress`.
        clock: Returns monotonic seconds.
        contents: As for `terminal_progress`.

    Raises:
        UsageError: IPython is not installed, or `contents` contradicts a hub. On entering: it was entered before.
    """
    try:
        display = import_module("IPython.display").display
    except ModuleNotFoundError as error:
        raise UsageError("notebook_progress needs a notebook: pip install ipykernel") from error
    return NotebookProgress(run, display, clock, contents=contents)


class NotebookProgress(TerminalProgress):
    """The result of `notebook_progress`: an async context manager, and a decorator for async functions."""

    def __init__(
        self,
        run: Watchable | None,
        display: Callable[..., Any],
        clock: Callable[[], float],
        *,
        contents: bool = True,
    ) -> None:
        super().__init__(run, Console(file=StringIO()), clock, contents=contents)
        self._display = display
        self._output = _Cell(display, self._states)

    def _recreate_cm(self) -> NotebookProgress:
        return NotebookProgress(self._run, self._display, self._clock, contents=self._contents)


class _Cell(Output):
    """The output of a cell. It is updated only if its content has changed."""

    def __init__(self, display: Callable[..., Any], states: Callable[[], list[RunState]]) -> None:
        self._display = display
        self._states = states
        self._frame = Frame(states)
        self._handle: Any = None
        self._drawn: object = None

    def begin(self) -> None:
        self._handle = self._display(self._bundle(), raw=True, display_id=True)

    def draw(self, version: list[tuple[str, int]], /) -> bool:
        now = (version, [int(state.elapsed_s) for state in self._states()])
        if now == self._drawn:
            return False
        self._drawn = now
        self._handle.update(self._bundle(), raw=True)
        return True

    def end(self) -> None:
        self._frame.is_final = True
        self._handle.update(self._bundle(), raw=True)

    def _bundle(self) -> dict[str, str]:
        # Otherwise `rich` would display each frame by itself in a kernel, or take FORCE_COLOR for a terminal.
        console = Console(
            file=StringIO(), record=True, width=_COLUMNS, height=_ROWS, force_jupyter=False, force_terminal=False
        )
        console.print(self._frame)
        html = console.export_html(inline_styles=True, code_format=_PAGE, clear=False)
        return {"text/html": html, "text/plain": console.export_text().rstrip("\n")}
