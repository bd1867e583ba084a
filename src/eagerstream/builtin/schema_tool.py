"""Options of the tools whose schema the API knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from ..errors import UsageError
from ..tools import ToolOptions

_IN_DEFINITION: Final = ("strict", "cache_control", "defer_loading", "allowed_callers", "input_examples")


def with_definition(definition: Mapping[str, Any], options: ToolOptions) -> ToolOptions:
    """The options with this definition, which takes those that belong into it.

    Raises:
        UsageError: The options have a definition of their own.
    """
    if "definition" in options:
        raise UsageError(f"the definition of {definition['name']} is given by its type")
    inside = {name: value for name, value in options.items() if name in _IN_DEFINITION and value is not None}
    others = {name: value for name, value in options.items() if name not in _IN_DEFINITION}
    return cast("ToolOptions", {**others, "definition": {**definition, **inside}})


def in_turn(jail_identity: str, options: ToolOptions) -> ToolOptions:
    """The options with a group, where they have none: tools on one folder run one at a time, in call order."""
    return options if options.get("group") else {**options, "group": group_of(jail_identity)}


def group_of(jail_identity: str) -> str:
    """The group of all tools on one folder."""
    return f"files {jail_identity}"
