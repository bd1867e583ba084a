"""Tools that come with the library, ready to be given to `run(tools=[...])`; the rest of it knows nothing of them.

- Tools whose schema the API brings: `Bash`, `TextEditor`, `Memory`, `Computer` (with `ChromiumPage`, or a
  `ComputerHandler` of one's own), `BrowserToolset`.
- Tools with schemas of their own, whose inputs stream eagerly: `EagerTextEditor`, `Files`, `SQL` (extra `sql` for other
  databases than SQLite), `BraveSearch`, `WikipediaSearch`, `Calculator`.
- Definitions of tools that the API runs itself: `web_search`, `web_fetch`, `code_execution`, and more.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._support.lazy import lazy_exports

__all__: list[str]

if TYPE_CHECKING:
    from ._bash import Bash as Bash
    from ._browser_toolset import BrowserToolset as BrowserToolset
    from ._calculator import Calculator as Calculator
    from ._computer import ChromiumPage as ChromiumPage, Computer as Computer, ComputerHandler as ComputerHandler
    from ._files import Edit as Edit, Files as Files, MultiEdit as MultiEdit, Read as Read, Write as Write
    from ._jail import Jail as Jail
    from ._memory import Memory as Memory
    from ._search import (
        BraveSearch as BraveSearch,
        SearchPage as SearchPage,
        SearchResult as SearchResult,
        SearchTool as SearchTool,
        WikipediaSearch as WikipediaSearch,
    )
    from ._sql import SQL as SQL
    from ._text_editor import EagerTextEditor as EagerTextEditor, TextEditor as TextEditor
    from ._truncation import truncate_output as truncate_output, truncate_results as truncate_results
    from .server_tools import (
        advisor as advisor,
        code_execution as code_execution,
        mcp_toolset as mcp_toolset,
        tool_search_bm25 as tool_search_bm25,
        tool_search_regex as tool_search_regex,
        web_fetch as web_fetch,
        web_search as web_search,
    )
else:  # or type checkers would take any name for one that is there
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "._bash": ("Bash",),
            "._browser_toolset": ("BrowserToolset",),
            "._calculator": ("Calculator",),
            "._computer": ("ChromiumPage", "Computer", "ComputerHandler"),
            "._files": ("Edit", "Files", "MultiEdit", "Read", "Write"),
            "._jail": ("Jail",),
            "._memory": ("Memory",),
            "._search": ("BraveSearch", "SearchPage", "SearchResult", "SearchTool", "WikipediaSearch"),
            ".server_tools": (
                "advisor",
                "code_execution",
                "mcp_toolset",
                "tool_search_bm25",
                "tool_search_regex",
                "web_fetch",
                "web_search",
            ),
            "._sql": ("SQL",),
            "._text_editor": ("EagerTextEditor", "TextEditor"),
            "._truncation": ("truncate_output", "truncate_results"),
        },
    )
