"""Whatever the model, its peers, the tools and the consumer do: every history is lawful, and no call runs twice."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings, strategies as st

import eagerstream
from eagerstream import Conversation, EarlyCalls, RunningCall, Tool
from eagerstream.calls import RunStatus
from eagerstream.errors import APIError, EagerStreamError, InputInterrupted, LimitError, ProtocolError
from eagerstream.inputs import GrowingInput
from eagerstream.limits import Limits
from eagerstream.loop import Run, RunResult, When
from eagerstream.recordings import Recording
from eagerstream.tools import Group, ItemStream, Later, Reject, ToolCall, tool
from eagerstream.tools._running_call import record_of
from eagerstream_wire import Outcome, WireEvent
from tests import api_rules
from tests.loop.serial import SLOWLY_S, next_response
from tests.sampling import at_length
from tests.streams import (
    MESSAGE_STOP,
    REQUEST,
    USER,
    block_delta,
    block_start,
    block_stop,
    input_delta,
    message_delta,
    message_start,
    text_delta,
    tool_start,
)
from tests.support import Broken, Exchange, LocalAPI, Piece, check_history, refused

# --- tools ------------------------------------------------------------------------------------------------------------

_TAG: Final = re.compile(r"T\d+x\d+T")
"""Names one call of one response, in its id or in its input: ids may be odd, and may come twice."""


def _tag_of(input: GrowingInput) -> str:
    """Return the tag of a call; empty if its input was cut before it came."""
    found = _TAG.search(f"{input.id!r} {input.raw} {input.wrapped}")
    return found.group() if found else ""


@dataclass
class Ledger:
    """The calls that ran in one example, in order."""

    ran: list[tuple[ToolCall, Outcome | None]] = field(default_factory=list)
    """Each call that got its complete input, and how the input had ended."""
    streamed: list[ToolCall] = field(default_factory=list)
    """Each call that started on streaming parameters."""
    items: Counter[ToolCall] = field(default_factory=Counter)
    """Number of items that each of these read."""
    said: list[str] = field(default_factory=list)
    """Messages of the user while it ran."""

    def calls(self) -> list[ToolCall]:
        """Return the calls that started, each as often as it did."""
        return [*self.streamed, *(call for call, _ in self.ran)]

    def tags(self) -> list[str]:
        """Return their tags."""
        return [_tag_of(call.input) for call in self.calls()]


# Of the context, not of the module: a thread that was given up may write when the next example has begun.
LEDGER: ContextVar[Ledger] = ContextVar("LEDGER")


def _note(call: RunningCall) -> None:
    LEDGER.get().ran.append((record_of(call), call.input.outcome))


@tool
async def quick(call: RunningCall, tag: str = "") -> str:
    """Answer at once."""
    _note(call)
    return "quick"


@tool
async def slow(call: RunningCall, steps: int, tag: str = "") -> str:
    """Answer after others had their turn."""
    _note(call)
    for _ in range(steps):
        await anyio.lowlevel.checkpoint()
    return "slow"


@tool
async def failing(call: RunningCall, tag: str = "") -> str:
    """Fail."""
    _note(call)
    await anyio.lowlevel.checkpoint()
    raise ConnectionError("no route")


@tool
def threaded(call: RunningCall, tag: str = "") -> str:
    """Run in a thread."""
    _note(call)
    return "threaded"


@tool
async def generating(call: RunningCall, steps: int, tag: str = "") -> AsyncIterator[str]:
    """Report each step."""
    _note(call)
    for step in range(steps):
        yield f"step {step}"
    yield "generated"


@tool(group=Group("line"))
async def lined(call: RunningCall, tag: str = "") -> str:
    """Run one after the other."""
    _note(call)
    await anyio.lowlevel.checkpoint()
    return "lined"


@tool(group=Group("chain", stop_on_error=True))
async def chained(call: RunningCall, steps: int, tag: str = "") -> str:
    """Run one after the other, until one fails."""
    _note(call)
    await anyio.lowlevel.checkpoint()
    if steps == 0:
        raise ValueError("steps")
    return "chained"


@tool
async def stubborn(call: RunningCall, tag: str = "") -> str:
    """Ignore a cancellation."""
    _note(call)
    with anyio.CancelScope(shield=True):
        await anyio.lowlevel.checkpoint()
    return "stubborn"


@tool(start="message")
async def held(call: RunningCall, tag: str = "") -> str:
    """Wait for the end of the response."""
    _note(call)
    return "held"


def _may_be_approved(call: ToolCall | RunningCall) -> bool:
    return _tag_of(call.input)[-2] in "024"


async def _approve(call: ToolCall) -> bool:
    await anyio.lowlevel.checkpoint()
    return _may_be_approved(call)


@tool(approve=_approve)
async def approved(call: RunningCall, tag: str = "") -> str:
    """Run only if approved."""
    assert _may_be_approved(call)
    _note(call)
    return "approved"


def _few(partial: Mapping[str, Any]) -> str | Reject | None:
    steps = partial.get("steps", 0)
    return None if steps < 6 else Reject("Too many steps.", cut=steps > 7)


@tool(guard=_few)
async def guarded(call: RunningCall, steps: int, tag: str = "") -> str:
    """Run only with few steps."""
    assert steps < 6
    _note(call)
    return "guarded"


async def _read(call: RunningCall, items: ItemStream[int], most: int) -> str:
    ledger = LEDGER.get()
    record = record_of(call)
    ledger.streamed.append(record)
    read = 0
    try:
        if most:
            async for _ in items:
                ledger.items[record] += 1
                read += 1
                if read == most:
                    break
                await anyio.lowlevel.checkpoint()
    except InputInterrupted:
        return f"kept {read}"
    return f"read {read}"


@tool
async def reads_all(
    call: RunningCall, items: ItemStream[int], note: Later[str] = Later.of(""), tag: Later[str] = Later.of("")
) -> str:
    """Read all items."""
    return await _read(call, items, 100) + await note


@tool(group=Group("line"))
async def reads_some(call: RunningCall, head: str, items: ItemStream[int], tag: Later[str] = Later.of("")) -> str:
    """Read some items."""
    return head + await _read(call, items, 2)


@tool(guard=lambda partial: "Unlucky." if 13 in partial.get("items", []) else None)
async def reads_none(call: RunningCall, items: ItemStream[int], tag: Later[str] = Later.of("")) -> str:
    """Read nothing."""
    return await _read(call, items, 0)


TOOLS: list[Tool] = [quick, slow, failing, threaded, generating, lined, chained, stubborn]
TOOLS += [held, approved, guarded, reads_all, reads_some, reads_none]
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
_NAMES = [made.name for made in TOOLS]
_WILLING = ("quick", "slow", "failing", "threaded", "generating", "lined", "stubborn", "held", "reads_all")
_STEPS = ("slow", "generating", "chained", "guarded")
_STREAMING = ("reads_all", "reads_some", "reads_none")

# --- responses --------------------------------------------------------------------------------------------------------


@dataclass
class Told:
    """A call of a response, and what may become of it.

    Attributes:
        tag: In its id or in its input.
        kind: Its oddity, for a report.
        id: As written: not always a text.
        may_run: False if its tool must never be called.
        is_named: Its id and its name are texts, and not empty.
        is_whole: Its block was closed: it must be run or answered.
        must_run: Nothing is wrong with it, and its tool neither asks nor waits for others.
        value: The input, if a tool may get it complete.
        items: Number of items in the part of the input that was complete before a fragment was lost.
    """

    tag: str
    id: Any
    kind: str = ""
    may_run: bool = True
    is_named: bool = True
    is_whole: bool = True
    must_run: bool = False
    value: Any = None
    items: int = 100


@dataclass
class Response:
    """The events of a response, and how they arrive.

    Attributes:
        events: All of them, even if the response breaks off before its end.
        calls: Those that it makes.
        reason: Its stop reason.
        is_plain: It has no second `message_start`, no `fallback` and no sign of a lost call, and no guard cuts it.
        falls_back: It has a `fallback`: the calls before it do not count.
        end: How it breaks off: "lost", "short", "half" (within an event) or "error"; "whole" if it does not.
        after: Number of events before that.
        cut: Bytes in each chunk. 0: one event. -1: everything.
    """

    events: list[WireEvent]
    calls: list[Told] = field(default_factory=list)
    reason: str | None = "end_turn"
    is_plain: bool = True
    falls_back: bool = False
    end: str = "whole"
    after: int = 0
    cut: int = 0

    @property
    def keeps_calls(self) -> bool:
        """Each call of it that is complete must be run or answered."""
        return self.reason == "tool_use" and self.end == "whole" and self.is_plain

    def pieces(self, pending: Sequence[Mapping[str, Any]] = ()) -> list[Piece]:
        """Return the parts of its body; it starts with the results of server calls that wait for them."""
        events = self.events if self.end == "whole" else self.events[: self.after]
        encoded = [_encode(event) for event in _with_server_results(events, pending)]
        if self.end == "half" and encoded:
            encoded[-1] = encoded[-1][: len(encoded[-1]) // 2]
        pieces: list[Piece] = [*encoded]
        if self.cut:
            body = b"".join(encoded)
            size = self.cut if self.cut > 0 else len(body) or 1
            pieces = [body[at : at + size] for at in range(0, len(body), size)]
        if self.end == "lost":
            pieces.append(Broken())
        if self.end == "error":
            pieces.append({"type": "error", "error": {"type": "api_error"}})
        return pieces


def _encode(event: WireEvent) -> bytes:
    """Encode an event; infinity becomes a number that is JSON, but that no float holds."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".replace("Infinity", "1e999").encode()


