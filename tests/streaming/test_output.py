"""JSON in the text of a response: the events, the growing value and the outcome, through the anthropic client."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel

import eagerstream
from eagerstream import Outcome, OutputDelta, TextDelta
from eagerstream.errors import APIError, StreamInterrupted, UsageError
from eagerstream.limits import Limits
from eagerstream.recordings import Recording
from eagerstream.streaming import GrowingOutput, MessageStream
from eagerstream_testing import reply, server_tool_use, text, thinking, tool_use
from eagerstream_wire import BlockStart, MessageStop
from tests.sampling import drawn
from tests.streaming.streams import finished
from tests.streams import (
    MESSAGE_STOP,
    REQUEST,
    block_start,
    block_stop,
    message_delta,
    message_start,
    needs_recordings,
    real_recordings,
    text_delta,
    wire_events,
)
from tests.support import Broken, Gate, LocalAPI, Piece

pytestmark = pytest.mark.anyio


class Row(BaseModel):
    name: str
    price: float


class Table(BaseModel):
    title: str
    rows: list[Row]


PLAIN = {"title": "Fruit 🍎", "rows": [{"name": 'ap"ple', "price": 1.5}, {"name": "fig", "price": 2}]}
JSON = json.dumps(PLAIN)
TABLE = Table.model_validate(PLAIN)
FENCED = f"Here you are:\n\n```json\n{JSON}\n```\nIs that all?"
SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
SEARCHED = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


async def read(
    *pieces: Piece, output: Any = Table, **options: Any
) -> tuple[MessageStream[Any], list[Any], Exception | None]:
    """A stream of these pieces to its end, its events, and its error."""
    events: list[Any] = []
    async with LocalAPI(pieces).anthropic() as client:
        async with eagerstream.stream(client, **REQUEST, output=output, **options) as stream:
            try:
                async for event in stream:
                    events.append(event)
            except APIError as error:
                return stream, events, error
    return stream, events, None


def outputs(events: Sequence[Any]) -> list[OutputDelta]:
    return [event for event in events if isinstance(event, OutputDelta)]


def answered(raw: str, stop_reason: str | None = "end_turn", *, pieces: int = 7) -> list[Piece]:
    """A response with this text."""
    deltas = [text_delta(0, raw[at : at + pieces]) for at in range(0, len(raw), pieces)]
    start = block_start(0, "text", text="")
    return [message_start(), start, *deltas, block_stop(0), message_delta(stop_reason), MESSAGE_STOP]


# --- the value --------------------------------------------------------------------------------------------------------


async def test_the_value_grows_and_is_validated_at_the_end() -> None:
    """The events show what was written so far; the stream has the model, and the request asked for it."""
    gates = [Gate() for _ in JSON]
    pieces: list[Piece] = [message_start(), block_start(0, "text", text="")]
    for gate, character in zip(gates, JSON, strict=True):
        pieces += [text_delta(0, character), gate]
    pieces += [block_stop(0), message_delta("end_turn"), MESSAGE_STOP]
    api = LocalAPI(pieces)
    seen = []
    outputs_seen: list[GrowingOutput[Any]] = []
    async with (
        api.anthropic() as client,
        eagerstream.stream(client, **REQUEST, output=Table, output_config={"effort": "low"}) as stream,
    ):
        async for event in stream:
            match event:
                case TextDelta():
                    assert (stream.output, stream.output_outcome, stream.output_error) == (None, None, None)
                case OutputDelta(index=0, output=output):
                    seen.append(output.text)
                    outputs_seen.append(output)
                    assert output.outcome is None
                    assert isinstance(output.partial, Table)
                    names = [row.name or "" for row in output.partial.rows or ()]
                    assert ", ".join(names) in ('ap"ple, fig'[:length] for length in range(12))
                    gates[len(seen) - 1].opened.set()
                case MessageStop():
                    assert stream.output == TABLE, "it is there before the connection closes"
                case _:
                    pass
    assert seen == [JSON[: at + 1] for at in range(len(JSON))]
    assert (stream.output, stream.output_outcome, stream.output_error) == (TABLE, Outcome.VALID, None)
    assert outputs_seen[-1].value is stream.output
    (exchange,) = api.exchanges
    assert exchange.body["output_config"]["effort"] == "low"
    assert exchange.body["output_config"]["format"]["type"] == "json_schema"
    assert exchange.body["output_config"]["format"]["schema"]["additionalProperties"] is False
    assert "anthropic-beta" not in exchange.headers


async def test_a_plain_schema_gives_plain_values() -> None:
    """The same without types, and checked against the schema, not only as JSON."""
    stream, events, _ = await read(*answered(JSON), output=SCHEMA)
    assert (stream.output, stream.output_error) == (PLAIN, None)
    assert outputs(events)[-1].output.partial == PLAIN
    stream, _, _ = await read(*answered('{"title": 3}'), output=SCHEMA)
    assert (stream.output, stream.output_outcome) == (None, Outcome.INVALID)
    assert stream.output_error == "Invalid parameter 'title': expected string, got 3"


async def test_a_list_is_an_output() -> None:
    """Unlike the input of a tool, an output need not be an object."""
    stream, events, _ = await read(*answered(json.dumps(PLAIN["rows"])), output=list[Row])
    assert stream.output == TABLE.rows
    assert outputs(events)[0].output.partial == TABLE.rows


@pytest.mark.parametrize("output_mode", ["native", "prompted"])
async def test_any_cut_of_the_bytes_gives_the_same(output_mode: str) -> None:
    """The text of all deltas, the value and the outcome depend on no chunk. Each run draws some of the cuts."""
    raw = JSON if output_mode == "native" else FENCED
    body = reply(text(raw)).body
    for at in drawn(range(len(body)), 12):
        stream, events, error = await read(body[:at], body[at:], output_mode=output_mode)
        assert error is None
        assert (stream.output, stream.output_outcome) == (TABLE, Outcome.VALID)
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == raw
        assert "".join(event.fragment for event in outputs(events)).strip() == JSON


@pytest.mark.parametrize("output_mode", ["native", "prompted"])
async def test_a_transcript_that_ends_anywhere(output_mode: str) -> None:
    """Only the complete response has a value. Everything before it was cut, and says so. Each run draws some ends."""
    body = reply(text(JSON if output_mode == "native" else FENCED)).body
    end = len(body) - len(b"event: message_stop")
    for at in (*drawn(range(end), 12), end):
        stream, events, error = await read(body[:at], Broken(), output_mode=output_mode)
        assert isinstance(error, StreamInterrupted), at
        assert (stream.output, stream.output_outcome) == (None, Outcome.INCOMPLETE)
        assert stream.output_error == "the response broke off"
        for event in outputs(events):
            assert event.output.outcome is Outcome.INCOMPLETE


# --- the outcomes -----------------------------------------------------------------------------------------------------

ENDS: dict[str, tuple[str, str | None, Outcome, str | None]] = {
    "complete": (JSON, "end_turn", Outcome.VALID, None),
    "white space around it": (f"\n {JSON}\n", "end_turn", Outcome.VALID, None),
    "a stop sequence behind it": (JSON, "stop_sequence", Outcome.VALID, None),
    "a stop sequence inside": (JSON[:-1], "stop_sequence", Outcome.INCOMPLETE, "stops before the end"),
    "max_tokens": (JSON[:40], "max_tokens", Outcome.INCOMPLETE, "max_tokens"),
    "max_tokens behind it": (JSON, "max_tokens", Outcome.INCOMPLETE, "max_tokens"),
    "wrong before max_tokens": ('{"title": nix', "max_tokens", Outcome.INVALID, "expected 'null'"),
    "a full window": (JSON, "model_context_window_exceeded", Outcome.INCOMPLETE, "window"),
    "a refusal": ("I cannot help with that.", "refusal", Outcome.INCOMPLETE, "'refusal'"),
    "a refusal behind it": (JSON, "refusal", Outcome.INCOMPLETE, "'refusal'"),
    "a pause": (JSON, "pause_turn", Outcome.INCOMPLETE, "'pause_turn'"),
    "no stop reason": (JSON, None, Outcome.INCOMPLETE, "stop reason None"),
    "a stop reason of tomorrow": (JSON, "tired", Outcome.INCOMPLETE, "'tired'"),
    "prose": ("The table is long.", "end_turn", Outcome.INVALID, "expected a value"),
    "prose behind it": (f"{JSON} Done.", "end_turn", Outcome.INVALID, "expected nothing after"),
    "a fence": (FENCED, "end_turn", Outcome.INVALID, "expected a value"),
    "cut JSON": (JSON[:-1], "end_turn", Outcome.INCOMPLETE, "stops before the end"),
    "no text": ("", "end_turn", Outcome.INCOMPLETE, "stops before the end"),
    "a wrong type": ('{"title": "a", "rows": [{"name": "b", "price": "1"}]}', "end_turn", Outcome.INVALID, "price"),
    "a missing field": ('{"title": "a"}', "end_turn", Outcome.INVALID, "rows"),
    "too large a number": ('{"title": "a", "rows": 1e999}', "end_turn", Outcome.INVALID, "too large"),
    "keys that become one": ('{"\\ud800": 1, "\\udc00": 2}', "end_turn", Outcome.INVALID, "two keys"),
}


async def test_outcomes() -> None:
    """Each way in which a text can end, judged by the same rules as an input."""
    for name, (raw, reason, outcome, said) in ENDS.items():
        stream, events, error = await read(*answered(raw, reason, pieces=30))
        assert error is None, name
        assert stream.output_outcome is outcome, name
        assert stream.output == (TABLE if outcome is Outcome.VALID else None), name
        if said is None:
            assert stream.output_error is None, name
        else:
            assert said in str(stream.output_error), name
        for event in outputs(events):
            assert event.output.outcome is outcome, name
            assert event.output.error == stream.output_error, name


FENCES: dict[str, tuple[str, Outcome, str | None]] = {
    "a fence": (FENCED, Outcome.VALID, None),
    "no fence": (JSON, Outcome.VALID, None),
    "two": (FENCED + FENCED, Outcome.INVALID, "more than one fenced block"),
    "none": ("The table is long.", Outcome.INVALID, "no fenced block"),
    "an open one": (FENCED.removesuffix("```\nIs that all?"), Outcome.INCOMPLETE, "never closed"),
    "not JSON": ("```json\n{title: 1}\n```", Outcome.INVALID, "key in double quotes"),
    "another value": ("```json\n[]\n```", Outcome.INVALID, "object|model"),
}


async def test_prompted_outcomes() -> None:
    """Without the feature nothing is sent, and a text with no fence or two is never guessed at."""
    api = LocalAPI(*(answered(raw) for raw, _, _ in FENCES.values()))
    async with api.anthropic() as client:
        for name, (_, outcome, said) in FENCES.items():
            stream = await finished(client, output=Table, output_mode="prompted")
            assert "output_config" not in api.exchanges[-1].body
            assert stream.output_outcome is outcome, name
            assert stream.output == (TABLE if outcome is Outcome.VALID else None), name
            assert said is None or any(part in str(stream.output_error) for part in said.split("|")), name


async def test_a_fault_is_reported_when_it_is_written() -> None:
    """A user interface can say so at once, and no delta comes for what is no JSON."""
    _, events, _ = await read(*answered('{"title": "a", oh no', pieces=1))
    assert "".join(event.fragment for event in outputs(events)) == '{"title": "a", '
    output = outputs(events)[-1].output
    assert output.partial == Table.model_construct(title="a", rows=None)


# --- which text -------------------------------------------------------------------------------------------------------


async def test_the_answer_is_the_text_after_the_last_other_block() -> None:
    """Prose before a search or a thought is not the answer, and its delta says so in the end."""
    body = reply(text('{"title": "not'), thinking("hm"), text("No: "), server_tool_use("web_search", {}), text(JSON))
    stream, events, _ = await read(body)
    assert stream.output == TABLE
    first, *rest = outputs(events)
    assert first.output.outcome is Outcome.INCOMPLETE
    assert "not the answer" in str(first.output.error)
    assert "".join(event.fragment for event in rest if event.index == 4) == JSON


async def test_a_text_in_several_blocks_is_one() -> None:
    """The API cuts a text with citations into blocks, anywhere between its tokens."""
    events: list[Piece] = [message_start()]
    for index, part in enumerate((JSON[:20], JSON[20:50], JSON[50:])):
        events += [block_start(index, "text", text=part[:1]), text_delta(index, part[1:]), block_stop(index)]
    stream, told, _ = await read(*events, message_delta("end_turn"), MESSAGE_STOP)
    assert stream.output == TABLE
    assert "".join(event.fragment for event in outputs(told)) == JSON
    assert {event.index for event in outputs(told)} == {0, 1, 2}


@pytest.mark.parametrize("order", [("text", "call"), ("call", "text")])
async def test_a_response_that_calls_a_tool_has_no_answer(order: tuple[str, str]) -> None:
    """Whatever its text is: the answer follows the results."""
    blocks = {"text": text(JSON), "call": tool_use("get_weather", {"city": "Oslo"})}
    stream, _, _ = await read(reply(*(blocks[name] for name in order)))
    assert (stream.output, stream.output_outcome) == (None, Outcome.INCOMPLETE)
    assert "called a tool" in str(stream.output_error)


async def test_blocks_in_a_strange_order() -> None:
    """The message decides: the events of a peer that mixes its blocks up are no text in order."""
    mixed: list[Piece] = [message_start(), block_start(1, "text", text=""), text_delta(1, JSON[30:])]
    mixed += [block_start(0, "text", text=""), text_delta(0, JSON[:30]), block_stop(0), block_stop(1)]
    stream, events, _ = await read(*mixed, message_delta("end_turn"), MESSAGE_STOP)
    assert stream.output == TABLE
    assert all(event.output.value is None for event in outputs(events))


async def test_a_response_that_starts_again() -> None:
    """What a gateway's first attempt wrote is void; the second attempt counts alone."""
    again = [*answered(JSON)[:9], *answered(JSON)]
    stream, events, _ = await read(*again)
    assert stream.output == TABLE
    assert outputs(events)[0].output.outcome is Outcome.INCOMPLETE
    assert outputs(events)[0].output.error == "the response was restarted"
    assert outputs(events)[-1].output.value == TABLE


