"""Search by meaning: `VectorSearchTool`, with your own embedder, and a vector store of your own or in memory.

`embed_and_upload` fills a store with the documents of a file.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import math
import re
from abc import abstractmethod
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter, mul
from pathlib import Path
from threading import Lock
from typing import Any, Final, Protocol

from ._calling import Call, call_async, run_here
from ._search import BaseSearchResult, ComposedSearchTool, call_search, check_positive, results_of

_WIDE: Final = "\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
_PIECE: Final = re.compile(rf"\s{{0,8}}(?:[{_WIDE}]|[^\W{_WIDE}]{{1,8}}|[^\w\s])|\s{{1,8}}")


@dataclass
class Embedding:
    """A text and its vector."""

    embedding: Sequence[float]
    text: str


class Embedder(Protocol):
    """Maker of vectors from texts. Its methods are `def` or `async def`."""

    @abstractmethod
    def embed(self, text: str) -> Embedding | Awaitable[Embedding]:
        """Return the embedding of a text."""

    @abstractmethod
    def embed_batch(self, texts: list[str]) -> Sequence[Embedding] | Awaitable[Sequence[Embedding]]:
        """Return the embeddings of texts, in their order."""


class VectorStore(Protocol):
    """Store of embeddings that finds the nearest ones. Its methods are `def` or `async def`."""

    @abstractmethod
    def upsert(self, embeddings: list[Embedding]) -> Any:
        """Add embeddings."""

    @abstractmethod
    def query(self, query_embedding: Embedding, n_search_results_to_use: int = 10) -> Any:
        """Return the nearest texts, best first, as a list of `BaseSearchResult` or an awaitable of one."""


class BaseEmbedder(Embedder):
    """Embedder to derive from.

    Attributes:
        dim: Numbers in a vector.
    """

    dim: int


class BaseVectorStore(VectorStore):
    """Vector store to derive from."""


class VectorSearchTool(ComposedSearchTool):
    """Search in a vector store for texts that are near to a query.

    Args:
        name, description, parameters: As for `BaseSearchTool`.
        vector_store: Any `VectorStore`, for example an `InMemoryVectorStore`.
        embedder: The `Embedder` that filled the store. Unlike in anthropic-tools, there is no default. In async code
            and in a run, several threads may call each `def` of the embedder and the store at once.

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
        self.embedder: Embedder = checked_embedder(embedder)

    async def _search(self, query: str, count: int, call: Call) -> list[BaseSearchResult]:
        embedding = await call(self.embedder.embed, query)
        found = await call_search(call, self.vector_store.query, embedding, n_search_results_to_use=count)
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
    """Vector store in memory that compares by cosine. New here, for tests and small programs.

    A query compares all vectors, in plain Python: 10,000 vectors of 768 numbers take most of a second. Several threads
    may use one store.

    Attributes:
        dim: Numbers in a vector; `None` while the store is empty.
    """

    def __init__(self) -> None:
        self.dim: int | None = None
        self._units: dict[str, list[float]] = {}
        self._lock = Lock()

    def upsert(self, embeddings: list[Embedding], upsert_batch_size: int = 128) -> None:
        """Add embeddings: all, or none if this raises. A known text gets the new vector.

        Args:
            embeddings: All of one dimension.
            upsert_batch_size: Has no effect here.

        Raises:
            ValueError: A vector has another dimension, no number or a number that is not finite, or a text is not a
                `str`.
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
        """Return the nearest texts, best first; of equal ones, the older first. Sources are hashes of the texts.

        Raises:
            ValueError: As for `upsert`.
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
    """Return the vector at length 1. A vector of length 0 stays as it is."""
    try:
        numbers = [float(number) for number in vector]
    except OverflowError:
        numbers = []
    length = math.hypot(*numbers)
    if not numbers or not math.isfinite(length):
        raise ValueError("An embedding must hold numbers, all of them finite")
    return [number / length for number in numbers] if length else numbers


def _source(text: str) -> str:
    # Not `hash`, which differs in each process: the source is cited.
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


@dataclass
class Document:
    """Text with further data about it."""

    text: str
    metadata: dict[str, Any] | None = None