def _with_server_results(events: Sequence[WireEvent], pending: Sequence[Mapping[str, Any]]) -> list[WireEvent]:
    if not pending:
        return [*events]
    results = [{"type": f"{c['name']}_tool_result", "tool_use_id": c["id"], "content": []} for c in pending]
    shifted: list[WireEvent] = []
    for event in events:
        if "index" in event:
            event = {**event, "index": event["index"] + len(results)}
        shifted.append(event)
        if event["type"] == "message_start" and event["message"]["content"]:
            content = [*results, *event["message"]["content"]]
            shifted[-1] = {**event, "message": {**event["message"], "content": content}}
        elif event["type"] == "message_start":
            for index, block in enumerate(results):
                shifted += [{"type": "content_block_start", "index": index, "content_block": block}, block_stop(index)]
    return shifted


_STREAMED_RAWS = [
    '{"head": "h", "items": [1, 2, 3]}',
    '{"items": [1, 13, 3], "head": "h"}',
    '{"head": "h", "items": [1, "two", 3]}',
    '{"head": "h", "items": [1, 2 3]}',
    '{"head": 3, "items": []}',
    '{"head": "h", "items": [1], "head": "i"}',
    '{"items": [1, 2, 3]}',
    '{"items": [1, 2], "note": "n"}',
]
_BAD = ["[1]", '{"a": b}', '{"a"', "{}{}", "null", " "]
_REASONS = [
    *["tool_use"] * 6,
    "end_turn",
    "stop_sequence",
    "pause_turn",
    "compaction",
    "max_tokens",
    "max_tokens",
    "model_context_window_exceeded",
    "refusal",
    "tomorrow",
    None,
]
_ODD_IDS = ["functions.x:{}", "\ud800{}", "{}é", "{} ", "{}" + "x" * 300, "t\ud800", "t\udc01", "a:1", "a.1", "a_1"]
_NO_IDS = ["", None, 5, True, ["x"], {"a": 1}, ...]
"""What stands in the place of an id; `...` for nothing at all."""
_ODD_NAMES = ["nope", "", "y" * 100, "x" * 201, "psql -c 'a'", "weather.get", "é", "n\ud800"]
_NO_NAMES = [None, 5, ["quick"], ...]
_NO_OBJECTS = ["{}", [1], 5, 0, True, False, "", []]
_NO_FRAGMENTS = [None, 5, ["{"], {"a": 1}, ...]


