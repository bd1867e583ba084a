"""The public names of the package: each with the one place that the reference gives it."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import textwrap
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, is_typeddict

from tests.source_tree import modules, sources

ELSEWHERE: Final = ("eagerstream_testing.demos",)
"""Modules that are no API: what `eagerstream demo` plays."""


@dataclass(frozen=True, kw_only=True)
class PublicName:
    """A name that the documentation lists.

    Attributes:
        module: The public module to import it from: of the package that defines it, the root if that has it.
        name: The name in that module.
        value: The class, function, alias or constant.
        aliases: Full names under which other public modules have the same object.
    """

    module: str
    name: str
    value: Any
    aliases: tuple[str, ...] = ()

    @property
    def full(self) -> str:
        """The name with its module."""
        return f"{self.module}.{self.name}"

    @property
    def definition(self) -> str:
        """The full name in the module that defines it, which is often private."""
        if inspect.isclass(self.value) or inspect.isroutine(self.value):
            return f"{self.value.__module__}.{self.value.__qualname__}"
        return self.full


@cache
def public_modules() -> tuple[str, ...]:
    """Return the packages and all their modules without an underscore in their path."""
    names = (name for package in sources() for name in modules(package))
    shown = (name for name in names if not any(part.startswith("_") for part in name.split(".")))
    return tuple(sorted(name for name in shown if not name.startswith(ELSEWHERE)))


@cache
def public_names() -> Mapping[str, PublicName]:
    """Return all public names, by their full name."""
    homes: dict[tuple[str, int], list[str]] = {}
    values: dict[str, Any] = {}
    for module_name in public_modules():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # importing a module for older programs says that it is for them
            module = importlib.import_module(module_name)
        for name in _exported(module):
            value = getattr(module, name)
            homes.setdefault((name, id(value)), []).append(module_name)
            values[f"{module_name}.{name}"] = value
    names = {}
    for (name, _), places in homes.items():
        value = values[f"{places[0]}.{name}"]
        home = _home(places, value)
        aliases = tuple(f"{module}.{name}" for module in places if module != home)
        names[f"{home}.{name}"] = PublicName(module=home, name=name, value=value, aliases=aliases)
    return names


def _exported(module: ModuleType) -> list[str]:
    listed: list[str] | None = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    # A module without `__all__` exports what it defines itself, not what it imports.
    return [name for name in _assigned(module) if not name.startswith("_")]


def _assigned(module: ModuleType) -> Iterator[str]:
    for node in ast.parse(inspect.getsource(module)).body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case _:
                pass


def _home(places: list[str], value: object) -> str:
    """Return the module to import a name from: in the package that defines it, its root or the nearest one."""
    defined_in = getattr(value, "__module__", None) or ""
    package = defined_in.partition(".")[0]
    if not package.startswith("eagerstream"):
        package = "eagerstream_wire"  # a constant or an alias: the core exports those of the package below it, too
    return min(
        places,
        key=lambda module: (
            module.partition(".")[0] != package,
            module.count("."),
            not f"{defined_in}.".startswith(f"{module}."),
        ),
    )


@cache
def by_definition() -> Mapping[str, PublicName]:
    """Return the public names by every full name that code may use for them."""
    found = {}
    for name in public_names().values():
        found.update(dict.fromkeys((name.full, name.definition, *name.aliases), name))
    return found


def resolve(text: str, module: str, owner: str = "") -> str | None:
    """Return the full name that a docstring or an annotation means, or None if it is no public name.

    Args:
        text: `Run`, `Run.cancel`, `eagerstream.run`, `run()` or a name in a private module.
        module: The module whose text it is. A name of that module, or of a package around it, wins.
        owner: Full name of the class whose text it is, if any. Its own members win.
    """
    text = text.removesuffix("()").removeprefix("~")
    if owner in public_names() and (own := _member(public_names()[owner], text)):
        return own
    parts = text.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    if name := _named(text, module):
        return name.full
    name = _named(".".join(parts[:-1]), module)
    return _member(name, parts[-1]) if name else None


def _member(name: PublicName, member: str) -> str | None:
    """Return the full name of a member of a class: the reference shows it under the class or a public base."""
    if not isinstance(name.value, type) or member.startswith("_"):
        return None
    for base in name.value.__mro__:
        if (place := by_definition().get(f"{base.__module__}.{base.__qualname__}")) and member in members(base):
            return f"{place.full}.{member}"
    return None


def _named(text: str, module: str) -> PublicName | None:
    if found := by_definition().get(text):
        return found
    if text.startswith("eagerstream"):
        return None
    around = module.split(".")
    for length in range(len(around), 0, -1):
        if found := by_definition().get(".".join((*around[:length], text))):
            return found
    same = {name.full for name in public_names().values() if f".{name.full}".endswith(f".{text}")}
    return public_names()[same.pop()] if len(same) == 1 else None


def members(value: type) -> frozenset[str]:
    """Return the members of a class that the reference shows under it."""
    shown: set[str] = set()
    for number, base in enumerate(value.__mro__):
        if number and (not base.__module__.startswith("eagerstream") or is_public(base)):
            continue  # a public base has them itself
        shown |= {name for name, member in vars(base).items() if _is_documented(member)}
        shown |= set(attribute_docs(base)) | (set(own_keys(base)) if is_typeddict(base) else set())
        shown |= {name for name in vars(base) if name.isupper()}  # members of enums, and constants
    return frozenset(name for name in shown if not name.startswith("_"))


def _is_documented(member: object) -> bool:
    return (inspect.isroutine(member) or isinstance(member, property | classmethod | staticmethod)) and bool(
        inspect.getdoc(member)
    )


def is_public(value: type) -> bool:
    """Return True if a class has a public name."""
    return f"{value.__module__}.{value.__qualname__}" in by_definition()


def attribute_docs(value: type) -> dict[str, list[str]]:
    """Return what the docstring of a class says in `Attributes:`, lines by name.

    Names that share a text (`a, b: Text`) get it each.
    """
    doc = inspect.cleandoc(value.__doc__ or "").splitlines()
    found: dict[str, list[str]] = {}
    names: list[str] = []
    inside = False
    for line in doc:
        if line == "Attributes:":
            inside = True
        elif inside and line and not line.startswith(" "):
            break
        elif inside and line.startswith("    ") and not line.startswith("     "):
            head, _, text = line.strip().partition(": ")
            names = [name.strip(" `").removesuffix(":") for name in head.split(",")]
            found.update({name: [text] for name in names})
        elif inside:
            for name in names:
                found[name].append(line[8:])
    return found


def own_keys(value: Any) -> list[str]:
    """Return the keys that a `TypedDict` has beyond those of its bases."""
    inherited = {key for base in typed_dict_bases(value) for key in base.__annotations__}
    return [key for key in value.__annotations__ if key not in inherited]


def typed_dict_bases(value: Any) -> list[Any]:
    """Return the `TypedDict`s that one is derived from: before Python 3.12, only its source knows them."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(value))).body
    assert isinstance(node, ast.ClassDef)
    space = vars(sys.modules[value.__module__])
    return [base for base in (space.get(ast.unparse(base)) for base in node.bases) if is_typeddict(base)]


