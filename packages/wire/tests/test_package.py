"""The package as a whole: its public names, its modules, and what importing it costs."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import tomllib
from importlib.machinery import ExtensionFileLoader
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.source_tree import check_mirrored, imports, modules, order_of_modules
from tests.tables import rows

import eagerstream_wire

_FOLDER = Path(__file__).parents[1]
_PROJECT = tomllib.loads((_FOLDER / "pyproject.toml").read_text())
_COMPILED = _PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["modules"]

_WITHOUT_TESTS = {
    "_block_faults": "test_history.py has the faults of blocks and of histories",
    "_message_inputs": "test_accumulator.py has the inputs, test_message.py those of its messages",
    "_open_block": "test_message.py has blocks of every kind",
    "_places": "test_accumulator.py has indexes that come twice",
    "_errors": "test_accumulator.py and test_sse.py have those of peers, test_checks.py those of callers",
    "_limits": "test_accumulator.py and test_partial_json.py have inputs beyond each bound",
    "_parser": "a protocol without code",
    "_patch_types": "test_patch.py has patches",
    "_mypyc": "only says what to do without mypyc",
    "_type_variables": "has no code that runs",
}
"""Modules without a test file of their name, and the reason."""

_BEHAVIOURS = {
    "build_hook": "the wheel that is built, compiled or not",
    "package": "the package as a whole",
    "wheel_choice": "the wheel that pip takes",
    "whole_bodies": "recorded bodies, from their bytes to the message",
}
"""Test files that are named after a behaviour of several modules."""


def test_it_needs_two_packages() -> None:
    """A framework that wants a parser gets no client, no event loop and no models."""
    own = {"eagerstream_wire", "jiter", "typing_extensions", "partial_json_parser", "mypy_extensions"}
    for module, file in modules("eagerstream_wire").items():
        used = {name.split(".")[0] for name, _ in imports(module, file)}
        assert used - own - sys.stdlib_module_names == set(), file


def test_no_circle_of_imports() -> None:
    """A reader can open the modules one after the other, each after those that it uses. Imports for types count, too."""
    order = order_of_modules("eagerstream_wire")
    assert order.index("eagerstream_wire._values") < order.index("eagerstream_wire._tool_input")


def test_tests_mirror_the_modules() -> None:
    """Whoever opens a module finds its tests by its name, and whoever opens a test file finds its module."""
    found = {name.partition(".")[2] for name in modules("eagerstream_wire")} - {""}
    tests = {file.stem.removeprefix("test_") for file in Path(__file__).parent.glob("test_*.py")}
    check_mirrored(found, tests, _WITHOUT_TESTS, _BEHAVIOURS)


@rows("name", eagerstream_wire.__all__)
def test_public_names(name: str) -> None:
    """Each says what it is, and so do the methods that one can call."""
    value = getattr(eagerstream_wire, name)
    if not inspect.isclass(value) and not inspect.isroutine(value):
        return  # a constant or a type alias, explained beside its definition
    assert inspect.getdoc(value), f"{name} has no docstring"
    if not inspect.isclass(value):
        return
    assert not (value.__doc__ or "").startswith(f"{name}("), f"{name} has only the docstring that dataclasses make"
    for attribute, member in vars(value).items():
        if not attribute.startswith("_") and (inspect.isroutine(member) or isinstance(member, property)):
            assert inspect.getdoc(member), f"{name}.{attribute} has no docstring"


def test_there_are_few_names() -> None:
    """Nobody learns more."""
    assert len(eagerstream_wire.__all__) <= 75


def test_importing_is_cheap() -> None:
    """A gateway that only wants the core must not pay a second of imports. Histories come when they are asked for."""
    script = """
import sys
import eagerstream_wire
print({"asyncio", "anthropic", "httpx", "anyio", "pydantic", "partial_json_parser"} & {*sys.modules})
print("eagerstream_wire._history" in sys.modules, eagerstream_wire.validate_history([])[0].index)
print("eagerstream_wire._history" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout) == (0, "set()\nFalse None\nTrue\n"), done.stderr


def test_it_has_types() -> None:
    """Type checkers are told that there are types."""
    assert (Path(eagerstream_wire.__file__).parent / "py.typed").exists()


@pytest.mark.skipif("EAGERSTREAM_EXPECT" not in os.environ, reason="says which wheel is installed: pure or compiled")
@rows("name", _COMPILED)
def test_the_flavor_of_the_wheel(name: str) -> None:
    """A compiled wheel in which a module is not compiled would pass all other tests, and be slow."""
    spec = find_spec(name)
    assert spec is not None
    assert isinstance(spec.loader, ExtensionFileLoader) is (os.environ["EAGERSTREAM_EXPECT"] == "compiled")
    folder = Path(eagerstream_wire.__file__).parent
    assert (folder.parent / f"{name.replace('.', '/')}.py").exists(), "tracebacks read the source"