def _fields(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not ...}


def _raw(draw: st.DrawFn, name: str, tag: str) -> str:
    if name in _STREAMING:
        raw = draw(st.sampled_from(_STREAMED_RAWS))
        return f'{{"tag": "{tag}", {raw[1:]}'
    steps = f', "steps": {draw(st.integers(0, 8))}' if name in _STEPS else ""
    return f'{{"tag": "{tag}"{steps}}}'


@st.composite
def _call(draw: st.DrawFn, calls: list[Told], tag: str, index: int, *, may_be_early: bool) -> list[WireEvent]:
    """Draw the events of a call, and add it to `calls`."""
    told = Told(tag, f"toolu_{tag}")
    calls.append(told)
    kinds = ["valid"] * 6 + ["bad", "empty", "does not fit", "whole", "lost", "no object", "no json"]
    kind = draw(st.sampled_from([*kinds, "early"] if may_be_early else kinds))
    told.kind = kind
    told.must_run = kind in ("valid", "whole", "no json")
    if kind in ("valid", "whole", "no json") and draw(st.integers(0, 2)) == 0:
        told.id = draw(st.sampled_from(_ODD_IDS + _NO_IDS))
        told.id = told.id.format(tag) if isinstance(told.id, str) else told.id
        told.is_named = isinstance(told.id, str) and told.id != ""
    name = draw(st.sampled_from(_NAMES))
    if draw(st.integers(0, 6)) == 0:
        name = draw(st.sampled_from(_ODD_NAMES + _NO_NAMES))
        told.may_run = False
        told.is_named &= isinstance(name, str) and name != ""
    told.must_run &= name in _WILLING and name not in _STREAMING  # some of whose inputs do not fit
    if name in _STREAMING and tag not in str(told.id):  # it may start before its tag comes
        told.id, told.is_named = f"toolu_{tag}", True
    raw = _raw(draw, str(name), tag)
    start = _fields(id=told.id, name=name, input={})
    fragments: list[Any] = []
    if kind == "whole" and name not in _STREAMING:  # as from code
        start |= {"input": json.loads(raw), "caller": {"type": "direct"}}
        raw = ""
    elif kind == "no object":
        start["input"] = draw(st.sampled_from(_NO_OBJECTS))
        raw = draw(st.sampled_from(["", raw]))
        told.may_run &= raw != "" and start["input"] in ("", [])  # as some gateways write the placeholder
    elif kind == "bad":
        told.may_run &= name in _STREAMING
        raw = draw(st.sampled_from(_BAD))
    elif kind == "does not fit":
        raw = '{"what": 1}'
    elif kind == "empty":
        raw = ""
    elif kind == "no json":
        start["x"] = float("inf")
    cuts = sorted(draw(st.lists(st.integers(0, len(raw)), max_size=4)))
    fragments += [raw[begin:end] for begin, end in pairwise([0, *cuts, len(raw)]) if begin < end]
    if kind == "lost":
        at = draw(st.integers(0, len(fragments)))
        before = "".join(fragments[:at])
        told.items = _count_items(before)
        told.may_run &= name in _STREAMING and (
            name != "reads_some" or re.search(r'"head": ("h"|3)', before) is not None
        )
        fragments.insert(at, draw(st.sampled_from(_NO_FRAGMENTS)))
    try:
        told.value = json.loads(raw)
    except ValueError:
        told.value = start["input"]
    deltas = [block_delta(index, "input_json_delta", **_fields(partial_json=fragment)) for fragment in fragments]
    events = [block_start(index, "tool_use", **start), *deltas, block_stop(index)]
    if kind == "early":
        told.may_run = False
        events.insert(0, input_delta(index, draw(st.sampled_from(["", '{"tag": "x", '])) or raw))
    if draw(st.integers(0, 12)) == 0:  # the next block may take its index, or it stays open
        events.pop()
        told.is_whole = False
    return events


