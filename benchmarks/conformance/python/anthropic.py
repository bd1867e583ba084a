"""anthropic: `messages.stream()` over a transport that answers with the body, and its reader of event streams."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import httpx2
from anthropic import Anthropic, DefaultHttpxClient
from anthropic._streaming import SSEDecoder

from .reading import NOTHING, server_sent_events

lacks = ["growing_strings", "lone_surrogates"]  # jiter, which reads for it, shows complete strings, and those of Rust

_MESSAGE: Final[dict[str, Any]] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [],
    "stop_reason": None,
}
_TOOL_USE = {"type": "tool_use", "id": "toolu_1", "name": "tool", "input": {}}


def _event(**data: Any) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


@contextmanager
def _streamed(chunks: Sequence[bytes]) -> Iterator[Any]:
    """Open the stream of a request that is answered with these chunks."""
    headers = {"content-type": "text/event-stream"}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, content=iter(chunks)))
    with (
        DefaultHttpxClient(transport=transport) as http,
        Anthropic(api_key="none", base_url="http://localhost", http_client=http, max_retries=0) as client,
        client.messages.stream(model="claude", max_tokens=1, messages=[{"role": "user", "content": "x"}]) as stream,
    ):
        yield stream


def sse(chunks: Sequence[bytes]) -> dict[str, Any]:
    return server_sent_events(chunks, lambda source: SSEDecoder().iter_bytes(iter(source)))


def partial_json(fragments: Sequence[str]) -> dict[str, Any]:
    if not "".join(fragments).lstrip(" \t\r\n").startswith(("{", "[")):
        return {}  # it reads the inputs of tools only
    deltas = [{"type": "input_json_delta", "partial_json": fragment} for fragment in fragments]
    chunks = [
        _event(type="message_start", message={**_MESSAGE, "usage": {"input_tokens": 1, "output_tokens": 1}}),
        _event(type="content_block_start", index=0, content_block=_TOOL_USE),
        *(_event(type="content_block_delta", index=0, delta=delta) for delta in deltas),
        _event(type="content_block_stop", index=0),
        _event(type="message_stop"),
    ]
    values: list[Any] = []
    text = ""
    try:
        with _streamed(chunks) as stream:
            for event in stream:
                if event.type == "input_json":
                    text += event.partial_json
                    # Before any text there is the empty object of the block's start.
                    values.append(copy.deepcopy(event.snapshot) if text.strip(" \t\r\n") else NOTHING)
    except ValueError:
        pass  # a text that it finds wrong ends the stream; its last value stays
    last = values[-1] if values else NOTHING
    return {"steps": [{"value": values[at] if at < len(values) else last} for at in range(len(fragments) + 1)]}


def inputs(chunks: Sequence[bytes]) -> dict[str, Any]:
    raw: dict[int, str] = {}
    with _streamed(chunks) as stream:
        for event in stream:
            if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                raw[event.index] = raw.get(event.index, "") + event.delta.partial_json
        message = stream.get_final_message()
    found = []
    for index, block in enumerate(message.content):
        if block.type.endswith("tool_use"):
            # A program that looks at `stop_reason` knows that `max_tokens` cut the last input.
            is_cut = message.stop_reason == "max_tokens" and index == len(message.content) - 1
            verdict = {"outcome": "incomplete"} if is_cut else {"outcome": "valid", "value": block.input}
            item = {"id": block.id, "name": block.name, "type": block.type, "raw": raw.get(index, "")}
            found.append({**item, **verdict})
    return {"inputs": found, "stop_reason": message.stop_reason}
