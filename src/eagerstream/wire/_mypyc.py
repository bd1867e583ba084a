"""Declarations for mypyc, which compiles the wheel, and what it has compiled."""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader
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


def is_compiled() -> bool:
    """Return True if the wire core of this process is compiled, and False if it runs as plain Python.

    `pip install eagerstream` installs the compiled one if there is a wheel for the platform and the version of Python.
    If the environment has `EAGERSTREAM_PURE=1`, a process runs the sources that are in each wheel.
    """
    from . import _partial_json  # here: it imports this module

    return isinstance(_partial_json.__loader__, ExtensionFileLoader)


__all__ = ["is_compiled", "mypyc_attr"]