def _count_items(raw: str) -> int:
    """Count the items of the array in `raw` that something follows."""
    return len(re.findall(r"[^\s,\]]+(?=\s*[,\]])", raw.partition("[")[2].partition('"head"')[0]))


@st.composite
def _block(
    draw: st.DrawFn, calls: list[Told], tag: str, indexes: Iterator[int], *, may_be_early: bool
) -> list[WireEvent]:
    index = next(indexes)
    match draw(
        st.sampled_from(["call"] * 8 + ["text", "blank", "space", "thinking", "server", "found", "fallback", "noise"])
    ):
        case "call":
            return draw(_call(calls, tag, index, may_be_early=may_be_early))
        case "text":
            return [block_start(index, "text", text=""), text_delta(index, "So."), block_stop(index)]
        case "blank":
            return [block_start(index, "text", text=""), block_stop(index)]
        case "space":
            return [block_start(index, "text", text=""), text_delta(index, " \n"), block_stop(index)]
        case "thinking":
            signed = block_delta(index, "signature_delta", signature="c2ln")
            return [block_start(index, "thinking", thinking="Hm.", signature=""), signed, block_stop(index)]
        case "fallback":
            return [block_start(index, "fallback"), block_stop(index)]
        case "noise":  # of a block that was never opened
            stop = [block_stop(900)] if draw(st.booleans()) else []
            return [input_delta(900, '{"a": 1}'), *stop]
        case "found":
            return [
                tool_start(index, "web_search", kind="server_tool_use", id=f"srvtoolu_{tag}", input={"query": "a"}),
                block_stop(index),
                block_start(
                    index := next(indexes), "web_search_tool_result", tool_use_id=f"srvtoolu_{tag}", content=[]
                ),
                block_stop(index),
            ]
        case _:
            started = tool_start(index, "web_search", kind="server_tool_use", id=f"srvtoolu_{tag}")
            return [started, input_delta(index, '{"query": "a"}'), block_stop(index)]


