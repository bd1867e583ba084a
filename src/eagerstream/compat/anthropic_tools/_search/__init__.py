"""The search tools of anthropic-tools, with search services, embedders and vector stores of one's own."""

from __future__ import annotations

from .backend import BackendSearchTool, SearchBackend
from .base import BaseSearchTool
from .documents import Document, aembed_and_upload, chunk_document, embed_and_upload
from .memory_store import InMemoryVectorStore
from .results import BaseSearchResult
from .vector_search import VectorSearchTool
from .vectors import BaseEmbedder, BaseVectorStore, Embedder, Embedding, VectorStore
from .web import BraveSearchTool, WikipediaSearchTool

__all__ = [
    "BackendSearchTool",
    "BaseEmbedder",
    "BaseSearchResult",
    "BaseSearchTool",
    "BaseVectorStore",
    "BraveSearchTool",
    "Document",
    "Embedder",
    "Embedding",
    "InMemoryVectorStore",
    "SearchBackend",
    "VectorSearchTool",
    "VectorStore",
    "WikipediaSearchTool",
    "aembed_and_upload",
    "chunk_document",
    "embed_and_upload",
]
