"""Files of the results: `results.json` with every figure and text of a run, and `RESULTS.md`, which is made from it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .targets import Row

BENCHMARKS: Mapping[str, tuple[str, ...]] = {
    "early_start": ("anthropic", "pydantic-ai-slim"),
    "frameworks": ("anthropic", "claude-agent-sdk", "langgraph", "mcp", "openai", "pydantic-ai-slim"),
    "code_tool": ("pydantic-ai-harness", "pydantic-monty"),
    "fault_matrix": ("anthropic",),
    "bedrock_frames": ("anthropic",),
    "bytes_to_events": ("anthropic",),
    "small_response": ("anthropic",),
    "partial_values": ("jiter", "jsonriver", "langchain-core", "partial-json-parser", "pydantic_core"),
    "streaming_parsers": (
        "@anthropic-ai/sdk",
        "@earendil-works/pi-ai",
        "@tanstack/ai",
        "ai",
        "google-adk",
        "jiter",
        "jsonriver",
        "langchain-core",
        "openai",
        "partial-json",
        "partial-json-fixer",
        "partial-json-parser",
        "pydantic_core",
    ),
    "typed_partials": ("genkit", "instructor", "pydantic"),
    "unwatched": ("jiter",),
    "transport": ("aiohttp", "anthropic", "httpx", "httpx2"),
    "threads": ("anthropic",),
    "long_runs": ("anthropic", "httpx2"),
    "hand_off": ("httpx2",),
    "executors": (),
    "many_inputs": (),
    "watchers": (),
    "waiters": (),
    "hub": (),
    "thousand_runs": ("aiohttp", "anthropic", "httpx2"),
    "latency_marks": (),
    "capture": (),
    "tracing": (),
    "durable_runs": (),
    "memory": (),
    "blocking": (),
    "startup": ("anthropic",),
    "growth": (),
    "attacks": (),
    "let_through": (),
    "guard": (),
    "invalid_inputs": (),
    "continued_inputs": (),
    "speculation": (),
    "verdicts": (),
    "other_tools": ("aiperf", "hyperfine"),
}
"""Modules, each with `main(console, *, quick)`, in the order in which they run, with the packages that are compared.

A benchmark without such a package compares eagerstream with itself, or with a formula.
"""

FOLDER = Path(__file__).parent
"""Folder with the results of the last complete run."""

NOT_RECORDED = "not recorded"
"""Value of a condition that is unknown."""

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
        conditions: Date, load, machine and versions, as `machine.describe` returns them.
        printed: Its tables and notes.
        figures: Result of its `main`. Empty if it failed.
        error: Description of its failure. Empty if it did not fail.
        took_s: Duration.
    """

    name: str
    method: str
    conditions: Mapping[str, str] = field(default_factory=dict)
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
    row = Row(work=work, against="-", pace="-", target="-", measured=f"{package} is not installed", met=None)
    return {"rows": [asdict(row)]}


def write(directory: Path, sections: Sequence[Section], *, keep: bool = False) -> None:
    """Write both files into `directory`. Make it if it is missing.

    Args:
        directory: The folder.
        sections: Benchmarks that ran.
        keep: Keep the other sections of the files that are there.

    Raises:
        FileNotFoundError: `keep`, and there is no `results.json`.
    """
    results = _results(sections)
    if keep:
        old = read(directory)
        for part, new in results.items():
            both = {**old[part], **new}
            results[part] = {name: both[name] for name in BENCHMARKS if name in both}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    render(directory)