@st.composite
def _inside(draw: st.DrawFn, calls: list[Told], tags: Sequence[str]) -> list[dict[str, Any]]:
    """Draw blocks that are complete in `message_start`, and add their calls to `calls`."""
    content: list[dict[str, Any]] = []
    for tag in tags:
        if draw(st.integers(0, 3)) == 0:
            content.append({"type": "text", "text": "So."})
            continue
        name = draw(st.sampled_from(_NAMES))
        told = Told(tag, f"toolu_{tag}", must_run=name in _WILLING)
        told.value = json.loads('{"items": [1]}' if name in _STREAMING else _raw(draw, name, tag))
        if draw(st.integers(0, 5)) == 0:
            told.value, told.may_run, told.must_run = draw(st.sampled_from(_NO_OBJECTS)), False, False
        calls.append(told)
        content.append({"type": "tool_use", "id": told.id, "name": name, "input": told.value})
    return content


@st.composite
def _response(draw: st.DrawFn, turn: int) -> Response:
    tags = [f"T{turn}x{at}T" for at in range(draw(st.integers(0, 5)))]
    calls: list[Told] = []
    reason = draw(st.sampled_from(_REASONS))
    inside = draw(st.sampled_from([0] * 6 + [1, 3, 5]))
    content = draw(_inside(calls, tags[:inside]))
    first = len(content)
    are_used_once, numbers = draw(
        st.sampled_from(
            [(True, range(first, 99))] * 4
            + [(True, range(first + 1, 99, 3)), (False, [first] * 99), (False, [first, first + 1] * 99)]
        )
    )
    indexes = iter(numbers)
    blocks = [draw(_block(calls, tag, indexes, may_be_early=are_used_once)) for tag in tags[inside:]]
    is_in_start = bool(content) and not blocks
    start = message_start(id=f"msg_{turn}", content=content, stop_reason=reason if is_in_start else None)
    events = [start]
    falls_back = any("fallback" in str(block) for block in blocks)
    lacks_call = any("'index': 900" in str(block) for block in blocks)
    # Fragments may cut the field that the guard looks at.
    raws = ["".join(str(event.get("delta", {}).get("partial_json", "")) for event in one) for one in blocks]
    is_plain = not falls_back and not lacks_call and not re.search(r"steps\W+8", f"{raws} {blocks} {content}")
    if draw(st.integers(0, 9)) == 0:  # the peer begins anew, with the same calls or with others
        is_plain = False
        events += [event for one in blocks[: draw(st.integers(0, 5))] for event in one]
        events.append(start)
    for one in blocks:
        events += one
    if reason == "max_tokens" and draw(st.booleans()):
        at, tag = max(numbers), f"T{turn}x{len(tags)}T"
        name = draw(st.sampled_from(["quick", *_STREAMING]))
        raw = draw(st.sampled_from(_STREAMED_RAWS)) if name in _STREAMING else "{"
        calls.append(Told(tag, f"toolu_{tag}", may_run=name in _STREAMING, is_whole=False))
        events.append(tool_start(at, name, id=calls[-1].id))
        events += [input_delta(at, letter) for letter in raw[: draw(st.integers(0, len(raw) - 1))]]
    if not is_in_start or draw(st.booleans()):
        events.append(message_delta(reason))
    if draw(st.integers(0, 7)):  # some gateways leave it out: then an open block means that the response broke off
        events.append(MESSAGE_STOP)
    else:
        is_plain &= all(told.is_whole for told in calls)
    end = draw(st.sampled_from(["whole"] * 5 + ["lost", "short", "half", "error"]))
    after = draw(st.integers(0, len(events))) if end != "whole" else 0
    cut = draw(st.sampled_from([0, 0, 0, -1, 7, 64]))
    return Response(events, calls, reason, is_plain, falls_back, end, after, cut)


# --- a conversation ---------------------------------------------------------------------------------------------------


@dataclass
class Script:
    """Responses, and what is done about them."""

    responses: list[Response]
    options: dict[str, Any] = field(default_factory=dict)
    tool_choice: dict[str, Any] | None = None
    form: str = "run"
    consumer: str = "all"
    after: int = 0
    said: list[tuple[int, When]] = field(default_factory=list)
    """What the user says to a run: behind how many events, and when it is to be sent."""

    def must_keep(self, number: int) -> set[str]:
        """Return the tags of the calls of a response that must be run or answered."""
        response = self.responses[number]
        is_early = self.form == "early"  # the framework keeps the history, with ids and names as they came
        kept = [told for told in response.calls if told.is_whole and (told.is_named or not is_early)]
        return {told.tag for told in kept} if response.keeps_calls else set()

    def must_run(self, number: int) -> set[str]:
        """Return the tags of those among them that must be run: a repeated id may be the same call once more."""
        calls = self.responses[number].calls
        ids = Counter(told.id for told in calls if isinstance(told.id, str))
        ready = {told.tag for told in calls if told.must_run and (not told.is_named or ids[told.id] == 1)}
        return ready & self.must_keep(number)


