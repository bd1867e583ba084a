"""Parts of pages that are made of something else in the checkout, so that they cannot differ from it.

A page has a block `{generated} NAME`, and the function of that name returns Markdown in its place. Figures of
benchmarks are between the same two comments as in the guides.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin, get_type_hints

from benchmarks import readme, results as benchmark_results
from benchmarks.conformance import page as conformance_page, questions
from benchmarks.results import grid
from tests.source_tree import sources

from eagerstream.limits import Limits
from eagerstream_lab._metrics import METRICS
from eagerstream_wire import ParsingLimits

from .pages import FOLDER
from .public_names import attribute_docs

if TYPE_CHECKING:  # quick tests read the tables, and do without Sphinx
    from sphinx.application import Sphinx

ROOT: Final = FOLDER.parents[1]
_BLOCK: Final = re.compile(r"^```\{generated\} (\w+)\n```$", re.MULTILINE)
_PAGES: Final = re.compile(r"^\{pages\} (\w+): (.+)$", re.MULTILINE)
_FAULT_TABLE: Final = re.compile(r"<!-- fault matrix -->\n(.*?)<!-- -->", re.DOTALL)
_MIB: Final = 1024 * 1024


def setup(app: Sphinx) -> dict[str, Any]:
    """Register what this module does with Sphinx."""
    app.connect("source-read", _expand)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _expand(_app: Sphinx, _document: str, content: list[str]) -> None:
    content[0] = expanded(content[0])


def expanded(text: str) -> str:
    """Return a page with all that is generated in its place."""
    text = _PAGES.sub(lambda line: "\n".join(_pages(line[1], line[2].split())), text)
    text = _BLOCK.sub(lambda block: PARTS[block[1]](), text)
    return readme.rendered(text, benchmark_results.read()) if "<!-- bench: " in text else text


def _pages(folder: str, first: list[str]) -> list[str]:
    """Return the pages of a folder for a table of contents: those that are named, in their order, then the others."""
    found = sorted(file.stem for file in (ROOT / "docs" / folder).glob("*.md"))
    ordered = [*(page for page in first if page in found), *(page for page in found if page not in first)]
    return [f"{folder}/{page}" for page in ordered]


def commands() -> str:
    """Return a section for each command of the program `eagerstream`, with its arguments and options."""
    return "\n\n".join(part for name, command in command_lines().items() for part in _command(name, command))


def command_lines() -> dict[str, Any]:
    """Return the commands of all packages, as click knows them, in the order of the program's help."""
    import typer

    from eagerstream._command import _COMMANDS

    entries = {entry.name: entry for entry in entry_points(group="eagerstream.commands")}
    return {name: typer.main.get_command(import_module(entries[name].module).app) for name in _COMMANDS}


def _command(name: str, command: Any) -> Iterator[str]:
    arguments = [parameter for parameter in command.params if _is_argument(parameter)]
    options = [parameter for parameter in command.params if not _is_argument(parameter) and not parameter.hidden]
    inner: Mapping[str, Any] = getattr(command, "commands", {})
    usage = ["eagerstream", name, "[OPTIONS]", *map(_placeholder, arguments), *(["[COMMAND]"] if inner else [])]
    yield f"## `eagerstream {name}`"
    yield f"```text\n{' '.join(usage)}\n```"
    yield _escaped(inspect.cleandoc(command.help or ""))
    hints = get_type_hints(inspect.unwrap(command.callback))
    if arguments:
        yield grid(("argument", "meaning"), [(f"`{_placeholder(one)}`", _escaped(one.help or "")) for one in arguments])
    rows = [(_spelled(one), _shown_default(one), _meaning(one, hints.get(one.name))) for one in options]
    yield grid(("option", "default", "meaning"), rows)
    if command.epilog:
        yield _escaped(inspect.cleandoc(command.epilog))
    for inner_name, inner_command in inner.items():
        yield from _command(f"{name} {inner_name}", inner_command)


