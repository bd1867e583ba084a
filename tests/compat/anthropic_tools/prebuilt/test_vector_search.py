"""Vector search: embedders and stores of one's own, the store in memory, and documents that are put into it."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import assume, given, strategies as st

from eagerstream.compat.anthropic_tools import (
    BaseEmbedder,
    BaseSearchResult,
    BaseVectorStore,
    Document,
    Embedding,
    InMemoryVectorStore,
    VectorSearchTool,
    aembed_and_upload,
    chunk_document,
    embed_and_upload,
)
from eagerstream.compat.anthropic_tools._vectors import pieces
from tests.builtin.support import conversation, results
from tests.compat.anthropic_tools.prebuilt.support import PARAMETERS
from tests.tables import rows

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Letters(BaseEmbedder):
    """How often each letter is in a text: near are texts that are written alike."""

    dim = len(LETTERS)

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.threads: set[int] = set()

    def embed(self, text: str) -> Embedding:
        self.threads.add(threading.get_ident())
        return Embedding([text.lower().count(letter) for letter in LETTERS], text)

    def embed_batch(self, texts: list[str]) -> list[Embedding]:
        self.batches.append(len(texts))
        return [self.embed(text) for text in texts]


class AsyncLetters:
    """The same, by no base class, and async."""

    def __init__(self) -> None:
        self.plain = Letters()

    async def embed(self, text: str) -> Embedding:
        await anyio.lowlevel.checkpoint()
        return self.plain.embed(text)

    async def embed_batch(self, texts: list[str]) -> list[Embedding]:
        await anyio.lowlevel.checkpoint()
        return self.plain.embed_batch(texts)


class AsyncStore(BaseVectorStore):
    """A store that is elsewhere."""

    def __init__(self) -> None:
        self.plain = InMemoryVectorStore()

    async def upsert(self, embeddings: list[Embedding]) -> None:
        await anyio.lowlevel.checkpoint()
        self.plain.upsert(embeddings)

    async def query(self, query_embedding: Embedding, n_search_results_to_use: int = 10) -> list[BaseSearchResult]:
        await anyio.lowlevel.checkpoint()
        return self.plain.query(query_embedding, n_search_results_to_use)


EMBEDDERS = [Letters, AsyncLetters]
STORES = [InMemoryVectorStore, AsyncStore]
TEXTS = ["aaa bbb", "ccc", "ddd eee"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Documents, one of which is empty, and an empty line."""
    path = tmp_path / "products.jsonl"
    lines = [json.dumps({"text": text, "metadata": {"id": 1}}) for text in ("aaa bbb ccc", "", "ddd eee")]
    path.write_text("\n".join([*lines, "", ""]), encoding="utf-8-sig")  # with the mark that some editors add
    return path


# --- the tool ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("embedder", EMBEDDERS)
@pytest.mark.parametrize("store", STORES)
def test_sync_code(embedder: Callable[[], Any], store: Callable[[], Any], file: Path) -> None:
    """A program without an event loop fills a store and searches it, whatever kind both are."""
    kept, used = store(), embedder()
    embed_and_upload(str(file), kept, used, tokens_per_chunk=2, batch_size=2)
    tool = VectorSearchTool("search", "Search.", PARAMETERS, kept, used)
    found = tool.raw_search("a cab", 2)
    assert [result.content for result in found] == ["aaa bbb", " ccc"]
    assert tool.use_tool("e", 1).count("ddd eee") == 1


@pytest.mark.anyio
@pytest.mark.parametrize("embedder", EMBEDDERS)
@pytest.mark.parametrize("store", STORES)
async def test_async_code(embedder: Callable[[], Any], store: Callable[[], Any], file: Path) -> None:
    """So does an async one, and a run."""
    kept, used = store(), embedder()
    await aembed_and_upload(file, kept, used, tokens_per_chunk=2, batch_size=2)
    plain = used.plain if isinstance(used, AsyncLetters) else used
    assert plain.batches == [2, 1]
    assert (threading.get_ident() in plain.threads) is isinstance(used, AsyncLetters)
    tool = VectorSearchTool("search", "Search.", PARAMETERS, kept, embedder=used)
    assert [result.content for result in await tool.asearch("dead", 1)] == ["ddd eee"]
    (((found,), is_error),) = results(
        await conversation(tool.to_tool(), {"query": "dead", "n_search_results_to_use": 1})
    )
    assert not is_error
    assert found["content"] == [{"type": "text", "text": "ddd eee"}]


