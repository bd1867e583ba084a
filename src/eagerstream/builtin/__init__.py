"""Tools that come with the library, ready to be given to `run(tools=[...])`; the rest of it knows nothing of them.

- Tools whose schema the API brings: `Bash`, `TextEditor`, `Memory`, `Computer` (with `ChromiumPage`, or a
  `ComputerHandler` of one's own), `BrowserToolset`.
- Tools with schemas of their own, whose inputs stream eagerly: `EagerTextEditor`, `Files`, `SQL` (extra `sql` for other
  databases than SQLite), `BraveSearch`, `WikipediaSearch`, `Calculator`.
- Definitions of tools that the API runs itself: `web_search`, `web_fetch`, `code_execution`, and more.

Names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bash import Bash as Bash
    from .browser_toolset import BrowserToolset as BrowserToolset
    from .calculator import Calculator as Calculator
    from .computer import ChromiumPage as ChromiumPage, Computer as Computer, ComputerHandler as ComputerHandler
    from .files import Edit as Edit, Files as Files, MultiEdit as MultiEdit, Read as Read, Write as Write
    from .jail import Jail as Jail
    from .memory import Memory as Memory
    from .search import (
        BraveSearch as BraveSearch,
        SearchPage as SearchPage,
        SearchResult as SearchResult,
        SearchTool as SearchTool,
        WikipediaSearch as WikipediaSearch,
    )
    from .server_tools import (
        advisor as advisor,
        code_execution as code_execution,
        mcp_toolset as mcp_toolset,
        tool_search_bm25 as tool_search_bm25,
        tool_search_regex as tool_search_regex,
        web_fetch as web_fetch,
        web_search as web_search,
    )
    from .sql import SQL as SQL
    from .text_editor import EagerTextEditor as EagerTextEditor, TextEditor as TextEditor
    from .truncation import truncate_output as truncate_output, truncate_results as truncate_results

_HOMES = {
    "Bash": "bash",
    "BraveSearch": "search",
    "BrowserToolset": "browser_toolset",
    "Calculator": "calculator",
    "ChromiumPage": "computer",
    "Computer": "computer",
    "ComputerHandler": "computer",
    "EagerTextEditor": "text_editor",
    "Edit": "files",
    "Files": "files",
    "Jail": "jail",
    "Memory": "memory",
    "MultiEdit": "files",
    "Read": "files",
    "SQL": "sql",
    "SearchPage": "search",
    "SearchResult": "search",
    "SearchTool": "search",
    "TextEditor": "text_editor",
    "WikipediaSearch": "search",
    "Write": "files",
    "advisor": "server_tools",
    "code_execution": "server_tools",
    "mcp_toolset": "server_tools",
    "tool_search_bm25": "server_tools",
    "tool_search_regex": "server_tools",
    "truncate_output": "truncation",
    "truncate_results": "truncation",
    "web_fetch": "server_tools",
    "web_search": "server_tools",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
