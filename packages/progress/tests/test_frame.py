"""What a terminal shows of runs and their calls, at any size."""

from __future__ import annotations

import io
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from packages.progress.tests.made_log import MadeCall, made_log
from packages.progress.tests.observed import events_of, recorded, recorded_body, tool_call_of, viewed
from rich.cells import cell_len
from rich.console import Console
from tests.streams import block_start, block_stop, input_delta, message_start, text_delta, tool_start
from tests.tables import rows

from eagerstream.loop import ToolProgress, ToolStart, ToolStop
from eagerstream_progress import CallView, RunView, load_records, save_records
from eagerstream_progress._fold import CallPhase, SubRunFold
from eagerstream_progress._frame import Frame, RunState
from eagerstream_progress._panels import shares
from eagerstream_progress._rows import end_of
from eagerstream_progress._view import TextView

ENDED = [phase for phase in CallPhase if phase.is_final]

HOSTILE = "\x1b[2J[red]\x07\r\u202e\x9b5m\n\ttext"

GOING = [phase for phase in CallPhase if not phase.is_final]


def call_of(phase: CallPhase, partial: Any = None, **fields: Any) -> CallView:
    call = CallView(1, "toolu_1", fields.pop("name", "tool"), "tool_use", 1, 0.0, phase, partial=partial or {})
    if phase is not CallPhase.WRITING:
        call.input_stop_s = 1.0
    for name, value in fields.items():
        setattr(call, name, value)
    return call


def text_of(text: str, kind: str = "text", *, is_over: bool = False) -> TextView:
    view = TextView(kind, 1, is_over=is_over)
    view.add(text)
    return view


def view_of(*calls: CallView, **fields: Any) -> RunView:
    view = RunView()
    view.turn = 1
    view.calls = list(calls)
    view.items = [*([text_of(fields.pop("text"))] if "text" in fields else []), *calls]
    for name, value in fields.items():
        setattr(view, name, value)
    return view


def written(*fragments: str, stops: bool = False) -> RunView:
    """A run with one call whose input comes in these fragments."""
    return viewed(recorded(events_of(*fragments, stops=stops), ends=False))


def drawn(*views: RunView, width: int = 80, height: int = 24, is_final: bool = False, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="")
    console = Console(file=file, width=width, height=height, force_terminal=False)
    frame = Frame(lambda: [RunState(view, view.at_s) for view in views])
    frame.is_final = is_final
    console.print(frame)
    file.flush()
    file.seek(0)
    output = file.read()
    assert [line.rstrip() for line in frame.lines] == [line.rstrip() for line in output.splitlines()]
    return output


def test_a_call_that_is_being_written() -> None:
    """The panel grows with the input: finished fields are ticked, the open one shows its end and a cursor."""
    output = drawn(written('{"name": "poem.txt", "lines": ["one", "tw'))
    assert "✓ name  “poem.txt”" in output
    assert "… lines  2 items" in output
    assert "tw▌" in output
    assert "tool  writing  41 B" in output


@rows(
    "fragment, phase",
    [('{"a": 1}', CallPhase.WAITING), ('{"a": Dave}', CallPhase.INVALID), ('{"a": "cut', CallPhase.CUT)],
)
def test_how_an_input_ended_is_told(fragment: str, phase: CallPhase) -> None:
    """People see whether a call will run, and why not where it will not."""
    view = written(fragment, stops=True)
    assert f"tool  {phase.value}" in drawn(view)
    if view.calls[0].error:
        assert f"→ {view.calls[0].error[:20]}" in drawn(view)


def test_a_tool_that_runs_and_ends() -> None:
    """Its panel shows what it says of its progress, its line what came of it, and how long it took."""
    events = events_of('{"a": 1}')
    call = tool_call_of(events)
    view = viewed(recorded([*events, ToolStart(call), ToolProgress(call, {"done": 3, "of": 7})], ends=False))
    assert "╭─ tool  running" in drawn(view)
    assert "▸ done: 3, of: 7" in drawn(view)
    call.answer("did it\nall")
    for record in recorded([*events, ToolStart(call), ToolStop(call)], ends=False):
        view.feed(record)
    assert re.search(r"✓ tool  done  8 B  \d\.\d s  → did it all\n", drawn(view))