def test_there_is_no_default_embedder(file: Path) -> None:
    """The service of the old one is not asked; what is missing is said."""
    with pytest.raises(ValueError, match="embedder="):
        VectorSearchTool("search", "Search.", PARAMETERS, InMemoryVectorStore())
    with pytest.raises(ValueError, match="embedder="):
        embed_and_upload(str(file), InMemoryVectorStore())


def test_base_classes_are_abstract() -> None:
    """As those of anthropic-tools."""
    for base in (BaseEmbedder, BaseVectorStore):
        with pytest.raises(TypeError, match="abstract"):
            base()  # type: ignore[abstract]


# --- the store in memory ----------------------------------------------------------------------------------------------

numbers = st.floats(-1e3, 1e3, allow_subnormal=False)
vectors = st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=8)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    exact = [[Fraction(number) for number in vector] for vector in (one, other)]  # products of small floats are zero
    lengths = [sum(number * number for number in vector) for vector in exact]
    if not all(lengths):
        return 0.0
    product = sum((a * b for a, b in zip(*exact, strict=True)), Fraction())
    return math.copysign(math.sqrt(product * product / math.prod(lengths)), product)


@given(vectors, st.lists(numbers, min_size=3, max_size=3), st.integers(1, 9))
def test_the_nearest_come_first(kept: list[list[float]], asked: list[float], count: int) -> None:
    """By the cosine, computed in another way: as many as there are, none of the others nearer."""
    store = InMemoryVectorStore()
    store.upsert([Embedding(vector, str(number)) for number, vector in enumerate(kept)])
    found = [cosine(kept[int(result.content)], asked) for result in store.query(Embedding(asked, ""), count)]
    expected = sorted((cosine(vector, asked) for vector in kept), reverse=True)[:count]
    assert found == pytest.approx(expected, abs=1e-9)


@given(st.lists(numbers, min_size=2, max_size=5), st.sampled_from([1e-300, 1e-3, 1e300]))
def test_length_does_not_count(vector: list[float], factor: float) -> None:
    """Squares of what is very large or very small are no numbers any more."""
    assume(max(map(abs, vector)) > 1)
    store = InMemoryVectorStore()
    store.upsert([Embedding([-number for number in vector], "away"), Embedding(vector, "near")])
    assume(all(math.isfinite(number * factor) for number in vector))
    (found,) = store.query(Embedding([number * factor for number in vector], "?"), 1)
    assert found.content == "near"


def test_a_text_is_kept_once() -> None:
    """With its newest vector; its source is the same in every process."""
    store = InMemoryVectorStore()
    store.upsert([Embedding([1, 0], "a"), Embedding([0, 1], "b")], upsert_batch_size=1)
    store.upsert([Embedding([0, -1], "a")])
    assert [found.content for found in store.query(Embedding([0, -1], "?"))] == ["a", "b"]
    assert store.query(Embedding([0, 1], "?"), 1) == [BaseSearchResult("b", "3e23e8160039594a")]
    assert InMemoryVectorStore().query(Embedding([1.0], "?")) == []


def test_what_is_no_text() -> None:
    """It is told when it comes, and not by each query that would find it."""
    store = InMemoryVectorStore()
    nothing: Any = None
    with pytest.raises(ValueError, match="must be a str"):
        store.upsert([Embedding([1, 0], "a"), Embedding([0, 1], nothing)])
    assert store.query(Embedding([1, 0], "?")) == []


@rows("wrong", [[1.0, 2.0], [], [1.0, 2.0, math.nan], [math.inf, 0.0, 0.0], [1e308] * 4, [10**400, 0, 0]])
def test_vectors_that_do_not_fit(wrong: list[float]) -> None:
    """Of those that come with one of them, none is kept."""
    store = InMemoryVectorStore()
    store.upsert([Embedding([1, 2, 3], "a")])
    with pytest.raises(ValueError, match=r"dimension 2 does not match|finite"):
        store.upsert([Embedding([1, 2, 3], "b"), Embedding(wrong, "c")])
    with pytest.raises(ValueError, match=r"Query embedding dimension 2 does not match|finite"):
        store.query(Embedding(wrong, "?"))
    assert [found.content for found in store.query(Embedding([1, 2, 3], "?"))] == ["a"]


