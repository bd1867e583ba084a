"""`eagerstream demo`: the poem, eager on the screen and buffered beside it, and a table of what came when."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..progress.observer import ObservedCall, RunObserver
from ..progress.terminal import PlainLines, TerminalView, visible
from ..replay.server import ReplayServer
from ..run import RunEvent, RunResult, run
from . import poem

_REDRAW_S: Final = 0.1
_PICTURE_CHARS: Final = 900
"""Characters of the poem written when the picture is taken: the quick tools are done by then, the poem is not."""


class _Side(Enum):
    EAGER = "eager"
    BUFFERED = "buffered"


async def play(console: Console, *, live: bool, model: str, svg: Path | None) -> None:
    """Play the demo to its end; leaving early (Ctrl-C) closes connections and servers.

    Args:
        console: Where to show it; where it is no terminal, plain lines are printed.
        live: Talk to the API, with `ANTHROPIC_API_KEY`, instead of the embedded server.
        model: The model to ask.
        svg: Also save a picture of it there.

    Raises:
        APIError: The live API refused the request, or could not be reached.
    """
    where = f"the live API, {model}" if live else f"the embedded server; timing simulated, {poem.SPEED:g} times as fast"
    title = f"eager input streaming on {where}"
    console.print(Text(title, style="bold"))
    eager, buffered = RunObserver(), RunObserver()
    album = _Album(eager)
    converse = partial(_converse, live=live, model=model)
    with TemporaryDirectory() as folder, TemporaryDirectory() as other_folder:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(converse, _Side.BUFFERED, other_folder, buffered.feed)
            if console.is_terminal:
                with Live(TerminalView(eager), console=console, auto_refresh=False) as screen:
                    async with anyio.create_task_group() as drawing:
                        drawing.start_soon(_redraw, screen)
                        result = await converse(_Side.EAGER, folder, album.watching(eager.feed))
                        drawing.cancel_scope.cancel()
                    screen.refresh()
            else:
                result = await converse(_Side.EAGER, folder, album.watching(PlainLines(eager, console).feed))
    table = _table(eager.calls, buffered.calls, simulated=not live)
    console.print(Text(f"{result.status.value} after {result.turns} turns\n"))
    console.print(table)
    if svg is not None:
        album.save(svg, table, title)
        console.print(Text(f"saved {svg}"))


async def _converse(
    side: _Side, folder: str, feed: Callable[[RunEvent], object], *, live: bool, model: str
) -> RunResult:
    """One run of the demo's conversation; `feed` gets its events, and `folder` the file."""
    eager = side is _Side.EAGER
    async with (
        _client(eager=eager, live=live) as client,
        run(client, tools=poem.tools(Path(folder), eager=eager), max_turns=10, **poem.request(model=model)) as running,
    ):
        async for event in running:
            feed(event)
    return running.result


@asynccontextmanager
async def _client(*, eager: bool, live: bool) -> AsyncIterator[Any]:
    """The real client of the anthropic package, for the API or for a server of its own in this process."""
    from anthropic import AsyncAnthropic

    if live:
        async with AsyncAnthropic() as client:
            yield client
    else:
        async with (
            ReplayServer(poem.scenario(eager=eager)) as server,
            AsyncAnthropic(api_key="simulated", base_url=server.base_url) as client,
        ):
            yield client


async def _redraw(screen: Live) -> None:
    while True:
        screen.refresh()
        await anyio.sleep(_REDRAW_S)


class _Album:
    """Takes one picture of a run on its way, and puts it into an SVG with the table."""

    def __init__(self, observer: RunObserver) -> None:
        self._observer = observer
        self._console = Console(
            record=True, width=104, file=io.StringIO(), force_terminal=True, color_system="truecolor"
        )
        self._taken = False

    def watching(self, feed: Callable[[RunEvent], object]) -> Callable[[RunEvent], object]:
        """`feed`, and after it the picture, once it is time for it."""

        def feed_and_look(event: RunEvent) -> None:
            feed(event)
            if not self._taken and any(call.input.chars > _PICTURE_CHARS for call in self._observer.calls):
                self._taken = True
                self._console.print(TerminalView(self._observer))

        return feed_and_look

    def save(self, path: Path, table: Table, title: str) -> None:
        self._console.print(Text("\n...\n", style="dim"))
        self._console.print(table)
        path.write_text(self._console.export_svg(title=title, code_format=_SVG_FORMAT), encoding="utf-8")


def _table(eager: list[ObservedCall], buffered: list[ObservedCall], *, simulated: bool) -> Table:
    """What came when, for each call of both runs; calls are paired by their order."""
    caption = "seconds since the request; timing simulated" if simulated else "seconds since the request"
    table = Table(title="eager beside buffered", caption=caption)
    table.add_column("input", no_wrap=True)
    table.add_column("streamed")
    for name in ("first fragment", "first item", "first field", "block end", "tool start"):
        table.add_column(name, justify="right")
    for place in range(max(len(eager), len(buffered))):
        for side, calls, style in (("eager", eager, "green"), ("buffered", buffered, "yellow")):
            if place < len(calls):
                call = calls[place]
                times = (
                    call.first_fragment_s,
                    call.first_item_s,
                    call.first_field_s,
                    call.input_stop_s,
                    call.tool_start_s,
                )
                shown = ["-" if time_s is None else f"{time_s:.2f}" for time_s in times]
                table.add_row(Text(visible(call.input.name)), side, *shown, style=style)
        table.add_section()
    return table


# As rich draws it, without the web font: a picture in a README should not fetch anything.
_SVG_FORMAT: Final = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; \
font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
