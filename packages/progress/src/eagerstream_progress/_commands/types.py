"""`eagerstream types`: the inputs of a program's tools, as types for TypeScript."""

from __future__ import annotations

import inspect
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from eagerstream import Agent, Tool, tool
from eagerstream._support.inspecting import MAX_SCHEMA_CHARS, MAX_SCHEMA_DEPTH, TooMuchError, check_size
from eagerstream._support.named_objects import load_named
from eagerstream._support.typer_app import new_app, run_app
from eagerstream.errors import UsageError
from eagerstream.tools import ForeignTool

from .._typescript import ToolSchema, typescript

app = new_app()


@app.command()
def types(
    places: Annotated[
        list[str],
        typer.Argument(metavar="MODULE:NAME", help="Tools of your program: a tool, a list of tools, or an Agent."),
    ],
    *,
    check: Annotated[
        Path | None,
        typer.Option(help="Compare with this file instead. Exits with 1 if it differs.", dir_okay=False),
    ] = None,
) -> None:
    """Print TypeScript types of the inputs of tools, for `useRun<Tools>` of eagerstream-records.

    For example: `eagerstream types app.tools:TOOLS > src/tools.ts`. The modules are imported, and no tool is called.
    What TypeScript cannot say makes a type wider: `Json` is any value.
    """
    found: dict[str, ToolSchema] = {}
    for place in places:
        with redirect_stdout(sys.stderr):  # a module may print something when it is imported
            given = load_named(place)
        for each in _schemas(given, place):
            if each.name in found:
                raise UsageError(f"more than one tool is named {each.name!r}")
            found[each.name] = each
    if not found:
        raise UsageError(f"{', '.join(places)}: there are no tools")
    text = typescript(found.values(), shlex.join(["eagerstream", "types", *places]))
    if check is None:
        typer.echo(text.encode(), nl=False)  # whatever the encoding of the terminal
    elif _content(check) != text:
        typer.echo(f"eagerstream: {check} is not what the tools are now: write it again", err=True)
        raise typer.Exit(1)


def _content(path: Path) -> str | None:
    """Return the text of a file; None if there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def _schemas(given: object, place: str) -> Iterator[ToolSchema]:
    """Yield the tools of an object that a program has.

    Raises:
        UsageError: It has none.
    """
    match given:
        case Tool():
            if given.toolset is None:  # the API knows the names of its members
                yield _checked(given.name, given.description, given.input_schema)
        case Agent():
            yield from _schemas(given.tools, place)
        case Mapping() if isinstance(name := given.get("name"), str):
            schema = given.get("input_schema")
            description = given.get("description")
            yield _checked(
                name, description if isinstance(description, str) else "", schema if isinstance(schema, Mapping) else {}
            )
        case _ if inspect.isfunction(given) or inspect.ismethod(given):
            yield from _schemas(tool(given), place)
        case ForeignTool() if not inspect.isclass(given):
            yield from _schemas(given.to_dict(), place)
        case Iterable() if not isinstance(given, str | bytes | Mapping):
            for one in given:
                yield from _schemas(one, place)
        case _:
            raise UsageError(
                f"{place} has the type {type(given).__name__}: it is no tool, no list of tools and no Agent"
            )


def _checked(name: str, description: str, schema: Mapping[str, object]) -> ToolSchema:
    try:
        check_size(schema, max_chars=MAX_SCHEMA_CHARS, max_depth=MAX_SCHEMA_DEPTH)
    except TooMuchError as error:
        raise UsageError(f"the schema of {name}: {error}") from error
    return ToolSchema(name, description, schema)


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run_app(app, "types", arguments)
