"""`eagerstream serve`: the double of the API, from recordings or a script."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

from eagerstream import EagerSupport
from eagerstream._support.redaction import printable
from eagerstream._support.serving.command import run_command
from eagerstream._support.terms import assistant_messages, betas_in
from eagerstream._support.typer_app import AllowedHosts, AllowedOrigins, new_app, run_app
from eagerstream.errors import UsageError
from eagerstream.recordings import Recording

from .. import Faults, Platform, ReceivedRequest, ReplayServer, Scenario, Timing, retime
from .._eager_requests import eager_tools

_PORT: Final = 8765


class _BeforeCommand(TyperCommand):
    """A command that may be followed by `--` and another command, which is in `context.obj`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            place = args.index("--")
            args, ctx.obj = args[:place], args[place + 1 :]
        return super().parse_args(ctx, args)


app = new_app()


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
    allow_host: AllowedHosts = None,
    allow_origin: AllowedOrigins = None,
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
    variables = server.environment()
    typer.echo(f"# serving {served} at {server.base_url}")
    for name in ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"):
        typer.echo(f"export {name}={shlex.quote(variables[name])}")
    typer.echo("# base URLs for the clients of platforms:")
    for platform in Platform:
        typer.echo(f"#   {platform:<14} {server.url_of(platform)}")


def _log_request(request: ReceivedRequest) -> None:
    """Print a line about a request: its form, turn and tools, and the status. Nothing of its contents."""
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


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run_app(app, "serve", arguments)
