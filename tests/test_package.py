"""The package as a whole: its public names, and what importing it costs."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import eagerstream
import eagerstream_wire
from tests.source_tree import check_mirrored, imports, imports_of, modules, order_of_modules
from tests.tables import rows

_SOURCE = Path(eagerstream.__file__)


def _python(script: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _declared() -> list[str]:
    """The names that type checkers see."""
    nodes = [node for node in ast.parse(_SOURCE.read_text()).body if isinstance(node, ast.If)]
    (block,) = [node for node in nodes if ast.unparse(node.test) == "TYPE_CHECKING"]
    names: list[str] = []
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        if node.module == "eagerstream_wire":
            assert [alias.name for alias in node.names] == ["*"]
            names += set(eagerstream_wire.__all__) - {"EagerStreamError", "LimitError", "ProtocolError", "UsageError"}
            continue
        for alias in node.names:
            assert alias.asname == alias.name, "only `X as X` exports to type checkers"
            names.append(alias.name)
    return names


def test_type_checkers_see_the_public_names() -> None:
    """`__all__`, what is loaded lazily, and what type checkers see are the same names."""
    assert sorted(_declared()) == sorted(eagerstream.__all__)
    assert len(set(eagerstream.__all__)) == len(eagerstream.__all__)
    assert set(eagerstream.__all__) <= set(dir(eagerstream))


_ROOMS = (
    *("__main__", "_command"),
    *("loop", "streaming", "transports", "recordings", "calls", "tools", "inputs", "limits", "errors", "_support"),
)
"""From the top: a room imports those after it only."""


def _upwards(own: str, imported: Iterable[str]) -> Iterator[str]:
    """The imports that a module of the room `own` must not have."""
    for name in imported:
        package, *parts = name.split(".")
        if package == "eagerstream" and parts and _ROOMS.index(own) > _ROOMS.index(parts[0]):
            yield ".".join(parts)


def test_rooms_import_downwards() -> None:
    """No module imports a room above its own."""
    root = _SOURCE.parent
    rooms = {entry.stem for entry in root.iterdir() if entry.suffix == ".py" or (entry / "__init__.py").exists()}
    assert rooms - {"__init__"} == set(_ROOMS)
    for module, file in modules("eagerstream").items():
        _, *parts = module.split(".")
        if parts:
            assert list(_upwards(parts[0], (name for name, _ in imports(module, file)))) == [], file


def test_no_circle_of_imports() -> None:
    """A reader can open the modules one after the other, each after those that it uses. Imports for types count, too."""
    order = order_of_modules("eagerstream")
    assert order.index("eagerstream.tools._call") < order.index("eagerstream.loop._run")


def test_imports_upwards_are_found() -> None:
    """Of each form, wherever they stand."""
    source = """
if TYPE_CHECKING:
    from ..loop import (
        Run,
    )
def f():
    from .. import tools
    from . import _growing_input
    import eagerstream.streaming, eagerstream.inputs, eagerstream_wire
    from eagerstream.calls import EarlyCalls