def _is_argument(parameter: Any) -> bool:
    return not parameter.opts[0].startswith("-")


def _placeholder(argument: Any) -> str:
    shown = argument.name.upper() + ("..." if argument.nargs != 1 else "")
    return shown if argument.required else f"[{shown}]"


def _spelled(option: Any) -> str:
    return ", ".join(f"`{spelling}`" for spelling in (*option.opts, *option.secondary_opts))


def _shown_default(option: Any) -> str:
    if isinstance(option.show_default, str):
        return option.show_default
    if option.default is None or option.default is False or not option.show_default:
        return ""
    return f"`{option.default}`"


def _meaning(option: Any, hint: Any) -> str:
    text = _escaped(option.help or "")
    choices = _choices(hint)
    return f"{text} One of {', '.join(f'`{choice}`' for choice in choices)}." if choices else text


def _choices(hint: Any) -> list[str]:
    """Return the values that an option may have, empty if they cannot be listed."""
    if get_origin(hint) is Literal:
        return [str(value) for value in get_args(hint)]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return [str(member.value) for member in hint]
    return next(filter(None, map(_choices, get_args(hint))), [])


def _escaped(text: str) -> str:
    """Return text of the command line as Markdown: names of options become code, other markup stays text."""
    parts = re.split(r"(`[^`]+`)", re.sub(r"(?<![\w`-])(--[a-z][a-z-]*)", r"`\1`", text))
    return "".join(part if part.startswith("`") else re.sub(r"([*_<>\[\]])", r"\\\1", part) for part in parts)


def limits() -> str:
    """Return a table of all limits."""
    docs = {**attribute_docs(ParsingLimits), **attribute_docs(Limits)}
    return grid(("limit", "default", "bounds", "when it is reached"), [_limit(field, docs) for field in limit_fields()])


def limit_fields() -> list[dataclasses.Field[Any]]:
    """Return the fields of `Limits`."""
    return list(dataclasses.fields(Limits))


def _limit(field: dataclasses.Field[Any], docs: Mapping[str, list[str]]) -> tuple[str, str, str, str]:
    """Return the row of a limit.

    Raises:
        LookupError: The docstring does not say what it bounds, or what happens when it is reached.
    """
    what, _, then = " ".join(" ".join(docs.get(field.name, ())).split()).partition(". ")
    if not then:
        raise LookupError(f"the docstring of Limits lacks {field.name}, or what happens when it is reached")
    owner = "eagerstream.Limits" if field.name in Limits.__annotations__ else "eagerstream_wire.ParsingLimits"
    return f"[`{field.name}`](#{owner}.{field.name})", _amount(field.default, field.name), f"{what}.", then


def _amount(amount: Any, name: str) -> str:
    if amount % _MIB == 0:
        return f"{amount:,} ({amount // _MIB:,} Mi)"
    return f"{amount:,g} s" if name.endswith("_s") else f"{amount:,}"


def records() -> str:
    """Return a section for each type of record, and for what records are made of."""
    schema = json.loads((sources()["eagerstream_progress"] / "record.schema.json").read_text(encoding="utf-8"))
    definitions: dict[str, Any] = schema["$defs"]
    by_type = {
        definition["properties"]["type"]["const"]: name
        for name, definition in definitions.items()
        if "const" in definition["properties"].get("type", {})
    }
    order = [reference["$ref"].rpartition("/")[2] for reference in schema["oneOf"]]
    parts = sorted(set(definitions) - set(by_type.values()))
    sections = [
        *(_record(name, f"`{definitions[name]['properties']['type']['const']}`", definitions) for name in order),
        "## Parts of records",
        *(_record(name, f"`{name}`", definitions) for name in parts),
    ]
    return "\n\n".join((_escaped(schema["description"]), *sections))


