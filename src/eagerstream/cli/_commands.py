"""Typer commands behind `eagerstream`. They need the extra `cli`."""

from __future__ import annotations

import importlib.metadata
import math
import os
import re
import shlex
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import anyio
import typer
from rich.console import Console
from typer.core import TyperCommand

from eagerstream_wire import EagerSupport, is_compiled

from .._support.checks import check_positive
from .._support.redaction import printable
from ..errors import UsageError
from ..latency._command import bench_app
from ..recordings import Recording
from ._runs import runs_app
from ._verify import verify

if TYPE_CHECKING:
    from ..progress import Hub, Record
    from ..progress.web import WatchServer
    from ..testing import ReceivedRequest, ReplayServer

_PORT: Final = 8765
_PAUSE_S: Final = 5.0  # between two runs of a demo that repeats until Ctrl-C

_AllowedHosts: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="Another host name under which clients reach it, with or without a port.")
]
_AllowedOrigins: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="Origin of a web page that may use it: https://app.example")
]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(bench_app, name="bench")
app.add_typer(runs_app, name="runs")
app.command()(verify)


def _show_version(asked: object) -> None:
    if asked:
        flavor = "compiled" if is_compiled() else "pure Python"
        typer.echo(f"eagerstream {importlib.metadata.version('eagerstream')} ({flavor})")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Watch a tool's input grow, then run the tool."""


@app.command()
def demo(
    *,
    live: Annotated[bool, typer.Option("--live", help="Use the API, with ANTHROPIC_API_KEY.")] = False,
    model: Annotated[str, typer.Option(help="The model for --live.")] = "claude-sonnet-4-6",
    svg: Annotated[Path | None, typer.Option(help="Save a picture to this path, too.", dir_okay=False)] = None,
) -> None:
    """Play the main use: a poem streams into a tool's input while other tools run.

    Without --live, nothing leaves this machine. A server in this process sends the responses, with simulated timing.
    """
    from ._demo.play import play

    if live and not os.environ.get("ANTHROPIC_API_KEY"):
        raise UsageError("--live needs the environment variable ANTHROPIC_API_KEY")
    if svg is not None and not svg.absolute().parent.is_dir():
        raise UsageError(f"the folder {svg.parent} does not exist: no picture can be saved there")
    anyio.run(lambda: play(Console(), live=live, model=model, svg=svg))