_FORCED = [{"type": "any"}, {"type": "tool", "name": "quick"}]
SCRIPTS = st.builds(
    Script,
    responses=st.integers(1, 4).flatmap(lambda count: st.tuples(*map(_response, range(count))).map(list)),
    options=st.fixed_dictionaries(
        {
            "on_truncated": st.sampled_from(["stop", "retry", "report", "raise"]),
            "max_turns": st.sampled_from([None, None, 1, 2]),
            "max_continuations": st.sampled_from([0, 1, 5]),
            "max_consecutive_tool_errors": st.sampled_from([None, 1]),
            "max_concurrency": st.sampled_from([1, 2, 16]),
            "buffer": st.sampled_from(["merge", "wait"]),
            "cache": st.sampled_from([None, "auto"]),
            "on_interrupt": st.sampled_from(["resume", "resume", "raise"]),
            "max_restarts": st.sampled_from([0, 1, 2]),
            "restart_delay_s": st.just(0),
        }
    ),
    tool_choice=st.sampled_from([None, None, None, {"type": "auto"}, *_FORCED]),
    form=st.sampled_from(["run", "run", "run", "steps", "early"]),
    consumer=st.sampled_from(["all", "all", "all", "finish", "leave", "raise", "scope", "cancel", "cancel"]),
    after=st.integers(0, 30),
    said=st.one_of(
        st.just([]),
        st.lists(st.tuples(st.integers(1, 60), st.sampled_from(["next_turn", "when_idle", "now"])), max_size=3),
    ),
)


_ENDED = (RunStatus.COMPLETED, RunStatus.STOP_SEQUENCE)
"""The user may speak next. After other ends, a server call may still wait for the next response."""


class Peer(LocalAPI):
    """Gives the nth response to the nth request, and refuses a request as the API does.

    After the last response, it obeys `tool_choice`: it calls a tool as long as a request forces it to.
    """

    def __init__(self, responses: Sequence[Response]) -> None:
        super().__init__()
        self.faults: list[str] = []
        self._responses = responses

    def body_for(self, exchange: Exchange) -> Sequence[Piece] | Recording:
        """Return the body of a response, or the refusal."""
        request, number = exchange.body, len(self.exchanges)
        faults = api_rules.check_request(request)
        before = self._responses[number - 1].reason if 0 < number <= len(self._responses) else None
        is_repeated = bool(self.exchanges) and request["messages"] == self.exchanges[-1].body["messages"]
        is_resumed = before in ("pause_turn", "compaction") or is_repeated
        if request["messages"][-1]["role"] == "assistant" and not is_resumed:
            faults.append("This model does not support assistant message prefill.")
        if number > len(self._responses) + 4:
            faults.append("the run does not end")
        self.faults += faults
        if faults:
            return refused(faults)
        pending = api_rules.unresolved(request["messages"])
        if number < len(self._responses):
            return self._responses[number].pieces(pending)
        if request.get("tool_choice") in _FORCED:
            call = [tool_start(0, "quick", id=f"toolu_T{number}x0T"), block_stop(0)]
            return Response([message_start(), *call, message_delta("tool_use"), MESSAGE_STOP]).pieces(pending)
        said = [block_start(0, "text", text=""), text_delta(0, "Done."), block_stop(0)]
        return Response([message_start(), *said, message_delta("end_turn"), MESSAGE_STOP]).pieces(pending)


class _Enough(Exception):
    """The consumer's own."""


async def _consume(run: Run, script: Script, ledger: Ledger, scope: anyio.CancelScope) -> None:
    if script.consumer == "finish":
        await run.finish()
        return
    seen = 0
    async for _ in run:
        seen += 1
        for number, (at, when) in enumerate(script.said):
            if at == seen:
                ledger.said.append(f"said {number}")
                run.say(ledger.said[-1], when)
        if script.consumer == "all" or seen <= script.after:
            continue
        if script.consumer == "raise":
            raise _Enough
        if script.consumer == "cancel":
            run.cancel()
        elif script.consumer == "scope":
            scope.cancel()
        else:
            return


def _without_marks(messages: Sequence[Any]) -> list[Any]:
    cleaned = []
    for message in messages:
        content = message["content"]
        if isinstance(content, list):
            content = [{key: value for key, value in block.items() if key != "cache_control"} for block in content]
            if message["role"] == "user" and [block["type"] for block in content] == ["text"]:
                content = content[0]["text"]
        cleaned.append({**message, "content": content})
    return cleaned


