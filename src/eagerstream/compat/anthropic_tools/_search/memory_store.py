"""`InMemoryVectorStore`: a vector store for tests and small programs."""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Sequence
from operator import itemgetter, mul
from threading import Lock

from .results import BaseSearchResult
from .vectors import BaseVectorStore, Embedding


class InMemoryVectorStore(BaseVectorStore):
    """Keeps embeddings in memory, and finds the nearest ones by the cosine of their angle. New here.

    A query looks at each of them, in plain Python: 10,000 vectors of 768 numbers take most of a second. It can be
    used from several threads.

    Attributes:
        dim: Numbers in a vector; None while it is empty.
    """

    def __init__(self) -> None:
        self.dim: int | None = None
        self._units: dict[str, list[float]] = {}
        self._lock = Lock()

    def upsert(self, embeddings: list[Embedding], upsert_batch_size: int = 128) -> None:
        """Keep these: all, or none where this raises. A text that is there already gets the new vector.

        Args:
            embeddings: All of one dimension.
            upsert_batch_size: Of stores that are elsewhere; nothing comes of it here.

        Raises:
            ValueError: A vector has another dimension, none at all, or a number that is not finite; or what it is of
                is no text.
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
        """The nearest texts, best first, the older of equals before the newer; their source is a hash of the text.

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
    """The vector at length 1; one of length 0 as it is, which is near to nothing."""
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