def test_the_runs_of_a_tool() -> None:
    """Below its input, the newest three; those that still run come before others."""
    ended = {f"r{number}": SubRunFold(f"r{number}", f"model-{number}", "completed", 1) for number in range(4)}
    output = drawn(
        view_of(call_of(CallPhase.RUNNING, sub_runs={"r": SubRunFold("r", "claude\x1b[31m-made-2"), **ended}))
    )
    assert [line.strip("│ ") for line in output.splitlines() if "↳" in line] == [
        "↳ model-2 · completed",
        "↳ model-3 · completed",
        "↳ claude-made-2 · running",
    ]


def test_a_tool_that_runs_while_its_input_is_written() -> None:
    """Both are told, in a panel and in a line; a finished field has no cursor."""
    call = call_of(CallPhase.RUNNING, {"lines": ["one", "two"]}, input_stop_s=None)
    assert "╭─ tool  running while it is written" in drawn(view_of(call))
    assert "▸ tool  running  0 B  lines 2 items two▌" in drawn(view_of(call, call), height=3)
    call.finished = ["lines"]
    assert "▸ tool  running  0 B  lines 2 items two\n" in drawn(view_of(call, call), height=3)


def test_a_call_without_an_input() -> None:
    """There is nothing to be put into a panel, unless the tool says something."""
    assert drawn(view_of(call_of(CallPhase.RUNNING))).startswith("▸ tool  running  0 B\n")
    assert "│ ▸ 5 " in drawn(view_of(call_of(CallPhase.RUNNING, progress=5)))


def test_a_person_is_asked() -> None:
    """A call that waits for somebody is shown with its input, whatever else there is to show."""
    others = [call_of(CallPhase.RUNNING, {"n": number}) for number in range(30)]
    output = drawn(view_of(*others, call_of(CallPhase.APPROVAL, {"path": "/etc"}, name="delete")), height=12)
    assert "delete  waiting for approval" in output
    assert "/etc" in output
    assert "a person is asked" in drawn(view_of(call_of(CallPhase.APPROVAL, {"path": "/etc"})))


def test_the_line_about_the_whole() -> None:
    """Status, turns, time, tokens and model; an error above it."""
    usage = {"input_tokens": 1200, "cache_read_input_tokens": 9000, "output_tokens": 340, "service_tier": "standard"}
    view = view_of(at_s=63.5, usage=usage, model="claude-made-1", name="poet")
    assert "poet · running · turn 1 · 1 min 03 s · 1,200 tokens in + 9,000 cached · 340 out · claude-made-1" in drawn(
        view, width=120
    )
    view.status, view.error = "error", "the connection was reset"
    *_, error, status = drawn(view, width=40).splitlines()
    assert error == "the connection was reset"
    assert status.startswith("poet · error · 1 turn · 1 min 03 s · 1,")
    view = view_of(at_s=1.5, usage={"output_tokens": 340}, status="limit", limit="max_cost", cost=0.0125)
    assert "limit · max cost · 1 turn · 1.5 s · 340 out · cost 0.0125" in drawn(view)


def test_texts_and_calls_in_their_order() -> None:
    """As the page shows them. Without room, the earlier texts go first; thinking that has ended is only counted."""
    thinking = {"type": "thinking_delta", "thinking": "Hm, well"}
    events = [
        *(message_start(), block_start(0, "thinking", thinking="")),
        *({"type": "content_block_delta", "index": 0, "delta": thinking}, block_stop(0)),
        *(block_start(1, "text", text=""), text_delta(1, "Let me\nlook."), block_stop(1)),
        *(tool_start(2, "look", id="a"), input_delta(2, "{}"), block_stop(2)),
        *(block_start(3, "text", text=""), text_delta(3, "And there."), block_stop(3)),
        *(tool_start(4, "look", id="b"), input_delta(4, "{}"), block_stop(4)),
    ]
    records, _ = recorded_body([events])
    view = viewed(records)

    def rows(height: int) -> list[str]:
        *parts, _ = drawn(view, height=height).splitlines()
        return [" ".join(part.split()[:2]) for part in parts]

    assert rows(24) == ["thinking 8", "look.", "· look", "And there.", "· look"]
    assert rows(5) == ["look.", "· look", "And there.", "· look"]
    assert rows(4) == ["· look", "And there.", "· look"]
    final = drawn(view, height=3, is_final=True).splitlines()
    assert final[1:3] == ["Let me", "look."]
    assert drawn(view_of(text="Hm", items=[text_of("Hm, well", "thinking")])).splitlines()[0] == "Hm, well"


