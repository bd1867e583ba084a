"""Documents: read from a file, cut into chunks, and put into a vector store."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from .._steps import Steps, arun_steps, run_steps
from .._tokens import pieces
from .results import check_positive
from .vectors import Embedder, VectorStore, checked_embedder


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
        tokens_per_chunk: As of `chunk_document`.
        stride: As of `chunk_document`.
        batch_size: Chunks that are embedded and stored at once.

    Raises:
        ValueError: The file is of another kind, or a line of it is wrong; a number is less than 1; there is no
            embedder, or it gives more or fewer embeddings than texts.
        OSError: The file cannot be read.
        UsageError: Embedder or store are async, and an event loop runs in this thread: await `aembed_and_upload`.
        Exception: Whatever embedder and store raise; the batches before are stored.
    """
    embedder = checked_embedder(embedder)
    chunks = partial(_read_chunks, Path(input_file), tokens_per_chunk, stride)
    run_steps("embed_and_upload", "aembed_and_upload", _upload(chunks, embedder, vectorstore, batch_size))


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
    embedder = checked_embedder(embedder)
    chunks = partial(_read_chunks, Path(input_file), tokens_per_chunk, stride)
    await arun_steps(_upload(chunks, embedder, vectorstore, batch_size))


def _upload(
    read_chunks: Callable[[], list[Document]], embedder: Embedder, store: VectorStore, batch_size: int
) -> Steps[None]:
    check_positive(batch_size=batch_size)
    chunks = yield read_chunks
    for start in range(0, len(chunks), batch_size):
        texts = [chunk.text for chunk in chunks[start : start + batch_size]]
        embeddings: Sequence[Any] = yield partial(embedder.embed_batch, texts)
        if len(embeddings) != len(texts):
            raise ValueError(f"The embedder gave {len(embeddings)} embeddings of {len(texts)} texts")
        yield partial(store.upsert, list(embeddings))


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
