"""The kind of a tool, by its definition: the side that runs its calls, its allowed fields, and the beta it needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

USER_DEFINED: Final = "custom"
"""The kind of a user's own tool. The others are tools whose schema the API brings."""

EAGER_FIELD: Final = "eager_input_streaming"
"""Requests an input as it is written. Only the definitions of user-defined tools may have it, with any value."""

LEGACY_BETA: Final = "fine-grained-tool-streaming-2025-05-14"
"""The beta that preceded the field. It applies to all tools of a request."""

EagerSupport: TypeAlias = Literal["any", "field", "header", "none"]
"""Ways to request eager input streaming that a model accepts: the field on a tool, the header with the legacy beta."""

ToolClass: TypeAlias = Literal["user", "anthropic_client", "server", "opaque"]
"""The side that runs the calls of a tool.

`"user"`: here, by a schema of the user's own. `"anthropic_client"`: here, by a schema that the API brings. `"server"`:
at the API, or at an MCP server that it asks. `"opaque"`: not known.
"""

_CLASSES: Final[Mapping[str, ToolClass]] = {
    USER_DEFINED: "user",
    "bash": "anthropic_client",
    "browser_toolset": "anthropic_client",
    "computer": "anthropic_client",
    "computer_toolset": "anthropic_client",
    "memory": "anthropic_client",
    "text_editor": "anthropic_client",
    "advisor": "server",
    "code_execution": "server",
    "mcp_toolset": "server",
    "tool_search_tool_bm25": "server",
    "tool_search_tool_regex": "server",
    "web_fetch": "server",
    "web_search": "server",
}
"""The class of each family: the kind without its date."""

_DATE: Final = re.compile(r"_[0-9]{8}$")

_PINNED_MCP_TOOLS: Final = "mcp-client-2026-09-15"
_BETAS: Final[Mapping[str, tuple[str, ...]]] = {
    "advisor_20260301": ("advisor-tool-2026-03-01",),
    "bash_20241022": ("computer-use-2024-10-22",),
    "computer_20241022": ("computer-use-2024-10-22",),
    "computer_20250124": ("computer-use-2025-01-24",),
    "computer_20251124": ("computer-use-2025-11-24",),
    "mcp_toolset": ("mcp-client-2025-11-20", _PINNED_MCP_TOOLS),
    "text_editor_20241022": ("computer-use-2024-10-22",),
}
"""Betas that let the API accept a kind of tool. Any one of them is sufficient; the first is the default.

The kinds are those of `BetaToolUnionParam` of the anthropic package 2.12.0 that its `ToolUnionParam` does not have.
Source of the betas: https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-reference
"""


def tool_kind(definition: Mapping[str, Any]) -> str:
    """Return the `type` of a definition; `USER_DEFINED` if it has none."""
    return str(definition.get("type") or USER_DEFINED)


def tool_family(definition: Mapping[str, Any]) -> str:
    """Return the `type` of a definition without the date of its version, for example `"web_search"`."""
    return _DATE.sub("", tool_kind(definition))


def classify(definition: Mapping[str, Any] | str) -> ToolClass:
    """Return the side that runs the calls of a tool, by the `type` of its definition.

    Example: `classify("web_search_20260318")`. The date is ignored: a version newer than this library, or without a
    date (`"tool_search_tool_regex"`), belongs to its family. The API has never moved a family to the other side. If a
    new version were treated as unknown, it would go unanswered, or be refused, without need.

    Args:
        definition: The definition in the API's form (for example `tool.to_dict()`), or only its `type`. Without a
            `type`, or with `"custom"`, it is a user's.
    """
    kind = {"type": definition} if isinstance(definition, str) else definition
    return _CLASSES.get(tool_family(kind), "opaque")


def accepted_betas(definition: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the betas of which a request with this tool needs one. It is empty if the tool needs none.

    The first one is the default. A newer version of a beta includes the features of the earlier version.
    """
    kind = tool_kind(definition)
    if kind == "mcp_toolset" and definition.get("tools") is not None:
        return (_PINNED_MCP_TOOLS,)
    return _BETAS.get(kind, ())


def betas_for(definitions: Iterable[Mapping[str, Any]], given: Iterable[str] = ()) -> list[str]:
    """Return the betas to add to a request with these tools, each once, in the order of the tools.

    Args:
        definitions: The tools, in the API's form. If a kind is unknown, it needs no beta.
        given: The betas that the request already has. A tool that one of them covers adds none.
    """
    known = dict.fromkeys(given)
    added: list[str] = []
    for definition in definitions:
        accepted = accepted_betas(definition)
        if accepted and known.keys().isdisjoint(accepted):
            known[accepted[0]] = None
            added.append(accepted[0])
    return added


def forbids_legacy_beta(definition: Mapping[str, Any]) -> bool:
    """Return True if the API refuses `LEGACY_BETA` in a request with this tool."""
    return tool_family(definition) in ("browser_toolset", "computer_toolset")
