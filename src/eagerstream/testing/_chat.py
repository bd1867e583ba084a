"""OpenAI's protocol for chat completions, as three servers implement it: check requests, convert responses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from ..recordings import Chunk, Recording
from ..wire import EagerSupport, SSEDecoder
from ._body import body_events
from ._chat_chunks import ChatRenderer, OllamaRenderer, VLLMRenderer, completion, encode_chunk, encode_error
from ._endings import Repeat
from ._framing import SSE
from ._injection import Answer
from ._one_piece import in_one_piece
from ._platforms import Body, Dialect, Refused, api_error

_ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function")


class ChatDialect(StrEnum):
    """The server that the responses imitate."""

    OPENAI = "openai"
    """OpenAI: the first piece of a call has its id and name. Arguments are sent as they are written."""
    VLLM = "vllm"
    """vLLM: the last arguments come with `finish_reason`, and repeat the id and the name."""
    OLLAMA = "ollama"
    """Ollama: a call comes in one piece, with index 0.

    If its input is not a JSON object, it becomes text. If its block is never closed, it is left out.
    """


@dataclass(frozen=True)
class _Chat(Dialect):
    path: str = "/v1/chat/completions"
    count_path: str | None = None
    has_threads: bool = False
    buffers_inputs: bool = False
    request_id_header: str = "x-request-id"
    renderer: type[ChatRenderer] = ChatRenderer
    parses_arguments: bool = False
    """Refuse a request that sends back an input that is not JSON."""

    def faults(self, body: Body, betas: Sequence[str], eager: EagerSupport) -> Iterator[str]:
        del betas, eager  # belong to the other API
        yield from _request_faults(body)
        yield from _history_faults(body["messages"], parses_arguments=self.parses_arguments)

    def in_one_piece(self, answer: Recording) -> Recording:
        return in_one_piece(answer, completion)

    def spoken(self, answer: Recording) -> Recording:
        error = api_error(answer) if answer.status != 200 else None
        return answer if error is None else _refusal(answer, error)

    def answered(self, answer: Answer, sent: Body) -> Answer:
        recording = self.spoken(answer.recording)
        if recording.status != 200 or recording.media_type == "text/html" or sent.get("stream") is not True:
            return answer._replace(recording=recording)
        options = sent.get("stream_options")
        wants_usage = isinstance(options, Mapping) and options.get("include_usage") is True
        renderer = self.renderer(wants_usage=wants_usage)
        recording = _rendered(recording, renderer)
        if isinstance(answer.ending, Repeat):
            again = b"".join(renderer.render(event.data) for event in body_events(answer.ending.data))
            more = again or encode_chunk(renderer.chunk({"content": "more " * 25}))  # Ollama's calls wait for their end
            return answer._replace(recording=recording, ending=Repeat(more))
        return answer._replace(recording=recording)


CHAT_DIALECTS: Final[Mapping[ChatDialect, Dialect]] = {
    ChatDialect.OPENAI: _Chat(""),
    ChatDialect.VLLM: _Chat("/vllm", renderer=VLLMRenderer),
    ChatDialect.OLLAMA: _Chat("/ollama", renderer=OllamaRenderer, parses_arguments=True),
}


# --- refused requests -------------------------------------------------------------------------------------------------


def _request_faults(body: Body) -> Iterator[str]:
    if not isinstance(body.get("model"), str):
        yield "you must provide a model parameter"
    if not isinstance(body.get("messages"), list) or not body["messages"]:
        yield "Missing required parameter: 'messages'."
        return
    if body.get("n") not in (None, 1):
        yield "n: only one choice is replayed"
    tools = body.get("tools")
    for number, tool in enumerate(tools if isinstance(tools, list) else ()):
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            yield f"Missing required parameter: 'tools[{number}].function.name'."
    if tools is not None and not (isinstance(tools, list) and tools):
        yield f"Invalid 'tools': {'empty array' if tools == [] else 'not an array'}."


def _history_faults(messages: Sequence[Any], *, parses_arguments: bool) -> Iterator[str]:
    """Yield the faults of a history. Each call needs a result right after its message, and each result a call."""
    waiting: dict[str, None] = {}
    for number, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role not in _ROLES:
            yield f"Invalid value: {role!r:.40}. Supported values are: {', '.join(_ROLES)} (messages[{number}].role)."
            return
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                yield "messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
            waiting.pop(message.get("tool_call_id"), None)
            continue
        yield from _unanswered(waiting)
        calls = message.get("tool_calls") or ()
        for call in calls if role == "assistant" else ():
            yield from _call_faults(call, f"messages[{number}].tool_calls", parses_arguments=parses_arguments)
            waiting[str(call.get("id"))] = None
        if message.get("content") is None and not calls and message.get("function_call") is None:
            yield f"Invalid value for 'content': expected a string, got null (messages[{number}].content)."
    yield from _unanswered(waiting)


def _unanswered(waiting: Mapping[str, None]) -> Iterator[str]:
    if waiting:
        yield (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(waiting)}"
        )


def _call_faults(call: Any, place: str, *, parses_arguments: bool) -> Iterator[str]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        raise Refused(400, "invalid_request_error", f"Missing required parameter: '{place}[0].function.arguments'.")
    if parses_arguments:
        try:
            json.loads(function["arguments"])
        except (ValueError, RecursionError):
            yield "invalid tool call arguments"


# --- responses --------------------------------------------------------------------------------------------------------


def _rendered(recording: Recording, renderer: ChatRenderer) -> Recording:
    """Return the response as chunks of a chat completion, each at the time when its event was complete.

    A body that ends inside an event ends inside a chunk.
    """
    decoder = SSEDecoder(max_event_bytes=len(recording.body) + 1)
    chunks = [
        Chunk(at_s, b"".join(_chunk_of(event.data, renderer) for event in decoder.feed(data)))
        for at_s, data in recording.chunks
    ]
    whole = max((event.end for event in body_events(recording.body)), default=0)
    if recording.body[whole:].strip():
        half = encode_chunk(renderer.chunk({"content": "cut off"}))
        chunks.append(Chunk(recording.duration_s, half[: len(half) // 2]))
    return replace(recording, chunks=tuple(chunks))


def _chunk_of(data: str, renderer: ChatRenderer) -> bytes:
    if not data:
        return b""
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        return SSE.wrap(data.encode(errors="replace"))  # not an event of the API: unchanged
    return renderer.render(event)


def _refusal(answer: Recording, error: Mapping[str, Any]) -> Recording:
    kept = {name: value for name, value in answer.headers.items() if name.lower() == "retry-after"}
    chunks = (Chunk(answer.duration_s, encode_error(error)),)
    return replace(answer, chunks=chunks, headers={"content-type": "application/json", **kept})