def test_a_silence_is_told() -> None:
    """After five seconds without anything of a response, with the last sign of life of the API, if there was one."""
    usual = "running · turn 1 · 20 s"
    assert drawn(view_of(at_s=20.0)).strip() == usual
    assert drawn(view_of(at_s=20.0, quiet_since_s=16.0)).strip() == usual
    assert drawn(view_of(at_s=20.0, quiet_since_s=12.5)).strip() == usual + " · quiet for 7 s"
    alive = view_of(at_s=20.0, quiet_since_s=12.5, ping_s=17.0)
    assert drawn(alive).strip() == usual + " · quiet for 7 s, alive 3 s ago"
    assert drawn(view_of(at_s=20.0, quiet_since_s=12.5, ping_s=3.0)).strip() == usual + " · quiet for 7 s"


def test_large_values_are_shown_by_their_newest_part() -> None:
    """A screen has few rows: of a long array the newest items, of a long string its end and its size."""
    items = ", ".join(f'"item {number}"' for number in range(1000))
    output = drawn(written(f'{{"items": [{items}], "text": "{"x" * 5000}END'), width=60)
    assert "1,000 items" in output
    assert "END▌  5,003 characters" in output
    assert len(output) < 2000
    output = drawn(written(f'{{"items": [{items}'))
    assert "item 999▌" in output
    assert "item 993" not in output


def test_a_text_of_many_lines_is_shown_by_its_last_ones() -> None:
    """Code is read by lines."""
    output = drawn(written('{"code": "def f():\\n    return 1\\n'))
    assert re.search(r"│     def f\(\): +│\n│         return 1 +│\n│     ▌ +│", output)


def test_a_frame_costs_what_can_be_seen() -> None:
    """Ten million characters are not looked at for the few that are shown."""
    huge = {"text": "line of text\n" * 800_000, "items": ["item"] * 1_000_000, "number": 10**4000}
    calls = [call_of(phase, huge) for phase in GOING]
    begin = time.process_time()
    drawn(view_of(*calls))
    assert time.process_time() - begin < 0.5


def test_nothing_that_a_model_wrote_acts_on_the_terminal() -> None:
    """Markup is shown as text; escape sequences and control characters are not shown, half characters as U+FFFD."""
    evil = r'{"[red]key\u001b[2J": "[bold]x[/bold]\u001b]0;title\u0007\r\n\u202e\ud800 :smile: end'
    output = drawn(written(evil))
    assert "[red]key" in output
    assert "[bold]x[/bold]" in output
    assert "\ufffd :smile: end▌" in output
    hostile = HOSTILE
    everywhere = view_of(
        call_of(CallPhase.RUNNING, {hostile: {hostile: [hostile]}}, name=hostile, progress={hostile: hostile}),
        call_of(CallPhase.FAILED, name=hostile, result_text=hostile),
        call_of(CallPhase.INVALID, name=hostile, error=hostile),
        call_of(CallPhase.APPROVAL, {hostile: [hostile, hostile]}, name=hostile),
        text=hostile,
        error=hostile,
        model=hostile,
        name=hostile,
    )
    for height in (5, 12, 40):
        output += drawn(everywhere, everywhere, height=height)
    assert not set(output) & set("\x1b\x07\r\t\u202e\x9b\ud800")
    output.encode()


WIDE = {
    "名前": "東京東京東京東京" * 9,
    "emoji": "😀👩‍👩‍👧❤️" * 9,
    "e": "e\u0301" * 200,
    "deep": [["x", {"er": [1, 2.5, None, True, "…"]}]],
}


@pytest.mark.slow
@rows("width", [1, 5, 20, 40, 80, 200])
@rows("height", [1, 2, 3, 5, 8, 12, 24])
def test_any_size(width: int, height: int) -> None:
    """Nothing is wider or higher than the terminal, with wide characters and a hundred calls in it."""
    phases = [*GOING, *ENDED]
    calls = [call_of(phases[number % 8], WIDE, name=f"道具{number}", result_text="結果" * 99) for number in range(100)]
    views = [
        view_of(*calls, text="見てみます。" * 40, error="壊れた"),
        view_of(*calls[:1]),
        view_of(calls[0], calls[5], text="text"),
        view_of(text="only a text\n" * 100),
        view_of(),
    ]
    for shown in ([view] for view in views):
        check_size(drawn(*shown, width=width, height=height), width, height)
    check_size(drawn(*views, width=width, height=height), width, height)
    check_size(drawn(*views * 20, width=width, height=height), width, height)