# --- around it --------------------------------------------------------------------------------------------------------


async def test_events_of_another_source() -> None:
    """Somebody else has sent the request, and the text is read in the same way."""
    async with eagerstream.events(wire_events(reply(text(JSON)).body), output=Table) as stream:
        await stream.finish()
    assert stream.output == TABLE


async def test_without_output_nothing_changes() -> None:
    """No event, no field of the request, and no value."""
    api = LocalAPI(answered(JSON))
    async with api.anthropic() as client, eagerstream.stream(client, **REQUEST) as stream:
        assert not outputs([event async for event in stream])
    assert (stream.output, stream.output_outcome, stream.output_error) == (None, None, None)
    assert "output_config" not in api.exchanges[0].body


def test_usage_errors_come_at_once() -> None:
    """Before anything is sent."""
    client = LocalAPI([]).transport()
    format: Any = {"format": {"type": "json_schema", "schema": {"type": "string"}}}
    with pytest.raises(UsageError, match="both give a format"):
        eagerstream.stream(client, **REQUEST, output=Table, output_config=format)
    with pytest.raises(UsageError, match="no type"):
        eagerstream.stream(client, **REQUEST, output="Table")  # type: ignore[call-overload]  # a name, not a type
    with pytest.raises(UsageError, match="but no output"):
        eagerstream.stream(client, **REQUEST, output_mode="prompted")
    with pytest.raises(UsageError, match="did you mean output"):
        eagerstream.stream(client, **REQUEST, outputs=Table)  # type: ignore[call-overload]  # misspelt