async def converse(script: Script) -> Ledger:
    """Run a script, check the law over everything that was sent and is left, and return what ran."""
    ledger = Ledger()
    LEDGER.set(ledger)
    with anyio.fail_after(SLOWLY_S):
        if script.form == "early":
            await _converse_early(script, ledger)
        else:
            await (_converse_in_steps if script.form == "steps" else _converse_in_a_run)(script, ledger)
    _check_ledger(script, ledger)
    return ledger


def _check_ledger(script: Script, ledger: Ledger) -> None:
    counted = Counter(ledger.calls())
    assert not counted or max(counted.values()) == 1, f"ran twice: {counted}"
    # A framework that reads a response again, and calls `EarlyCalls` for it, wants its calls again.
    if script.form != "early" or all(response.is_plain for response in script.responses):
        tags = Counter(filter(None, ledger.tags()))
        assert not tags or max(tags.values()) == 1, f"ran twice: {tags}"
    given = [(call.turn, call.block.get("id")) for call in ledger.calls()]
    ids = Counter(each for each in given if isinstance(each[1], str) and each[1])
    assert not ids or max(ids.values()) == 1, f"two calls of a response with one id ran: {ids}"
    assert all(outcome is Outcome.VALID for _, outcome in ledger.ran)
    told_by = {told.tag: told for response in script.responses for told in response.calls}
    for call in ledger.calls():
        told = told_by.get(_tag_of(call.input))
        assert told is None or told.may_run, f"ran on an input that is not its own: {told}"
        assert told is None or ledger.items[call] <= told.items, f"read items behind a loss: {told}"
    for call, _ in ledger.ran:
        told = told_by.get(_tag_of(call.input))
        assert told is None or call.input.value == told.value


def _check_requests(script: Script, peer: Peer, ledger: Ledger, result: RunResult) -> None:
    """Check all that was sent, and what is left: the API accepts it, and nothing that ran is forgotten."""
    assert not peer.faults, peer.faults
    sent = [_without_marks(exchange.body["messages"]) for exchange in peer.exchanges]
    for messages in [*sent, list(result.messages)]:
        check_history(messages)
        faults = [*api_rules.check(messages), *map(str, eagerstream.validate_history(messages))]
        assert not faults, faults
        assert messages[0] == USER
    if result.status in _ENDED:
        faults = api_rules.check([*result.messages, USER])
        assert not faults, f"before the next question: {faults}"
    for earlier, later in pairwise([*sent, list(result.messages)]):
        assert later[: len(earlier)] == earlier
    for number, tag in ((int(tag[1 : tag.index("x")]), tag) for tag in filter(None, ledger.tags())):
        if number < len(script.responses) and not script.responses[number].falls_back:
            for messages in sent[number + 1 :]:
                assert tag in json.dumps(messages), f"{tag} ran, and the model is not told"
    for exchange, messages in zip(peer.exchanges, sent, strict=True):
        choice = exchange.body.get("tool_choice")
        if messages[-1]["content"] in ledger.said:
            continue  # the first request may be sent again with what the user has said meanwhile
        expected = choice == script.tool_choice if messages == [USER] else choice not in _FORCED
        assert expected, f"tool_choice {choice} with {len(messages)} messages"


def _kept(result: RunResult) -> set[str]:
    calls = [block for message in result.messages for block in message["content"] if not isinstance(block, str)]
    texts = (f"{block['id']!r} {block['input']}" for block in calls if block["type"] == "tool_use")
    return {tag for text in texts for tag in _TAG.findall(text)}


async def _converse_in_a_run(script: Script, ledger: Ledger) -> None:
    peer = Peer(script.responses)
    options = dict(script.options)
    if script.tool_choice is not None:
        options["tool_choice"] = script.tool_choice
    limits = Limits(tool_timeout_s=SLOWLY_S)
    run = eagerstream.run(peer.transport(), **REQUEST, tools=[*TOOLS, SEARCH], limits=limits, **options)
    failure: Exception | None = None
    with anyio.CancelScope() as scope:
        try:
            async with run:
                await _consume(run, script, ledger, scope)
        except (APIError, LimitError, ProtocolError, _Enough) as error:
            failure = error
    result = run.result
    _check_requests(script, peer, ledger, result)
    # Each message is there once: in the history or handed back, and each in the order in which they were said.
    words = [[message["content"] for message in kept] for kept in (result.messages, result.undelivered)]
    assert sorted(each for kept in words for each in kept if each in ledger.said) == sorted(ledger.said)
    whens = [when for _, when in script.said]
    if len(set(whens)) == 1:
        assert [each for kept in words for each in kept if each in ledger.said] == ledger.said
    if script.consumer in ("all", "finish") and not (ledger.said and "now" in whens):
        for number in range(min(len(peer.exchanges) - (failure is not None), len(script.responses))):
            assert script.must_keep(number) <= _kept(result), "a call is lost"
            assert script.must_run(number) <= set(ledger.tags()), "a call did not run"
    assert set(ledger.calls()) <= {made for made in result.calls if made.ran}
    for made in result.calls:
        assert made.in_history <= (made.result is not None)
        assert not (made.input.interrupted and made.ran and made.name not in _STREAMING)
        assert made.result is None or made.ran or made.is_error
    saved = RunResult.from_json(result.to_json())
    assert saved.to_dict() == result.to_dict()
    assert json.dumps(saved.messages) == json.dumps(result.messages)
    if isinstance(failure, EagerStreamError) and not isinstance(failure, LimitError):
        assert result.status is RunStatus.ERROR
        assert RunResult.of(failure) is result
    elif script.consumer in ("all", "finish"):
        assert result.status not in (RunStatus.ERROR, RunStatus.CANCELLED)
        assert all(exchange.closed for exchange in peer.exchanges)