def chunk_document(document: Document, tokens_per_chunk: int, stride: int | None = None) -> list[Document]:
    """Return the chunks of a document, each with its metadata.

    This library has no tokenizer. The pieces that are counted are about tokens: words (each 8 letters of a longer word
    count), marks, and single Chinese, Japanese and Korean characters. Each piece includes up to 8 blanks before it.

    Args:
        document: Document to cut. An empty one has no chunks.
        tokens_per_chunk: Maximum number of tokens of a chunk.
        stride: Tokens from the start of a chunk to the start of the next one. `None` uses `tokens_per_chunk`. Then the
            joined chunks are the text.

    Raises:
        ValueError: One of the numbers is not an int, or is less than 1.
    """
    stride = tokens_per_chunk if stride is None else stride
    check_positive(tokens_per_chunk=tokens_per_chunk, stride=stride)
    tokens = list(pieces(document.text))
    return [
        Document("".join(tokens[start : start + tokens_per_chunk]), document.metadata)
        for start in range(0, len(tokens), stride)
    ]


def embed_and_upload(
    input_file: str | Path,
    vectorstore: VectorStore,
    embedder: Embedder | None = None,
    tokens_per_chunk: int = 384,
    stride: int | None = None,
    batch_size: int = 128,
) -> None:
    """Put the documents of a file into a vector store: read, cut into chunks, embedded, and stored batch by batch.

    The complete file is read and checked before the first batch is stored.

    Args:
        input_file: A `.jsonl` file in UTF-8 with `{"text": str, "metadata": {...}}` on each line. The metadata is
            optional.
        vectorstore: Any `VectorStore`.
        embedder: Any `Embedder`. Unlike in anthropic-tools, there is no default.
        tokens_per_chunk, stride: As for `chunk_document`.
        batch_size: Number of chunks to embed and store at once.

    Raises:
        ValueError: The file has another type, a line of it is wrong, a number is less than 1, there is no embedder, or
            the numbers of embeddings and texts differ.
        OSError: The file cannot be read.
        UsageError: The embedder or the store is async, and an event loop runs in this thread: await
            `aembed_and_upload`.
        Exception: Any error of the embedder and the store. The batches before it are stored.
    """
    upload = partial(_upload, Path(input_file), vectorstore, embedder, tokens_per_chunk, stride, batch_size)
    run_here("embed_and_upload", "aembed_and_upload", upload)


async def aembed_and_upload(
    input_file: str | Path,
    vectorstore: VectorStore,
    embedder: Embedder | None = None,
    *,
    tokens_per_chunk: int = 384,
    stride: int | None = None,
    batch_size: int = 128,
) -> None:
    """Put the documents of a file into a vector store, as `embed_and_upload`.

    Worker threads call each `def` of the embedder and the store. Cancelling it leaves the earlier batches in the store,
    and perhaps the current one.

    Raises:
        Exception: As for `embed_and_upload`, except for the event loop.
    """
    await _upload(Path(input_file), vectorstore, embedder, tokens_per_chunk, stride, batch_size, call_async)


async def _upload(
    path: Path,
    store: VectorStore,
    embedder: Embedder | None,
    tokens_per_chunk: int,
    stride: int | None,
    batch_size: int,
    call: Call,
) -> None:
    embedder = checked_embedder(embedder)
    check_positive(batch_size=batch_size)
    chunks = await call(_read_chunks, path, tokens_per_chunk, stride)
    for start in range(0, len(chunks), batch_size):
        texts = [chunk.text for chunk in chunks[start : start + batch_size]]
        embeddings: Sequence[Any] = await call(embedder.embed_batch, texts)
        if len(embeddings) != len(texts):
            raise ValueError(f"The embedder gave {len(embeddings)} embeddings of {len(texts)} texts")
        await call(store.upsert, list(embeddings))


def _read_chunks(path: Path, tokens_per_chunk: int, stride: int | None) -> list[Document]:
    stride = tokens_per_chunk if stride is None else stride
    check_positive(tokens_per_chunk=tokens_per_chunk, stride=stride)
    if path.suffix != ".jsonl":
        raise ValueError("Invalid file_type. Supported types: 'jsonl'")
    chunks: list[Document] = []
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                chunks += chunk_document(_document(line, number), tokens_per_chunk, stride)
    return chunks


def _document(line: str, number: int) -> Document:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(f"Invalid jsonl file. Line {number} is not JSON") from None
    text = value.get("text") if isinstance(value, dict) else None
    if not isinstance(text, str):
        raise ValueError(f"Invalid jsonl file. 'text' key is missing on line {number}")
    return Document(text, value.get("metadata"))


def pieces(text: str) -> Iterator[str]:
    """Yield the words and marks of a text, each with the blanks before it. Joined, they are the text.

    A piece has at most 16 characters: 8 blanks, and 8 letters of a word or one Chinese, Japanese or Korean character.
    """
    return (found[0] for found in _PIECE.finditer(text))
