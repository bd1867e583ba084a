"""Run the benchmarks: `python -m benchmarks [--quick] [--json FILE]`."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from . import bedrock_frames, bytes_to_events, early_start, fault_matrix


def main(
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller streams, fewer faults, less patience; two minutes instead of ten.")
    ] = False,
    output: Annotated[Path | None, typer.Option("--json", help="Also write the figures there.")] = None,
) -> None:
    """Measure eagerstream beside its peers, on this machine, in this run. Read the ratios, not the times."""
    console = Console()
    if not console.is_terminal:
        console.width = 120  # of a pipe nobody knows the width, and a table that is cut is no use
    names = ("eagerstream", "anthropic", "botocore", "httpx2", "jiter")
    versions = {name: version(name) for name in names} | {"python": platform.python_version()}
    console.print(", ".join(f"{name} {number}" for name, number in versions.items()))
    figures = {
        "versions": versions,
        "early_start": early_start.main(console, quick=quick),
        "fault_matrix": fault_matrix.main(console, quick=quick),
        "bedrock_frames": bedrock_frames.main(console, quick=quick),
        "bytes_to_events": bytes_to_events.main(console, quick=quick),
    }
    if output is not None:
        output.write_text(json.dumps(figures, indent=1))


typer.run(main)
