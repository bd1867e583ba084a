"""`lazy_exports`: import the names of a package at their first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazy_exports(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package.

    A heavy module, or one that needs an extra, then costs nothing until one of its names is used. Type checkers read a
    block of ordinary imports under `TYPE_CHECKING`; a test compares the two lists.

    Args:
        package: The package's `__name__`.
        modules: For each module, relative to the package (`"._tool"`), the names to export from it.
    """
    homes = {name: module for module, names in modules.items() for name in names}
    exported = sorted(homes)

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: exported, exported
