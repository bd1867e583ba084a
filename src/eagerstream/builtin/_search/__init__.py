"""Web search as a tool of the client: Brave, Wikipedia, or one's own, with results that can be cited."""

from __future__ import annotations

from .brave import BraveSearch
from .tool import SearchPage, SearchResult, SearchTool
from .wikipedia import WikipediaSearch

__all__ = ["BraveSearch", "SearchPage", "SearchResult", "SearchTool", "WikipediaSearch"]
