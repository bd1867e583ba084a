"""Faults put into a response: the bytes that still come, their times, and the end of the response.

This module only computes and never waits. If a fault needs the connection itself, an `Ending` describes it, and the
playback runs the ending.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final, NamedTuple, assert_never

from eagerstream import WireEvent
from eagerstream._support.bodies import BodyEvent
from eagerstream.recordings import Chunk, Recording

from ._endings import Ending, Repeat, break_chunking, close, reset, stall
from ._faults import ERROR_STATUS, Fault, FaultKind
from ._framing import ONE_PIECE, framing_of
from ._scripted import http_error

_GARBAGE: Final = b'\xff\xfe\x00\x80}{"\xc3('  # never UTF-8, never JSON at any place, and no line end
_CONTENT_TYPE: Final = "application/json"
_CONTENT_TYPE_OF_JSON: Final = "text/plain"
_ENDLESS_EVENTS: Final = 16  # in one write, of a few kilobytes
_ENDLESS_CHARS: Final = 128  # in one event: a limit of megabytes is reached in a moment
_RENAMED: Final = ("id", "tool_use_id")


class Answer(NamedTuple):
    """The answer to a request: the recording to play, the ending that HTTP cannot express, and a flag for headers."""

    recording: Recording
    ending: Ending | None = None
    headers: bool = True


def break_reply(recording: Recording, fault: Fault, request_id: str | None = None) -> Answer:
    """Return the response with a fault in it.

    A fault that affects events leaves a body with too few of them unchanged. In a body in one piece, each 16 bytes
    count as an event, and an `ERROR_EVENT` becomes an HTTP error. Without a `request_id`, an HTTP error gets one.
    """
    kind = fault.kind
    match kind:
        case FaultKind.HTTP_ERROR:
            return Answer(_http_error(fault, request_id))
        case FaultKind.HTML_PAGE:
            return Answer(_html_page(fault))
        case FaultKind.CONTENT_TYPE:
            others = {name: value for name, value in recording.headers.items() if name.lower() != "content-type"}
            content_type = _CONTENT_TYPE_OF_JSON if framing_of(recording) is ONE_PIECE else _CONTENT_TYPE
            return Answer(replace(recording, headers={**others, "content-type": content_type}))
        case FaultKind.ERROR_EVENT if framing_of(recording) is ONE_PIECE:
            error_at_end = _http_error(fault, request_id)
            return Answer(_with(error_at_end, [Chunk(recording.duration_s, error_at_end.body)]))
        case FaultKind.ERROR_EVENT:
            error = {"type": "error", "error": {"type": fault.error_type, "message": fault.message}}
            return Answer(_cut(recording, _offset(recording, fault), framing_of(recording).encode(error)))
        case FaultKind.END:
            return Answer(_cut(recording, _offset(recording, fault)))
        case FaultKind.CLOSE:
            return Answer(_cut(recording, _offset(recording, fault)), close, not fault.before_headers)
        case FaultKind.RESET:
            return Answer(_cut(recording, _offset(recording, fault)), reset, not fault.before_headers)
        case FaultKind.STALL:
            return Answer(_cut(recording, _offset(recording, fault)), stall, not fault.before_headers)
        case FaultKind.BROKEN_CHUNKING:
            return Answer(_cut(recording, _offset(recording, fault)), break_chunking)
        case FaultKind.ENDLESS:
            return _endless(recording, fault)
        case FaultKind.GARBAGE:
            garbage = _GARBAGE if fault.after_bytes is not None else framing_of(recording).wrap(_GARBAGE)
            return Answer(_insert(recording, _offset(recording, fault), garbage))
        case FaultKind.SPLICE:
            return Answer(_splice(recording, fault))
        case FaultKind.DUPLICATE:
            start, end = _event_bounds(recording, fault)
            return Answer(_insert(recording, end, recording.body[start:end]))
        case FaultKind.MISSING:
            start, end = _event_bounds(recording, fault)
            return Answer(_with(recording, [*slice_chunks(recording, 0, start), *slice_chunks(recording, end)]))
        case FaultKind.REORDERED:
            return Answer(_reorder(recording, fault))
        case _:
            assert_never(kind)


# --- instead of the response ----------------------------------------------------------------------------------------


def _http_error(fault: Fault, request_id: str | None) -> Recording:
    error_type = fault.api_error_type or ""
    error = http_error(ERROR_STATUS[error_type], error_type, fault.message, request_id=request_id)
    if fault.retry_after_s is None:
        return error
    return replace(error, headers={**error.headers, "retry-after": f"{fault.retry_after_s:.15g}"})


def _html_page(fault: Fault) -> Recording:
    status = fault.status or 0
    title = f"{status} {HTTPStatus(status).phrase}" if status in set(HTTPStatus) else str(status)
    page = (
        f"<html>\r\n<head><title>{title}</title></head>\r\n"
        f"<body>\r\n<center><h1>{title}</h1></center>\r\n<hr><center>proxy</center>\r\n</body>\r\n</html>\r\n"
    )
    return Recording((Chunk(0.0, page.encode()),), status=status, headers={"content-type": "text/html"})


# --- places -----------------------------------------------------------------------------------------------------------


def _offset(recording: Recording, fault: Fault) -> int:
    """Return the number of bytes of the body before the fault."""
    body = recording.body
    if fault.after_bytes is not None:
        return min(fault.after_bytes, len(body))
    ends = [0, *(event.end for event in framing_of(recording).events(body))]
    return ends[fault.after_events] if fault.after_events < len(ends) else len(body)


def _event_bounds(recording: Recording, fault: Fault) -> tuple[int, int]:
    """Return start and end of the event that the fault affects; `(0, 0)` if there is none."""
    ends = [0, *(event.end for event in framing_of(recording).events(recording.body))]
    number = min(fault.after_events, len(ends) - 2)
    return (ends[number], ends[number + 1]) if number >= 0 else (0, 0)


def time_at(recording: Recording, offset: int) -> float:
    """Return the arrival time of the byte at `offset`; at the end of the body, that of the last byte."""
    at = 0
    for at_s, data in recording.chunks:
        at += len(data)
        if offset < at:
            return at_s
    return recording.duration_s


def slice_chunks(recording: Recording, start: int, end: int | None = None) -> list[Chunk]:
    """Return the chunks of a part of the body, cut at its start and end."""
    kept = []
    at = 0
    for at_s, data in recording.chunks:
        piece = data[max(start - at, 0) : None if end is None else max(end - at, 0)]
        if piece:
            kept.append(Chunk(at_s, piece))
        at += len(data)
    return kept


# --- chunks -----------------------------------------------------------------------------------------------------------


def _with(recording: Recording, chunks: Iterable[Chunk]) -> Recording:
    return replace(recording, chunks=tuple(chunks))


def _cut(recording: Recording, offset: int, then: bytes = b"") -> Recording:
    """Return the body up to `offset`, followed by `then` at the time of the byte that it replaces."""
    return _with(recording, [*slice_chunks(recording, 0, offset), Chunk(time_at(recording, offset), then)])


def _insert(recording: Recording, offset: int, data: bytes) -> Recording:
    return _with(recording, [*_cut(recording, offset, data).chunks, *slice_chunks(recording, offset)])


def _reorder(recording: Recording, fault: Fault) -> Recording:
    """Swap two events. The chunks keep their sizes and times."""
    body = recording.body
    ends = [0, *(event.end for event in framing_of(recording).events(body))]
    number = min(fault.after_events, len(ends) - 3)
    if number < 0:
        return recording
    start, middle, end = ends[number : number + 3]
    body = body[:start] + body[middle:end] + body[start:middle] + body[end:]
    chunks = []
    at = 0
    for at_s, data in recording.chunks:
        chunks.append(Chunk(at_s, body[at : at + len(data)]))
        at += len(data)
    return _with(recording, chunks)


# --- the response starts again ----------------------------------------------------------------------------------------


def _splice(recording: Recording, fault: Fault) -> Recording:
    """Return the response up to the fault, followed by the complete response as another message."""
    events = list(framing_of(recording).events(recording.body))
    # The fault comes after the first event, since the second message_start needs a first, and before message_stop.
    last = next(
        (number for number, event in enumerate(events) if event.data.get("type") == "message_stop"), len(events)
    )
    place = min(max(fault.after_events, 1), last)
    if place < 1:
        return recording
    offset = events[place - 1].end
    resumed_s = time_at(recording, offset)
    late_s = resumed_s - recording.chunks[0].at_s
    # Rounding must not put a chunk before the previous one.
    again = [Chunk(max(at_s + late_s, resumed_s), data) for at_s, data in _renamed(recording, events)]
    return _with(recording, [*slice_chunks(recording, 0, offset), *again])


def _renamed(recording: Recording, events: Sequence[BodyEvent]) -> list[Chunk]:
    """Return the chunks of the response under other ids. A second attempt never has the ids of the first."""
    chunks: list[Chunk] = []
    start = kept = 0
    for end, event in events:
        holder = {"message_start": "message", "content_block_start": "content_block"}.get(event.get("type", ""), "")
        held = event.get(holder)
        named = held if isinstance(held, Mapping) else {}
        ids = {name: f"{named[name]}_again" for name in _RENAMED if isinstance(named.get(name), str)}
        if ids:
            other = framing_of(recording).encode({**event, holder: {**named, **ids}})
            chunks += slice_chunks(recording, kept, start)
            chunks.append(Chunk(time_at(recording, end - 1), other))
            kept = end
        start = end
    return chunks + slice_chunks(recording, kept)


# --- the response never ends -----------------------------------------------------------------------------------------


def _endless(recording: Recording, fault: Fault) -> Answer:
    """Return the response up to the fault, then more of the open block, or of a new text block if none is open."""
    framing = framing_of(recording)
    if framing is ONE_PIECE:
        return Answer(_cut(recording, _offset(recording, fault)), Repeat(b" " * _ENDLESS_CHARS * _ENDLESS_EVENTS))
    events = list(framing.events(recording.body))
    # An endless response has started and has not ended.
    over = (n for n, event in enumerate(events) if event.data.get("type") in ("message_delta", "message_stop"))
    place = min(max(fault.after_events, 1), next(over, len(events)))
    opened, delta = _what_goes_on([event.data for event in events[:place]])
    offset = events[place - 1].end if place else 0
    repeated = framing.encode(delta) * _ENDLESS_EVENTS
    return Answer(_cut(recording, offset, b"".join(map(framing.encode, opened))), Repeat(repeated))


def _what_goes_on(passed: Sequence[WireEvent]) -> tuple[list[WireEvent], WireEvent]:
    """Return the events to send first, and the delta to repeat for ever after the events that have passed."""
    blocks: dict[int, str] = {}  # the type of each open block
    fragments: dict[int, list[str]] = {}
    next_index = 0
    for event in passed:
        match event:
            case {"type": "content_block_start", "index": int(index), "content_block": {"type": str(kind)}}:
                blocks[index] = kind
                next_index = max(next_index, index + 1)
            case {"type": "content_block_stop", "index": int(index)}:
                blocks.pop(index, None)
            case {"type": "content_block_delta", "index": int(index), "delta": {"partial_json": str(fragment)}}:
                fragments.setdefault(index, []).append(fragment)
            case _:
                pass  # does not open, close or extend a block
    for index, kind in blocks.items():
        if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
            opened, fragment = _endless_json("".join(fragments.get(index, ())))
            before = [_delta(index, "input_json_delta", "partial_json", opened)] if opened else []
            return before, _delta(index, "input_json_delta", "partial_json", fragment)
    more = "more " * (_ENDLESS_CHARS // 5)
    for index, kind in blocks.items():
        if kind in ("text", "thinking"):
            return [], _delta(index, f"{kind}_delta", kind, more)
    start = {"type": "content_block_start", "index": next_index, "content_block": {"type": "text", "text": ""}}
    return [start], _delta(next_index, "text_delta", "text", more)


def _endless_json(raw: str) -> tuple[str, str]:
    r"""Return an endless continuation of an input: the text to send once, and the text to repeat.

    Inside a string, `b` continues it at any place: as a letter, as the escape `\b`, or as a digit of `\ubbbb`. Outside
    a string, a space continues it, except inside a number or a name.
    """
    if not raw.strip():
        return '{"endless": "', "b" * _ENDLESS_CHARS
    quotes = 0
    escaped = False
    for character in raw:
        quotes += character == '"' and not escaped
        escaped = character == "\\" and not escaped
    return "", ("b" if quotes % 2 else " ") * _ENDLESS_CHARS


def _delta(index: int, kind: str, name: str, content: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, name: content}}
