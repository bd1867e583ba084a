"""`eagerstream watch`: saved runs, and the demo, on a web page."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import anyio
import typer

from eagerstream._support.checks import check_positive
from eagerstream._support.typer_app import AllowedHosts, AllowedOrigins, new_app, run_app
from eagerstream.errors import UsageError

from .. import Hub, Record, RunLog, load_records, replay
from .._demo.watched import play_watched
from .._joined import joined_runs
from ..web import WatchServer, save_page, serve

_PAUSE_S: Final = 5.0  # between two runs of a demo that repeats until Ctrl-C

app = new_app()


@app.command()
def watch(
    runs: Annotated[list[Path] | None, typer.Argument(help="Saved runs (.jsonl).", dir_okay=False)] = None,
    *,
    demo: Annotated[bool, typer.Option("--demo", help="Play a conversation that needs your approval.")] = False,
    speed: Annotated[float | None, typer.Option(help="Replay the runs live, faster by this factor.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on. Traffic is not encrypted, so prefer loopback.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="Port to listen on. 0 selects a free one.", min=0, max=65_535)] = 0,
    allow_host: AllowedHosts = None,
    allow_origin: AllowedOrigins = None,
    export: Annotated[
        Path | None,
        typer.Option(help="Write the saved runs and their page into this HTML file, and end.", dir_okay=False),
    ] = None,
) -> None:
    """Show runs on a web page, until Ctrl-C.

    Open the printed URL: it contains the token that the page requires. A program can show its own runs with
    `eagerstream_progress.web.serve(hub)`.
    """
    if export is not None and (not runs or demo or speed is not None):
        raise UsageError("--export needs saved runs, and shows neither the demo nor anything live")
    if not runs and not demo:
        raise UsageError("watch needs saved runs to show, or --demo")
    if speed is not None:
        check_positive("speed", speed)
    saved = joined_runs([load_records(path) for path in runs or ()])
    if export is not None:
        save_page(export, saved)
        typer.echo(f"wrote {export}")
        return
    server = partial(serve, host=host, port=port, hosts=allow_host or (), origins=allow_origin or ())
    try:
        anyio.run(lambda: _watch(saved, server, demo=demo, speed=speed))
    except KeyboardInterrupt:
        pass  # the normal way to stop this command


async def _watch(
    saved: list[list[Record]], make_server: Callable[[Hub], WatchServer], *, demo: bool, speed: float | None
) -> None:
    hub = Hub(max_runs=max(100, len(saved)))
    timed: list[Callable[[], Coroutine[Any, Any, None]]] = []
    for records in saved:
        first = records[0]
        assert first["type"] == "run_start"  # `load_records` refuses any other file
        run, copies = first["run"], 1
        while run in {log.id for log in hub.logs}:  # the same run twice, or an edited copy of it
            copies += 1
            run = f"{first['run']}-{copies}"
        log = RunLog(run, name=first["name"])
        hub.add(log)
        if speed is None:
            await replay(records, log, speed=math.inf)  # the page shows the complete run as soon as it opens
        else:
            timed.append(partial(replay, records, log, speed=speed))
    async with make_server(hub) as server, anyio.create_task_group() as tasks:
        typer.echo(f"open {server.url}")
        for start_replay in timed:
            tasks.start_soon(start_replay)
        while demo:
            await play_watched(hub)
            await anyio.sleep(_PAUSE_S)
        await anyio.sleep_forever()


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run_app(app, "watch", arguments)