async def test_a_text_beyond_the_limit() -> None:
    """A bound as for an input: the text is wrong from there on, and is not kept."""
    stream, events, _ = await read(*answered(JSON), limits=Limits(max_input_chars=20))
    assert stream.output_outcome is Outcome.INVALID
    assert "longer than 20 characters" in str(stream.output_error)
    assert len(outputs(events)) == 2


async def test_a_slow_consumer_gets_merged_deltas() -> None:
    """Nothing is lost, and the memory stays bounded."""
    raw = json.dumps({"title": "x" * 2_000, "rows": []})
    async with LocalAPI(answered(raw, pieces=1)).anthropic() as client:
        async with eagerstream.stream(client, **REQUEST, output=Table) as stream:
            while not stream.is_whole:
                await anyio.lowlevel.checkpoint()
            events = [event async for event in stream]
    assert "".join(event.fragment for event in outputs(events)) == raw
    assert len(events) < 300


def test_a_delta_shows_no_text() -> None:
    """Events are printed into logs."""
    output: GrowingOutput[Any] = _grown('{"title": "secret"')
    assert repr(OutputDelta(0, output, '"secret"')) == "OutputDelta(index=0, <GrowingOutput open, 18 chars>, 8 chars)"


def _grown(raw: str) -> GrowingOutput[Any]:
    from eagerstream.streaming._output import OutputReader
    from eagerstream.streaming._output_format import OutputFormat

    reader = OutputReader(OutputFormat(Table), limits=Limits())
    *_, delta = reader.take([BlockStart(0, {"type": "text", "text": ""}), TextDelta(0, raw)])
    output: GrowingOutput[Any] = delta.output
    return output


@needs_recordings
async def test_real_texts_are_not_json() -> None:
    """No real recording has a structured output, and so none of their texts may pass for one."""
    for path in real_recordings()[::12]:
        async with eagerstream.stream(Recording.load(path), **REQUEST, output=SCHEMA) as stream:
            try:
                await stream.finish()
            except APIError:
                pass
        assert stream.output is None
        assert stream.output_outcome in (Outcome.INVALID, Outcome.INCOMPLETE)
