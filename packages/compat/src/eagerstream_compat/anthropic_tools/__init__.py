"""anthropic-tools on this library's loop: `BaseTool`, `ToolUser`, and their message format.

The authors of anthropic-tools have deprecated it. Importing this module warns of that once.
"""

from typing import TYPE_CHECKING, NoReturn

from .._departed import departed
from .._deprecation import deprecated
from ._base_tool import BaseTool
from ._checks import Validate
from ._history import check_messages, from_history, to_history
from ._manual import ahandle_manual_claude_res, handle_manual_claude_res
from ._search import BackendSearchTool, BaseSearchResult, BaseSearchTool, SearchBackend
from ._sql_tool import SQLTool
from ._tool_user import ExecutionMode, ToolUser
from ._web_search import BraveSearchTool, WikipediaSearchTool

__all__ = [
    "BackendSearchTool",
    "BaseSearchResult",
    "BaseSearchTool",
    "BaseTool",
    "BraveSearchTool",
    "ExecutionMode",
    "SQLTool",
    "SearchBackend",
    "ToolUser",
    "Validate",
    "WikipediaSearchTool",
    "ahandle_manual_claude_res",
    "check_messages",
    "from_history",
    "handle_manual_claude_res",
    "to_history",
]

if not TYPE_CHECKING:  # type checkers know all names

    def __getattr__(name: str) -> NoReturn:
        raise departed(__name__, name)


deprecated(
    "eagerstream_compat.anthropic_tools",
    "write tools as functions with @eagerstream.tool, and run them with eagerstream.run",
)
