"""Declarations for mypyc, which compiles the wheel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:
    # mypyc recognizes the decorator by its name and never calls it; mypy_extensions would be one more dependency.
    T = TypeVar("T")

    def mypyc_attr(**_: object) -> Callable[[type[T]], type[T]]:
        """Return a decorator that leaves the class unchanged.

        Every compiled class that may have subclasses needs `@mypyc_attr(allow_interpreted_subclasses=True)`. Without
        it, a subclass in plain Python is refused when its first instance is made.
        """
        return lambda compiled: compiled


__all__ = ["mypyc_attr"]
