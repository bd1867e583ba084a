"""What mypyc must be told in the source, for the compiled wheel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:
    # mypyc knows the decorator by its name, and never calls it; mypy_extensions would be one more dependency.
    T = TypeVar("T")

    def mypyc_attr(**_: object) -> Callable[[type[T]], type[T]]:
        """A decorator that leaves the class as it is.

        `@mypyc_attr(allow_interpreted_subclasses=True)` is for every compiled class that may be derived from: without
        it, a subclass in plain Python is refused when its first instance is made.
        """
        return lambda compiled: compiled


__all__ = ["mypyc_attr"]
