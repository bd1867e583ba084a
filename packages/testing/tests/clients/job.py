"""The work that each client does for a cell, and its result. Both are plain data: a client may be another program."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

MODEL: Final = "claude-opus-4-7"
INPUT: Final = {"city": "Paris", "days": ["Monday", "Tuesday"]}
RESULT: Final = "Paris: 15 degrees"
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
TOOL: Final[Mapping[str, Any]] = {
    "name": "get_weather",
    "description": "Current weather in a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "array", "items": {"type": "string"}}},
        "required": ["city", "days"],
    },
}
BROKEN: Final[Sequence[Mapping[str, Any]]] = (
    {"role": "user", "content": "Weather in Paris?"},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": dict(INPUT)}],
    },
    {"role": "user", "content": "Well?"},
)
"""A history that the API refuses: its call has no result."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """The work of a client.

    Attributes:
        base_url: The address of the Messages API.
        question: The user's text.
        tool: Offer `get_weather(city, days)`, whose result is `"Paris: 15 degrees"`, and run its calls to the end.
        eager: Ask for its inputs as they are written.
        broken: Send the history `BROKEN` instead of the question.
        thinking: Ask for thinking.
        output: Ask for an output of the schema `SCHEMA`.
        count: Count the tokens of the question, and nothing else.
        threads: Ask for message threads, if they are not the default.
    """

    base_url: str
    question: str = "Weather in Paris?"
    tool: bool = False
    eager: bool = False
    broken: bool = False
    thinking: bool = False
    output: bool = False
    count: bool = False
    threads: bool = False

    @property
    def messages(self) -> list[Any]:
        """The messages in the form of the Messages API."""
        return [*BROKEN] if self.broken else [{"role": "user", "content": self.question}]

    @property
    def request(self) -> dict[str, Any]:
        """The parameters of the Messages API, without tools and output."""
        thinking = {"thinking": {"type": "adaptive"}} if self.thinking else {}
        return {"model": MODEL, "max_tokens": 2_048, "messages": self.messages, **thinking}


@dataclass(kw_only=True)
class Result:
    """The result of a client.

    Attributes:
        text: The last text of the model.
        calls: The inputs of the calls that ran.
        thinking: The thinking that the client gave to its program.
        output: The value of the structured output.
        tokens: The number of tokens that were counted.
    """

    text: str = ""
    calls: list[Any] = field(default_factory=list)
    thinking: str = ""
    output: Any = None
    tokens: int = 0


def weather_noted_in(result: Result) -> Callable[..., Coroutine[Any, Any, str]]:
    """Return the function of the tool. It notes the inputs of its calls."""

    async def get_weather(city: str, days: list[str]) -> str:
        """Current weather in a city."""
        result.calls.append({"city": city, "days": days})
        return RESULT

    return get_weather


Driver: TypeAlias = Callable[[Job], Awaitable[Result]]
"""Does the work with a client. Exceptions of the client pass through."""
