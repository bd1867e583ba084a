"""Files of the results: `results.json` with every figure and text of a run, and `RESULTS.md`, which is made from it."""

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

BENCHMARKS = (
    "early_start",
    "frameworks",
    "code_tool",
    "fault_matrix",
    "bedrock_frames",
    "bytes_to_events",
    "small_response",
    "partial_values",
    "typed_partials",
    "unwatched",
    "transport",
    "threads",
    "long_runs",
    "hand_off",
    "executors",
    "many_inputs",
    "watchers",
    "waiters",
    "hub",
    "thousand_runs",
    "latency_marks",
    "capture",
    "tracing",
    "durable_runs",
    "memory",
    "blocking",
    "startup",
    "growth",
    "attacks",
    "let_through",
    "guard",
)
"""Modules, each with `main(console, *, quick)`, in the order in which they run."""

FOLDER = Path(__file__).parent
"""Folder with the results of the last complete run."""

OPTIONAL = ("aiohttp", "botocore", "httpx2", "numpy", "opentelemetry", "ray")
"""Packages that only some benchmarks need."""


class Recorder(Console):
    """A console that keeps the tables and the lines that it prints."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.printed: list[Table | str] = []

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as any console does, and keep tables and lines. The output of a progress bar is neither."""
        self.printed += [thing for thing in objects if isinstance(thing, Table | str)]
        super().print(*objects, **options)


@dataclass(frozen=True, kw_only=True)
class Section:
    """One benchmark that ran.

    Attributes:
        name: Name of its module.
        method: Docstring of its module, which describes the method.
        printed: Its tables and notes.
        figures: Result of its `main`. Empty if it failed.
        error: Description of its failure. Empty if it did not fail.
        took_s: Duration.
    """

    name: str
    method: str
    printed: Sequence[Table | str] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    took_s: float = 0.0

    @property
    def rows(self) -> list[Row]:
        """Claims that it tried."""
        return [Row(**row) for row in self.figures.get("rows", ())]


def broken(sections: Iterable[Section]) -> list[str]:
    """Return a description of each missed target that fails a run, and of each failed benchmark."""
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
    """Return the figures of a benchmark that did not run, because a package is not installed."""
    work = name.replace("_", " ").capitalize()
    row = Row(work=work, against="-", target="-", measured=f"{package} is not installed", met=None)
    return {"rows": [asdict(row)]}


def write(directory: Path, machine: Mapping[str, str], sections: Sequence[Section]) -> None:
    """Write both files into `directory`. Make it if it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    _store(directory, _results(machine, sections))


def update(directory: Path, machine: Mapping[str, str], sections: Sequence[Section]) -> None:
    """Replace these sections of the files in `directory`, with a note that they were measured later.

    Raises:
        FileNotFoundError: There is no `results.json`.
    """
    old, new = read(directory), _results(machine, sections)
    versions = ", ".join(f"{name} {machine[name]}" for name in ("anthropic", "aiohttp", "httpx2"))
    note = f"Measured on {machine['date']}, after the sections that have no such note, with {versions}."
    for text in new["texts"].values():
        text["note"] = note
    merged = {"machine": old["machine"]}
    for part in ("benchmarks", "texts"):
        both = {**old[part], **new[part]}
        merged[part] = {name: both[name] for name in BENCHMARKS if name in both}
    _store(directory, merged)


def _results(machine: Mapping[str, str], sections: Sequence[Section]) -> dict[str, Any]:
    return {
        "machine": dict(machine),
        "benchmarks": {
            section.name: {"error": section.error} if section.error else section.figures for section in sections
        },
        "texts": {
            section.name: {
                "method": section.method,
                "printed": [
                    markdown(thing) if isinstance(thing, Table) else _plain(thing) for thing in section.printed
                ],
                "took_s": round(section.took_s),
            }
            for section in sections
        },
    }


def _store(directory: Path, results: Mapping[str, Any]) -> None:
    (directory / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    render(directory)


def read(directory: Path = FOLDER) -> dict[str, Any]:
    """Return the content of `results.json`."""
    results: dict[str, Any] = json.loads((directory / "results.json").read_text(encoding="utf-8"))
    return results


def render(directory: Path = FOLDER) -> None:
    """Write `RESULTS.md` from `results.json`; measure nothing."""
    (directory / "RESULTS.md").write_text(document(read(directory)), encoding="utf-8")


def rows_of(results: Mapping[str, Any]) -> list[Row]:
    """Return the targets of all benchmarks."""
    return [Row(**row) for figures in results["benchmarks"].values() for row in figures.get("rows", ())]


def document(results: Mapping[str, Any]) -> str:
    """Return `RESULTS.md`.

    Args:
        results: Content of `results.json`. The `note` of a benchmark says how its run differed from the others.
    """
    benchmarks = results["benchmarks"]
    parts = [
        "# Measurements",
        "`make bench` writes this file. `python -m benchmarks --render` writes it again from `results.json`.",
        "Both sides of a comparison ran in the same run. Compare the ratios: the times depend on the machine.",
        grid(("item", "value"), list(results["machine"].items())),
    ]
    if missing := [name for name in BENCHMARKS if name not in benchmarks]:
        parts.append(f"Not measured in this run: {', '.join(missing)}.")
    parts += [
        "## Targets",
        'If a target is missed, `make bench` fails. Targets marked "not asserted" do not fail it.',
        grid(
            ("work", "against", "target", "measured", "met"),
            [(row.work, row.against, row.target, row.measured, _met(row)) for row in rows_of(results)],
        ),
    ]
    for name, figures in benchmarks.items():
        texts = results["texts"][name]
        parts += [
            f"## {name.replace('_', ' ').capitalize()}",
            texts.get("note", ""),
            texts["method"],
            *texts["printed"],
            f"It took {texts['took_s']} s." if "took_s" in texts else "",
        ]
        if error := figures.get("error"):
            parts.append(f"**It failed**: {error}")
    return "\n\n".join(filter(None, parts)) + "\n"


def _met(row: Row) -> str:
    if row.met is None:
        return "not measured here"
    return ("yes" if row.met else "**no**") + ("" if row.asserted else " (not asserted)")


def markdown(table: Table) -> str:
    """Return a table of rich as a Markdown table, with its title above."""
    heads = [_plain(column.header) for column in table.columns]
    right = [column.justify == "right" for column in table.columns]
    rows = zip(*([_plain(cell) for cell in column.cells] for column in table.columns), strict=True)
    text = grid(heads, rows, right)
    return f"**{_plain(table.title)}**\n\n{text}" if table.title else text


def grid(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool] | None = None) -> str:
    """Return a Markdown table.

    Args:
        heads: Titles of the columns.
        rows: Cells. Pipes are escaped, and line feeds become spaces.
        right: For each column: align it to the right. Default: none.
    """
    ruler = ["--:" if is_right else ":--" for is_right in right or [False] * len(heads)]
    lines = [heads, ruler, *([cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(content: object) -> str:
    """Return the text that rich would print, without its markup."""
    return Text.from_markup(content).plain if isinstance(content, str) else str(content)
