"""`eagerstream demo`: the main use, on the screen."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import anyio
import typer
from rich.console import Console

from eagerstream._support.typer_app import new_app, run_app
from eagerstream.errors import UsageError

from .._demo.play import play

app = new_app()


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
    if live and not os.environ.get("ANTHROPIC_API_KEY"):
        raise UsageError("--live needs the environment variable ANTHROPIC_API_KEY")
    if svg is not None and not svg.absolute().parent.is_dir():
        raise UsageError(f"the folder {svg.parent} does not exist: no picture can be saved there")
    anyio.run(lambda: play(Console(), live=live, model=model, svg=svg))


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run_app(app, "demo", arguments)