def check_size(output: str, width: int, height: int) -> None:
    lines = output.splitlines()
    assert 1 <= len(lines) <= height
    assert all(cell_len(line) <= width for line in lines)


@rows("height", [5, 12, 24])
def test_a_hundred_calls(height: int) -> None:
    """Those that go on are shown first, and what is hidden is counted: all in all a hundred."""
    calls = [call_of(CallPhase.DONE if number % 10 else CallPhase.RUNNING, {"n": 1}) for number in range(100)]
    output = drawn(view_of(*calls), height=height)
    hidden = re.search(r"… (\d+) more: (.*)\n", output)
    assert hidden is not None
    counts = Counter({kind: int(count) for count, kind in re.findall(r"(\d+) (\w+)", hidden[2])})
    assert counts.total() == int(hidden[1])
    counts += Counter(re.findall(r"tool  (running|done)", output))
    assert counts == {"running": 10, "done": 90}
    if height >= 12:
        assert output.count("tool  running") == 10


def test_a_small_terminal_has_room_for_one_panel() -> None:
    """At 20x5 the one call that is being written is a panel still."""
    output = drawn(written('{"name": "poem.txt", "lines": ["one", "tw'), width=20, height=5)
    assert "".join(line[0] for line in output.splitlines()) == "╭││╰r"


def test_runs_stand_one_below_another() -> None:
    """Each has its line first; one that ended is nothing but that line while others go on."""
    done = view_of(call_of(CallPhase.DONE), name="helper", status="completed")
    output = drawn(view_of(call_of(CallPhase.RUNNING, {"task": "look"}), name="main"), done, done)
    assert [line[:4] for line in output.splitlines()] == ["main", "╭─ t", "│ … ", "╰───", "help", "help"]
    many = drawn(view_of(name="main"), *[done] * 50, view_of(name="newest"), height=6)
    assert many.splitlines()[0].startswith("main")
    assert "newest · running" in many
    assert "… 47 more runs: 47 completed" in many


def test_how_it_ended_is_not_bound_to_the_height() -> None:
    """Every call is a line in what stays in the terminal."""
    calls = [call_of(phase, {"n": 1}) for phase in CallPhase for _ in range(5)]
    lines = drawn(view_of(*calls, status="cancelled"), height=10, is_final=True).splitlines()
    assert len(lines) == len(calls) + 1
    assert sum("tool  cut" in line for line in lines) == 5
    endless = drawn(view_of(*(call_of(CallPhase.DONE) for _ in range(1_000))), is_final=True).splitlines()
    assert len(endless) == 200
    assert endless[0] == "… 802 more: 802 done"


def test_a_terminal_that_knows_ascii_only() -> None:
    """What cannot be written becomes a question mark, and nothing is raised."""
    assert "? name" in drawn(written('{"name": "詩", "lines": ["é'), encoding="ascii")


def test_rows_of_a_narrowed_terminal() -> None:
    """Lines are counted as a terminal breaks them: a wide character is never halved."""
    frame = Frame(list)
    frame.lines = ["", "abcde", "東京東", "e\u0301" * 5]
    assert [frame.rows_at(width) for width in (80, 5, 4)] == [4, 5, 7]


@given(st.integers(0, 60), st.lists(st.integers(0, 30)))
def test_shares_are_fair(rows: int, wants: list[int]) -> None:
    """Nobody gets more than is wanted, all is dealt out where it is, and who gets less than another wanted less."""
    dealt = shares(rows, wants)
    assert all(0 <= share <= want for share, want in zip(dealt, wants, strict=True))
    assert sum(dealt) == min(rows, sum(wants))
    unmet = [share for share, want in zip(dealt, wants, strict=True) if share < want]
    assert not unmet or max(dealt) <= min(unmet) + 1


CODE = '{"code": "a = 1\\nb = await fetch(\\n    2)\\n' + "".join(f"line({number})\\n" for number in range(4, 40))


def with_lines(state: str, *, code: str = CODE, **fields: Any) -> RunView:
    """A run with one call whose code is being written while its second statement runs."""
    view = written(code)
    (call,) = view.calls
    call.phase = CallPhase.RUNNING
    call.progress = {"parameter": "code", "statement": 2, "line": 2, "end_line": 3, "state": state, **fields}
    return view


