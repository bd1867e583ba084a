"""The sources of the packages of this repository: which modules there are, and what each imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Set as AbstractSet
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]

_IMPORT: Final = re.compile(r"^[ \t]*(from [.\w]+ import (?:\([^)]*\)|.*)|import [\w., ]+)", re.MULTILINE)


def sources() -> dict[str, Path]:
    """The folder of the sources of each package, by the name under which it is imported."""
    return {folder.name: folder for folder in (ROOT / "src/eagerstream", *sorted(ROOT.glob("packages/*/src/*")))}


@cache
def modules(package: str) -> dict[str, Path]:
    """The modules of a package, with their files. A folder with an `__init__.py` has its name."""
    folder = sources()[package]
    return {
        ".".join(file.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__"): file
        for file in sorted(folder.rglob("*.py"))
    }


def imports(module: str, file: Path) -> Iterator[tuple[str, list[str]]]:
    """What a module imports anywhere, also for type checkers: the absolute name of each module, and names from it."""
    # Lines that look like imports are parsed 20 times as fast as all lines. A line in a string may look like one.
    tree = ast.parse("\n".join(_IMPORT.findall(file.read_text(encoding="utf-8"))))
    package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    yield from imports_of(tree, package)


def imports_of(tree: ast.Module, package: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The same for the code of a module in this package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*above, *filter(None, [node.module])])
            if node.module is None:
                yield from ((f"{name}.{alias.name}", []) for alias in node.names)
            else:
                yield name, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)


def order_of_modules(package: str) -> list[str]:
    """An order in which a reader can open the modules of a package, each after those that it uses.

    Raises:
        graphlib.CycleError: There is a circle, perhaps of imports for type checkers.
    """
    files = modules(package)
    used = {
        module: {name for name, _ in imports(module, file) if name in files}
        for module, file in files.items()
        if file.name != "__init__.py"
    }
    return list(TopologicalSorter(used).static_order())


def check_mirrored(
    modules: AbstractSet[str], tests: AbstractSet[str], without: Mapping[str, str], behaviours: Mapping[str, str]
) -> None:
    """Check that whoever opens a module finds its tests by its name, and whoever opens a test file finds its module.

    Args:
        modules: Paths of modules, as `loop/_run`.
        tests: Paths of test files, as `loop/run`.
        without: Modules without a test file of their name, and the reason.
        behaviours: Test files that are named after a behaviour of several modules.
    """
    assert without.keys() <= modules
    tested = {re.sub(r"(^|/)_(?=[^/]*$)", r"\1", module) for module in modules - without.keys()}
    assert tested - tests == set(), "modules without a test file of their name"
    assert tests - tested == behaviours.keys(), "test files without a module of their name"