# --- documents --------------------------------------------------------------------------------------------------------

SENTENCE = "This is a test."


@rows(
    "tokens, stride, chunks",
    [
        (100, None, [SENTENCE]),
        (5, None, [SENTENCE]),
        (2, None, ["This is", " a test", "."]),
        (3, 2, ["This is a", " a test.", "."]),
    ],
)
def test_chunks(tokens: int, stride: int | None, chunks: list[str]) -> None:
    """The cases of anthropic-tools, with what its tokenizer made of them."""
    document = Document(SENTENCE, {"id": 1})
    assert chunk_document(document, tokens, stride) == [Document(chunk, {"id": 1}) for chunk in chunks]
    assert chunk_document(Document(""), tokens, stride) == []


@given(st.text() | st.lists(st.sampled_from(["word", " " * 20, "漢字", "\n", "é", "_", "!", "a" * 30])).map("".join))
def test_nothing_of_a_document_is_lost(text: str) -> None:
    """Chunks joined are the text, and no token is endless."""
    assert "".join(chunk.text for chunk in chunk_document(Document(text), 3)) == text
    assert all(len(piece) <= 16 for piece in pieces(text))


def test_tokens_of_languages_without_blanks() -> None:
    """A sentence of them is no single word."""
    assert list(pieces("日本語 test")) == ["日", "本", "語", " test"]
    assert list(pieces("internationalisation")) == ["internat", "ionalisa", "tion"]


@rows("wrong", [(0, None), (-1, None), (3, 0), (3, -2), (True, None)])
def test_chunks_of_no_size(wrong: tuple[int, int | None]) -> None:
    """They would be endless."""
    with pytest.raises(ValueError, match="at least 1"):
        chunk_document(Document(SENTENCE), *wrong)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", '{"text": "a"}', "Invalid file_type. Supported types: 'jsonl'"),
        ("a.jsonl", '{"text": "a"}\n{"text": null}', "'text' key is missing on line 2"),
        ("a.jsonl", '{"text": "a"}\n\n{"txt": "a"}', "'text' key is missing on line 3"),
        ("a.jsonl", '{"text": "a"}\n["text"]', "'text' key is missing on line 2"),
        ("a.jsonl", '{"text": "a"}\n{"text"', "Line 2 is not JSON"),
        ("a.jsonl", '{"text": "a"}\n' + "[" * 100_000, "Line 2 is not JSON"),
    ],
)
def test_files_that_are_wrong(tmp_path: Path, name: str, content: str, says: str) -> None:
    """Said with the line, and before anything is stored."""
    path, store = tmp_path / name, InMemoryVectorStore()
    path.write_text(content)
    with pytest.raises(ValueError, match=says):
        embed_and_upload(path, store, Letters(), batch_size=1)
    assert store.dim is None


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"tokens_per_chunk": 0}, {"stride": 0}])
def test_numbers_of_an_upload(file: Path, options: dict[str, int]) -> None:
    """They are at least one."""
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be a number, at least 1"):
        embed_and_upload(file, InMemoryVectorStore(), Letters(), **options)


def test_an_embedder_that_loses_texts(file: Path) -> None:
    """What it left out would never be found."""

    class Losing(Letters):
        def embed_batch(self, texts: list[str]) -> list[Embedding]:
            return super().embed_batch(texts)[1:]

    with pytest.raises(ValueError, match="1 embeddings of 2 texts"):
        embed_and_upload(file, InMemoryVectorStore(), Losing(), batch_size=2)


@pytest.mark.anyio
async def test_cancelling_an_upload(file: Path) -> None:
    """The batches before stay."""
    store = InMemoryVectorStore()

    class Slow(AsyncLetters):
        async def embed_batch(self, texts: list[str]) -> list[Embedding]:
            if self.plain.batches:
                scope.cancel()
                await anyio.sleep_forever()
            return await super().embed_batch(texts)

    with anyio.CancelScope() as scope:
        await aembed_and_upload(file, store, Slow(), tokens_per_chunk=2, batch_size=1)
    assert scope.cancelled_caught
    assert [found.content for found in store.query(Letters().embed("a"))] == ["aaa bbb"]
