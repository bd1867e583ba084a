"""The reference lists the public names: all of them, once, and no others."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from docs._ext.pages import FOLDER, PageError, names_in, pages
from docs._ext.public_names import assignment, by_definition, public_modules, public_names, resolve

import eagerstream
from eagerstream import Limits
from tests.tables import rows

imports_all = pytest.mark.slow
"""A test that needs all public modules, with the frameworks and engines that they wrap. To import them takes 5 s."""

TABLE_OF_CONTENTS = (FOLDER.parent / "index.md").read_text(encoding="utf-8")


@imports_all
def test_each_public_name_has_one_place() -> None:
    """A name without a page could not be looked up; one with two would have two explanations."""
    placed = [name.full for names in pages().values() for name in names]
    assert sorted(placed) == sorted(public_names())


@imports_all
def test_public_names_are_the_ones_that_modules_export() -> None:
    """`__all__` is the source, whatever else a module imports; a name that two modules export is the root's."""
    for module in public_modules():
        exported = getattr(__import__(module, fromlist=["*"]), "__all__", ())
        assert {f"{module}.{name}" for name in exported} <= set(by_definition()), module
    assert {f"eagerstream.{name}" for name in eagerstream.__all__} <= set(by_definition())
    assert by_definition()["eagerstream.SSEDecoder"].full == "eagerstream_wire.SSEDecoder"


@imports_all
def test_no_private_name_is_public() -> None:
    """A leading underscore, in any part of a name, says that it may change."""
    assert [full for full in public_names() if any(part.startswith("_") for part in full.split("."))] == []
    assert "eagerstream.errors" in public_modules()
    assert "eagerstream.cli" not in public_modules(), "a command, which has a page of its own"


@imports_all
def test_constants_and_aliases_are_found_in_the_source() -> None:
    """Their documentation stands behind their definition, in a module that is often private."""
    plain = [name for name in public_names().values() if not inspect.isclass(name.value) and not callable(name.value)]
    assert len(plain) > 10
    assert [name.full for name in plain if assignment(name) is None] == []


@imports_all
def test_a_page_with_a_name_that_is_not_public() -> None:
    """It fails the build: somebody renamed a thing, and the page has to follow."""
    with pytest.raises(PageError, match="no public name"):
        list(names_in("loop.Nothing\n"))
    with pytest.raises(PageError, match=r"write eagerstream_wire\.SSEDecoder"):
        list(names_in("SSEDecoder\n"))


@imports_all
@rows(
    "text, module, owner, meant",
    [
        ("Run", "eagerstream", "", "eagerstream.Run"),
        ("eagerstream.loop._run.Run", "eagerstream", "", "eagerstream.Run"),
        ("run()", "eagerstream_wire", "", "eagerstream.run"),
        ("Run.cancel", "eagerstream.tools", "", "eagerstream.Run.cancel"),
        ("cancel", "eagerstream", "eagerstream.Run", "eagerstream.Run.cancel"),
        ("finish", "eagerstream", "eagerstream.Run", "eagerstream.Run.finish"),
        ("Tool", "eagerstream", "", "eagerstream.Tool"),
        ("Tool", "eagerstream_compat.helloagents", "", "eagerstream_compat.helloagents.Tool"),
        ("Run._take", "eagerstream", "", None),
        ("eagerstream.calls._turn.CallMaker", "eagerstream", "", None),
        ("city", "eagerstream", "", None),
        ('{"INVALID_JSON": raw}', "eagerstream", "", None),
    ],
)
def test_names_in_docstrings(text: str, module: str, owner: str, meant: str | None) -> None:
    """Code in a docstring becomes a link if it is a public name, as somebody who reads it there understands it."""
    assert resolve(text, module, owner) == meant


