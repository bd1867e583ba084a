"""What the tests of the prebuilt tools share."""

from __future__ import annotations

from typing import Any, Final

from eagerstream_compat.anthropic_tools import BaseSearchResult, BaseSearchTool

PARAMETERS: Final = [
    {"name": "query", "type": "str", "description": "What to look for."},
    {"name": "n_search_results_to_use", "type": "int", "description": "How many."},
]

PAGES: Final = [
    BaseSearchResult("Oil the chain.", "manual#1"),
    BaseSearchResult("Pump the tyres.", "manual#2"),
    BaseSearchResult("Ring the bell.", "manual#3"),
]

XML: Final = """
<search_results>
<item index="1">
<source>manual#1</source>
<page_content>
Oil the chain.
</page_content>
</item>
<item index="2">
<source>manual#2</source>
<page_content>
Pump the tyres.
</page_content>
</item>
</search_results>"""
"""The first two of them."""


class Manual(BaseSearchTool):
    """A search as programs write it; `pages` is what it finds."""

    pages: Any = PAGES

    def raw_search(self, query: str, n_search_results_to_use: int) -> Any:
        return self.pages[:n_search_results_to_use]


class AsyncManual(Manual):
    """The same, async."""

    async def raw_search(self, query: str, n_search_results_to_use: int) -> Any:
        return self.pages[:n_search_results_to_use]


def manual(kind: type[Manual] = Manual, pages: Any = PAGES) -> Manual:
    """A tool that searches the manual."""
    made = kind("search_manual", "Search the manual.", PARAMETERS)
    made.pages = pages
    return made
