"""What goes into an environment of the matrix, read from pyproject.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[2]

EXTRAS: Final = ("all", "bedrock", "vertex")
"""The other packages, and the clients of other platforms."""

_TOOLS: Final = frozenset(
    {"aiohttp", "httpx2", "hypothesis", "pytest", "pytest-timeout", "pytest-xdist", "trio", "trustme", "uvloop"}
)
# Needs newer versions of our dependencies than we do, and the oldest anthropic package has no helpers for it.
_NEWER_TOOLS: Final = frozenset({"mcp"})


def pyproject(folder: Path = ROOT) -> dict[str, Any]:
    """The pyproject.toml of a package; of the core if no folder is given."""
    with (folder / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)


def project() -> dict[str, Any]:
    """The `[project]` of pyproject.toml."""
    table: dict[str, Any] = pyproject()["project"]
    return table


def group_of_tests() -> list[str]:
    """The dependency group `test` of pyproject.toml."""
    lines: list[str] = pyproject()["dependency-groups"]["test"]
    return lines


def tools_for(*, oldest: bool) -> list[str]:
    """What the tests need besides, as the dependency group `test` asks for it."""
    wanted = _TOOLS if oldest else _TOOLS | _NEWER_TOOLS
    return [line for line in group_of_tests() if canonicalize_name(Requirement(line).name) in wanted]


def lower_bounds(lines: Iterable[str]) -> list[str]:
    """Constraints that hold each requirement with a lower bound down to it: `"anyio>=4.7"` becomes `"anyio==4.7"`."""
    return [
        f"{requirement.name}=={bound.version}"
        for requirement in map(Requirement, lines)
        for bound in requirement.specifier
        if bound.operator == ">="
    ]


def dependencies() -> list[str]:
    """What our packages and these extras ask for."""
    optional = project()["optional-dependencies"]
    members = [
        line
        for file in ROOT.glob("packages/*/pyproject.toml")
        for line in pyproject(file.parent)["project"]["dependencies"]
    ]
    return [*project()["dependencies"], *members, *(line for name in EXTRAS for line in optional[name])]


def oldest_constraints() -> list[str]:
    """The oldest declared versions of all our dependencies but the anthropic package, which each row asks for itself."""
    bounds = dict.fromkeys(lower_bounds(dependencies()))
    return [bound for bound in bounds if not bound.startswith(("anthropic==", "eagerstream"))]