async def _converse_in_steps(script: Script, ledger: Ledger) -> None:
    peer = Peer(script.responses)
    options = {name: value for name, value in script.options.items() if name != "buffer"}
    if script.tool_choice is not None:
        options["tool_choice"] = script.tool_choice
    conversation = Conversation(**REQUEST, tools=[*TOOLS, SEARCH], **options)
    client = peer.transport()
    is_broken = False
    while not conversation.ended and not is_broken:
        number = len(peer.exchanges)
        try:
            stream = await next_response(client, conversation)
        except (APIError, ProtocolError):
            is_broken = bool(peer.faults)  # nothing of the response has run: the request is made again
            continue
        if number < len(script.responses):
            assert script.must_keep(number) <= {
                _tag_of(input) for input in stream.inputs.values() if input.kind == "tool_use"
            }
        try:
            turn = conversation.take(stream)
        except (LimitError, ProtocolError):
            is_broken = True
            continue
        await conversation.execute(turn)
        assert [block["type"] for block in turn.results()] == ["tool_result"] * len(turn.results())
        if number < len(script.responses):
            assert script.must_keep(number) <= {_tag_of(call.input) for call in turn.calls}, "a call is lost"
            assert script.must_run(number) <= set(ledger.tags()), "a call did not run"
    _check_requests(script, peer, ledger, conversation.result)


async def _converse_early(script: Script, ledger: Ledger) -> None:
    async with EarlyCalls(TOOLS) as early:
        for number, response in enumerate(script.responses):
            events = response.events if response.end == "whole" else response.events[: response.after]
            try:
                for event in events:
                    early.feed(event)
                    if response.cut == 0:
                        await anyio.lowlevel.checkpoint()
                calls = await early.finish()
            except ProtocolError:  # two calls have one id
                continue
            assert all(call.result for call in calls)
            assert script.must_keep(number) <= {_tag_of(call.input) for call in calls}, "a call is lost"
            assert script.must_run(number) <= set(ledger.tags()), "a call did not run"


# --- the law ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
@settings(max_examples=70)
@given(script=SCRIPTS)
def test_the_law(backend: str, script: Script) -> None:
    """Any responses, tools and consumer: lawful histories, and nothing is lost, runs twice or runs on a guess."""
    anyio.run(converse, script, backend=backend)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@at_length(1300)
@given(script=SCRIPTS)
def test_the_law_at_length(backend: str, script: Script) -> None:
    """The same, for a long time."""
    anyio.run(converse, script, backend=backend)


def test_the_scripts_reach_what_they_should() -> None:
    """A script of each tool at once, read to its end, runs each of them, in each form."""
    events: list[WireEvent] = [message_start()]
    tolds = [Told(f"T0x{at}T", f"toolu_T0x{at}T") for at in range(len(_NAMES))]
    for at, (name, told) in enumerate(zip(_NAMES, tolds, strict=True)):
        raw = '{"steps": 3}' if name in _STEPS else "{}"
        raw = _STREAMED_RAWS[0 if name == "reads_some" else 6] if name in _STREAMING else raw
        told.value = json.loads(raw)
        events += [tool_start(at, name, id=told.id), input_delta(at, raw), block_stop(at)]
    events += [message_delta("tool_use"), MESSAGE_STOP]
    for form in ("run", "steps", "early"):
        script = Script([Response(events, tolds, "tool_use")], form=form)
        assert script.must_keep(0) == {told.tag for told in tolds}
        ran = set(anyio.run(converse, script).tags())
        assert {name for name, told in zip(_NAMES, tolds, strict=True) if told.tag not in ran} <= {"approved"}
