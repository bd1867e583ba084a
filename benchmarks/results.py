"""The results as files: `results.json` with every figure, and `RESULTS.md` to read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .targets import Row

OPTIONAL = ("botocore", "httpx2", "numpy", "opentelemetry", "ray")
"""Packages that some benchmarks cannot run without, and the others can."""


class Recorder(Console):
    """A console that keeps the tables and the lines that it prints."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.printed: list[Table | str] = []

    def print(self, *objects: Any, **options: Any) -> None:
        """As any console does; what a progress bar prints is neither a table nor a line, and is not kept."""
        self.printed += [thing for thing in objects if isinstance(thing, Table | str)]
        super().print(*objects, **options)


@dataclass(frozen=True, kw_only=True)
class Section:
    """One benchmark that ran.

    Attributes:
        name: Its module's.
        method: How it measures: its module's docstring.
        printed: Its tables and notes.
        figures: What its `main` gave; empty where it failed.
        error: Why it failed; empty where it did not.
    """

    name: str
    method: str
    printed: Sequence[Table | str] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""

    @property
    def rows(self) -> list[Row]:
        """The claims that it tried."""
        return [Row(**row) for row in self.figures.get("rows", ())]


def broken(sections: Iterable[Section]) -> list[str]:
    """Each claim that a run fails on, and each benchmark that failed, in words."""
    faults: list[str] = []
    for section in sections:
        if section.error:
            faults.append(f"{section.name} failed: {section.error}")
        faults += [
            f"{section.name}: {row.work}, against {row.against}: {row.target}; measured: {row.measured}"
            for row in section.rows
            if row.asserted and row.met is False
        ]
    return faults


def left_out(name: str, package: str) -> dict[str, Any]:
    """The figures of a benchmark that did not run, since a package is not installed."""
    work = name.replace("_", " ").capitalize()
    row = Row(work=work, against="-", target="-", measured=f"{package} is not installed", met=None)
    return {"rows": [asdict(row)]}


def write(directory: Path, machine: Mapping[str, str], sections: Sequence[Section]) -> None:
    """Write both files into `directory`, which is made if it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    figures = {
        "machine": dict(machine),
        "benchmarks": {
            section.name: {"error": section.error} if section.error else section.figures for section in sections
        },
    }
    (directory / "results.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    (directory / "RESULTS.md").write_text(_document(machine, sections), encoding="utf-8")


def _document(machine: Mapping[str, str], sections: Sequence[Section]) -> str:
    rows = [row for section in sections for row in section.rows]
    parts = [
        "# What was measured",
        "Written by `make bench`. Both sides of each comparison ran in this run: read the ratios, not the times.",
        _grid(("what", "which"), [(name, value) for name, value in machine.items()]),
        "## Targets",
        "A run fails where a target is not met, unless it is marked as not asserted: those depend on the machine.",
        _grid(
            ("work", "against", "target", "measured", "met"),
            [(row.work, row.against, row.target, row.measured, _met(row)) for row in rows],
        ),
    ]
    for section in sections:
        parts += [f"## {section.name.replace('_', ' ').capitalize()}", section.method]
        parts += [markdown(thing) if isinstance(thing, Table) else _plain(thing) for thing in section.printed]
        if section.error:
            parts.append(f"**It failed**: {section.error}")
    return "\n\n".join(parts) + "\n"


def _met(row: Row) -> str:
    if row.met is None:
        return "not measured here"
    return ("yes" if row.met else "**no**") + ("" if row.asserted else " (not asserted)")


def markdown(table: Table) -> str:
    """A table of rich as one of Markdown, its title above."""
    heads = [_plain(column.header) for column in table.columns]
    right = [column.justify == "right" for column in table.columns]
    rows = zip(*([_plain(cell) for cell in column.cells] for column in table.columns), strict=True)
    grid = _grid(heads, rows, right)
    return f"**{_plain(table.title)}**\n\n{grid}" if table.title else grid


def _grid(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool] | None = None) -> str:
    ruler = ["--:" if is_right else ":--" for is_right in right or [False] * len(heads)]
    lines = [heads, ruler, *([cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(content: object) -> str:
    """What rich would print, without its markup."""
    return Text.from_markup(content).plain if isinstance(content, str) else str(content)
