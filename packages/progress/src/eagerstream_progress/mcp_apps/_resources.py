"""`ui_resources`: the tools that have an app, from the metadata of their MCP server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from eagerstream.tools import Tool

_MAX_URI_CHARS: Final = 2_000


def ui_resources(tools: Iterable[Tool]) -> dict[str, str]:
    """Return the URI of the app of each tool that has one, by the tool's name.

    ::

        tools = await mcp_tools(session)
        app = mcp_apps_app(hub, ui_resources(tools))

    The URI is `_meta.ui.resourceUri` of the MCP tool, see `Tool.meta`. The older `_meta["ui/resourceUri"]` counts if
    that is missing. A URI that does not start with `ui://`, or has more than 2,000 characters, is left out.
    """
    found: dict[str, str] = {}
    for tool in tools:
        ui = tool.meta.get("ui")
        uri = (ui.get("resourceUri") if isinstance(ui, Mapping) else None) or tool.meta.get("ui/resourceUri")
        if isinstance(uri, str) and uri.startswith("ui://") and len(uri) <= _MAX_URI_CHARS:
            found[tool.name] = uri
    return found
