"""What the fuzzers begin with: what they found before, whole recordings and their parts, and the words of the formats."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from eagerstream.errors import ProtocolError
from eagerstream.recordings import Recording
from eagerstream_testing._framing import in_aws_frames
from eagerstream_wire import SSEDecoder, decode_event
from tests.streams import made_recordings, real_recordings

CORPUS: Final = Path(__file__).parent / "corpus"
"""What fuzzers have found: a folder for each target, a file for each input."""

_HEADER: Final = {
    "sse_decoder": bytes(9),
    "aws_event_stream": bytes(8),
    "partial_json": bytes(9),
    "input_accumulator": bytes(9),
    "patch": bytes(8),
    "stream": bytes(8),
    "recording_reader": bytes(2),
    "request_bodies": bytes(2),
    "json_schema": bytes(1),
    "bash_frame": bytes(12),
    "jail_paths": bytes(2),
    "worker_frames": bytes(2),
    "redaction": bytes(1),
    "flavors": bytes(12),
}
"""Before raw input, per target: the choices of limits, of no grammar, and of a cut."""

_TEXTS: Final = {
    "request_bodies": (
        b'{"id": "c", "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "a"}]}]}',
    ),
    "json_schema": (b'{"type": "object", "properties": {"a": {"type": "string", "pattern": "^a+$"}}}\n{"a": "aa"}',),
}
"""Whole inputs of the targets that recordings have none for."""

_WORDS: Final = (
    "event: ", "data: ", "\ndata: ", "\n\n", "\r\n", "\r\r", "\r", "\xef\xbb\xbf", "id: ", "retry: ", ": ", "data: [DONE]\n\n",
    "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop",
    "ping", "error", "input_json_delta", "text_delta", "thinking_delta", "signature_delta", "citations_delta",
    "compaction_delta", "tool_use", "server_tool_use", "mcp_tool_use", "end_turn", "max_tokens", "pause_turn",
    '"type":', '"index":', '"delta":', '"content_block":', '"partial_json":', '"stop_reason":', '"message":', '"usage":',
    '"input":', '"id":', '"name":', '"text":', '"citations":', '{"type":"', '{"a":', "[0,", "}", "]", "null", "true", "false",
    "\\u", "\\ud83d", "\\ude00", "\\u0000", '\\"', "\\\\", "\\n", "1e999", "-0.0", "NaN", "Infinity", "1E+", "\x00",
    "\xf0\x9f\x98\x80", "\xf0\x9f", "\xe2\x80\xa8", "\xc2\x85", "\xed\xa0\xbd", '"eagerstream_recording": 1', '"status":',
    '"headers":', '"note":', '"at_s":', '"base64":', '"data":',
    '{"bytes":"', '"message":', "chunk", "exception", "\x0b:event-type\x07\x00\x05chunk", "\x0d:message-type\x07\x00\x05event",
)  # fmt: skip


def dictionary() -> str:
    """The words in the form that libFuzzer reads."""
    lines = ("".join(f"\\x{byte:02x}" for byte in word.encode("latin-1")) for word in _WORDS)
    return "".join(f'"{line}"\n' for line in lines)


def words() -> list[bytes]:
    """The words as bytes."""
    return [word.encode("latin-1") for word in _WORDS]


def seeds(target: str) -> Iterator[bytes]:
    """Inputs of a target: what recordings hold, raw, and a few lists of choices for its grammar."""
    for path in sorted((CORPUS / target).glob("*")):
        yield path.read_bytes()
    header = _HEADER[target]
    for path in (*made_recordings(), *real_recordings()):
        for part in _parts(target, path.read_bytes()):
            yield header + part
    for number in range(40):
        yield hashlib.shake_128(f"{target} {number}".encode()).digest(4 * number + 12)


def _parts(target: str, body: bytes) -> Iterator[bytes]:
    if target in ("sse_decoder", "stream"):
        yield body
        return
    if target in ("bash_frame", "jail_paths", "worker_frames"):
        return  # they read no recordings
    if target == "redaction":
        yield body[:2_000]
        return
    if target == "aws_event_stream":
        yield in_aws_frames(Recording.from_body(body)).body
        return
    if target == "recording_reader":
        lines = [
            b'{"eagerstream_recording": 1, "status": 200, "headers": {"content-type": "text/event-stream"}, "note": ""}'
        ]
        yield lines[0] + b'\n{"at_s": 0.5, "data": "event: ping\\n"}\n{"at_s": 1, "base64": "ZGF0YQo="}\n'
        yield b"\x03\x00" + body
        return
    if target in ("request_bodies", "json_schema"):
        yield from _TEXTS[target]
        return
    fragments: dict[object, list[str]] = {}
    events: list[str] = []
    for event in SSEDecoder().feed(body):
        events.append(event.data)
        try:
            wire_event = decode_event(event.data)
        except ProtocolError:
            continue
        delta = wire_event.get("delta")
        if isinstance(delta, dict) and delta.get("type") == "input_json_delta":
            fragments.setdefault(wire_event.get("index"), []).append(delta["partial_json"])
    if target in ("partial_json", "patch"):
        for pieces in fragments.values():
            yield "".join(pieces).encode()
    else:
        yield "\n".join(events).encode()


def write_seeds(target: str, folder: Path) -> int:
    """Write the seeds of a target as files, named by content; returns how many there are."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for seed in seeds(target):
        (folder / hashlib.sha1(seed, usedforsecurity=False).hexdigest()).write_bytes(seed)
    return len(list(folder.iterdir()))