def bench_results() -> str:
    """Return a section for each part of the results of a benchmark. The data of a run has its own."""
    schema = json.loads((ROOT / "packages/lab/src/eagerstream_lab/results.schema.json").read_text(encoding="utf-8"))
    definitions: dict[str, Any] = {"Results": schema, **schema["$defs"]}
    rows = [
        (f"`{metric.name}`", metric.unit, metric.meaning, "yes" if metric.on_wire else "no")
        for metric in METRICS.values()
    ]
    figures = grid(("figure", "unit", "meaning", "available for programs"), rows)
    names = (
        "Results",
        "MachineData",
        "SettingsData",
        "CaseData",
        "MetricData",
        "Estimate",
        "MeasuredRun",
        "ComparisonData",
    )
    sections = "\n\n".join(_record(name, f"`{name}`", definitions) for name in names)
    sections = sections.replace("(#latencydata)", "(#eagerstream.loop.LatencyData)")
    return f"{figures}\n\n{sections}"


def load_results() -> str:
    """Return a section for each part of the results of a load test."""
    schema = json.loads((ROOT / "packages/lab/src/eagerstream_lab/load.schema.json").read_text(encoding="utf-8"))
    definitions: dict[str, Any] = {"LoadResults": schema, **schema["$defs"]}
    names = ("LoadResults", "LoadSettingsData", "BaselineData", "LoadCaseData", "LevelData", "FigureData", "RunsData")
    return "\n\n".join(
        _record(name, f"`{name}`", definitions) for name in (*names, "KneeData", "BusyData", "LimitData")
    )


_EXPLAINED: Final = frozenset({"v", "seq", "at_s", "type", "to_seq", "to_s", "count", "omitted_chars"})
"""Fields of every record, and of every delta. The page explains them once."""


def _record(name: str, title: str, definitions: Mapping[str, Any]) -> str:
    definition = definitions[name]
    summary, _, _ = definition["description"].partition("\n\nAttributes:")
    docs = _documented_fields(definition["description"])
    is_record = "seq" in definition["properties"]
    rows = [
        (
            f"`{field}`",
            _type(schema) + ("" if field in definition.get("required", ()) else ", optional"),
            docs.get(field, ""),
        )
        for field, schema in definition["properties"].items()
        if not (is_record and field in _EXPLAINED)
    ]
    columns = 3 if docs else 2
    table = [grid(("field", "type", "meaning")[:columns], [row[:columns] for row in rows])] if rows else []
    return "\n\n".join((f"### {title}", *summary.split("\n\n"), *table))