def test_every_limit_is_explained() -> None:
    """The table of limits has each field with its default and with what happens when it is reached."""
    from docs._ext.generated import limits

    lines = [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in limits().splitlines()[2:]]
    assert len(lines) == len(dataclasses.fields(Limits))
    for field, (name, default, bounds, then) in zip(dataclasses.fields(Limits), lines, strict=True):
        assert f"`{field.name}`" in name
        assert f"{field.default:,g}".split(".")[0] in default or f"{field.default:,}" in default
        assert bounds.endswith(".")
        assert len(then) > 10


def test_every_command_and_option_is_listed() -> None:
    """The page of commands is made of the program."""
    from docs._ext.generated import command_lines, commands

    page = commands()
    for name, command in command_lines().items():
        section = page.split(f"## `eagerstream {name}`\n")[1].split("\n## `eagerstream ")[0]
        for parameter in command.params:
            assert f"`{parameter.opts[0]}`" in section or parameter.name.upper() in section
    assert "## `eagerstream bench compare`" in page


def test_every_page_is_in_the_table_of_contents() -> None:
    """Sphinx warns of the others; here it costs nothing to know."""
    listed = set(re.findall(r"^((?:reference|inside)/\S+)$", TABLE_OF_CONTENTS, re.MULTILINE))
    found = {f"{file.parent.name}/{file.stem}" for folder in ("reference", "inside") for file in _pages(folder)}
    assert listed == found


def _pages(folder: str) -> list[Path]:
    return sorted((FOLDER.parent / folder).glob("*.md"))


@cache
def _callables() -> list[tuple[str, str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Each public function and method: its full name, the docstring of its class, and its source."""
    values = [name.value for name in public_names().values()]
    owners = dict.fromkeys(
        owner for value in values for owner in (value.__mro__ if inspect.isclass(value) else (value,))
    )
    found = []
    for owner in owners:
        module = getattr(owner, "__module__", None) or ""
        if not module.startswith("eagerstream") or not (inspect.isclass(owner) or inspect.isfunction(owner)):
            continue
        for node in _definitions(module).get(owner.__qualname__, ()):
            if not node.name.startswith("_"):
                doc = (owner.__doc__ or "") if inspect.isclass(owner) else ""
                found.append((f"{module}.{owner.__qualname__}, {node.name}", doc, node))
    return found


@cache
def _definitions(module: str) -> dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The functions of a module, and the methods of its classes, each under the name that has them."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
    for node in ast.parse(Path(str(sys.modules[module].__file__)).read_text(encoding="utf-8")).body:
        if isinstance(node, functions):
            found[node.name] = [node]
        elif isinstance(node, ast.ClassDef):
            found[node.name] = [method for method in node.body if isinstance(method, functions)]
    return found


def _raised(node: ast.AST) -> Iterator[str]:
    """The classes of the exceptions that a function raises itself, not in a function inside it."""
    for inner in ast.iter_child_nodes(node):
        match inner:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                continue
            case ast.Raise(exc=ast.Call(func=ast.Name(id=name))) if name[0].isupper():
                yield name
            case _:
                pass
        yield from _raised(inner)


@imports_all
def test_exceptions_are_documented() -> None:
    """Whoever calls a public function learns from its docstring which exceptions its own body raises."""
    missing = [
        f"{full}: {raised}"
        for full, _, node in _callables()
        for raised in _raised(node)
        if not re.search(rf"Raises:.*\b{raised}\b", ast.get_docstring(node) or "", re.DOTALL)
    ]
    assert missing == []


@imports_all
def test_cancellation_is_documented() -> None:
    """Any await may be cancelled, so each async function says what happens then, or its class, for all its methods."""
    waiting = [callable for callable in _callables() if isinstance(callable[-1], ast.AsyncFunctionDef)]
    assert len(waiting) > 80
    silent = [
        full
        for full, of_class, node in waiting
        if "cancel" not in (ast.get_docstring(node) or "").lower() and "\n    Cancellation: " not in of_class
    ]
    assert silent == []
