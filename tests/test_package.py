"""The package as a whole: its public names, and what importing it costs."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
import tomllib
from importlib.machinery import ExtensionFileLoader
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import eagerstream

_SOURCE = Path(eagerstream.__file__)


def _python(script: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _declared() -> list[str]:
    """The names that type checkers see."""
    (block,) = [node for node in ast.parse(_SOURCE.read_text()).body if isinstance(node, ast.If)]
    names = []
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.asname == alias.name, "only `X as X` exports to type checkers"
            names.append(alias.name)
    return names


def _is_compiled(module: str) -> bool:
    spec = find_spec(module)
    assert spec is not None
    return isinstance(spec.loader, ExtensionFileLoader)


def test_type_checkers_see_the_public_names() -> None:
    """`__all__`, what is loaded lazily, and what type checkers see are the same names."""
    assert sorted(_declared()) == sorted(eagerstream.__all__)
    assert len(set(eagerstream.__all__)) == len(eagerstream.__all__)
    assert set(eagerstream.__all__) <= set(dir(eagerstream))


_ROOMS = (
    *(
        "cli",
        "commands",
        "integrations",
        "compat",
        "capture",
        "latency",
        "demo",
        "progress",
        "replay",
        "builtin",
        "run",
    ),
    "workers",
    "tools",
    *("stream", "transports", "recording", "wire", "_support"),
)


def test_rooms_import_downwards() -> None:
    """Nothing imports a room above it; what all share (errors, limits, redaction, ...) is beneath them."""
    root = _SOURCE.parent
    for file in root.rglob("*.py"):
        *folders, module = file.relative_to(root).with_suffix("").parts
        own = (*folders, module)[0]
        if own not in _ROOMS:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                place = [*folders[: len(folders) - node.level + 1], *(node.module or "").split(".")]
                names = [place[0]] if place[0] else [alias.name for alias in node.names]
                for room in set(names) & set(_ROOMS):
                    assert _ROOMS.index(own) <= _ROOMS.index(room), f"{file}: imports {room}"


@pytest.mark.parametrize("name", eagerstream.__all__)
def test_public_names(name: str) -> None:
    """Each is there, in the module that type checkers take it from, and says what it is."""
    value = getattr(eagerstream, name)
    assert not inspect.ismodule(value)
    if not inspect.isclass(value) and not inspect.isroutine(value):
        return  # a constant or a type alias, explained beside its definition
    if _is_compiled(value.__module__):
        return  # mypyc leaves docstrings out; those of the source are looked at where it runs
    assert inspect.getdoc(value), f"{name} has no docstring"
    if inspect.isclass(value):
        assert value.__doc__, f"{name} has no docstring of its own"
        assert not value.__doc__.startswith(f"{name}("), f"{name} has only the docstring that dataclasses make"


@pytest.mark.parametrize("name", eagerstream.__all__)
def test_public_methods(name: str) -> None:
    """What one can call on a public class is explained too."""
    value = getattr(eagerstream, name)
    if not inspect.isclass(value):
        return
    for attribute, member in vars(value).items():
        if not attribute.startswith("_") and (inspect.isfunction(member) or isinstance(member, property | classmethod)):
            assert inspect.getdoc(member), f"{name}.{attribute} has no docstring"


def test_a_name_that_is_not_there() -> None:
    """As with any module."""
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = eagerstream.nope
    with pytest.raises(ImportError):
        exec("from eagerstream import nope")


def test_star_import() -> None:
    """All public names, and no other."""
    space: dict[str, Any] = {}
    exec("from eagerstream import *", space)
    assert set(space) - {"__builtins__"} == set(eagerstream.__all__)


@pytest.mark.parametrize(
    "script", ["import eagerstream", "import eagerstream.wire", "from eagerstream import PartialJSON"]
)
def test_importing_is_cheap(script: str) -> None:
    """The heavy packages are loaded by what needs them, and not before."""
    heavy = {"anthropic", "httpx", "httpx2", "anyio", "pydantic", "trio", "rich", "typer", "uvicorn", "starlette"}
    assert _python(f"{script}\nimport sys\nprint(sorted({heavy!r} & set(sys.modules)))") == "[]\n"


def test_streaming_needs_no_client_library() -> None:
    """A recording is streamed without anthropic and without httpx."""
    script = "import sys, eagerstream\neagerstream.stream\neagerstream.Recording\n"
    assert _python(script + "print({'anthropic', 'httpx', 'httpx2'} & set(sys.modules))") == "set()\n"


def test_what_only_errors_need_is_loaded_by_errors() -> None:
    """A program that streams, over HTTP or from a recording, compiles no patterns of secrets before it has to."""
    script = "import sys, eagerstream\neagerstream.stream\neagerstream.Recording\n"
    script += "eagerstream.HTTPTransport(base_url='http://gateway')\n"
    heavy = {"eagerstream.redaction", "eagerstream.redacted_body", "pydantic", "docstring_parser", "jsonschema"}
    assert _python(script + f"print({heavy!r} & set(sys.modules))") == "set()\n"


@pytest.mark.parametrize(
    "first",
    [
        "import eagerstream.stream",
        "import eagerstream.run",
        "import eagerstream.run.loop",
        "from eagerstream import stream",
        "from eagerstream import run",
        "from eagerstream.stream import MessageStream",
        "from eagerstream.run.loop import Run",
        "from eagerstream.run import turn",
        "import eagerstream.tools",
        "import eagerstream.growing, eagerstream.run.turn, eagerstream.transports",
        "import importlib; importlib.import_module('eagerstream.stream')",
        "from eagerstream import *",
        "import eagerstream; eagerstream.run; import eagerstream.stream; eagerstream.stream",
    ],
)
@pytest.mark.slow
def test_functions_with_the_names_of_modules(first: str) -> None:
    """`stream`, `run` and `tool` are functions, whatever was imported before them."""
    script = (
        f"{first}\n"
        "import eagerstream, types\n"
        "import eagerstream.stream, eagerstream.run.loop\n"
        "for name in ('stream', 'run', 'tool'):\n"
        "    assert isinstance(getattr(eagerstream, name), types.FunctionType), name\n"
        "from eagerstream import run, stream\n"
        "assert isinstance(run, types.FunctionType) and isinstance(stream, types.FunctionType)\n"
        "from eagerstream.stream import read_reply\n"
        "from eagerstream.run.turn import settle\n"
    )
    _python(script)


def test_the_version_is_typed() -> None:
    """Type checkers are told that there are types."""
    assert (_SOURCE.parent / "py.typed").exists()


_PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
_COMPILED = _PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["modules"]


@pytest.mark.skipif("EAGERSTREAM_EXPECT" not in os.environ, reason="says which wheel is installed: pure or compiled")
@pytest.mark.parametrize("name", _COMPILED)
def test_the_flavor_of_the_wheel(name: str) -> None:
    """A compiled wheel in which a module is not compiled would pass all other tests, and be slow."""
    assert _is_compiled(name) is (os.environ["EAGERSTREAM_EXPECT"] == "compiled")
    assert (_SOURCE.parent.parent / f"{name.replace('.', '/')}.py").exists(), "tracebacks read the source"
