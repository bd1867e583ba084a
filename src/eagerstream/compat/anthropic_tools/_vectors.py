"""Search by meaning: `VectorSearchTool`, with an embedder of your own, and a vector store of your own or in memory.

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
        name, description, parameters: As of `BaseSearchTool`.
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


@dataclass
class Document:
    """A text, and whatever else is known of it."""

    text: str
    metadata: dict[str, Any] | None = None


def chunk_document(document: Document, tokens_per_chunk: int, stride: int | None = None) -> list[Document]:
    """The chunks of a document, each with its metadata.

    There is no tokenizer any more. What is counted instead are words (of more than 8 letters, each 8), marks, and
    Chinese, Japanese and Korean characters, each with up to 8 blanks before it: about tokens.

    Args:
        document: To cut; of an empty one there is no chunk.
        tokens_per_chunk: At most.
        stride: Tokens from the beginning of a chunk to that of the next one; `tokens_per_chunk` where it is None, and
            then the chunks joined are the text.

    Raises:
        ValueError: One of the numbers is less than 1.
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
    """Put the documents of a file into a vector store: read, cut into chunks, embedded, stored batch by batch.

    All of the file is read, and all of it must be right, before anything is stored.

    Args:
        input_file: A `.jsonl` file in UTF-8: on each line `{"text": str, "metadata": {...}}`, the metadata optional.
        vectorstore: Any `VectorStore`.
        embedder: Any `Embedder`. Unlike in anthropic-tools, there is no default.
        tokens_per_chunk, stride: As of `chunk_document`.
        batch_size: Chunks that are embedded and stored at once.

    Raises:
        ValueError: The file is of another kind, or a line of it is wrong; a number is less than 1; there is no
            embedder, or it gives more or fewer embeddings than texts.
        OSError: The file cannot be read.
        UsageError: Embedder or store are async, and an event loop runs in this thread: await `aembed_and_upload`.
        Exception: Whatever embedder and store raise; the batches before are stored.
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
    """The same as `embed_and_upload`, for async code: each `def` of embedder and store is called in a thread.

    Cancelling it leaves the batches before in the store, and perhaps the one that was being stored.

    Raises:
        Exception: As `embed_and_upload`.
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
    """The words and marks of a text, each with the blanks before it. Joined, they are the text.

    A piece is at most 16 characters: 8 of blanks, 8 of a word; of Chinese, Japanese and Korean, one character.
    """
    return (found[0] for found in _PIECE.finditer(text))
