"""References to tools for another process, which makes the tool again: by module and name, or from its parts."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from eagerstream.tools import Tool

from ._crossing import dumps, loads

_LOCAL = "<locals>"
_STAY = ("approve", "guard")
"""Options that the executor's process evaluates. Other processes do not need them."""


def _named(module: str, path: str) -> Any:
    """Return a tool at module level, or in a class there; `__main__` is the program's main script."""
    return reduce(getattr, path.split("."), importlib.import_module(module))


def reference_to(tool: Tool, *, pickled: Callable[[Any], bytes] = dumps) -> bytes:
    """Return a reference to a tool, from which `tool_of` makes it in another process.

    The reference to a method contains its object in its current state: each process makes a copy, and keeps it.

    Args:
        tool: Any tool.
        pickled: Function that pickles. If it pickles functions by value, more tools can be referenced.

    Raises:
        ValueError: The tool cannot be referenced. The text gives the reason.
    """
    if places := _places(tool):
        return pickled(partial(_named, *places[0]))
    function = tool.__wrapped__
    instance, name = tool.bound_to, getattr(function, "__name__", "")
    make: partial[Any]
    if instance is not None and isinstance(getattr(instance, name, None), Tool):
        make, what = partial(getattr, instance, name), f"its {type(instance).__name__}"
    else:
        options = {name: value for name, value in tool.options.items() if name not in _STAY}
        runs = function if instance is None else partial(function, instance)
        make, what = partial(Tool, runs, **options), "its function"
    try:
        return pickled(make)
    except Exception as error:  # any code may run in here
        if _LOCAL in getattr(function, "__qualname__", ""):
            raise ValueError("is made inside a function: another process finds it at the level of a module") from None
        raise ValueError(f"cannot be sent to another process: {what} cannot be pickled ({error})") from None


def tool_of(reference: bytes) -> Tool:
    """Return the tool that `reference_to` was given, after importing its modules.

    Raises:
        TypeError: The object under its name is no tool.
        Exception: The import or the construction raised it.
    """
    found = loads(reference)()
    if not isinstance(found, Tool):
        raise TypeError(f"there is no tool, but {type(found).__name__}")
    return found


def _places(tool: Tool) -> list[tuple[str, str]]:
    """Return module and path of each place that holds the tool: usually the name of its function."""
    if tool.bound_to is not None:
        return []
    function = tool.__wrapped__
    module_name = getattr(function, "__module__", None)
    module = sys.modules.get(module_name or "")
    if module is None or module_name is None:
        return []
    path = getattr(function, "__qualname__", "")
    names = [path] if path and _LOCAL not in path else []
    names += [name for name, value in vars(module).items() if value is tool]
    return [
        (module_name, name)
        for name in names
        if (found := _found(module, name)) is tool
        or (isinstance(found, Tool) and found.__wrapped__ is tool.__wrapped__ and not tool.is_method)
    ]


def _found(module: object, path: str) -> object:
    for name in path.split("."):
        module = getattr(module, name, None)
    return module
