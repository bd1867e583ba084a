"""anthropic-tools, on this library's loop: `BaseTool`, `ToolUser`, and their message format.

The library is deprecated by its authors: importing this says so, once.
"""

from ..deprecation import deprecated
from .base_tool import BaseTool
from .history import from_history, to_history
from .manual import ahandle_manual_claude_res, handle_manual_claude_res
from .messages import check_messages
from .search import (
    BackendSearchTool,
    BaseSearchResult,
    BaseSearchTool,
    BraveSearchTool,
    SearchBackend,
    WikipediaSearchTool,
)
from .tool_user import ToolUser

__all__ = [
    "BackendSearchTool",
    "BaseSearchResult",
    "BaseSearchTool",
    "BaseTool",
    "BraveSearchTool",
    "SearchBackend",
    "ToolUser",
    "WikipediaSearchTool",
    "ahandle_manual_claude_res",
    "check_messages",
    "from_history",
    "handle_manual_claude_res",
    "to_history",
]

deprecated(
    "eagerstream.compat.anthropic_tools",
    "write tools as functions with @eagerstream.tool, and run them with eagerstream.run",
)
