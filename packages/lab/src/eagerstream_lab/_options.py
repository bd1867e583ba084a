"""Options that the commands of the lab share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from ._kinds import TransportName
from ._setup import DEFAULT_SPEED

Prompts: TypeAlias = Annotated[list[str] | None, typer.Option(help="Prompt; repeatable.")]
PromptFiles: TypeAlias = Annotated[
    list[Path] | None, typer.Option(help="Text file with a prompt; repeatable.", dir_okay=False)
]
Recordings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="Recording to play; join the turns of a conversation by + or a comma; repeatable."),
]
Tools: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help='"poem", module:attribute (tools, or a function that returns them), or a .json file of plain '
        "definitions, whose tools only wait; repeatable."
    ),
]
ProgramNames: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--name", help="Name of a program, in the order of the programs; repeatable."),
]
ProgramsOnly: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--programs-only",
        help="Measure only the programs. Without --tools, the responses call the tools of the first one.",
    ),
]
Models: TypeAlias = Annotated[list[str] | None, typer.Option(help="Name of a model; repeatable.")]
Transports: TypeAlias = Annotated[
    list[TransportName] | None,
    typer.Option(help="Transport that sends the requests; repeatable.", show_default="anthropic"),
]
Live: TypeAlias = Annotated[
    bool, typer.Option("--live", help="Measure on the API, with ANTHROPIC_API_KEY. This costs money.")
]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", help="Start --live without confirmation.")]
ProfileName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help='Arrival times for responses without times: "documented", recordings with times (.jsonl) to fit, '
        "joined by + or a comma, a folder of them, or a saved profile (.json).",
        show_default="documented",
    ),
]
Speed: TypeAlias = Annotated[
    float | None,
    typer.Option(
        help="Factor by which responses play faster. Tools take their own time.",
        show_default=f"{DEFAULT_SPEED:g} for documented times, else 1",
    ),
]
ToolSeconds: TypeAlias = Annotated[
    float, typer.Option(help="Duration of tools without a function: of a recording, or plain definitions.")
]
MaxTokens: TypeAlias = Annotated[int, typer.Option(help="Maximum number of tokens in a response.", min=1)]
MaxTurns: TypeAlias = Annotated[int, typer.Option(help="Maximum number of responses in a run.", min=1)]
TimeoutSeconds: TypeAlias = Annotated[float, typer.Option("--timeout-s", help="Maximum duration of a run, in seconds.")]
Seed: TypeAlias = Annotated[
    int | None,
    typer.Option(help="Seed of the order of the runs and of the simulated times.", show_default="random, and printed"),
]
NoHTML: TypeAlias = Annotated[bool, typer.Option("--no-html", help="Write no report.html.")]
Exports: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        help="Also write this file, by its suffix: .csv has a row for each run and figure, .json the figures "
        "without the runs, .prom OpenMetrics; repeatable.",
        dir_okay=False,
    ),
]
