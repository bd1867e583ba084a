"""Of which kind a tool is, by its definition, and so what the definition may carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

USER_DEFINED: Final = "custom"
"""The kind of a tool of the user's own; the others are tools whose schema the API brings."""

EAGER_FIELD: Final = "eager_input_streaming"
"""Asks for an input as it is written. Only the definitions of user-defined tools may carry it, with any value."""

LEGACY_BETA: Final = "fine-grained-tool-streaming-2025-05-14"
"""The beta that came before the field, and asks for all tools of a request."""

EagerSupport: TypeAlias = Literal["any", "field", "header", "none"]
"""Which ways to ask for eager input streaming a model takes: the field on a tool, the header with the legacy beta."""


def tool_kind(definition: Mapping[str, Any]) -> str:
    """The `type` of a definition; `USER_DEFINED` where it has none."""
    return str(definition.get("type") or USER_DEFINED)