"""
    imported = [name for name, _ in imports_of(ast.parse(source), ["eagerstream", "inputs"])]
    own = ["loop", "tools", "inputs._growing_input", "streaming", "inputs", "calls"]
    assert sorted(imported) == sorted([*(f"eagerstream.{name}" for name in own), "eagerstream_wire"])
    assert sorted(_upwards("inputs", imported)) == ["calls", "loop", "streaming", "tools"]


_TESTS = Path(__file__).parent

_WITHOUT_TESTS = {
    "__main__": "test_command.py starts programs with it",
    "_support/options": "tests of packages/toolkit have defaults of every tool",
    "_support/bodies": "packages/testing has bodies of every kind",
    "_support/guard": "test_every_server.py asks every server, past it",
    **{
        f"_support/{name}": "test_redaction.py and test_secret_shapes.py have secrets of every kind"
        for name in (
            "finding",
            "forms",
            "json_text",
            "names",
            "pem",
            "spans",
            "structure",
            "tokens",
            "windows",
            "words",
        )
    },
    "_support/error_groups": "test_hosted_tasks.py and tests/tools/test_response.py have groups of every form",
    "_support/checks": "packages/wire/tests/test_checks.py has the checks",
    "_support/logs": "tests of each package look at its logs",
    "_support/json_values": "tests/tools/test_content.py has values of every kind",
    "_support/slots": "tests/tools/test_slots.py has calls that wait for each other",
    "_support/typer_app": "the tests of each command run it",
    "_support/terms": "names of several packages; test_tool_kind.py and test_content.py have them",
    "calls/_call_ids": "test_conversation.py and test_run.py have ids that come twice",
    "calls/_sub_runs": "tests/loop/test_sub_runs.py has both halves of a sub-run",
    "loop/_continuing": "test_conversation.py and test_interruption.py have conversations at each bound",
    "loop/_course": "test_conversation.py and test_run.py follow it",
    "loop/_journal": "protocols without code; test_durability.py and packages/durable/tests/journal have journals",
    "loop/_keeper": "an interface that does nothing; every test of a run without a journal uses it",
    "loop/_resending": "test_message_thread.py and test_tool_changes.py have its two classes",
    "loop/_run_driver": "test_run.py has the tests of both halves of a run",
    "loop/_start_run": "each test of a run starts one",
    "loop/_turn_exchange": "test_run.py and test_early_start.py have its calls, test_interruption.py its ends",
    "loop/_written_response": "test_continued_features.py and test_continued_anywhere.py have responses of every kind",
    "streaming/_delivery": "test_event_feed.py has the consumer, test_observers.py those who look on",
    "streaming/_exchange": "test_reading.py reads with it",
    "streaming/_merged_event": "test_event_buffer.py and test_thinning.py merge events",
    "streaming/_types": "tests/types checks what they accept",
    "tools/_approval": "test_turn.py has approvals in a response",
    "transports/_error_responses": "test_failures.py has errors of both kinds",
    "transports/_client": "protocols without code; tests/types checks what they accept",
}
"""Modules of the core without a test file of their name, and the reason."""

_BEHAVIOURS = {
    "_support/secret_shapes": "`secrets` against the keys of many services, and against what the API sends",
    "calls/ways_to_feed": "bytes, wire events and the events of others give the same calls",
    "loop/begun_anew": "responses that begin anew",
    "loop/cancel_call": "`run.cancel_call()`",
    "loop/cancellation": "`run.cancel()`",
    "loop/cancelled_anywhere": "cancelled at every step",
    "loop/continued_anywhere": "odd responses, continued from each write of a journal",
    "loop/continued_features": "features of a run, continued from each write of a journal",
    "loop/early_start": "streaming tools, inside their own inputs",
    "loop/every_order": "the life of two calls in every order",
    "loop/guards": "guards, from the first fragment to the history",
    "loop/guessed_inputs": "inputs that other libraries guess",
    "loop/invalid_inputs": "`on_invalid`: who checks the next input",
    "loop/journal_failures": "a journal that fails, or loses the run",
    "loop/large": "much of everything",
    "loop/logs": "what is logged",
    "loop/odd_peers": "peers that break the protocol",
    "loop/path_to_a_tool": "the passes of the event loop between an input and its tool",
    "loop/properties": "laws over any conversation",
    "loop/server_tools": "tools that the API runs",
    "loop/tracebacks": "how long the traceback of an error is, and what it names",
    "loop/turns_of_the_loop": "the callbacks and timers that a chunk costs",
    "loop/waiting_runs": "the number of objects of a run that waits",
    "loop/ways_to_hold": "runs in generators, fixtures, sessions and notebooks",
    "loop/when_over": "the end of the state that tools keep for a run",
    "streaming/pings": "signs of life, and the age of the last byte",
    "streaming/flood": "a peer that sends without a pause, and whoever wants to stop it",
    "tools/repair": "inputs that a function of the user mends",
    "tools/slots": "how many calls run at once, in which order",
    "tools/official_tools": "tools of the anthropic package, through its client",
    "transports/as_transport": "which objects are clients",
    "transports/extras": "optional packages that are missing",
    "transports/flood": "peers that send without a pause, on every HTTP client",
    "transports/http_sockets": "the HTTP transport over real connections",
    "transports/platforms": "the clients of every platform",
}
"""Test files of the core that are named after a behaviour of several modules."""


def test_tests_mirror_the_core() -> None:
    """Whoever opens a module finds its tests by its name, and whoever opens a test file finds its module."""
    found: set[str] = set()
    tests: set[str] = set()
    for room in _ROOMS:
        folder = _SOURCE.parent / room
        if folder.is_dir():
            found |= {f"{room}/{file.stem}" for file in folder.rglob("*.py") if file.stem != "__init__"}
            tests |= {f"{room}/{file.stem.removeprefix('test_')}" for file in (_TESTS / room).rglob("test_*.py")}
        else:
            found.add(room)
            tests |= {room.removeprefix("_")} if (_TESTS / f"test_{room.removeprefix('_')}.py").exists() else set()
    check_mirrored(found, tests, _WITHOUT_TESTS, _BEHAVIOURS)


@rows("name", eagerstream.__all__)
def test_public_names(name: str) -> None:
    """Each is there, in the module that type checkers take it from, and says what it is."""
    value = getattr(eagerstream, name)
    assert not inspect.ismodule(value)
    if not inspect.isclass(value) and not inspect.isroutine(value):
        return  # a constant or a type alias, explained beside its definition
    assert inspect.getdoc(value), f"{name} has no docstring"
    if inspect.isclass(value):
        assert value.__doc__, f"{name} has no docstring of its own"
        assert not value.__doc__.startswith(f"{name}("), f"{name} has only the docstring that dataclasses make"


@rows("name", eagerstream.__all__)
def test_public_methods(name: str) -> None:
    """What one can call on a public class is explained too."""
    value = getattr(eagerstream, name)
    if not inspect.isclass(value):
        return
    for attribute, member in vars(value).items():
        if not attribute.startswith("_") and (inspect.isfunction(member) or isinstance(member, property | classmethod)):
            assert inspect.getdoc(member), f"{name}.{attribute} has no docstring"


def test_type_hints_of_typed_dicts() -> None:
    """Programs read them, for example to make a form or a command line of the options."""
    found = 0
    for room in ("", ".loop", ".streaming", ".tools", "_testing", "_progress", "_lab", ".transports"):
        module = importlib.import_module(f"eagerstream{room}")
        for value in (getattr(module, name) for name in getattr(module, "__all__", ())):
            if typing.is_typeddict(value):
                assert typing.get_type_hints(value), value
                found += 1
    assert found > 10


def test_a_name_that_is_not_there() -> None:
    """As with any module."""
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = eagerstream.__getattr__("nope")
    with pytest.raises(ImportError):
        exec("from eagerstream import nope")


def test_star_import() -> None:
    """All public names, and no other."""
    space: dict[str, Any] = {}
    exec("from eagerstream import *", space)
    assert set(space) - {"__builtins__"} == set(eagerstream.__all__)


_CLIENTS = {"anthropic", "httpx", "httpx2"}
_HEAVY = {*_CLIENTS, "anyio", "asyncio", "partial_json_parser", "pydantic"}
_STEPS = {
    "import eagerstream": {*_HEAVY, "trio", "rich", "typer", "uvicorn", "starlette"},
    "eagerstream.PartialJSON": {*_HEAVY, "trio", "rich", "typer", "uvicorn", "starlette"},
    # A recording is streamed without a client library.
    "eagerstream.stream, eagerstream.Recording": _CLIENTS,
    # A program that streams compiles no patterns of secrets before it has to.
    "eagerstream.HTTPTransport(base_url='http://gateway')": {
        *("eagerstream._support.redaction", "eagerstream.recordings._redacted_body"),
        *("pydantic", "docstring_parser", "jsonschema_rs"),
    },
}
"""What a program does, one step after the other, with the modules that must not be there then."""


def test_importing_is_cheap() -> None:
    """The heavy packages are loaded by what needs them, and not before."""
    script = "import sys\n" + "".join(
        f"{step}\nprint({heavy!r} & set(sys.modules))\n" for step, heavy in _STEPS.items()
    )
    assert dict(zip(_STEPS, _python(script).splitlines(), strict=True)) == dict.fromkeys(_STEPS, "set()")


def _exported(folder: Path) -> set[str]:
    """`__all__` of a package. If the source has it as a list, the package is not imported, nor is what it wraps."""
    source = (folder / "__init__.py").read_text(encoding="utf-8")
    if "__all__" not in source:
        return set()
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() as names):
                return set(ast.literal_eval(names))
            case _:
                pass
    package = importlib.import_module(".".join(("eagerstream", *folder.relative_to(_SOURCE.parent).parts)))
    return set(package.__all__)


def test_no_function_has_the_name_of_a_module() -> None:
    """Importing a module binds it in its package, where it would hide a function of the same name."""
    root = _SOURCE.parent
    for folder in (root, *(entry.parent for entry in root.rglob("*/__init__.py"))):
        modules = {
            entry.stem for entry in folder.iterdir() if entry.suffix == ".py" or (entry / "__init__.py").exists()
        }
        assert modules & _exported(folder) == set(), folder


def test_there_are_few_names() -> None:
    """Few are in the root, and not many in all: nobody learns more."""
    assert len(set(eagerstream.__all__) - set(eagerstream_wire.__all__)) <= 70
    root = _SOURCE.parent
    packages = {file.parent for file in root.rglob("__init__.py")} - {root}
    public = [path for path in packages if not any(name.startswith("_") for name in path.relative_to(root).parts)]
    assert sum(len(_exported(path)) for path in public) <= 440


def test_how_much_other_loops_load() -> None:
    """`EarlyCalls` is the door for authors of frameworks, who read what is behind it before they use it."""
    loaded = _python("""
import sys
from eagerstream import EarlyCalls
print(*(name for name in sys.modules if name.startswith(("eagerstream.", "eagerstream_"))))
""").split()
    assert {name.split(".")[1] for name in loaded if name.startswith("eagerstream.")} == {
        "_support",
        "calls",
        "errors",
        "inputs",
        "limits",
        "tools",
    }
    files = [{**modules("eagerstream"), **modules("eagerstream_wire")}[name] for name in loaded]
    assert len(files) <= 80
    assert sum(file.read_text(encoding="utf-8").count("\n") for file in files) <= 13_700


def test_the_version_is_typed() -> None:
    """Type checkers are told that there are types."""
    assert (_SOURCE.parent / "py.typed").exists()
