"""Names of anthropic-tools that are not here, and what takes their place: each needs the package of one service."""

from __future__ import annotations

from typing import Final, NoReturn

_INSTEAD: Final = {
    "ElasticsearchSearchTool": (
        "give BackendSearchTool an object whose search(query, count) asks the client of Elasticsearch"
    ),
    "HuggingFaceEmbedder": "write a class with embed(text) and embed_batch(texts), see BaseEmbedder",
    "PineconeVectorStore": (
        "write a class with upsert(embeddings) and query(query_embedding, n_search_results_to_use) around the client "
        "of Pinecone, see BaseVectorStore; InMemoryVectorStore does for tests and small programs"
    ),
    "upload_to_elasticsearch": "use elasticsearch.helpers.bulk, of the client of Elasticsearch",
}


def __getattr__(name: str) -> NoReturn:
    """Tell what takes the place of a name; it is the `__getattr__` of the package.

    Raises:
        ImportError: The name is one of those that are not here.
        AttributeError: It is any other.
    """
    package = __name__.rpartition(".")[0]
    if name in _INSTEAD:
        # No AttributeError: an import statement would put its own words in the place of these.
        raise ImportError(f"{package} has no {name}: {_INSTEAD[name]}", name=package)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
