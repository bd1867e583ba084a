"""`VectorSearchTool`: finds texts by their meaning, with an embedder and a vector store of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from .._steps import Steps
from .base import ComposedSearchTool
from .results import BaseSearchResult, results_of, search_step
from .vectors import Embedder, VectorStore


class VectorSearchTool(ComposedSearchTool):
    """Searches a vector store for what is near to a query.

    Args:
        name: The tool's name.
        description: What the model reads of it.
        parameters: As of `BaseSearchTool`.
        vector_store: Any `VectorStore`, for example an `InMemoryVectorStore`.
        embedder: Any `Embedder`; that which filled the store. Unlike in anthropic-tools, there is no default. In async
            code, and in a run, a `def` of it and of the store is called in threads, by several at once.

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
    """The embedder.

    Raises:
        ValueError: There is none.
    """
    if embedder is None:
        raise ValueError("An embedder is needed: embedder=..., with embed(text) and embed_batch(texts)")
    return embedder