def _results(sections: Sequence[Section]) -> dict[str, Any]:
    return {
        "conditions": {section.name: dict(section.conditions) for section in sections},
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


def read(directory: Path = FOLDER) -> dict[str, Any]:
    """Return the content of `results.json`."""
    return load(directory / "results.json")


def load(file: Path) -> dict[str, Any]:
    """Return the content of a file that is a `results.json` under any name."""
    results: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return results


def render(directory: Path = FOLDER) -> None:
    """Write `RESULTS.md` from `results.json`; measure nothing."""
    (directory / "RESULTS.md").write_text(document(read(directory)), encoding="utf-8")


def rows_of(results: Mapping[str, Any], names: Iterable[str] = BENCHMARKS) -> list[Row]:
    """Return the targets of these benchmarks. `against` names each peer's version."""
    rows = []
    for name in names:
        for figures in results["benchmarks"].get(name, {}).get("rows", ()):
            row = Row(**figures)
            peers = peers_of(results, name).items()
            versions = [
                _with_version(*peer) for peer in peers if re.search(rf"(?<![\w-]){peer[0]}(?![\w-])", row.against)
            ]
            rows.append(replace(row, against=f"{row.against} ({', '.join(versions)})") if versions else row)
    return rows


def paces_of(figures: Mapping[str, Any]) -> list[str]:
    """Return the paces of a benchmark: those of its targets, or the one that it states if it has no targets."""
    return list(dict.fromkeys(row["pace"] for row in figures.get("rows", ()))) or [figures["pace"]]


def peers_of(results: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return the packages that a benchmark is compared with, with their versions."""
    # A benchmark that runs its peer in another environment states the versions there.
    versions = {**results["conditions"][name], **results["benchmarks"][name].get("versions", {})}
    return {peer: versions.get(peer, NOT_RECORDED) for peer in BENCHMARKS[name]}


def named_peers(results: Mapping[str, Any], *names: str) -> str:
    """Return the peers of these benchmarks in words, with their versions."""
    peers = [_with_version(*peer) for name in names for peer in peers_of(results, name).items()]
    return ", ".join(dict.fromkeys(peers)) or "no other library"


def _with_version(peer: str, version: str) -> str:
    return f"{peer} (version not recorded)" if version == NOT_RECORDED else f"{peer} {version}"


def document(results: Mapping[str, Any]) -> str:
    """Return `RESULTS.md`.

    Args:
        results: Content of `results.json`.
    """
    benchmarks, conditions = results["benchmarks"], results["conditions"]
    newest: Mapping[str, str] = max(conditions.values(), key=lambda each: each.get("date", ""), default={})
    parts = [
        "# Measurements",
        "`make bench` writes this file. `python -m benchmarks --render` writes it again from `results.json`.",
        "Both sides of a comparison ran in the same run. Compare the ratios: the times depend on the machine.",
        "The table has the conditions of the newest section. Each section names its date, load and differences.",
        "The load is the average of one minute, at the start of a section and at its end.",
        grid(("item", "value"), list(newest.items())),
    ]
    if missing := [name for name in BENCHMARKS if name not in benchmarks]:
        parts.append(f"Not measured: {', '.join(missing)}.")
    parts += [
        "## Targets",
        'If a target is missed, `make bench` fails. Targets marked "not asserted" do not fail it.',
        grid(
            ("work", "against", "pace", "target", "measured", "met"),
            [(row.work, row.against, row.pace, row.target, row.measured, _met(row)) for row in rows_of(results)],
        ),
    ]
    for name, figures in benchmarks.items():
        texts = results["texts"][name]
        parts += [
            f"## {name.replace('_', ' ').capitalize()}",
            _measured(conditions[name], newest),
            texts["method"],
            *texts["printed"],
            f"It took {texts['took_s']} s." if "took_s" in texts else "",
        ]
        if error := figures.get("error"):
            parts.append(f"**It failed**: {error}")
    return "\n\n".join(filter(None, parts)) + "\n"


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return the verdicts and the versions of peers that differ between two contents of `results.json`, as Markdown."""
    before, now = _claims(old), _claims(new)
    missing = Row(work="", against="", pace="", target="", measured="no such target", met=None)
    verdicts = [
        (*claim, _met(then), then.measured, _met(row), row.measured)
        for claim in dict.fromkeys((*before, *now))
        for then, row in [(before.get(claim, missing), now.get(claim, missing))]
        if then.met is not row.met or missing in (then, row)
    ]
    versions = [
        (name, peer, version, newer)
        for name in new["conditions"].keys() & old["conditions"].keys()
        for (peer, version), newer in zip(peers_of(old, name).items(), peers_of(new, name).values(), strict=True)
        if version != newer
    ]
    heads = ("benchmark", "work", "against", "met before", "measured before", "met now", "measured now")
    return "\n\n".join((
        "## Targets whose verdict changed",
        grid(heads, verdicts) if verdicts else "None.",
        "## Peers whose version changed",
        grid(("benchmark", "peer", "before", "now"), sorted(versions)) if versions else "None.",
    ))  # fmt: skip


def _claims(results: Mapping[str, Any]) -> dict[tuple[str, str, str], Row]:
    """Return the targets of all benchmarks by their names, works and other sides, which are the same in each run."""
    return {
        (name, row["work"], row["against"]): Row(**row)
        for name, figures in results["benchmarks"].items()
        for row in figures.get("rows", ())
    }


def _measured(conditions: Mapping[str, str], newest: Mapping[str, str]) -> str:
    """Return the line that says when a section was measured, at which load, and how the rest differs from `newest`."""
    own = {name: conditions.get(name, NOT_RECORDED) for name in {**newest, **conditions}}
    line = f"Measured on {own.pop('date', NOT_RECORDED)}, load {own.pop('load', NOT_RECORDED)}."
    other = [f"{name} {value}" for name, value in own.items() if value not in (newest.get(name), NOT_RECORDED)]
    unknown = [name for name, value in own.items() if value == NOT_RECORDED != newest.get(name)]
    if other:
        line += f" Different from the table at the head: {'; '.join(other)}."
    if unknown:
        line += f" Not recorded: {', '.join(unknown)}."
    return line


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
