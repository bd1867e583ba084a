"""What an observer knows of a run, and what a terminal shows of it."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from rich.console import Console

from eagerstream.demo.play import _table
from eagerstream.growing import GrowingInput
from eagerstream.progress.observer import CallPhase, RunObserver
from eagerstream.progress.terminal import PlainLines, TerminalView, visible
from eagerstream.run import Restarted, RunEvent, ToolStart, ToolStop, TurnStart
from eagerstream.tools.call import ToolCall
from eagerstream.wire import MessageAssembler, MessageStart, TextDelta
from tests.support import block_stop, input_delta, message_start, text_delta, tool_start


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def events_of(*fragments: str, stops: bool = True) -> Iterator[RunEvent]:
    """The events of one call whose input comes in these fragments."""
    assembler = MessageAssembler(input_type=GrowingInput)
    yield TurnStart(1)
    wire_events = [message_start(), tool_start(0), *(input_delta(0, fragment) for fragment in fragments)]
    for wire_event in [*wire_events, block_stop(0)] if stops else wire_events:
        yield from assembler.feed(wire_event)


def shown(observer: RunObserver, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(TerminalView(observer))
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


def test_a_reply_that_is_begun_anew() -> None:
    """What came of it is forgotten, in both ways in which it can begin anew; earlier turns stay."""
    observer = RunObserver()
    for again in (Restarted(2, "interrupted"), MessageStart({}, voided={})):
        observer = RunObserver()
        for event in events_of('{"name": 1}'):
            observer.feed(event)
        observer.feed(TextDelta(1, "First."))
        observer.feed(TurnStart(2))
        for event in [*events_of('{"name"', stops=False)][1:]:
            observer.feed(event)
        observer.feed(TextDelta(1, "Sec"))
        assert (len(observer.calls), observer.text) == (2, "First.\nSec")
        observer.feed(again)
        assert (len(observer.calls), observer.text) == (1, "First.\n")
        observer.feed(TextDelta(0, "Second."))
        assert observer.text == "First.\nSecond."


def test_what_happened_when() -> None:
    """Times are seconds since the run began, each taken at its own event."""
    clock = Clock()
    observer = RunObserver(clock)
    for event in events_of('{"name":', ' "poem.txt", "lines": ["one",', ' "tw', 'o"]}'):
        clock.now_s += 1
        observer.feed(event)
    (call,) = observer.calls
    assert (call.input_start_s, call.first_fragment_s, call.first_field_s, call.first_item_s) == (2, 3, 4, 4)
    assert (call.last_fragment_s, call.input_stop_s, call.writing_s) == (6, 7, 3)
    assert call.finished == ["name", "lines"]
    assert (call.fragments, call.bytes) == (4, call.input.chars)

    tool_call = ToolCall(call.input, turn=1)
    tool_call.answer("done that")
    phases = [call.phase]
    for event in (ToolStart(tool_call), ToolStop(tool_call)):
        clock.now_s += 1
        observer.feed(event)
        phases.append(call.phase)
    assert phases == [CallPhase.WAITING, CallPhase.RUNNING, CallPhase.DONE]
    assert call.result_text == "done that"
    assert (call.tool_start_s, call.tool_stop_s) == (8, 9)


def test_a_tool_that_runs_while_its_input_is_written() -> None:
    """It is shown as running from its start to its end, whatever its input does meanwhile."""
    observer = RunObserver()
    *written, stopped = events_of('{"lines": ["one", ', '"two"]}')
    for event in written:
        observer.feed(event)
    (call,) = observer.calls
    tool_call = ToolCall(call.input, turn=1)
    phases = []
    for event in (ToolStart(tool_call), stopped):
        observer.feed(event)
        phases.append(call.phase)
    tool_call.answer("wrote 2 lines")
    observer.feed(ToolStop(tool_call))
    assert [*phases, call.phase] == [CallPhase.RUNNING, CallPhase.RUNNING, CallPhase.DONE]


@pytest.mark.parametrize(
    ("fragment", "phase"),
    [('{"a": 1}', CallPhase.WAITING), ('{"a": Dave}', CallPhase.INVALID), ('{"a": "cut', CallPhase.CUT)],
)
def test_how_an_input_ended_is_told(fragment: str, phase: CallPhase) -> None:
    """People see whether a call will run, and why not where it will not."""
    observer = RunObserver()
    for event in events_of(fragment):
        observer.feed(event)
    assert observer.calls[0].phase is phase
    assert phase.value in shown(observer)


def test_a_call_that_is_being_written() -> None:
    """The tree grows with the input: finished fields are ticked, the open one shows its tail and a cursor."""
    observer = RunObserver()
    for event in events_of('{"name": "poem.txt", "lines": ["one", "tw', stops=False):
        observer.feed(event)
    output = shown(observer)
    assert "✓ name  “poem.txt”" in output
    assert "… lines  2 items" in output
    assert "tw▌" in output


def test_large_values_are_shown_by_their_newest_part() -> None:
    """A screen has few lines: of a long array the newest items, of a long string its end."""
    items = ", ".join(f'"item {number}"' for number in range(1000))
    observer = RunObserver()
    for event in events_of(f'{{"items": [{items}], "text": "{"x" * 5000}END', stops=False):
        observer.feed(event)
    output = shown(observer)
    assert "994 earlier" in output
    assert "item 999" in output
    assert "item 1\n" not in output
    assert "END▌" in output
    assert len(output) < 2000


def test_nothing_that_a_model_wrote_acts_on_the_terminal() -> None:
    """Markup is shown as text; escape sequences and control characters are not shown, half characters as U+FFFD."""
    evil = r'{"[red]key\u001b[2J": "[bold]x[/bold]\u001b]0;title\u0007\r\n\u202e\ud800 end'
    observer = RunObserver()
    for event in events_of(evil, stops=False):
        observer.feed(event)
    output = shown(observer)
    assert "[red]key  “[bold]x[/bold] \ufffd end▌" in output
    assert not any(char in output for char in "\x1b\x07\r\u202e\ud800")
    output.encode()


def test_visible_leaves_ordinary_text_alone() -> None:
    """Text in any script is itself."""
    assert visible("Lisboa, 東京, 😀") == "Lisboa, 東京, 😀"
    assert visible("one\ntwo\tthree") == "one two three"


@pytest.mark.parametrize("width", [1, 5, 20, 200])
def test_any_width(width: int) -> None:
    """Terminals are resized to anything, with wide characters in them."""
    observer = RunObserver()
    for event in events_of(
        '{"name": "東京東京東京東京", "lines": [["deep", {"er": [1, 2.5, null, true, "', stops=False
    ):
        observer.feed(event)
    assert shown(observer, width)


def test_texts_of_turns_do_not_run_together() -> None:
    """Each turn's text begins on a line of its own."""
    observer = RunObserver()
    assembler = MessageAssembler(input_type=GrowingInput)
    for turn, word in ((1, "first"), (2, "second")):
        observer.feed(TurnStart(turn))
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        for wire_event in (message_start(), block, text_delta(0, word)):
            for event in assembler.feed(wire_event):
                observer.feed(event)
        assembler.close()
    assert observer.text == "first\nsecond"


