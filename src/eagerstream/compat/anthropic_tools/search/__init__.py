"""The search tools of anthropic-tools, with search services, embedders and vector stores of one's own."""

from __future__ import annotations

from .backend import BackendSearchTool, SearchBackend
from .base import BaseSearchTool
from .results import BaseSearchResult
from .web import BraveSearchTool, WikipediaSearchTool

__all__ = [
    "BackendSearchTool",
    "BaseSearchResult",
    "BaseSearchTool",
    "BraveSearchTool",
    "SearchBackend",
    "WikipediaSearchTool",
]
