"""MCP Apps (SEP-1865): notifications for the app of an MCP tool, while the model still writes the tool's input.

A *host* is a program that shows the apps of MCP servers, each in a sandboxed frame. `MCPAppsEncoder` turns the records
of a run into the notifications that a host sends to an app. `mcp_apps_app` streams them to the page of a host in a
browser, which passes each one to `AppBridge.notification` of the package `@modelcontextprotocol/ext-apps`.

An app gets, in this order:

- `ui/notifications/tool-input-partial`: any number of times, the best-effort arguments so far;
- `ui/notifications/tool-input`: once, the complete arguments;
- `ui/notifications/tool-result` with a `CallToolResult`, or `ui/notifications/tool-cancelled` with a reason. If the
  arguments never became complete, `tool-cancelled` comes without `tool-input`.

Numbers are JavaScript's: integers beyond 2 ** 53 lose their last digits on the page.
"""

from ._app import mcp_apps_app
from ._encoder import AppMessage, MCPAppsEncoder
from ._resources import ui_resources

__all__ = ["AppMessage", "MCPAppsEncoder", "mcp_apps_app", "ui_resources"]