def test_plain_lines() -> None:
    """A line for each thing that happens, and none for what changes nothing."""
    clock = Clock()
    console = Console(file=io.StringIO(), width=40)
    lines = PlainLines(RunObserver(clock), console)
    for event in events_of('{"city"', ': "Lis', 'bon",', ' "days": 3}'):
        clock.now_s += 0.5
        lines.feed(event)
    output = console.file
    assert isinstance(output, io.StringIO)
    told = [line.split(" bytes  ")[1] for line in output.getvalue().splitlines()]
    assert told == ["writing", "✓ city", "✓ days", "waiting"]


def test_plain_lines_show_markup_as_text() -> None:
    """Neither rich's styles and links nor its names of emoji are read out of what a model wrote."""
    console = Console(file=io.StringIO(), width=200)
    lines = PlainLines(RunObserver(), console)
    for event in events_of('{"[link=http://evil]:smile:[/link]": 1,'):
        lines.feed(event)
    output = console.file
    assert isinstance(output, io.StringIO)
    assert "✓ [link=http://evil]:smile:[/link]" in output.getvalue()


def test_the_table_of_the_demo_shows_markup_as_text() -> None:
    """The name of a tool is what the model wrote, too."""
    observer = RunObserver()
    assembler = MessageAssembler(input_type=GrowingInput)
    for wire_event in (message_start(), tool_start(0, "[red][link=http://evil]x")):
        for event in assembler.feed(wire_event):
            observer.feed(event)
    console = Console(file=io.StringIO(), width=120)
    console.print(_table(observer.calls, [], simulated=True))
    output = console.file
    assert isinstance(output, io.StringIO)
    assert "[red][link=http://evil]x" in output.getvalue()
