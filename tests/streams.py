"""What tests of streams share: recordings, ways to cut a stream, and values written down for comparison.

Needs hypothesis and the wire core only, so that the tests of the core load nothing else.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import pytest
from hypothesis import strategies as st

from eagerstream_wire import (
    JSON,
    AssistantMessage,
    BlockStart,
    BlockStop,
    CitationDelta,
    InputDelta,
    InputStart,
    InputStop,
    MessageStart,
    MessageStop,
    SSEDecoder,
    TextDelta,
    ThinkingDelta,
    UnknownEvent,
    WireEvent,
    decode_event,
)
from tests.missing import NO_RECORDINGS
from tests.sampling import drawn

# --- recordings -------------------------------------------------------------------------------------------------------

_TESTS = Path(__file__).parent
MADE_DIR = _TESTS / "data"
"""The project's own recordings, made by hand."""

REAL_DIR = Path(os.environ.get("EAGERSTREAM_RECORDINGS") or _TESTS.parent.parent / "shared" / "recordings")
"""Recordings of real replies. They are not part of the project: tests that want them do without where they are absent."""


def made_recordings() -> list[Path]:
    """The project's own recordings, by name."""
    return sorted(MADE_DIR.glob("*.sse"))


def real_recordings() -> list[Path]:
    """The recordings of real replies, by name; none where their folder is absent."""
    return sorted(REAL_DIR.glob("*.sse"))


needs_recordings = pytest.mark.skipif(not real_recordings(), reason=NO_RECORDINGS)
"""Leaves a test out if there are no recordings of real replies."""

_SAMPLED = 8
"""So many of the recordings of real replies are for a run of the quick tests; the others for the slow ones."""


def _recording_params() -> Iterator[Any]:
    for path in made_recordings():
        yield pytest.param(path, id=f"made/{path.stem}")
    real = real_recordings()
    quick = set(drawn((path.stem for path in real), _SAMPLED))
    for path in real:
        marks = [] if path.stem in quick else [pytest.mark.slow]
        yield pytest.param(path, id=f"real/{path.stem}", marks=marks)
    if not real:
        yield pytest.param(MADE_DIR, id="real", marks=needs_recordings)


each_recording = pytest.mark.parametrize("recording", list(_recording_params()))
"""Runs a test for each recording, as its argument `recording`; without the real ones that is one skip."""


def wire_events(body: bytes) -> list[WireEvent]:
    """The wire events of a whole body."""
    decoder = SSEDecoder()
    events = [decode_event(event.data) for event in decoder.feed(body)]
    decoder.close()
    return events


# --- wire events, written short -----------------------------------------------------------------------------------------


def message_start(**fields: Any) -> WireEvent:
    """A reply begins; `fields` add to its message."""
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-made-1",
        "content": [],
    }
    message |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 1}}
    return {"type": "message_start", "message": message | fields}


def block_start(index: int, type: str, **fields: Any) -> WireEvent:
    """A block opens."""
    return {"type": "content_block_start", "index": index, "content_block": {"type": type, **fields}}


def tool_start(index: int, name: str = "tool", *, kind: str = "tool_use", **fields: Any) -> WireEvent:
    """A tool call opens, with the usual placeholder for its input; its id is `toolu_<index>`."""
    return block_start(index, kind, **({"id": f"toolu_{index}", "name": name, "input": {}} | fields))


def block_delta(index: int, type: str, **fields: Any) -> WireEvent:
    """More of a block."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": type, **fields}}


def input_delta(index: int, fragment: str) -> WireEvent:
    """More of a tool's input."""
    return block_delta(index, "input_json_delta", partial_json=fragment)


def text_delta(index: int, text: str) -> WireEvent:
    """More text."""
    return block_delta(index, "text_delta", text=text)


def block_stop(index: int) -> WireEvent:
    """A block is closed."""
    return {"type": "content_block_stop", "index": index}


