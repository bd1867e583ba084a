"""Embeddings, what makes them, and what keeps them: protocols for objects of one's own, sync or async."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass
class Embedding:
    """A text and its vector."""

    embedding: Sequence[float]
    text: str


class Embedder(Protocol):
    """Makes vectors of texts; its methods are `def` or `async def`."""

    @abstractmethod
    def embed(self, text: str) -> Embedding | Awaitable[Embedding]:
        """The embedding of a text."""

    @abstractmethod
    def embed_batch(self, texts: list[str]) -> Sequence[Embedding] | Awaitable[Sequence[Embedding]]:
        """The embeddings of texts, in their order."""


class VectorStore(Protocol):
    """Keeps embeddings, and finds those that are near to another; its methods are `def` or `async def`."""

    @abstractmethod
    def upsert(self, embeddings: list[Embedding]) -> Any:
        """Keep these too."""

    @abstractmethod
    def query(self, query_embedding: Embedding, n_search_results_to_use: int = 10) -> Any:
        """The nearest ones, best first, as a list of `BaseSearchResult`; or an awaitable of that."""


class BaseEmbedder(Embedder):
    """An embedder to derive from.

    Attributes:
        dim: Numbers in a vector.
    """

    dim: int


class BaseVectorStore(VectorStore):
    """A vector store to derive from."""
