"""Helpers that combine a builtin tool's definition and defaults with the user's options."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, cast

from eagerstream._support.checks import check_positive
from eagerstream._support.terms import IN_DEFINITION
from eagerstream.errors import UsageError
from eagerstream.tools import ToolOptions


def with_definition(
    definition: Mapping[str, Any], options: ToolOptions, *, takes: Collection[str] = IN_DEFINITION
) -> ToolOptions:
    """Return the options with this definition. Options named in `takes` move into the definition.

    Raises:
        UsageError: The options have a definition of their own.
    """
    if "definition" in options:
        raise UsageError(f"the definition of {definition.get('name', definition['type'])} is fixed by its type")
    inside = {name: value for name, value in options.items() if name in takes and value is not None}
    others = {name: value for name, value in options.items() if name not in takes}
    return cast("ToolOptions", {**others, "definition": {**definition, **inside}})


def group_of(jail_identity: str) -> str:
    """Return the group of all tools on one folder. Their calls run one at a time, in call order."""
    return f"files {jail_identity}"


_TIMEOUT_S: Final = 30.0
_GRACE_S: Final = 5.0
"""Time for ending the work and returning a result."""


def take_time_limit_s(options: ToolOptions) -> float:
    """Return the time limit of the tool's work in seconds: its option `timeout_s`, 30 by default.

    This sets the option to 5 seconds more. A tool cancelled by its own timeout could not return a result.

    Raises:
        UsageError: `timeout_s` is not a number greater than 0.
    """
    given_s = options.get("timeout_s")
    timeout_s = _TIMEOUT_S if given_s is None else given_s
    check_positive("timeout_s", timeout_s)
    options["timeout_s"] = timeout_s + _GRACE_S
    return timeout_s
