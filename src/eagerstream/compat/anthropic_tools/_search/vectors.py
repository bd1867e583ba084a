"""Search by meaning: `VectorSearchTool`, with an embedder of your own, and a vector store of your own or in memory."""

from __future__ import annotations

import hashlib
import heapq
import math
from abc import abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter, mul
from threading import Lock
from typing import Any, Protocol

from .._steps import Steps
from .base import ComposedSearchTool
from .results import BaseSearchResult, results_of, search_step


@dataclass
class Embedding:
    """A text and its vector."""

    embedding: Sequence[float]
    text: str


class Embedder(Protocol):
    """Makes vectors of texts. Its methods are `def` or `async def`."""

    @abstractmethod
    def embed(self, text: str) -> Embedding | Awaitable[Embedding]:
        """Return the embedding of a text."""

    @abstractmethod
    def embed_batch(self, texts: list[str]) -> Sequence[Embedding] | Awaitable[Sequence[Embedding]]:
        """Return the embeddings of texts, in their order."""


class VectorStore(Protocol):
    """Keeps embeddings, and finds those that are near to another. Its methods are `def` or `async def`."""

    @abstractmethod
    def upsert(self, embeddings: list[Embedding]) -> Any:
        """Keep these too."""

    @abstractmethod
    def query(self, query_embedding: Embedding, n_search_results_to_use: int = 10) -> Any:
        """Return the nearest ones, best first, as a list of `BaseSearchResult`; or an awaitable of that."""


class BaseEmbedder(Embedder):
    """An embedder to derive from.

    Attributes:
        dim: Numbers in a vector.
    """

    dim: int


class BaseVectorStore(VectorStore):
    """A vector store to derive from."""


class VectorSearchTool(ComposedSearchTool):
    """Searches a vector store for texts that are near to a query.

    Args:
        name: The tool's name.
        description: What the model reads of it.
        parameters: As of `BaseSearchTool`.
        vector_store: Any `VectorStore`, for example an `InMemoryVectorStore`.
        embedder: The `Embedder` that filled the store. Unlike in anthropic-tools, there is no default. In async code,
            and in a run, threads call each `def` of it and of the store, several at once.

    Raises:
        ValueError: A parameter is wrong, or there is no embedder.
    """

    def __init__(
        self,
        name: str,
        description: str,
        parameters: Sequence[Mapping[str, Any]],
        vector_store: VectorStore,
        embedder: Embedder | None = None,
    ) -> None:
        super().__init__(name, description, parameters)
        self.vector_store = vector_store
        self.embedder = checked_embedder(embedder)

    def _search(self, query: str, count: int) -> Steps[list[BaseSearchResult]]:
        embedding = yield partial(self.embedder.embed, query)
        found = yield search_step(self.vector_store.query, embedding, n_search_results_to_use=count)
        return results_of(found, count)


def checked_embedder(embedder: Embedder | None) -> Embedder:
    """Return the embedder.

    Raises:
        ValueError: There is none.
    """
    if embedder is None:
        raise ValueError("An embedder is needed: embedder=..., with embed(text) and embed_batch(texts)")
    return embedder


class InMemoryVectorStore(BaseVectorStore):
    """Keeps embeddings in memory, and finds the nearest ones by their cosine. New here, for tests and small programs.

    A query compares each of them, in plain Python: 10,000 vectors of 768 numbers take most of a second. Several threads
    may use it.

    Attributes:
        dim: Numbers in a vector; `None` while the store is empty.
    """

    def __init__(self) -> None:
        self.dim: int | None = None
        self._units: dict[str, list[float]] = {}
        self._lock = Lock()

    def upsert(self, embeddings: list[Embedding], upsert_batch_size: int = 128) -> None:
        """Keep these: all, or none if this raises. A text that is there already gets the new vector.

        Args:
            embeddings: All of one dimension.
            upsert_batch_size: Has no effect here.

        Raises:
            ValueError: A vector has another dimension, no number, or one that is not finite; or a text is not a `str`.
        """
        del upsert_batch_size
        if not all(isinstance(embedding.text, str) for embedding in embeddings):
            raise ValueError("The text of an embedding must be a str")
        units = {embedding.text: _unit(embedding.embedding) for embedding in embeddings}
        with self._lock:
            dim = self.dim
            for unit in units.values():
                dim = dim or len(unit)
                if len(unit) != dim:
                    raise ValueError(f"Embedding dimension {len(unit)} does not match the store's dimension {dim}")
            self.dim = dim
            self._units.update(units)

    def query(self, query_embedding: Embedding, n_search_results_to_use: int = 10) -> list[BaseSearchResult]:
        """Return the nearest texts, best first, the older of equals before the newer. Sources are hashes of the texts.

        Raises:
            ValueError: As `upsert`.
        """
        unit = _unit(query_embedding.embedding)
        with self._lock:
            kept = list(self._units.items())
            dim = self.dim
        if dim is not None and len(unit) != dim:
            raise ValueError(f"Query embedding dimension {len(unit)} does not match the store's dimension {dim}")
        scored = ((sum(map(mul, unit, other)), text) for text, other in kept)
        best = heapq.nlargest(n_search_results_to_use, scored, key=itemgetter(0))
        return [BaseSearchResult(text, _source(text)) for _, text in best]


def _unit(vector: Sequence[float]) -> list[float]:
    """Return the vector at length 1. A vector of length 0, which is near to nothing, stays as it is."""
    try:
        numbers = [float(number) for number in vector]
    except OverflowError:
        numbers = []
    length = math.hypot(*numbers)
    if not numbers or not math.isfinite(length):
        raise ValueError("An embedding must hold numbers, all of them finite")
    return [number / length for number in numbers] if length else numbers


def _source(text: str) -> str:
    # Not `hash`, which is another in each process: a source is what is cited.
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
