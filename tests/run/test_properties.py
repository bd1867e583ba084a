"""Whatever the model, its peers, the tools and the consumer do: every history is lawful, and no call runs twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings, strategies as st

import eagerstream
from eagerstream.errors import EagerStreamError, InputInterrupted, LimitError
from eagerstream.limits import Limits
from eagerstream.replay import encode_event
from eagerstream.run import Run, RunResult, RunStatus
from eagerstream.tools import Group, ItemStream, Later, Reject, tool
from eagerstream.tools.call import ToolCall
from eagerstream.wire import Outcome, WireEvent
from tests.run.serial import DONE, SLOWLY_S, checked
from tests.sampling import at_length
from tests.support import (
    MESSAGE_STOP,
    REQUEST,
    USER,
    Broken,
    LocalAPI,
    Piece,
    block_delta,
    block_start,
    block_stop,
    check_history,
    input_delta,
    message_delta,
    message_start,
    text_delta,
    tool_start,
)


@dataclass
class Ledger:
    """What ran in one example."""

    ran: list[tuple[str, Outcome | None]] = field(default_factory=list)
    """Each call that ran, and how its input had ended."""
    streamed: list[str] = field(default_factory=list)
    """Each call that began on streaming parameters."""

    def ids(self) -> list[str]:
        """The calls that began, each as often as it did."""
        return [*self.streamed, *(id for id, _ in self.ran)]


# Of the context, not of the module: a thread that was given up may write when the next example has begun.
LEDGER: ContextVar[Ledger] = ContextVar("LEDGER")


def _note(call: ToolCall) -> None:
    LEDGER.get().ran.append((call.id, call.input.outcome))


@tool
async def quick(call: ToolCall) -> str:
    """Answer at once."""
    _note(call)
    return "quick"


@tool
async def slow(call: ToolCall, steps: int) -> str:
    """Answer after others had their turn."""
    _note(call)
    for _ in range(steps):
        await anyio.lowlevel.checkpoint()
    return "slow"


@tool
async def failing(call: ToolCall) -> str:
    """Fail."""
    _note(call)
    await anyio.lowlevel.checkpoint()
    raise ConnectionError("no route")


@tool
def threaded(call: ToolCall) -> str:
    """Run in a thread."""
    _note(call)
    return "threaded"


@tool
async def generating(call: ToolCall, steps: int) -> AsyncIterator[str]:
    """Tell how far it is."""
    _note(call)
    for step in range(steps):
        yield f"step {step}"
    yield "generated"


@tool(group=Group("line"))
async def lined(call: ToolCall) -> str:
    """One after the other."""
    _note(call)
    await anyio.lowlevel.checkpoint()
    return "lined"


@tool(group=Group("chain", stop_on_error=True))
async def chained(call: ToolCall, steps: int) -> str:
    """One after the other, until one fails."""
    _note(call)
    await anyio.lowlevel.checkpoint()
    if steps == 0:
        raise ValueError("steps")
    return "chained"


@tool
async def stubborn(call: ToolCall) -> str:
    """Not to be cancelled."""
    _note(call)
    with anyio.CancelScope(shield=True):
        await anyio.lowlevel.checkpoint()
    return "stubborn"


@tool(start="message")
async def held(call: ToolCall) -> str:
    """Not before the reply has ended."""
    _note(call)
    return "held"


async def _approve(call: ToolCall) -> bool:
    await anyio.lowlevel.checkpoint()
    return call.id.endswith(("0", "2", "4"))


@tool(approve=_approve)
async def approved(call: ToolCall) -> str:
    """Not without being asked for."""
    assert call.id.endswith(("0", "2", "4"))
    _note(call)
    return "approved"


def _few(partial: Mapping[str, Any]) -> str | Reject | None:
    steps = partial.get("steps", 0)
    return None if steps < 6 else Reject("Too many steps.", cut=steps > 7)


@tool(guard=_few)
async def guarded(call: ToolCall, steps: int) -> str:
    """Not with many steps."""
    assert steps < 6
    _note(call)
    return "guarded"


async def _read(call: ToolCall, items: ItemStream[int], most: int) -> str:
    LEDGER.get().streamed.append(call.id)
    read = 0
    try:
        if most:
            async for _ in items:
                read += 1
                if read == most:
                    break
                await anyio.lowlevel.checkpoint()
    except InputInterrupted:
        return f"kept {read}"
    return f"read {read}"


@tool
async def reads_all(call: ToolCall, items: ItemStream[int], note: Later[str] = Later.of("")) -> str:
    """Read all items."""
    return await _read(call, items, 100) + await note


@tool(group=Group("line"))
async def reads_some(call: ToolCall, head: str, items: ItemStream[int]) -> str:
    """Read some items."""
    return head + await _read(call, items, 2)


@tool(guard=lambda partial: "Unlucky." if 13 in partial.get("items", []) else None)
async def reads_none(call: ToolCall, items: ItemStream[int]) -> str:
    """Read nothing."""
    return await _read(call, items, 0)


TOOLS = [quick, slow, failing, threaded, generating, lined, chained, stubborn]
TOOLS += [held, approved, guarded, reads_all, reads_some, reads_none]
_STEPS = ("slow", "generating", "chained", "guarded")
_STREAMING = ("reads_all", "reads_some", "reads_none")
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
_NAMES = [made.name for made in TOOLS]
_BAD = ["[1]", '{"a": b}', '{"a"', "{}{}", "null", " "]
_REASONS = [
    "tool_use",
    "tool_use",
    "tool_use",
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


@dataclass
class Script:
    """Replies, and what is done about them."""

    bodies: list[list[Piece]]
    options: dict[str, Any]
    consumer: str
    after: int


@st.composite
def _call(draw: st.DrawFn, index: int, id: str) -> list[WireEvent]:
    kind = draw(st.sampled_from(["valid"] * 6 + ["bad", "empty", "unknown", "does not fit", "whole"]))
    name = "nope" if kind == "unknown" else draw(st.sampled_from(_NAMES))
    raw = f'{{"steps": {draw(st.integers(0, 8))}}}' if name in _STEPS else "{}"
    if name in _STREAMING:
        raw = draw(st.sampled_from(_STREAMED_RAWS))
        kind = "valid" if kind == "whole" else kind
    if kind == "whole":  # as from code
        given = {"steps": 1} if name in _STEPS else {}
        return [tool_start(index, name, id=id, input=given, caller={"type": "direct"}), block_stop(index)]
    if kind == "bad":
        raw = draw(st.sampled_from(_BAD))
    elif kind == "does not fit":
        raw = '{"what": 1}'
    elif kind == "empty":
        return [tool_start(index, name, id=id), block_stop(index)]
    cuts = sorted(draw(st.lists(st.integers(0, len(raw)), max_size=4)))
    pieces = [raw[start:end] for start, end in pairwise([0, *cuts, len(raw)])]
    return [
        tool_start(index, name, id=id),
        *(input_delta(index, piece) for piece in pieces if piece),
        block_stop(index),
    ]


@st.composite
def _block(draw: st.DrawFn, index: int, id: str) -> list[WireEvent]:
    match draw(st.sampled_from(["call"] * 6 + ["text", "blank", "thinking", "server", "fallback"])):
        case "call":
            return draw(_call(index, id))
        case "text":
            return [block_start(index, "text", text=""), text_delta(index, "So."), block_stop(index)]
        case "blank":
            return [block_start(index, "text", text=""), block_stop(index)]
        case "thinking":
            signed = block_delta(index, "signature_delta", signature="c2ln")
            return [block_start(index, "thinking", thinking="Hm.", signature=""), signed, block_stop(index)]
        case "fallback":
            return [block_start(index, "fallback"), block_stop(index)]
        case _:
            started = tool_start(index, "search", kind="server_tool_use", id=f"s{id}")
            return [started, input_delta(index, "{}"), block_stop(index)]


@st.composite
def _body(draw: st.DrawFn, turn: int) -> list[Piece]:
    blocks = [draw(_block(at, f"t{turn}_{at}")) for at in range(draw(st.integers(0, 5)))]
    reason = draw(st.sampled_from(_REASONS))
    events: list[WireEvent] = [message_start(id=f"msg_{turn}")]
    if draw(st.integers(0, 9)) == 0:  # the peer begins anew, with the same calls or with others
        events += [event for one in blocks[: draw(st.integers(0, 5))] for event in one]
        events.append(message_start(id=f"msg_{turn}"))
    for one in blocks:
        events += one
    if reason == "max_tokens" and draw(st.booleans()):
        at = len(blocks)
        name = draw(st.sampled_from(["quick", *_STREAMING]))
        raw = draw(st.sampled_from(_STREAMED_RAWS)) if name in _STREAMING else "{"
        events += [tool_start(at, name, id=f"t{turn}_{at}")]
        events += [input_delta(at, letter) for letter in raw[: draw(st.integers(0, len(raw) - 1))]]
    events += [message_delta(reason), MESSAGE_STOP]
    pieces: list[Piece] = list(events)
    match draw(st.integers(0, 7)):
        case 0:
            pieces.insert(draw(st.integers(0, len(pieces))), Broken())
        case 1:
            pieces = pieces[: draw(st.integers(0, len(pieces)))]
        case 2:
            pieces.insert(draw(st.integers(0, len(pieces))), {"type": "error", "error": {"type": "api_error"}})
        case 3:  # all at once
            pieces = [b"".join(map(encode_event, events))]
        case _:
            pass
    return pieces


SCRIPTS = st.builds(
    Script,
    bodies=st.integers(1, 4).flatmap(lambda count: st.tuples(*map(_body, range(count))).map(list)),
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
    consumer=st.sampled_from(["all", "all", "finish", "leave", "raise", "scope", "cancel", "cancel"]),
    after=st.integers(0, 30),
)


class _Enough(Exception):
    """The consumer's own."""