class _BeforeCommand(TyperCommand):
    """A command that may be followed by `--` and another command, which is in `context.obj`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            place = args.index("--")
            args, ctx.obj = args[:place], args[place + 1 :]
        return super().parse_args(ctx, args)


@app.command(cls=_BeforeCommand)
def serve(
    context: typer.Context,
    recordings: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Recordings (.jsonl), bodies (.sse), or folders of them. With several, each is the response to one "
            "turn; those of a folder are sorted by name."
        ),
    ] = None,
    *,
    script: Annotated[
        bool, typer.Option("--script", help="Answer any request: call its tools with generated inputs.")
    ] = False,
    log: Annotated[bool, typer.Option("--log", help="Print a line about each request, without contents.")] = False,
    host: Annotated[str, typer.Option(help="Address to listen on. Traffic is not encrypted.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            help="Port to listen on. 0 selects a free one.",
            show_default=f"{_PORT}; for a command, a free one",
            min=0,
            max=65_535,
        ),
    ] = None,
    speed: Annotated[float, typer.Option(help="Playback speed as a factor.")] = 1.0,
    tokens_per_second: Annotated[float, typer.Option(help="Without recorded times: speed of the model.")] = 80.0,
    first_byte_s: Annotated[float, typer.Option(help="Without recorded times: seconds before the first event.")] = 0.5,
    jitter: Annotated[float, typer.Option(help="Without recorded times: variation of token times, 0 to 1.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of generated inputs, jitter and cuts.")] = 0,
    cut: Annotated[
        str,
        typer.Option(
            help='Without recorded times: cut chunks at "event", "random", a byte count, or offsets like 10,200.'
        ),
    ] = "event",
    fault_rate: Annotated[
        float, typer.Option(help="Share of responses that fail, 0 to 1: breaks, errors, garbage.")
    ] = 0.0,
    fault_seed: Annotated[int, typer.Option(help="Seed of the failures.")] = 0,
    eager: Annotated[
        EagerSupport, typer.Option(help="Accepted requests for eager input streaming. Others get HTTP 400.")
    ] = "any",
    buffer_inputs: Annotated[
        bool,
        typer.Option(help="Hold inputs back, member by member, unless the request wants them as they are written."),
    ] = True,
    allow_host: _AllowedHosts = None,
    allow_origin: _AllowedOrigins = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="Key that clients must send. Default: a new one if --host is not loopback, otherwise none.",
            envvar="EAGERSTREAM_TOKEN",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Answer as a Messages API on this machine: play recordings, or call the tools of any request (--script).

    Until Ctrl-C, or as long as a command runs that you add after `--`:
    eagerstream serve --script -- python agent.py

    Without a command, run the two printed `export` lines in another shell: they point any client of the API here. On
    loopback it accepts any key, or none. Elsewhere, the key is a token. All other lines are comments, so `eval` and
    `source` take the complete output. The other URLs use the dialects of platforms, for the anthropic package's
    platform clients. They require credentials, of any value if there is no token.
    """
    from .._serving.command import run_command
    from ..testing import Faults, ReplayServer, Scenario, Timing, retime

    command: list[str] | None = context.obj
    if bool(recordings) == script:
        raise UsageError(f"serve takes recordings, or --script to answer any request{', not both' if script else ''}")
    if command == []:
        raise UsageError("serve needs a command after --")
    match cut:
        case "event" | "random":
            timing = Timing(cut=cut)
        case _ if re.fullmatch(r"[0-9]{1,9}", cut):
            timing = Timing(cut=int(cut))
        case _ if re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})+", cut):
            timing = Timing(cut=[int(offset) for offset in cut.split(",")])
        case _:
            raise UsageError(f'--cut must be "event", "random", a number of bytes or offsets like 10,200, not {cut!r}')
    timing = replace(timing, tokens_per_second=tokens_per_second, first_byte_s=first_byte_s, jitter=jitter, seed=seed)
    loaded: list[Recording] = []
    for path in recordings or ():
        files = [path]
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if file.suffix in (".jsonl", ".sse"))
        if not files:
            raise UsageError(f"{path} has no recordings (.jsonl, .sse)")
        loaded += [Recording.load(file) for file in files]
    timed = [retime(recording, timing) if not recording.duration_s else recording for recording in loaded]
    if script:
        scenario = Scenario.scripted(seed=seed, timing=timing)
    else:
        scenario = Scenario.of(timed[0]) if len(timed) == 1 else Scenario(*timed)
    if port is None:
        port = 0 if command else _PORT
    faults = Faults.random(fault_seed, fault_rate) if fault_rate else None
    on_answer = _log_request if log else None
    server = ReplayServer(
        scenario,
        host=host,
        port=port,
        speed=speed,
        faults=faults,
        eager=eager,
        on_answer=on_answer,
        buffer_inputs=buffer_inputs,
        hosts=allow_host or (),
        origins=allow_origin or (),
        token=token,
    )
    if command:
        with server:
            # A command may use AWS for something else, and the double accepts any credentials.
            own = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
            code = run_command(command, {**server.environment(), **own})
        raise typer.Exit(code)

    served = "scripted responses" if script else f"{len(timed)} recording(s)"
    server.run(on_start=partial(_say_addresses, served))


def _say_addresses(served: str, server: ReplayServer) -> None:
    """Print lines for a shell: the two exports for clients of the API, and everything else as comments."""
    from ..testing import Platform

    variables = server.environment()
    typer.echo(f"# serving {served} at {server.base_url}")
    for name in ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"):
        typer.echo(f"export {name}={shlex.quote(variables[name])}")
    typer.echo("# base URLs for the clients of platforms:")
    for platform in Platform:
        typer.echo(f"#   {platform:<14} {server.url_of(platform)}")


def _log_request(request: ReceivedRequest) -> None:
    """Print a line about a request: its form, turn and tools, and the status. Nothing of its contents."""
    from .._support.terms import betas_in
    from ..testing._eager_requests import eager_tools
    from ..testing._scenario import assistant_messages

    # A request that continues a thread has neither the earlier messages nor the tools.
    body = request.complete if isinstance(request.complete, dict) else {}
    tools = [tool for tool in body.get("tools") or () if isinstance(tool, dict)]
    names = (str((tool.get("function") or tool).get("name") or tool.get("type")) for tool in tools)
    told = [f"{request.method} {request.path}"]
    if body:
        form = "streamed" if body.get("stream") is True else "in one piece"
        told += [form, f"turn {assistant_messages(body)}", f"tools: {' '.join(names) or 'none'}"]
    if tools and eager_tools(body, betas_in(request.headers)) != frozenset():
        told.append("eager")
    typer.echo(f"{printable(', '.join(told))}, HTTP {request.status or 'without a status'}", err=True)


