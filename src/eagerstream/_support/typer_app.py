"""Options and the start of commands, for the packages that depend on typer. Only these import it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import typer

AllowedHosts: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="Another host name under which clients reach it, with or without a port.")
]
AllowedOrigins: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="Origin of a web page that may use it: https://app.example")
]


def new_app(**options: Any) -> typer.Typer:
    """Return an application for one command of `eagerstream`. Its errors are lines, and no tracebacks."""
    return typer.Typer(pretty_exceptions_enable=False, add_completion=False, **options)


def run_app(app: typer.Typer, name: str, arguments: Sequence[str]) -> int:
    """Run the application of `eagerstream NAME` with its arguments, and return the exit code.

    What the command raises passes through, except for `SystemExit`.
    """
    try:
        app(list(arguments), prog_name=f"eagerstream {name}")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    return 0