async def _consume(run: Run, script: Script, scope: anyio.CancelScope) -> None:
    if script.consumer == "finish":
        await run.finish()
        return
    seen = 0
    async for _ in run:
        seen += 1
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
    """Run a script, check the law over all that was sent and is left, and say what ran."""
    ledger = Ledger()
    LEDGER.set(ledger)
    api = LocalAPI(*script.bodies, [DONE])
    search = {"type": "search_1", "name": "search"}
    limits = Limits(tool_timeout_s=SLOWLY_S)
    run = eagerstream.run(api.transport(), **REQUEST, tools=[*TOOLS, search], limits=limits, **script.options)
    failure: Exception | None = None
    with anyio.fail_after(SLOWLY_S), anyio.CancelScope() as scope:
        try:
            async with run:
                await _consume(run, script, scope)
        except (EagerStreamError, _Enough) as error:
            failure = error
    result = checked(run.result)
    sent = [_without_marks(exchange.body["messages"]) for exchange in api.exchanges]
    for messages in sent:
        check_history(messages)
        assert eagerstream.validate_history(messages, api.exchanges[0].body["tools"]) == []
    for earlier, later in pairwise([*sent, list(result.messages)]):
        assert later[: len(earlier)] == earlier
    counted = Counter(ledger.ids())
    assert not counted or max(counted.values()) == 1, f"ran twice: {counted}"
    assert all(outcome is Outcome.VALID for _, outcome in ledger.ran)
    told = Counter(made.id for made in result.calls if made.ran)
    assert set(counted) <= set(told)
    for made in result.calls:
        assert made.in_history <= (made.result is not None)
        assert not (made.rejected and made.ran and made.name not in _STREAMING)
        if made.result is not None:
            assert made.result["tool_use_id"] == made.id
            assert made.ran or made.is_error
    saved = RunResult.from_json(result.to_json())
    assert saved.to_dict() == result.to_dict()
    assert json.dumps(saved.messages) == json.dumps(result.messages)
    if isinstance(failure, EagerStreamError) and not isinstance(failure, LimitError):
        assert result.status is RunStatus.ERROR
        assert failure.result is result
    elif script.consumer in ("all", "finish"):
        assert result.status not in (RunStatus.ERROR, RunStatus.CANCELLED)
        assert all(exchange.closed for exchange in api.exchanges)
    return ledger


@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
@settings(max_examples=60)
@given(script=SCRIPTS)
def test_the_law(backend: str, script: Script) -> None:
    """Any replies, any tools, any consumer: lawful histories, and nothing runs twice or on a guess."""
    anyio.run(converse, script, backend=backend)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@at_length(3000)
@given(script=SCRIPTS)
def test_the_law_at_length(backend: str, script: Script) -> None:
    """The same, for a long time."""
    anyio.run(converse, script, backend=backend)


def test_the_scripts_reach_what_they_should() -> None:
    """A script of each tool at once, read to its end, runs each of them."""
    events: list[WireEvent] = [message_start()]
    for at, name in enumerate(_NAMES):
        raw = '{"steps": 3}' if name in _STEPS else "{}"
        raw = _STREAMED_RAWS[0 if name == "reads_some" else 6] if name in _STREAMING else raw
        events += [tool_start(at, name), input_delta(at, raw), block_stop(at)]
    script = Script([[*events, message_delta("tool_use"), MESSAGE_STOP]], {}, "all", 0)
    ran = set(anyio.run(converse, script).ids())
    assert {name for at, name in enumerate(_NAMES) if f"toolu_{at}" not in ran} <= {"approved"}
    assert REQUEST["messages"][0] == USER
