"""`ChatServer`: OpenAI's protocol for chat completions, as three servers implement it, on the parts of the double.

It checks requests, and converts the responses of a scenario of the Messages API.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from eagerstream._support.bodies import body_events
from eagerstream._support.serving.asgi_server import ASGIApplication, ThreadedServer
from eagerstream.recordings import Chunk, Recording
from eagerstream_testing import Faults, Scenario
from eagerstream_testing._application import route
from eagerstream_testing._endpoints import Asked, Behaviour
from eagerstream_testing._framing import SSE
from eagerstream_testing._injection import Answer, break_reply
from eagerstream_testing._platforms import Body, Dialect, Refused, api_error
from eagerstream_testing._received import ReceivedRequest, RequestLog
from eagerstream_wire import SSEDecoder

from .chunks import ChatRenderer, OllamaRenderer, VLLMRenderer, encode_chunk, encode_error

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
class Chat(Dialect):
    """One of these servers.

    Attributes:
        renderer: Converts its streamed responses.
        parses_arguments: It refuses a request that sends back an input that is not JSON.
    """

    path: str = "/v1/chat/completions"
    request_id_header: str = "x-request-id"
    renderer: type[ChatRenderer] = ChatRenderer
    parses_arguments: bool = False

    def answer(self, behaviour: Behaviour, _: Dialect, asked: Asked) -> Answer:
        """Return the response to a request, with its fault. This is an endpoint of the double."""
        body, received = asked.body, asked.received
        for fault in _faults(body, parses_arguments=self.parses_arguments):
            raise Refused(400, "invalid_request_error", fault)
        if body.get("stream") is not True:
            raise Refused(400, "invalid_request_error", "stream: only streamed responses are replayed")
        recording = behaviour.scenario.answer(body)
        faults = behaviour.faults
        received.fault = faults.draw(body, recording) if faults is not None and recording.status == 200 else None
        if received.fault is None:
            return self.answered(Answer(recording), body)
        return self.answered(break_reply(recording, received.fault, received.request_id), body)

    def spoken(self, answer: Recording) -> Recording:
        error = api_error(answer) if answer.status != 200 else None
        return answer if error is None else _refusal(answer, error)

    def answered(self, answer: Answer, sent: Body) -> Answer:
        """Return a response of the Messages API, with its fault, in this protocol."""
        recording = self.spoken(answer.recording)
        if recording.status != 200 or recording.media_type == "text/html":
            return answer._replace(recording=recording)
        options = sent.get("stream_options")
        wants_usage = isinstance(options, Mapping) and options.get("include_usage") is True
        return answer._replace(recording=_rendered(recording, self.renderer(wants_usage=wants_usage)))


CHAT_DIALECTS: Final[Mapping[ChatDialect, Chat]] = {
    ChatDialect.OPENAI: Chat(""),
    ChatDialect.VLLM: Chat("/vllm", renderer=VLLMRenderer),
    ChatDialect.OLLAMA: Chat("/ollama", renderer=OllamaRenderer, parses_arguments=True),
}


class ChatServer(ThreadedServer):
    """Plays recordings to clients of OpenAI's protocol, in the dialects of three servers.

    Args:
        replies: A scenario, or one recording that answers every request. A function of it gets the body as it was sent.
        faults: A schedule by turn.
    """

    def __init__(self, replies: Scenario | Recording, *, faults: Faults | None = None) -> None:
        scenario = Scenario.of(replies) if isinstance(replies, Recording) else replies
        self._behaviour = Behaviour(scenario, faults=faults)
        self._log = RequestLog()
        super().__init__(self._application, name="chat server", host="127.0.0.1", port=0)

    def chat_url(self, dialect: ChatDialect = ChatDialect.OPENAI) -> str:
        """The base URL for a client."""
        return f"{self.base_url}{CHAT_DIALECTS[dialect].root}/v1"

    @property
    def requests(self) -> list[ReceivedRequest]:
        """The requests, in order of arrival."""
        return self._log.entries()

    def _application(self) -> ASGIApplication:
        from starlette.applications import Starlette

        chats = CHAT_DIALECTS.values()
        return Starlette(
            routes=[route(self._behaviour, self._log, None, chat, (chat.path, chat.answer)) for chat in chats]
        )


# --- refused requests -------------------------------------------------------------------------------------------------


def _faults(body: Body, *, parses_arguments: bool) -> Iterator[str]:
    """Yield the faults that the server would report, in its words."""
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
    yield from _history_faults(body["messages"], parses_arguments=parses_arguments)


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