@dataclass(frozen=True)
class Assignment:
    """A constant or a type alias in the source."""

    value: str
    annotation: str
    doc: str


def assignment(name: PublicName) -> Assignment | None:
    """Return how the source defines a constant or an alias: autodoc does not follow imports to it."""
    module, wanted = name.module, name.name
    for _ in range(5):
        source = Path(sys.modules[module].__file__ or "")
        body = _statements(ast.parse(source.read_text(encoding="utf-8")).body)
        following: dict[str, tuple[str, str]] = {}
        for node, after in zip(body, [*body[1:], None], strict=True):
            doc = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                doc = inspect.cleandoc(str(after.value.value))
            match node:
                case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value) if target == wanted:
                    return Assignment(ast.unparse(value), ast.unparse(node.annotation), doc)
                case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == wanted:
                    return Assignment(ast.unparse(value), "", doc)
                case ast.ImportFrom():
                    for alias in node.names:
                        following[alias.asname or alias.name] = (_absolute(node, module, source), alias.name)
                case _:
                    pass
        if wanted not in following:
            return None
        module, wanted = following[wanted]
        importlib.import_module(module)
    return None


def _statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements of a module, those under `if TYPE_CHECKING:` among them."""
    return [inner for node in body for inner in ([node, *node.body] if isinstance(node, ast.If) else [node])]


def _absolute(node: ast.ImportFrom, module: str, source: Path) -> str:
    if not node.level:
        return node.module or ""
    package = module if source.name == "__init__.py" else module.rpartition(".")[0]
    above = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join((*above, *([node.module] if node.module else [])))