def rows_of(output: str) -> list[str]:
    return [row.strip("│ \n") for row in output.splitlines() if row.startswith("│")]


def test_progress_about_lines() -> None:
    """The running statement and the line that is written are both there, with the state of each line."""
    view = with_lines("running", calls=["fetch", "fetch"], output="one\ntwo\n")
    assert rows_of(drawn(view)) == [
        *("… code  40 lines", "✓  1 a = 1", "▸  2 b = await fetch(", "▸  3     2)", "·  4 line(4)", "… 27 lines"),
        *(f"· {number} line({number})" for number in range(32, 40)),
        *("· 40 ▌", "▸ lines 2 to 3 running · fetch x2", "» one", "» two"),
    ]
    rows = rows_of(drawn(view, height=9))
    assert rows == ["… code  40 lines", "▸  2 b = await fetch(", "… 37 lines", "· 40 ▌", *rows[4:]]
    assert rows[4:] == ["▸ lines 2 to 3 running · fetch x2", "» two"]
    assert "▸ tool  running  397 B  lines 2 to 3 running · fetch x2\n" in drawn(view, height=2)
    (call,) = view.calls
    call.finished, call.partial["path"], call.progress["state"] = ["code"], "a.py", "raised"
    rows = rows_of(drawn(view, height=12))
    assert rows[:4] == ["… path  “a.py▌", "✓ code  39 lines", "✓  1 a = 1", "✗  2 b = await fetch("]
    assert "✗ lines 2 to 3 raised · fetch x2" in rows


def test_progress_about_the_lines_of_a_huge_text() -> None:
    """A frame costs what can be seen, once the new text was read; so does a line of a million characters."""
    view = with_lines("running", output="x" * 10**6)
    (call,) = view.calls
    call.partial["code"] = "line of code\n" * 200_000 + "x" * 10**6 + "\nlast"
    call.progress |= {"line": 200_001, "end_line": 200_001}
    drawn(view)
    begin = time.process_time()
    for _ in range(5):
        assert re.search(r"200001 x{50,}…", drawn(view))
    assert time.process_time() - begin < 0.5
    lines = call.text_lines["code"]
    assert len(lines._numbers) < 5_000


def test_nothing_in_code_or_output_acts_on_the_terminal() -> None:
    """A line of code, its output, and the names in a report are hostile, too."""
    evil = r"\u001b[2J[red]x\u202e\u0007\ty\r\n"
    view = with_lines(f"lost{HOSTILE}", code=f'{{"code": "{evil * 3}', calls=[HOSTILE], output=f"{HOSTILE}\n" * 4)
    for height in (3, 6, 24):
        output = drawn(view, height=height)
        assert not set(output) & set("\x1b\x07\r\t\u202e\x9b")
    assert "✓  1 [red]x  y" in drawn(view)


def test_a_saved_run_shows_the_same_lines(tmp_path: Path) -> None:
    """The view is made of records only: of those of a file, and of a late watcher's snapshot, it is the same."""
    log = made_log(texts=0)
    call = MadeCall(log, 2, "run_code")
    call.write(CODE[:30])
    call.add("tool_start")
    for state in ("running", "done"):
        value = {"parameter": "code", "line": 1, "end_line": 1, "state": state, "calls": [], "output": "one\n"}
        call.add("tool_progress", value=value)
    call.write(CODE[30:])
    save_records(tmp_path / "run.jsonl", log.records())
    first, *others = (
        rows_of(drawn(viewed(records)))
        for records in (log.records(), log.snapshot().records, load_records(tmp_path / "run.jsonl"))
    )
    assert others == [first, first]
    assert "▌" in first[-3]


@rows(
    "text, cells, expected",
    [
        ("abcdef", 6, "abcdef"),
        ("abcdefg\u4f60", 4, "\u2026g\u4f60"),
        ("abcdefg\u4f60", 3, "\u2026\u4f60"),
        ("abcdefg\u4f60", 2, "\u2026"),
        ("abcd\u4f60efg", 5, "\u2026efg"),
        ("abcde\u0301fg", 3, "\u2026fg"),
    ],
)
def test_the_end_of_a_text(text: str, cells: int, expected: str) -> None:
    """As many whole characters as fit beside the ellipsis, some of which take two cells, and no mark without its letter."""
    assert end_of(text, cells) == expected
