"""The hot path in pieces: small jobs of any size, whose cost another module counts.

Every job is deterministic, and has its expected result. Only whole runs have an event loop, in which nothing else runs.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from json.decoder import JSONDecoder, JSONObject, py_scanstring  # type: ignore[attr-defined]  # not in the type stubs
from json.scanner import py_make_scanner  # type: ignore[attr-defined]  # nor this
from typing import Any, Final

import eagerstream
from eagerstream import Limits
from eagerstream.streaming._event_buffer import EventBuffer
from eagerstream.transports import Reply, RequestBody, StreamedReply, Transport
from eagerstream_testing import Scripted, reply, text, tool_use
from eagerstream_wire import FragmentDecoder, MessageAssembler, PartialJSON, SSEDecoder, TextDelta, ToolInput, text_of
from eagerstream_wire._settled_messages import SettledMessages, request_json

from .streams import TEXT_FRAGMENT_CHARS, make_input, padded
from .wire_core import WireCore

_FRAGMENT_CHARS: Final = 7  # the median of recorded streams
_MANY: Final = 32  # events that arrive together, in the pieces with many
_FEWER: Final = 4  # whole runs have so many times fewer events: each costs as much as 20 of the others


@dataclass(frozen=True)
class Job:
    """One piece of work, which can run any number of times.

    Attributes:
        run: The work.
        expected: What `run` must return.
        events: Number of events (or fragments) that it feeds.
    """

    run: Callable[[], object]
    expected: object
    events: int


Prepare = Callable[[int], Job]
"""Function that makes a job of about so many events."""


def _value(kind: str, events: int) -> dict[str, Any]:
    """Return an input of about so many fragments."""
    chars = events * _FRAGMENT_CHARS
    if kind == "records":
        records = [{"id": number, "name": f"part {number}", "tested": number % 3 == 0} for number in range(chars // 46)]
        return {"table": "parts", "records": records}
    return make_input(kind, chars)


def _text(kind: str, events: int) -> str:
    return json.dumps(_value(kind, events), ensure_ascii=False)


@cache
def _chunks(events: int) -> list[bytes]:
    """Return the body of a response with one tool call, one event per chunk."""
    return _events(tool_use("make_file", _text("one string", events), fragment_chars=_FRAGMENT_CHARS))


def _events(*blocks: Scripted) -> list[bytes]:
    """Return the events of a response with these blocks alone. An input and a text are separate pieces."""
    return [chunk.data for chunk in padded(reply(*blocks)).chunks]


def _partial_json(kind: str) -> Prepare:
    def prepare(events: int) -> Job:
        raw = _text(kind, events)
        fragments = [raw[at : at + _FRAGMENT_CHARS] for at in range(0, len(raw), _FRAGMENT_CHARS)]
        return Job(lambda: _parse(fragments), _value(kind, events), len(fragments))

    return prepare


def _parse(fragments: Sequence[str]) -> object:
    """Read the value after every fragment. Return the last one."""
    parser = PartialJSON()
    value: object = None
    for fragment in fragments:
        parser.feed(fragment)
        value = parser.value
    return value


def _bytes_to_events(together: int) -> Prepare:
    def prepare(events: int) -> Job:
        single = _chunks(events)
        chunks = [b"".join(single[at : at + together]) for at in range(0, len(single), together)]
        return Job(lambda: _assemble(chunks).inputs[0].value, _value("one string", events), len(single))

    return prepare


def _assemble(chunks: Sequence[bytes]) -> MessageAssembler[ToolInput]:
    """Feed all chunks, and discard the events."""
    core = WireCore()
    for chunk in chunks:
        core.feed(chunk)
    return core.assembler


def _bytes_to_texts(together: int) -> Prepare:
    def prepare(events: int) -> Job:
        written = _value("one string", events)["text"]
        single = _events(text(written, fragment_chars=_FRAGMENT_CHARS))
        chunks = [b"".join(single[at : at + together]) for at in range(0, len(single), together)]
        return Job(lambda: text_of(_assemble(chunks).message["content"]), written, len(single))

    return prepare


def _next_requests(events: int) -> Job:
    """Return what a run does with its history to make each request, with ten events in a turn."""
    turns = events // 10
    return Job(lambda: _converse(turns), turns, 10 * turns)


def _converse(turns: int) -> int:
    """Check and encode the request of each turn. Return how many messages the last one had, in turns."""
    settled = SettledMessages()
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
    count = 0
    for number in range(turns):
        request = {"max_tokens": 1, "messages": (known := settled.follow(messages))}
        assert not settled.faults(known, tools=None, system_breakpoints=0, model=None)
        assert len(request_json(request)) > 100 * number
        count = len(known)
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "read", "input": {"path": f"{number}.txt"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": f"line {number}\n" * 20}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return (count + 1) // 2


def _server_sent_events(events: int) -> Job:
    chunks = _chunks(events)
    return Job(lambda: _decode(chunks), len(chunks), len(chunks))


def _decode(chunks: Sequence[bytes]) -> int:
    decoder = SSEDecoder()
    return sum(len(decoder.feed(chunk)) for chunk in chunks)


def _hand_over(events: int) -> Job:
    deltas = [TextDelta(0, "a word ") for _ in range(events)]
    return Job(lambda: _put_and_get(deltas), events, events)


def _put_and_get(deltas: Sequence[TextDelta]) -> int:
    """Pass deltas through the buffer between reader and consumer, in groups of `_MANY`. Return their number."""
    buffer = EventBuffer[TextDelta]()
    taken = 0
    for at in range(0, len(deltas), _MANY):
        burst = deltas[at : at + _MANY]
        for delta in burst:
            buffer.put(delta)
        for delta in burst:
            taken += _at_once(buffer.get()) is delta
    return taken


def _at_once(waiting: Coroutine[Any, Any, TextDelta]) -> TextDelta:
    """Return the result of a coroutine that does not wait.

    Raises:
        AssertionError: It waits.
    """
    try:
        waiting.send(None)
    except StopIteration as done:
        result: TextDelta = done.value
        return result
    raise AssertionError("it waits")


@dataclass(frozen=True)
class _Conversation(Transport):
    """Has the responses of one run, an event per chunk. After each, everybody else in the event loop has a turn."""

    responses: Iterator[Sequence[bytes]]

    @asynccontextmanager
    async def open(self, request: RequestBody, limits: Limits) -> AsyncIterator[Reply]:
        del request
        yield StreamedReply(_in_turns(next(self.responses)), request_id=None, limits=limits, decoder=FragmentDecoder)


async def _in_turns(chunks: Sequence[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        await asyncio.sleep(0)
        yield chunk


@eagerstream.tool
async def read(path: str) -> str:
    """Read a file."""
    return path


def _runs(responses: Sequence[Sequence[bytes]], *, at_once: bool) -> Prepare:
    """Return what makes a job of whole runs with these responses."""

    def prepare(events: int) -> Job:
        of_one = sum(map(len, responses))
        count = max(1, events // (of_one * _FEWER))
        calls = sum(b'"tool_use"' in event for chunks in responses for event in chunks if b"block_start" in event)
        runs = _all_at_once if at_once else _one_after_another
        return Job(lambda: asyncio.run(runs(responses, count)), count * calls, count * of_one)

    return prepare


async def _one_after_another(responses: Sequence[Sequence[bytes]], count: int) -> int:
    return sum([await _run(responses) for _ in range(count)])


async def _all_at_once(responses: Sequence[Sequence[bytes]], count: int) -> int:
    """Leave the collector of cycles on, whose work grows with the objects of all runs."""
    was_on = gc.isenabled()
    gc.enable()
    try:
        return sum(await asyncio.gather(*(_run(responses) for _ in range(count))))
    finally:
        if not was_on:
            gc.disable()


async def _run(responses: Sequence[Sequence[bytes]]) -> int:
    """Return the number of calls whose tool has returned."""
    request: dict[str, Any] = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "Go."}]}
    async with eagerstream.run(_Conversation(iter(responses)), tools=[read], **request) as run:
        async for _ in run:
            pass
    return sum(call.text.startswith("src/part_") for call in run.result.calls)


def _calls(count: int, turn: int = 0, fragment_chars: int = _FRAGMENT_CHARS) -> list[Scripted]:
    paths = (f"src/part_{turn}_{number}.py" for number in range(count))
    return [tool_use("read", {"path": path}, id=f"toolu_{path}", fragment_chars=fragment_chars) for path in paths]


_TEXT: Final = text("I shall read them now. " * 2, fragment_chars=TEXT_FRAGMENT_CHARS)
_AGENT: Final = (_events(_TEXT, *_calls(2, 1)), _events(*_calls(1, 2)), _events(_TEXT))
"""A run of three requests."""
_MANY_CALLS: Final = (_events(*_calls(30, fragment_chars=100)), _events(_TEXT))
"""Each call has three events: nearly all of the cost is the hand-off of its input to its tool, and the way back."""


def _reference(_events: int) -> Job:
    lines = [chunk.partition(b"data: ")[2].decode().rstrip() for chunk in _chunks(200)]  # expensive: always 200
    decode = _pure_python_decoder()
    return Job(lambda: [decode(line, 0)[0] for line in lines], [json.loads(line) for line in lines], len(lines))


def _pure_python_decoder() -> Callable[[str, int], tuple[Any, int]]:
    """Return the standard library's JSON decoder without its C parts.

    It is interpreted, like the measured code. So a Python with other build options makes both cheaper alike.
    """
    decoder: Any = JSONDecoder()
    decoder.parse_object = JSONObject
    decoder.parse_string = py_scanstring
    decode: Callable[[str, int], tuple[Any, int]] = py_make_scanner(decoder)
    return decode


REFERENCE: Final = "json, pure Python"
"""Name of the reference. Costs are reported in its events."""

NEXT_REQUEST: Final = "the next request of a long run"
GROWTH: Final = {NEXT_REQUEST: 3.2}
"""The largest growth where an event of a large job must cost more than one of a small job.

For each request, the history of a run is compared, and its bytes are joined. Checked and encoded each time, it would be
8."""

WORKLOADS: Final[dict[str, Prepare]] = {
    REFERENCE: _reference,
    "PartialJSON, a string": _partial_json("one string"),
    "PartialJSON, records": _partial_json("records"),
    "PartialJSON, numbers": _partial_json("numbers"),
    "bytes to events, one a chunk": _bytes_to_events(1),
    f"bytes to events, {_MANY} a chunk": _bytes_to_events(_MANY),
    "bytes to texts, one a chunk": _bytes_to_texts(1),
    f"bytes to texts, {_MANY} a chunk": _bytes_to_texts(_MANY),
    "SSEDecoder": _server_sent_events,
    "EventBuffer, put and get": _hand_over,
    NEXT_REQUEST: _next_requests,
    "runs, one after another": _runs(_AGENT, at_once=False),
    "runs, all at once": _runs(_AGENT, at_once=True),
    "inputs to their tools": _runs(_MANY_CALLS, at_once=False),
}