def message_delta(stop_reason: str | None, **usage: Any) -> WireEvent:
    """The end of the reply is near."""
    delta = {"stop_reason": stop_reason, "stop_sequence": None}
    return {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9} | usage}


MESSAGE_STOP: WireEvent = {"type": "message_stop"}

# --- cutting ----------------------------------------------------------------------------------------------------------

StreamT = TypeVar("StreamT", str, bytes)


def blocks_of(message: AssistantMessage) -> list[Any]:
    """The blocks of a message, without their types: tests know which kind is where."""
    content: list[Any] = cast("list[Any]", message["content"])
    return content


def one_by_one(stream: StreamT) -> list[StreamT]:
    """Pieces of one character or byte."""
    return [stream[at : at + 1] for at in range(len(stream))]


def random_pieces(stream: StreamT, *, seed: int, largest: int = 50) -> list[StreamT]:
    """Pieces of random sizes, empty ones among them; the same for the same seed."""
    sizes = random.Random(seed)
    pieces = []
    at = 0
    while at < len(stream):
        size = sizes.randint(0, largest)
        pieces.append(stream[at : at + size])
        at += size
    return pieces


def cut_at(stream: StreamT, places: Sequence[int]) -> list[StreamT]:
    """Pieces that end at `places`, which need not be in order; a place named twice makes an empty piece."""
    bounds = [0, *sorted(min(place, len(stream)) for place in places), len(stream)]
    return [stream[start:end] for start, end in pairwise(bounds)]


def cuts_of(stream: StreamT) -> st.SearchStrategy[list[StreamT]]:
    """Any way of cutting `stream`, one by one among them."""
    places = st.lists(st.integers(0, len(stream)), max_size=12)
    return st.one_of(st.just(one_by_one(stream)), places.map(lambda chosen: cut_at(stream, chosen)))


# --- values -----------------------------------------------------------------------------------------------------------


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def strict_loads(text: str) -> JSON:
    """`json.loads` without its extensions: NaN and the infinities are refused, as RFC 8259 wants it."""
    value: JSON = json.loads(text, parse_constant=_refuse_constant)
    return value


def is_json(text: str) -> bool:
    """RFC 8259 accepts `text`, as far as the standard library can tell."""
    try:
        strict_loads(text)
    except ValueError:
        return False
    return True


def written(value: Any) -> str:
    """`value` as a text that tells apart what `==` does not: 1, 1.0 and true; 0.0 and -0.0; the order of keys."""
    return json.dumps(value)


# --- events -----------------------------------------------------------------------------------------------------------


def event_line(event: Any) -> tuple[Any, ...]:
    """An event written down so that two events of different streams can be compared, whenever it is looked at."""
    name = type(event).__name__
    match event:
        case InputDelta(input=input, fragment=fragment):
            return name, input.index, fragment
        case InputStart(input=input):
            return name, input.index, input.id, input.name, input.kind
        case InputStop(input=input):
            return name, input.index, input.id, input.outcome, input.raw, written(input.wrapped)
        case BlockStart(index=index, block=block) | BlockStop(index=index, block=block):
            return name, index, written(block)
        case TextDelta(index=index, text=text):
            return name, index, text
        case ThinkingDelta(index=index, thinking=text, estimated_tokens=tokens):
            return name, index, text, tokens
        case CitationDelta(index=index, citation=citation):
            return name, index, written(citation)
        case MessageStart(message=message, restarted=restarted):
            return name, written(message), restarted
        case MessageStop(message=message, stop_reason=reason):
            return name, written(message), reason
        case UnknownEvent(data=data):
            return name, written(data)
        case _:
            raise AssertionError(f"not an event of a stream: {event!r}")


# --- requests ----------------------------------------------------------------------------------------------------------

USER: dict[str, Any] = {"role": "user", "content": "How is the weather in Oslo?"}
"""The first message of a conversation."""

REQUEST: dict[str, Any] = {"model": "claude-made-1", "max_tokens": 1024, "messages": [USER]}
"""What a request needs at least."""