def _documented_fields(text: str) -> dict[str, str]:
    described = type("Described", (), {"__doc__": text})
    return {name: " ".join(lines) for name, lines in attribute_docs(described).items()}


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type of a field in the words of JSON Schema."""
    if "$ref" in schema:
        return f"[`{(name := schema['$ref'].rpartition('/')[2])}`](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {}))}"
    kind: str = schema.get("type", "any value")
    return kind


def faults() -> str:
    """Return the table of faults, which `python -m tests.reliability` writes into a guide.

    Raises:
        LookupError: The guide has no such table.
    """
    found = _FAULT_TABLE.search((ROOT / "docs/guides/errors.md").read_text(encoding="utf-8"))
    if found is None:
        raise LookupError("docs/guides/errors.md has no table of faults: `python -m tests.reliability` writes it")
    return found[1]


_BEGINS: Final = {
    "ALL": "all",
    "UNHELD": "all, except held calls",
    "ADMITTED": "those that are `ADMITTED`",
    "NONE": "none",
}
_KEEPS: Final = {
    "WHOLE": "the complete turn",
    "TEXT": "its text; the complete turn if a tool ran",
    "IF_RAN": "nothing; the complete turn if a tool ran",
    "UP_TO_LAST_CALL": "nothing; if a tool ran, all up to the last call with a complete input",
    "CUT": "all up to the last call with a complete input or a rejection",
    "UP_TO_CUT_CALL": "all up to the last call, even if its input was cut",
    "NOTHING": "nothing",
}
_THEN: Final = {
    "STOP": "ends",
    "RESULTS": "sends the results, if there are any; otherwise it ends",
    "RESUME": "continues the response, up to `max_continuations` times in a row",
    "TRUNCATED": "does what `on_truncated` says",
}


def endings() -> str:
    """Return the table by which the loop ends a turn.

    Raises:
        KeyError: The loop can do something that has no words here.
    """
    from eagerstream.calls import _policy as policy

    special = {
        "(any other, or none)": policy._UNKNOWN,
        "(cut by a guard)": policy.CUT_BY_GUARD,
        "(broken off, and the run continues)": policy.INTERRUPTED,
        "(broken off, and the run ends)": policy.BROKEN_OFF,
        "(cancelled)": policy.CANCELLED,
    }
    stop_reasons = {f"`{reason}`": ending for reason, ending in policy._TABLE.items()}
    rows = [
        (
            how,
            _BEGINS[ending.begins.name],
            _KEEPS[ending.keeps.name],
            _THEN[ending.then.name],
            f"`{ending.status.value}`",
        )
        for how, ending in {**stop_reasons, **special}.items()
    ]
    heads = ("the response ended with", "calls that may still start", "history keeps", "the run", "status, if it ends")
    return grid(heads, rows)


def results() -> str:
    """Return all results of the benchmarks, without the head of their page."""
    document = benchmark_results.document(benchmark_results.read())
    return document.partition("\n\n")[2].replace("`results.json`", "`benchmarks/results.json`")


def conformance() -> str:
    """Return the scores of libraries on the conformance vectors."""
    return conformance_page.rendered(conformance_page.read())


def parser_answers() -> str:
    """Return what streaming parsers answer to short texts."""
    return questions.tables(conformance_page.read()["peers"])


def contributing() -> str:
    """Return CONTRIBUTING.md without its title."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("\n\n")[2]
    return _without_links_into_the_repository(text)


def _without_links_into_the_repository(text: str) -> str:
    """Return Markdown whose links to files of the checkout are names of these files, for they are no pages."""
    return re.sub(r"\[([^\]]+)\]\((?!https?:|#)([^)]+)\)", r"`\2`", text)


def examples() -> str:
    """Return a table of the programs in `examples/`, from their docstrings."""
    rows = []
    for file in sorted((ROOT / "examples").glob("*.py")):
        what, *_, needs, usage = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split("\n\n")
        command = usage.splitlines()[-1].strip()
        offline = "" if command.startswith("OPENAI_API_KEY=") else f"`{command}`"
        link = f"[{file.name}](https://github.com/eagerstream/eagerstream/blob/main/examples/{file.name})"
        rows.append((link, what, needs.removeprefix("Needs: ").rstrip("."), offline))
    return grid(("program", "what it shows", "needs", "offline, in the folder examples"), rows)


def clients() -> str:
    """Return the matrix of clients and features that the tests of the double have, and the reasons for its gaps."""
    from packages.testing.tests.clients.matrix import CLIENTS, FEATURES

    reasons = list(dict.fromkeys(reason for client in CLIENTS for reason in client.lacks.values()))
    rows = [
        (
            client.package,
            client.name,
            *(f"({reasons.index(client.lacks[name]) + 1})" if name in client.lacks else "yes" for name in FEATURES),
        )
        for client in CLIENTS
    ]
    notes = [f"({number}) {reason}" for number, reason in enumerate(reasons, 1)]
    return f"{grid(('package', 'call', *FEATURES.values()), rows)}\n\n{'; '.join(notes)}."


PARTS: Final[Mapping[str, Callable[[], str]]] = {
    part.__name__: part
    for part in (
        *(bench_results, clients, commands, conformance, contributing, endings, examples, faults, limits, load_results),
        *(parser_answers, records, results),
    )
}
