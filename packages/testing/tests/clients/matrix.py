"""The matrix of clients and features, as data. `test_matrix.py` has a test for each cell, and the testing guide shows it.

This module imports nothing, because the documentation reads it without the clients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

FEATURES: Final[Mapping[str, str]] = {
    "text": "text",
    "loop": "tool loop",
    "parallel": "parallel calls",
    "retry": "retry after 529",
    "refusal": "refused history",
    "buffered": "fields arrive complete",
    "eager": "eager inputs on request",
    "thinking": "thinking",
    "output": "structured output",
    "count": "`count_tokens`",
    "threads": "message threads",
}
"""The features, with their headings. `test_matrix.py` has a function for each."""

_NO_STREAM: Final = "the response comes in one piece"
_NOT_STREAMED: Final = {"buffered": _NO_STREAM, "eager": _NO_STREAM}
_NO_COUNT: Final = {"count": "it does not count"}
_CHECKS_FIRST: Final = {"refusal": "it checks a history before it sends it"}
_NO_THREADS: Final = {"threads": "each request has the whole conversation"}
_SDK: Final = "@anthropic-ai/sdk"
_AI: Final = "ai, @ai-sdk/anthropic"


@dataclass(frozen=True)
class Client:
    """A client, and the features that it does not have.

    Attributes:
        name: Its name in the documentation, in Markdown.
        package: The package that has it, as its registry names it.
        driver: The module of this folder that drives it, and the function there: `"anthropic_messages:create"`.
        lacks: The reason for each feature that it cannot show.
        is_slow: Its tests belong to the slow ones.
    """

    name: str
    package: str
    driver: str
    lacks: Mapping[str, str] = field(default_factory=dict)
    is_slow: bool = False


CLIENTS: Final = (
    Client("`messages.create`", "anthropic", "anthropic_messages:create", {**_NOT_STREAMED, **_NO_THREADS}),
    Client("`messages.create(stream=True)`", "anthropic", "anthropic_messages:create_stream", _NO_THREADS),
    Client("`messages.stream`", "anthropic", "anthropic_messages:stream", _NO_THREADS),
    Client("`tool_runner`", "anthropic", "anthropic_runners:plain", {**_NOT_STREAMED, **_NO_COUNT}),
    Client("`tool_runner(stream=True)`", "anthropic", "anthropic_runners:streamed", _NO_COUNT),
    Client("`tool_runner`, `run_tools_eagerly`", "anthropic", "anthropic_runners:eager", _NO_COUNT),
    Client("`tool_runner`, synchronous", "anthropic", "anthropic_runners:sync_plain", {**_NOT_STREAMED, **_NO_COUNT}),
    Client("`tool_runner(stream=True)`, synchronous", "anthropic", "anthropic_runners:sync_streamed", _NO_COUNT),
    Client("`tool_runner`, `run_tools_eagerly`, synchronous", "anthropic", "anthropic_runners:sync_eager", _NO_COUNT),
    Client("`ainvoke`", "langchain-anthropic", "langchain_anthropic:ainvoke", {**_NOT_STREAMED, **_NO_THREADS}),
    Client("`astream`", "langchain-anthropic", "langchain_anthropic:astream", _NO_THREADS),
    Client(
        "`Agent.run`",
        "pydantic-ai",
        "pydantic_ai:run",
        {**_NOT_STREAMED, **_NO_THREADS, "refusal": "it mends a history before it sends it"},
    ),
    Client(
        "`Agent.iter`",
        "pydantic-ai",
        "pydantic_ai:iterate",
        {**_NO_THREADS, "refusal": "it mends a history before it sends it"},
    ),
    Client("`messages.create`", _SDK, "npm:anthropic_create", {**_NOT_STREAMED, **_NO_THREADS}, is_slow=True),
    Client("`messages.create({stream: true})`", _SDK, "npm:anthropic_create_stream", _NO_THREADS, is_slow=True),
    Client("`messages.stream`", _SDK, "npm:anthropic_stream", _NO_THREADS, is_slow=True),
    Client("`toolRunner`", _SDK, "npm:anthropic_runner", {**_NOT_STREAMED, **_NO_COUNT}, is_slow=True),
    Client("`toolRunner({stream: true})`", _SDK, "npm:anthropic_streamed_runner", _NO_COUNT, is_slow=True),
    Client("`toolRunner`, `runToolsEagerly`", _SDK, "npm:anthropic_eager_runner", _NO_COUNT, is_slow=True),
    Client("`generateText`", _AI, "npm:ai_generate", {**_NOT_STREAMED, **_NO_COUNT, **_CHECKS_FIRST}, is_slow=True),
    Client("`streamText`", _AI, "npm:ai_stream", {**_NO_COUNT, **_CHECKS_FIRST}, is_slow=True),
    Client(
        "`query`",
        "claude-agent-sdk",
        "claude_agent_sdk:converse",
        {
            **_NO_THREADS,
            "refusal": "it takes no history",
            "output": "it asks for the output by a tool",
        },
        is_slow=True,
    ),
    Client("`stream`", "eagerstream", "eagerstream_clients:stream", {**_NO_COUNT, **_NO_THREADS}),
    Client(
        "`run`",
        "eagerstream",
        "eagerstream_clients:run",
        {**_NO_COUNT, **_CHECKS_FIRST},
    ),
)


def key(client: Client) -> str:
    """Return the name of a client in the ids of its tests."""
    return client.driver.replace(":", "-")


def cells() -> Iterator[tuple[Client, str]]:
    """Yield each client with each feature that it has."""
    for client in CLIENTS:
        yield from ((client, feature) for feature in FEATURES if feature not in client.lacks)
