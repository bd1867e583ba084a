"""Options that builtin tools take from their users, and what they add to them or change."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, Unpack, cast

from ..errors import UsageError
from ..tools import IN_DEFINITION, ToolOptions
from ..wire import check_positive


def with_definition(
    definition: Mapping[str, Any], options: ToolOptions, *, takes: Collection[str] = IN_DEFINITION
) -> ToolOptions:
    """The options with this definition, which takes those that belong into it.

    Raises:
        UsageError: The options have a definition of their own.
    """
    if "definition" in options:
        raise UsageError(f"the definition of {definition.get('name', definition['type'])} is given by its type")
    inside = {name: value for name, value in options.items() if name in takes and value is not None}
    others = {name: value for name, value in options.items() if name not in takes}
    return cast("ToolOptions", {**others, "definition": {**definition, **inside}})


def with_defaults(options: ToolOptions, **defaults: Unpack[ToolOptions]) -> ToolOptions:
    """The options, and the defaults of those that are missing, or None."""
    given = {name: value for name, value in options.items() if value is not None or name not in defaults}
    return cast("ToolOptions", {**defaults, **given})


def group_of(jail_identity: str) -> str:
    """The group of all tools on one folder: they run one at a time, in call order."""
    return f"files {jail_identity}"


_TIMEOUT_S: Final = 30.0
_GRACE_S: Final = 5.0
"""To end what was begun, and to answer."""


def take_time_limit_s(options: ToolOptions) -> float:
    """Seconds that the tool's work may take: its option `timeout_s`, 30 by default.

    The option itself is set a little higher, for whoever runs the tool: a tool that is cancelled cannot answer.

    Raises:
        UsageError: It is no number, or not more than 0.
    """
    given_s = options.get("timeout_s")
    timeout_s = _TIMEOUT_S if given_s is None else given_s
    check_positive("timeout_s", timeout_s)
    options["timeout_s"] = timeout_s + _GRACE_S
    return timeout_s
