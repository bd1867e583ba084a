"""`eagerstream demo`: an eager run on the screen, a buffered run for comparison, and a table of both runs' times."""

from __future__ import annotations

import io
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eagerstream._support.files import replacing
from eagerstream._support.wording import visible
from eagerstream.loop import run
from eagerstream_testing import ReplayServer
from eagerstream_testing.demos import poem

from .. import CallView, Hub, RunLog, RunView
from .._frame import Frame, RunState
from ..terminal import terminal_progress

_PICTURE_BYTES: Final = 900
"""Bytes of the poem written when the picture is taken. At that time the quick tools have finished."""


async def play(console: Console, *, live: bool, model: str, svg: Path | None) -> None:
    """Play the demo to its end, on the API (`live`) or on the embedded server. Save a picture if there is a path.

    If the console is no terminal, the demo prints plain lines. Cancelling it closes all connections and servers.

    Raises:
        APIError: The live API refused the request, or could not be reached.
    """
    where = f"the live API, {model}" if live else f"the embedded server; timing simulated, {poem.SPEED:g} times as fast"
    title = f"eager input streaming on {where}"
    console.print(Text(title, style="bold"))
    # Run once at once and unseen. Otherwise the first of the two runs would pay for what both of them load, and the
    # table would show it as later.
    unseen = Hub()
    async with (
        _client(eager=True, live=False, speed=math.inf) as client,
        terminal_progress(unseen, console=Console(file=io.StringIO(), force_terminal=True)),
    ):
        await _converse(client, unseen, eager=True, model="simulated")
    converse = partial(_converse, model=model)
    eager, buffered = Hub(), Hub()
    async with (
        _client(eager=True, live=live) as client,
        _client(eager=False, live=live) as other_client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(partial(converse, other_client, buffered, eager=False))
        async with terminal_progress(eager, console=console):
            await converse(client, eager, eager=True)
    table = partial(_table, _calls(eager), _calls(buffered), simulated=not live)
    console.print()
    console.print(table(width=console.width))
    if svg is not None:
        _save_picture(svg, eager.logs[0], table(width=_PICTURE_WIDTH), title)
        console.print(Text(f"saved {svg}"))


async def _converse(client: Any, hub: Hub, *, eager: bool, model: str) -> None:
    """Run the conversation once. The hub observes it."""
    with TemporaryDirectory() as folder:
        running = run(client, tools=poem.tools(Path(folder), eager=eager), max_turns=10, **poem.request(model=model))
        hub.observe(running)
        async with running:
            await running.finish()


@asynccontextmanager
async def _client(*, eager: bool, live: bool, speed: float = 1.0) -> AsyncIterator[Any]:
    """Open the anthropic package's client, connected to the API or to a server in this process."""
    from anthropic import AsyncAnthropic

    if live:
        async with AsyncAnthropic() as client:
            yield client
    else:
        async with (
            ReplayServer(poem.scenario(eager=eager), speed=speed) as server,
            AsyncAnthropic(api_key="simulated", base_url=server.base_url) as client,
        ):
            yield client


def _calls(hub: Hub) -> list[CallView]:
    view = RunView()
    for record in hub.logs[0].records():
        view.feed(record)
    return view.calls


def _save_picture(path: Path, log: RunLog, table: Table, title: str) -> None:
    """Save an SVG that shows the unfinished run and the table."""
    view = RunView()
    for record in log.records():
        call = view.feed(record)
        if call is not None and call.bytes > _PICTURE_BYTES:
            break
    console = Console(
        record=True, width=_PICTURE_WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Frame(lambda: [RunState(view, view.at_s)]))
    console.print(Text("\n...\n", style="dim"))
    console.print(table)
    with replacing(path, private=False) as file:  # others may read it: users publish these pictures
        file.write(console.export_svg(title=title, code_format=_SVG_FORMAT).encode())


def _table(eager: list[CallView], buffered: list[CallView], *, simulated: bool, width: int) -> Table:
    """Return the times of each call in both runs, paired by order. A narrow table has only two of the columns."""
    caption = "seconds since the request" + ("; timing simulated" if simulated else "")
    is_narrow = width < _TABLE_WIDTH
    table = Table(title="eager beside buffered", caption=caption, pad_edge=not is_narrow)
    table.box = box.SIMPLE_HEAD if is_narrow else box.HEAVY_HEAD
    table.add_column("input", no_wrap=True)
    table.add_column("streamed", no_wrap=True)
    columns = {name: time_of for name, time_of in _COLUMNS.items() if not is_narrow or name in _NARROW_COLUMNS}
    for name in columns:
        table.add_column(name, justify="right", min_width=5)
    for place in range(max(len(eager), len(buffered))):
        for side, calls, style in (("eager", eager, "green"), ("buffered", buffered, "yellow")):
            if place < len(calls):
                times = [time_of(calls[place]) for time_of in columns.values()]
                shown = ["-" if time_s is None else f"{time_s:.2f}" for time_s in times]
                table.add_row(Text(visible(calls[place].name)), side, *shown, style=style)
        table.add_section()
    return table


_COLUMNS: Final[dict[str, Callable[[CallView], float | None]]] = {
    "first fragment": lambda call: call.first_fragment_s,
    "first item": lambda call: call.first_item_s,
    "first field": lambda call: call.first_field_s,
    "block end": lambda call: call.input_stop_s,
    "tool start": lambda call: call.tool_start_s,
}
_NARROW_COLUMNS: Final = ("first item", "block end")
_TABLE_WIDTH: Final = 76
_PICTURE_WIDTH: Final = 104


# rich's template without its web font: a picture in a README should not load anything.
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
