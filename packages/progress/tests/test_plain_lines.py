"""A run told in plain lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from packages.progress.tests.observed import Clock, events_of, tool_call_of
from tests.streams import block_start, block_stop, input_delta, message_start, text_delta, tool_start

from eagerstream.calls import RunStatus
from eagerstream.errors import StreamInterrupted
from eagerstream.inputs import GrowingInput
from eagerstream.loop import Restarted, RunEvent, SubRunStart, SubRunStop, ToolProgress, ToolStart, ToolStop
from eagerstream.streaming import FeedEnd
from eagerstream_progress import Record, RunRecorder, RunView
from eagerstream_progress._plain_lines import PlainLines
from eagerstream_wire import MessageAssembler, MessageStart, TextDelta
from eagerstream_wire._assistant_message import empty_message


def told(events: Iterable[RunEvent], title: str = "", *, step_s: float = 0.5, end: FeedEnd | None = None) -> list[str]:
    """The lines of events that come one after another."""
    lines: list[str] = []
    view = RunView()
    plain = PlainLines(lines.append, title)
    clock = Clock()

    def put(records: Sequence[Record]) -> None:
        for record in records:
            plain.feed(record, view, view.feed(record))

    recorder = RunRecorder(put, clock=clock)
    for event in events:
        clock.now_s += step_s
        recorder.take([event])
    if end is not None:
        recorder.end(end)
    return lines


def test_a_line_for_each_thing_that_happens() -> None:
    """And none for what changes nothing; each with its time, the tool, and how much of the input was there."""
    assert told(events_of('{"city"', ': "Lis', 'bon",', ' "days": 3}')) == [
        "  0.50 s  turn 1",
        "  1.50 s  tool              0 bytes  writing",
        "  3.00 s  tool             18 bytes  ✓ city",
        "  3.50 s  tool             29 bytes  ✓ days",
        "  4.00 s  tool             29 bytes  waiting",
    ]


def test_thinking_is_counted() -> None:
    """In its place."""
    thinking = {"type": "thinking_delta", "thinking": "Hm, well"}
    body = [
        *(message_start(), block_start(0, "thinking", thinking="")),
        *({"type": "content_block_delta", "index": 0, "delta": thinking}, block_stop(0)),
        *(block_start(1, "text", text=""), text_delta(1, "Hi."), block_stop(1)),
    ]
    assembler: MessageAssembler[GrowingInput] = MessageAssembler(input_type=GrowingInput)
    lines = told([event for wire_event in body for event in assembler.feed(wire_event)])
    assert [line.split(" s  ")[1] for line in lines] == ["turn 1", "thinking  8 characters", "“Hi.”"]


def test_tools_and_the_end() -> None:
    """A tool's progress once a second at most, its result, and how the run ended."""
    events = events_of('{"a": 1}')
    call = tool_call_of(events)
    call.answer("did\nit")
    events += [ToolStart(call), *(ToolProgress(call, step) for step in range(4)), ToolStop(call)]
    end = FeedEnd("error", 1, {"input_tokens": 10, "output_tokens": 2}, {"type": "APIError", "text": "no\nmore"})
    lines = told(events, end=end)
    assert [line.split("  ")[-1] for line in lines[4:]] == [
        *("running", "▸ 0", "▸ 2", "done: did it", "error: no more"),
        "error · 1 turn · 5.5 s · 10 tokens in · 2 out · claude-made-1",
    ]


def test_a_tool_that_the_api_runs() -> None:
    """Its result is a line as that of any other tool."""
    assembler = MessageAssembler(input_type=GrowingInput, reports=True)
    search = [tool_start(0, "search", kind="server_tool_use"), input_delta(0, '{"a": 1}'), block_stop(0)]
    failed = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    found = [block_start(1, "web_search_tool_result", tool_use_id="toolu_0", content=failed), block_stop(1)]
    lines = told(event for wire in [message_start(), *search, *found] for event in assembler.feed(wire))
    assert [line.split("bytes")[-1].strip() for line in lines[1:]] == [
        "writing",
        "✓ a",
        "running",
        "failed: unavailable",
    ]


def test_text_comes_by_lines() -> None:
    """Each line of a reply's text once it is whole; what is left at its end."""
    deltas = [TextDelta(1, text) for text in ("One", " line.\nAnd an", "other.\n\n", "The last")]
    end = FeedEnd("completed", 1, {}, None)
    lines = told([*events_of("{}")[:2], *deltas], end=end)
    assert [line.split("  ")[-1] for line in lines[1:-1]] == ["“One line.”", "“And another.”", "“The last”"]
    (line,) = told([TextDelta(0, "x" * 10_000 + "\n")])
    assert len(line) < 300


def test_a_reply_that_begins_anew() -> None:
    """The reader is told, and what was half told is ended."""
    lines = told([TextDelta(0, "Once"), Restarted(1, "interrupted", StreamInterrupted("lost"), 0.5)])
    assert [line.split("  ")[-1] for line in lines] == ["“Once”", "turn 1 restarts: interrupted"]
    lines = told([*events_of("{}")[:2], TextDelta(1, "Once"), MessageStart(empty_message(), voided=empty_message())])
    assert [line.split("  ")[-1] for line in lines[1:]] == ["“Once”", "the response restarts"]


def test_several_runs_are_told_apart() -> None:
    """By a title in each line."""
    lines = told(events_of('{"a": 1}'), "helper")
    assert all(line[10:].startswith("helper  ") for line in lines)


def test_nothing_that_a_model_wrote_acts() -> None:
    """Markup is text; control characters and line feeds are not there."""
    evil = r"{\"[link=http://evil]:smile:[/link]\u001b[2J\r\n\u0007\": 1,".replace('\\"', '"')
    lines = told([*events_of(evil, name="\x1b[2J[red]\ntool"), TextDelta(1, "\x1b]0;t\x07\x9b2Jtext\r\n")])
    assert any(line.endswith("✓ [link=http://evil]:smile:[/link] ") for line in lines)
    assert lines[-1].endswith("“text”")
    assert "".join(lines).isprintable()


def test_a_run_of_a_tool() -> None:
    """Its start, and how it ended, in the lines of its call."""
    events = events_of("{}")
    call = tool_call_of(events)
    usage = {"input_tokens": 10, "output_tokens": 2}
    events += [ToolStart(call), SubRunStart(call, "r1", "claude\x1b[31m-made-2")]
    events += [SubRunStop(call, "r1", "claude\x1b[31m-made-2", RunStatus.COMPLETED, 2, usage)]
    lines = [line.partition("bytes  ")[2] for line in told(events)[-2:]]
    assert lines == [
        "↳ claude-made-2 · running",
        "↳ claude-made-2 · completed · 2 turns · 10 tokens in · 2 out",
    ]


def test_progress_about_lines() -> None:
    """The lines, what runs, and the last line of the output; a bad end is told at once."""
    events = events_of('{"code": "a\\nb"}')
    call = tool_call_of(events)
    value = {"parameter": "code", "line": 1, "end_line": 1, "state": "running", "calls": ["fetch"], "output": "1\n2\n"}
    begun = {**value, "line": 0, "end_line": 0}
    raised = {**value, "line": 2, "end_line": 2, "state": "raised", "calls": []}
    events += [ToolStart(call), *(ToolProgress(call, each) for each in (begun, value, value, raised))]
    assert [line.split("bytes  ")[-1] for line in told(events, step_s=0.1)[-2:]] == [
        "▸ line 1 running · fetch · “2”",
        "✗ line 2 raised · “2”",
    ]
