"""How a tool is named to an actor: by module and name; what no module has goes along by value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...tools import Tool
from ...workers import _references as references

_STAY = ("approve", "guard")
"""Options that are asked in the executor's process, and may refer to what cannot leave it."""


@dataclass(frozen=True, slots=True)
class _Carried:
    """A function that goes along, with the options that made it a tool."""

    function: Callable[..., Any]
    options: dict[str, Any]

    def tool(self) -> Tool:
        return Tool(self.function, **self.options)


def reference_to(tool: Tool) -> bytes:
    """As `workers.references.reference_to`; a worker's main module is Ray's, so what is in ours is carried.

    Raises:
        ValueError: It cannot be named, nor carried; the text says why.
    """
    is_ours = getattr(tool.__wrapped__, "__module__", None) == "__main__"
    if not (is_ours and tool.bound_to is None):
        return references.reference_to(tool, pickled=_pickled)
    options = {name: value for name, value in tool.options.items() if name not in _STAY}
    try:
        return _pickled(_Carried(tool.__wrapped__, options))
    except Exception as error:  # any code may run in here
        raise ValueError(f"cannot be sent to another process: {error}") from None


def _pickled(value: object) -> bytes:
    from ray import cloudpickle

    dumps: Callable[[object], bytes] = cloudpickle.dumps
    return dumps(value)
