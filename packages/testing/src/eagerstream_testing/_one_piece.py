"""Responses in one piece, for requests that are not streamed: the message that a streaming client would accumulate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from eagerstream import MessageAssembler, WireEvent
from eagerstream._support.terms import TOOL_BLOCKS
from eagerstream.errors import EagerStreamError
from eagerstream.recordings import Chunk, Recording

from ._faults import ERROR_STATUS
from ._framing import AWS_EVENT_STREAM, SSE, framing_of
from ._scripted import dump_json, http_error

_STREAMS: Final = ("", SSE.media_type, AWS_EVENT_STREAM.media_type)


def in_one_piece(recording: Recording) -> Recording:
    """Return a response as one chunk of JSON, at the time of its last event.

    An `error` event becomes an HTTP error, with the status of its type. A response without its `message_stop` becomes
    the first half of the JSON. A response that is no stream of events stays unchanged.
    """
    if recording.status != 200 or recording.media_type not in _STREAMS:
        return recording
    events = [event.data for event in framing_of(recording).events(recording.body)]
    error = next((event["error"] for event in events if event.get("type") == "error"), None)
    if isinstance(error, dict):
        error_type = str(error.get("type"))
        return _late(http_error(ERROR_STATUS.get(error_type, 500), error_type, str(error.get("message"))), recording)
    try:
        body = dump_json(final_message(events)).encode()
    except EagerStreamError as unreadable:
        what = f"the response cannot be assembled: {type(unreadable).__name__}"
        return _late(http_error(500, "api_error", what), recording)
    if not any(event.get("type") == "message_stop" for event in events):
        body = body[: len(body) // 2]
    headers = {name: value for name, value in recording.headers.items() if name.lower() != "content-type"}
    return replace(
        recording,
        chunks=(Chunk(recording.duration_s, body),),
        headers={**headers, "content-type": "application/json"},
    )


def _late(error: Recording, recording: Recording) -> Recording:
    return replace(error, chunks=(Chunk(recording.duration_s, error.body),))


def final_message(events: Sequence[WireEvent]) -> dict[str, Any]:
    """Return the message of these events, with its original ids.

    The input of a call is always an object. If its text is not JSON or is cut, it has the members that were complete.

    Raises:
        EagerStreamError: They are no message.
    """
    assembler = MessageAssembler()
    for event in events:
        assembler.feed(event)
    assembler.close()
    message = dict(assembler.message)
    content: list[Any] = [*assembler.message["content"]]
    calls = [block for block in content if block.get("type") in TOOL_BLOCKS]
    for block, (_, input) in zip(calls, sorted(assembler.inputs.items()), strict=True):
        if input.value is not None:
            block["input"] = input.value
        else:
            block["input"] = {name: value for name, value in input.partial.items() if input.is_finished(name)}
        block.update({name: input.block[name] for name in ("id", "name") if name in input.block})
    return message
