"""Bedrock frames to events: eagerstream's decoder compared with the anthropic client's, on the same bytes.

Each side takes the chunks of a body one after the other and returns the events as dicts. Ours returns dicts anyway. The
client's side is its `AWSEventStreamDecoder` and `json.loads`: the client does the same before it makes objects. Small
events are those of a text and a call with an input of 20 KB. A third of their characters is text, and they are padded,
as recorded ones. They come one per chunk. They also come with many in a chunk, as a network under load delivers them.
One large frame comes in chunks of one packet each. The client's buffer copies that frame again for each chunk.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from anthropic.lib.bedrock import _stream_decoder
from rich.console import Console
from rich.table import Table

from eagerstream.recordings import Recording
from eagerstream_testing._framing import AWS_EVENT_STREAM, in_aws_frames
from eagerstream_wire import AWSEventStreamDecoder, WireEvent

from .streams import body_chunks, make_input

PACE = "all bytes at hand"
PACKET_BYTES = 1_460
READ_BYTES = 65_536


@dataclass(frozen=True)
class Cell:
    """Figures of one body: µs per event of each side."""

    body: str
    events: int
    chunks: int
    body_bytes: int
    core_us: float
    anthropic_us: float

    @property
    def ratio(self) -> float:
        """Time of the client's decoder, divided by ours."""
        return self.anthropic_us / self.core_us


def _run_core(chunks: list[bytes]) -> list[WireEvent]:
    decoder = AWSEventStreamDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


def _run_anthropic(chunks: list[bytes]) -> list[Any]:
    decoder = _stream_decoder.AWSEventStreamDecoder()
    return [json.loads(event.data) for event in decoder.iter_bytes(iter(chunks))]


def _best_s(run: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(body: str, chunks: list[bytes]) -> Cell:
    """Measure one body. Both sides run once before, which also loads botocore's model of the service."""
    events = _run_core(chunks)
    assert events == _run_anthropic(chunks)
    size = sum(map(len, chunks))
    repeats = 10 if size < 2_000_000 else 3
    gc.collect()
    core_s = _best_s(lambda: _run_core(chunks), repeats)
    other_s = _best_s(lambda: _run_anthropic(chunks), repeats)
    count = len(events)
    return Cell(body, count, len(chunks), size, core_s / count * 1e6, other_s / count * 1e6)


def _cut(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


def _bodies(*, quick: bool) -> dict[str, list[bytes]]:
    text = json.dumps(make_input("lines", 20_000), ensure_ascii=False)
    frames = [in_aws_frames(Recording.from_body(chunk)).body for chunk in body_chunks(text, 16)]
    bodies = {
        "small events, one per chunk": frames,
        f"small events, {PACKET_BYTES:,} bytes per chunk": _cut(b"".join(frames), PACKET_BYTES),
        f"small events, {READ_BYTES:,} bytes per chunk": _cut(b"".join(frames), READ_BYTES),
    }
    for chars in (10_000, 100_000, 1_000_000) if quick else (10_000, 100_000, 1_000_000, 6_000_000):
        delta = {"type": "input_json_delta", "partial_json": json.dumps(make_input("one string", chars))}
        frame = AWS_EVENT_STREAM.encode({"type": "content_block_delta", "index": 0, "delta": delta})
        bodies[f"one event of {chars:,} characters"] = _cut(frame, PACKET_BYTES)
    return bodies


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure all bodies, print a table, and return the figures."""
    cells = [measure(body, chunks) for body, chunks in _bodies(quick=quick).items()]
    table = Table(title="frames of Bedrock to events: µs per event")
    for name in ("body", "events", "chunks", "bytes", "wire core", "client's decoder", "ratio"):
        table.add_column(name, justify="left" if name == "body" else "right", no_wrap=name == "body")
    for cell in cells:
        table.add_row(
            cell.body,
            f"{cell.events:,}",
            f"{cell.chunks:,}",
            f"{cell.body_bytes:,}",
            f"{cell.core_us:,.1f}",
            f"{cell.anthropic_us:,.1f}",
            f"{cell.ratio:,.1f}",
        )
    console.print(table)
    return {"pace": PACE, "cells": [{**asdict(cell), "ratio": cell.ratio} for cell in cells]}
