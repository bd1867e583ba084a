"""Records of runs: what is in them, and that nothing is lost on the way."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator
from packages.progress.tests.observed import Clock, events_of, recorded, recorded_body, tool_call_of, viewed
from packages.progress.tests.test_diff import edit
from tests.streams import (
    MESSAGE_STOP,
    REQUEST,
    block_start,
    block_stop,
    each_recording,
    input_delta,
    message_delta,
    message_start,
    text_delta,
    tool_start,
    wire_events,
    written,
)
from tests.support import LocalAPI
from tests.tables import rows

import eagerstream
from eagerstream import tool
from eagerstream.calls import RunStatus
from eagerstream.inputs import GrowingInput
from eagerstream.loop import (
    Restarted,
    RunEvent,
    SubRunStart,
    SubRunStop,
    ToolProgress,
    ToolStart,
    ToolStop,
    TurnStart,
)
from eagerstream.streaming import FeedEnd, OutputDelta
from eagerstream_progress import Record, RunRecorder, RunView, record_schema
from eagerstream_progress._fold import CallPhase
from eagerstream_progress._joined import RecordsEnd
from eagerstream_progress._record import record_adapter
from eagerstream_wire import MessageAssembler, MessageStart, MessageStop, Ping, TextDelta, apply_patch
from eagerstream_wire._assistant_message import empty_message

SCHEMA = resources.files("eagerstream_progress") / "record.schema.json"


def fields(record: Record) -> dict[str, Any]:
    return {**record}


def recorded_together(events: Sequence[Any]) -> list[Record]:
    """The records of events that come in one chunk."""
    records: list[Record] = []
    RunRecorder(records.extend).take(events)
    return records


def of_type(records: list[Record], type: str) -> Iterator[Any]:
    return (record for record in records if record["type"] == type)


def test_the_schema_is_the_one_that_is_published() -> None:
    """Programs in other languages read the file; `make schema` writes it."""
    assert json.loads(SCHEMA.read_text()) == record_schema()


@each_recording
def test_records_of_recordings(recording: Path) -> None:
    """Each record is as the schema says, numbers rise, and from the records alone the inputs and texts are known."""
    events = wire_events(recording.read_bytes())
    sizes = random.Random(recording.stem)
    chunks = []
    while events:
        size = sizes.choice([1, 1, 2, 5])
        chunks.append(events[:size])
        events = events[size:]
    records, assembler = recorded_body(chunks)
    plain = json.loads(json.dumps(records))
    assert [record_adapter().validate_python(record) for record in plain] == records
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    assert all(one["at_s"] <= other["at_s"] for one, other in pairwise(records))

    view = viewed(plain)
    inputs = list(assembler.inputs.values())
    calls = view.calls[len(view.calls) - len(inputs) :]  # a body may have more than one message
    for call, input in zip(calls, inputs, strict=True):
        assert (call.id, call.name, call.kind) == (input.id, input.name, input.kind)
        assert call.raw == ("" if input.block.get("input") and not input.chars else input.raw)
        assert written(call.partial) == written(input.partial)
        assert call.outcome == (input.outcome and input.outcome.value)
    assert view.status == "completed"


@pytest.mark.slow
def test_records_of_each_type_are_as_the_schema_says() -> None:
    """By a validator of another make, with one record of each type that there is."""
    records = recorded([*events_of('{"a": 1}'), Restarted(1, "interrupted", None, 0.5)])
    body = [
        message_start(),
        block_start(0, "thinking", thinking=""),
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm"}},
        block_stop(0),
        block_start(1, "text", text=""),
        text_delta(1, "Hello"),
        block_stop(1),
        tool_start(2),
        input_delta(2, '{"b": 2}'),
        block_stop(2),
        {"type": "a_new_kind"},
        message_delta("end_turn"),
        MESSAGE_STOP,
    ]
    records += recorded_body([body])[0]
    recorder = RunRecorder(records.extend)
    events = events_of("{}")
    recorder.take(events)
    call = tool_call_of(events)
    recorder.note(call, "approval_start")
    recorder.note(call, "approval_stop", approved=True, reason=None)
    call.answer("done")
    recorder.take([Ping(), ToolStart(call), ToolProgress(call, 0.5), SubRunStart(call, "r2", "claude-made-2")])
    recorder.take(
        [SubRunStop(call, "r2", "claude-made-2", RunStatus.COMPLETED, 1, {"input_tokens": 9}), ToolStop(call)]
    )
    RunRecorder(records.extend, id=recorder.id, resumed_after=1, after=RecordsEnd.of(records))
    records += [edit(line=None, context=None), edit("a\n", "b", "c", "d\n", old=None, replaced_lines=3)]
    definitions = record_schema()["$defs"]
    types = {
        definition["properties"]["type"]["const"]
        for definition in definitions.values()
        if "v" in definition["properties"]
    }
    assert {record["type"] for record in records} == types
    validator = Draft202012Validator(record_schema())
    for record in records:
        validator.validate(record)
    with pytest.raises(Exception, match="input_delta"):
        validator.validate({**records[0], "type": "input_delta"})


def test_what_a_chunk_brings_is_one_record() -> None:
    """For each block, with the changes of all fragments; what comes with the next chunk is a record of its own."""
    thinking = [{"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "m"}}] * 2
    chunk = [
        message_start(),
        block_start(0, "thinking", thinking=""),
        *thinking,
        block_start(1, "text", text=""),
        *[text_delta(1, part) for part in "abc"],
        *[tool_start(2), input_delta(2, '{"a": "x')],
        *[input_delta(2, part) for part in ("y", '", "b": [1', ", 2")],
    ]
    records, _ = recorded_body([chunk, [input_delta(2, "]}")]])
    deltas = [record for record in records if record["type"].endswith("_delta")]
    assert [(record["type"], fields(record).get("count")) for record in deltas] == [
        ("thinking_delta", 2),
        ("text_delta", 3),
        ("input_delta", 4),
        ("input_delta", None),
    ]
    assert [fields(record)[name] for record, name in zip(deltas, ("thinking", "text"), strict=False)] == ["mm", "abc"]
    first, second = of_type(records, "input_delta")
    assert first["fragment"] == '{"a": "xy", "b": [1, 2'
    assert apply_patch(None, first["patch"]) == {"a": "xy", "b": [1]}
    assert (first["finished"], second["finished"]) == (["a"], ["b"])
    assert [call.fragments for call in viewed(records).calls] == [5]


def test_signs_of_life() -> None:
    """One record a second at most; a view knows for how long nothing else has come of the response."""
    clock, view = Clock(), RunView()
    recorder = RunRecorder(lambda records: [view.feed(record) for record in records], clock=clock)
    for events, seconds in (([TurnStart(1)], 3), ([Ping(), Ping()], 0.5), ([Ping()], 0.5), ([Ping()], 4)):
        recorder.take(events)
        clock.now_s += seconds
    assert (view.quiet_since_s, view.ping_s) == (0.0, 4.0)
    recorder.take([MessageStart(empty_message())])
    assert view.quiet_since_s == 8.0
    recorder.take([MessageStop(empty_message(), "end_turn")])
    assert view.quiet_since_s is None


def test_blocks_that_grow_in_turns_keep_the_order() -> None:
    """A record never reaches over one of another block. The deltas of an output are those of its text again."""
    output: Any = None
    deltas = [TextDelta(0, "a"), OutputDelta(0, output, "a"), TextDelta(0, "b"), TextDelta(1, "c"), TextDelta(0, "d")]
    records = [fields(record) for record in of_type(recorded_together(deltas), "text_delta")]
    assert [(record["block"], record["text"]) for record in records] == [(1, "ab"), (2, "c"), (1, "d")]


def test_who_comes_late_gets_what_was_written() -> None:
    """An input whose beginning was not seen is told of from its beginning, and nothing of it twice."""
    assembler = MessageAssembler(input_type=GrowingInput, reports=True)
    for wire_event in (message_start(), tool_start(0), input_delta(0, '{"a": "x')):
        assembler.feed(wire_event)
    records: list[Record] = []
    recorder = RunRecorder(records.extend)
    late: list[RunEvent] = [event for text in ("y", "z") for event in assembler.feed(input_delta(0, text))]
    recorder.take(late)
    recorder.take([*assembler.feed(input_delta(0, '!"}')), *assembler.feed(block_stop(0))])
    assert "".join(delta["fragment"] for delta in of_type(records, "input_delta")) == '{"a": "xyz!"}'
    value = None
    for delta in of_type(records, "input_delta"):
        value = apply_patch(value, delta["patch"])
    assert value == {"a": "xyz!"}
    assert [record["type"] for record in records].count("input_start") == 1


@rows("again", [Restarted(1, "interrupted"), MessageStart(empty_message(), voided=empty_message())])
def test_what_is_void_is_not_told_of(again: RunEvent) -> None:
    """A call of a reply that was begun anew has no more records, whatever still happens to it."""
    records: list[Record] = []
    recorder = RunRecorder(records.extend)
    events = events_of('{"a": 1', stops=False)
    call = tool_call_of(events)
    recorder.take([*events, again])
    call.answer("cancelled")
    recorder.take([ToolStop(call), events[-1]])
    assert records[-1]["type"] in ("restarted", "message_start")
    assert viewed(records).calls == []


_CYCLE: list[Any] = []
_CYCLE.append(_CYCLE)


class _Odd:
    def __str__(self) -> str:
        raise RuntimeError("no text of mine")


@rows(
    "value, told",
    [
        ({"done": 0.5}, {"done": 0.5}),
        (float("nan"), None),
        (b"\xff", "_w=="),
        (_Odd(), "<_Odd>"),
        (Path("a"), "a"),
        ([10**5000], "<list>"),
        (_CYCLE, "<list>"),
        ("\ud800", "\ud800"),
    ],
)
def test_progress_of_any_kind(value: Any, told: Any) -> None:
    """A tool may say anything; what has no JSON form does not break the record."""
    events = events_of("{}")
    records = recorded([*events, ToolProgress(tool_call_of(events), value)])
    (progress,) = of_type(records, "tool_progress")
    assert progress["value"] == told
    json.dumps(records)


HOSTILE: list[Any] = [json.loads('{"a":' * 900 + "1" + "}" * 900), {"a": float("nan")}, {"a": [float("inf")]}, "no", 1]


@rows("value", HOSTILE)
def test_whatever_a_peer_sends_there_are_records(value: Any) -> None:
    """Each as the schema says, and JSON by the letter: they must reach a browser, and come back out of a file."""
    body = [
        message_start(usage=value),
        tool_start(0, input=value),
        block_stop(0),
        block_start(1, "odd", odd=value),
        block_stop(1),
        {"type": "odd", "odd": value},
        {**message_delta("end_turn"), "usage": value},
        MESSAGE_STOP,
    ]
    for record in recorded_body([body])[0]:
        assert record_adapter().validate_python(json.loads(json.dumps(record, allow_nan=False))) == record


def test_after_the_end_there_are_no_records() -> None:
    """Whatever is still told of."""
    records: list[Record] = []
    recorder = RunRecorder(records.extend)
    events = events_of("{}")
    recorder.take(events)
    call = tool_call_of(events)
    for _ in range(2):
        recorder.end(FeedEnd("completed", 1, {}, None))
        recorder.note(call, "approval_stop", approved=False, reason=None)
        recorder.take([ToolStart(call)])
    assert [record["type"] for record in records].index("run_stop") == len(records) - 1


def test_phases_from_records() -> None:
    """The life of a call as people see it."""
    events = events_of('{"a": 1}')
    call = tool_call_of(events)
    records: list[Record] = []
    recorder = RunRecorder(records.extend)
    view = RunView()
    phases: list[CallPhase] = []

    def feed() -> None:
        for record in records:
            view.feed(record)
            phases.extend(call.phase for call in view.calls if not phases or call.phase is not phases[-1])
        records.clear()

    recorder.take(events)
    recorder.note(call, "approval_start")
    feed()
    recorder.note(call, "approval_stop", approved=True, reason=None)
    recorder.take([ToolStart(call)])
    call.answer("yes")
    recorder.take([ToolStop(call), TurnStart(2)])
    feed()
    assert phases == [
        CallPhase.WRITING,
        CallPhase.WAITING,
        CallPhase.APPROVAL,
        CallPhase.WAITING,
        CallPhase.RUNNING,
        CallPhase.DONE,
    ]
    assert view.calls[0].result_text == "yes"


_FOUND = {"type": "web_search_tool_result", "content": [{"type": "web_search_result", "url": "https://a.example"}]}
_REFUSED = {
    "type": "web_fetch_tool_result",
    "content": {"type": "web_fetch_tool_result_error", "error_code": "url_not_allowed"},
}
_READ = {"type": "mcp_tool_result", "is_error": True, "content": [{"type": "text", "text": "no such page"}]}
_RAN = {"type": "code_execution_tool_result", "content": {"type": "code_execution_result", "stdout": "1"}}


@rows(
    "result, phase, text",
    [
        (_FOUND, CallPhase.DONE, "[web_search_result]"),
        (_REFUSED, CallPhase.FAILED, "url_not_allowed"),
        (_READ, CallPhase.FAILED, "no such page"),
        (_RAN, CallPhase.DONE, "[code_execution_result]"),
        (None, CallPhase.CUT, ""),
        (_FOUND | {"tool_use_id": "srvtoolu_2"}, CallPhase.CUT, ""),
    ],
)
def test_a_call_that_the_api_runs(result: dict[str, Any] | None, phase: CallPhase, text: str) -> None:
    """It runs from the end of its input until its result comes, which may be in a later reply."""
    call = [tool_start(0, "search", kind="server_tool_use", id="srvtoolu_1"), input_delta(0, "{}"), block_stop(0)]
    came = {"tool_use_id": "srvtoolu_1", **(result or {"type": "text", "text": ""})}
    block = [{"type": "content_block_start", "index": 0, "content_block": came}, block_stop(0)]
    paused = [message_delta("pause_turn"), MESSAGE_STOP]
    records, _ = recorded_body([[message_start(), *call, *paused], [message_start(), *block]])
    view = RunView()
    phases = []
    for record in records:
        view.feed(record)
        phases += [shown.phase for shown in view.calls if shown.phase not in phases]
    assert phases == [CallPhase.WRITING, CallPhase.RUNNING, phase]
    assert view.calls[0].result_text == text


@rows("kind", ["text", "thinking"])
def test_what_a_block_begins_with(kind: str) -> None:
    """Some peers put the first words into the start of their block; nothing of them is lost."""
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": f"{kind}_delta", kind: " world"}}
    records, _ = recorded_body([[message_start(), block_start(0, kind, **{kind: "Hello"}), delta, block_stop(0)]])
    assert "".join(record[kind] for record in of_type(records, f"{kind}_delta")) == "Hello world"
    (stop,) = of_type(records, "block_stop")
    assert kind not in stop["content"]


def test_what_was_going_on_when_the_run_ended() -> None:
    """An input that was being written was cut off; a call of a single request waits for whoever made it."""
    for fragments, stops, phase in ((['{"a'], False, CallPhase.CUT), (["{}"], True, CallPhase.WAITING)):
        assert [call.phase for call in viewed(recorded(events_of(*fragments, stops=stops))).calls] == [phase]


@pytest.mark.anyio
async def test_violations_of_the_protocol_are_counted() -> None:
    """A gateway that breaks the protocol shows in what is kept of a run."""
    payments = [[tool_start(0, "pay", id=id), input_delta(0, "{}"), block_stop(0)] for id in "ab"]
    body = [message_start(), *payments[0], *payments[1], message_delta("tool_use"), MESSAGE_STOP]
    records: list[Any] = []
    async with eagerstream.run(LocalAPI(body).transport(), **REQUEST, max_turns=1) as run:
        run.observe(RunRecorder(records.extend))
        await run.finish()
    assert records[-1]["violations"] == len(run.violations) == 1


@pytest.mark.anyio
async def test_a_repaired_input_shows() -> None:
    """In the record of the call's end; no other call has the field."""

    def mend(raw: str, error: object) -> dict[str, Any]:
        return {"n": 1}

    async def use(n: int = 0) -> str:
        """Use."""
        return str(n)

    tools = [tool(use, name="a", repair=mend), tool(use, name="b", repair=mend)]
    calls = [*(tool_start(0, "a"), input_delta(0, "{x}"), block_stop(0)), tool_start(1, "b"), input_delta(1, "{}")]
    body = [message_start(), *calls, block_stop(1), message_delta("tool_use"), MESSAGE_STOP]
    records: list[Any] = []
    async with eagerstream.run(LocalAPI(body).transport(), **REQUEST, max_turns=1, tools=tools) as run:
        run.observe(RunRecorder(records.extend))
        await run.finish()
    stops = {record["block"]: record for record in records if record["type"] == "tool_stop"}
    assert {block: record.get("repaired") for block, record in stops.items()} == {1: True, 2: None}
    assert "repaired" in stops[1]["content"]