@app.command(context_settings={"allow_interspersed_args": False})
def record(
    command: Annotated[
        list[str] | None, typer.Argument(help="The command and its arguments: -- python agent.py", show_default=False)
    ] = None,
    *,
    proxy: Annotated[bool, typer.Option("--proxy", help="Run no command: record any client, until Ctrl-C.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the recordings.", file_okay=False)] = Path("recordings"),
    redact_contents: Annotated[
        bool, typer.Option("--redact-contents", help="Replace the model's texts with filler of the same size.")
    ] = False,
    keep_secrets: Annotated[
        bool, typer.Option("--keep-secrets", help="Keep keys, tokens and similar secrets in responses.")
    ] = False,
    upstream: Annotated[
        str | None,
        typer.Option(help="Target of requests. Default: ANTHROPIC_BASE_URL, or the API.", show_default=False),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Traffic, with the keys of clients, is not encrypted.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on. 0 selects a free one.", min=0, max=65_535)] = 0,
    allow_host: _AllowedHosts = None,
    allow_origin: _AllowedOrigins = None,
) -> None:
    """Record the API's responses to a command's requests, or to any client's, with the times of their chunks.

    Requests and responses pass through a proxy on this machine unchanged. Each response is a file `0001.jsonl`, with
    its request in `0001.request.json` beside it, unless contents are masked. `eagerstream serve` plays the responses.
    If the upstream's URL has a password, or --host is not loopback, the printed address contains a token: use the
    complete address, and keep it secret.
    """
    from ..capture import RecordingFolder, RecordingProxy
    from ..capture._command import BASE_URL, Report, default_upstream, run_recorded, run_until_told

    if proxy == bool(command):
        raise UsageError("record takes a command (record -- python agent.py), or --proxy to record any client")
    report = Report(lambda line: typer.echo(line, err=True))
    folder = RecordingFolder(
        out,
        keep_secrets=keep_secrets,
        redact_contents=redact_contents,
        keep_requests=not redact_contents,
        on_saved=report.take,
    )
    recording = RecordingProxy(
        upstream or default_upstream(os.environ),
        folder,
        host=host,
        port=port,
        hosts=allow_host or (),
        origins=allow_origin or (),
    )

    def tell(recording: RecordingProxy) -> None:
        typer.echo(f"recording requests to {recording.upstream.host} in {out}; point clients here:")
        typer.echo(f"{BASE_URL}={recording.base_url}")

    if command:
        code = run_recorded(command, recording)
        report.close(folder)
        raise typer.Exit(code)
    run_until_told(recording, tell)
    report.close(folder)


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
    allow_host: _AllowedHosts = None,
    allow_origin: _AllowedOrigins = None,
) -> None:
    """Show runs on a web page, until Ctrl-C.

    Open the printed URL: it contains the token that the page requires. A program can show its own runs with
    `eagerstream.progress.web.serve(hub)`.
    """
    from ..progress import load_records
    from ..progress.web import serve

    if not runs and not demo:
        raise UsageError("watch needs saved runs to show, or --demo")
    if speed is not None:
        check_positive("speed", speed)
    saved = [load_records(path) for path in runs or ()]
    server = partial(serve, host=host, port=port, hosts=allow_host or (), origins=allow_origin or ())
    try:
        anyio.run(lambda: _watch(saved, server, demo=demo, speed=speed))
    except KeyboardInterrupt:
        pass  # the normal way to stop this command


async def _watch(
    saved: list[list[Record]], make_server: Callable[[Hub], WatchServer], *, demo: bool, speed: float | None
) -> None:
    from ..progress import Hub, RunLog, replay
    from ..progress._joined import joined_runs
    from ._demo.watched import play_watched

    hub = Hub(max_runs=max(100, len(saved)))
    timed: list[Callable[[], Coroutine[Any, Any, None]]] = []
    for records in joined_runs(saved):
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
