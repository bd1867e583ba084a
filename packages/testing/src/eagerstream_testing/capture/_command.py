"""`eagerstream record`: runs a proxy until Ctrl-C, or as long as another command runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import typer

from eagerstream._support.serving.command import PASSED_ON, run_command
from eagerstream._support.typer_app import AllowedHosts, AllowedOrigins, new_app, run_app
from eagerstream.errors import UsageError

from ._folder import RecordingFolder, SavedReply
from ._proxy import DEFAULT_UPSTREAM, RecordingProxy

BASE_URL: Final = "ANTHROPIC_BASE_URL"
"""Environment variable with the API's URL for clients."""


def default_upstream(environment: Mapping[str, str]) -> str:
    """Return the URL that clients in this environment use."""
    return environment.get(BASE_URL) or DEFAULT_UPSTREAM


class Report:
    """Report of each recording, with a total at the end."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._write = say
        self._saved = 0

    def _say(self, line: str) -> None:
        # The reader of the lines may be gone, or the disk full. The command and its exit code do not depend on that.
        with suppress(OSError):
            self._write(line)

    def take(self, reply: SavedReply) -> None:
        """Write a line about a response: its path and measures, nothing of its content."""
        self._saved += 1
        measures = (
            f"HTTP {reply.status}, {reply.duration_s:.2f} s, {_count(reply.chunks, 'chunk')}, {reply.body_bytes} bytes"
        )
        self._say(f"{reply.path}: {measures}" + (f"; {reply.cut}" if reply.cut else ""))

    def close(self, folder: RecordingFolder) -> None:
        """Write the last line."""
        lost = f", {folder.lost} could not be written" if folder.lost else ""
        self._say(f"{_count(self._saved, 'response', 'responses')} recorded in {folder.path}{lost}")


def _count(number: int, what: str, several: str = "") -> str:
    return f"{number} {what if number == 1 else several or f'{what}s'}"


def run_until_told(proxy: RecordingProxy, on_start: Callable[[RecordingProxy], object]) -> None:
    """Run the proxy until Ctrl-C or another signal to end. Responses received until then are kept.

    Call it in the main thread, which handles signals.

    Raises:
        UsageError: The proxy cannot start.
    """
    signals = [getattr(signal, name) for name in PASSED_ON if hasattr(signal, name)]
    others = [number for number in signals if signal.getsignal(number) is signal.SIG_DFL]
    for number in others:
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        proxy.run(on_start=on_start)
    finally:
        for number in others:
            signal.signal(number, signal.SIG_DFL)


def run_recorded(command: Sequence[str], proxy: RecordingProxy) -> int:
    """Run a command whose API clients use the proxy, and return its exit code, see `run_command`.

    Raises:
        UsageError: The command cannot be run, or the proxy cannot start.
    """
    with proxy:
        return run_command(command, {BASE_URL: proxy.base_url})


app = new_app()


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
    allow_host: AllowedHosts = None,
    allow_origin: AllowedOrigins = None,
) -> None:
    """Record the API's responses to a command's requests, or to any client's, with the times of their chunks.

    Requests and responses pass through a proxy on this machine unchanged. Each response is a file `0001.jsonl`, with
    its request in `0001.request.json` beside it, unless contents are masked. `eagerstream serve` plays the responses.
    If the upstream's URL has a password, or --host is not loopback, the printed address contains a token: use the
    complete address, and keep it secret.
    """
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


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run_app(app, "record", arguments)
