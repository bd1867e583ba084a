"""Runs in a terminal: what is drawn and how often, and that nothing of it is felt by the run or stays in the terminal."""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from packages.progress.tests.observed import events_of, recorded
from rich.console import Console, ConsoleDimensions
from rich.live import Live
from tests.streams import REQUEST, each_recording, input_delta, message_start, tool_start
from tests.support import Gate, LocalAPI

import eagerstream
from eagerstream import InputDelta
from eagerstream.calls import RunStatus
from eagerstream.errors import EagerStreamError, UsageError
from eagerstream.recordings import Recording
from eagerstream.tools import tool
from eagerstream_progress import Hub, RunLog, replay
from eagerstream_progress._frame import Frame
from eagerstream_progress._log import Batch
from eagerstream_progress._notifier import Notifier
from eagerstream_progress.terminal import TerminalProgress, _WatchedRun, terminal_progress
from eagerstream_testing import Timing, reply, retime, text, tool_use

pytestmark = pytest.mark.anyio

CALL = reply(text("I'll look."), tool_use("get_weather", {"city": "Oslo"}))
DONE = reply(text("15 degrees."))
SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"


class Written(io.StringIO):
    """Knows when something is written into it."""

    notifier: Notifier | None = None
    is_terminal = False

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> int:
        written = super().write(text)
        if self.notifier is not None:
            self.notifier.notify()
        return written


class Terminal:
    """Takes what is drawn; `console` draws here as on a terminal, unless it is a pipe."""

    def __init__(self, *, width: int = 80, height: int = 24, is_pipe: bool = False) -> None:
        self.file = Written()
        self.file.is_terminal = not is_pipe
        settings: dict[str, Any] = {"width": width, "height": height, "_environ": {"TERM": "xterm"}}
        self.console = Console(file=self.file, force_terminal=not is_pipe, color_system=None, **settings)

    async def shows(self, text: str) -> None:
        """Wait until a text has been drawn."""
        with anyio.fail_after(5):
            notifier = self.file.notifier = Notifier()
            while True:
                rung = notifier.listen()  # before the look: what is drawn is written in another thread
                if text in self.output:
                    return
                await rung.wait()

    @property
    def output(self) -> str:
        return self.file.getvalue()

    @property
    def frames(self) -> list[str]:
        """What was drawn each time; the last is what stays."""
        return self.output.split("\x1b[?7l")[1:]

    def check_restored(self) -> None:
        """The cursor is there again, lines wrap, and the standard output is what it was."""
        assert self.output.count(HIDE_CURSOR) == self.output.count(SHOW_CURSOR) == 1
        assert self.output.endswith(f"\x1b[?7h\n{SHOW_CURSOR}")
        assert self.output.count("\x1b[?7l") == self.output.count("\x1b[?7h")
        # Another progress of this process, in a thread that is late on a busy machine, may have it for a moment.
        late_at = time.monotonic() + 5
        while type(sys.stdout).__module__.startswith("rich") and time.monotonic() < late_at:
            time.sleep(0.01)
        assert not type(sys.stdout).__module__.startswith("rich")
        assert self.console.is_terminal


class Broken(io.StringIO):
    """A terminal that goes away after so many writes."""

    def __init__(self, writes: int) -> None:
        super().__init__()
        self._writes = writes

    def write(self, text: str) -> int:
        self._writes -= 1
        if self._writes < 0:
            raise BrokenPipeError
        return super().write(text)


@tool
async def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"{city}: 15 degrees"


def run_of(*bodies: Any, tools: Sequence[Any] = (get_weather,)) -> eagerstream.Run:
    return eagerstream.run(LocalAPI(*(bodies or (CALL, DONE))).transport(), tools=tools, **REQUEST)


def half_a_call() -> list[Any]:
    """A reply that stops in the middle of an input."""
    return [message_start(), tool_start(0, "get_weather"), input_delta(0, '{"city": "Os'), Gate()]


async def test_a_run_on_a_terminal() -> None:
    """To its end: what stays is the texts and a line for each call, in their order, and how the run ended."""
    terminal = Terminal()
    async with run_of() as run, terminal_progress(run, console=terminal.console):
        await run.finish()
    first, call, last, *_ = terminal.frames[-1].splitlines()
    assert (first, last) == ("I'll look.", "15 degrees.")
    assert call.startswith("✓ get_weather  done  16 B")
    assert "→ Oslo: 15 degrees" in terminal.frames[-1]
    assert "completed · 2 turns" in terminal.frames[-1]
    terminal.check_restored()


async def test_a_run_that_is_entered_inside() -> None:
    """The other order; and what is printed meanwhile stands above."""
    terminal = Terminal()
    run = run_of()
    async with terminal_progress(run, console=terminal.console):
        async with run:
            print("printed by the program")
            await run.finish()
    assert "completed · 2 turns" in terminal.frames[-1]
    assert "printed by the program" in terminal.output
    terminal.check_restored()


async def test_a_call_is_seen_while_it_is_written() -> None:
    """A panel, before its input is whole."""
    terminal = Terminal()
    async with run_of(half_a_call()) as run, terminal_progress(run, console=terminal.console):
        await terminal.shows("“Os▌")
    assert "╭─ get_weather  writing" in terminal.output
    terminal.check_restored()


async def test_a_run_in_a_pipe() -> None:
    """Plain lines, and nothing that acts on a terminal."""
    pipe = Terminal(is_pipe=True)
    async with run_of() as run, terminal_progress(run, console=pipe.console):
        await run.finish()
    lines = [line.split("  ")[-1] for line in pipe.output.splitlines()]
    assert lines[:2] == ["turn 1", "“I'll look.”"]
    assert [*lines[2:-3]] == ["writing", "✓ city", "waiting", "running", "done: Oslo: 15 degrees"]
    assert [*lines[-3:-1]] == ["turn 2", "“15 degrees.”"]
    assert lines[-1].startswith("completed · 2 turns")
    assert "\x1b" not in pipe.output


async def test_each_record_is_told_once() -> None:
    """A watcher that catches up gets all records again: lines that a pipe has already are not repeated."""
    records = recorded(events_of('{"city": "Oslo"}'))
    told: list[int] = []

    class Lines:
        def teller(self, _log: RunLog) -> Any:
            return lambda record, _view, _call: told.append(record["seq"])

    log = RunLog("run")
    watched = _WatchedRun(log, cast("Any", Lines()), lambda: 0.0)
    log.append(records[:3])
    watched.take(Batch(log.records(), log.seq, is_snapshot=True))
    log.append(records[3:])
    watched.catch_up()
    assert told == [record["seq"] for record in records]


async def test_a_pipe_with_forced_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """What CI systems set is no reason to move a cursor that is not there."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    console = Console(file=io.StringIO())
    assert console.is_interactive
    async with run_of() as run, terminal_progress(run, console=console):
        await run.finish()
    assert isinstance(console.file, io.StringIO)
    assert "✓ city\n" in console.file.getvalue()
    assert "\x1b" not in console.file.getvalue()


async def test_a_pipe_that_knows_ascii_only() -> None:
    """Question marks, and no error."""
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    async with run_of() as run, terminal_progress(run, console=Console(file=file)):
        await run.finish()
    file.seek(0)
    assert "? city" in file.read()


async def test_every_run_that_begins_inside() -> None:
    """Also one that a tool begins, below; not one that began before."""

    @tool
    async def ask_helper(task: str) -> str:
        """Ask another agent."""
        async with run_of(reply(text(f"Helping to {task}."))) as helper:
            await helper.finish()
        return "helped"

    terminal = Terminal()
    outer = run_of(reply(tool_use("ask_helper", {"task": "look"})), reply(text("All done.")), tools=[ask_helper])
    async with run_of(reply(text("Before."))) as before:
        async with terminal_progress(console=terminal.console):
            async with outer:
                await outer.finish()
            await before.finish()
    last = terminal.frames[-1]
    assert last.index("✓ ask_helper") < last.index("All done.") < last.index("Helping to look.")
    assert last.count("completed · ") == 2
    assert "Before." not in terminal.output


async def test_a_decorator() -> None:
    """Around any async function; calls may overlap, and each shows its own runs."""
    pipe = Terminal(is_pipe=True)

    @terminal_progress(console=pipe.console)
    async def converse(question: str) -> str:
        """Ask."""
        async with run_of(reply(text(f"{question}!"))) as run:
            await run.finish()
        return question

    answers = []

    async def collect(question: str) -> None:
        answers.append(await converse(question))

    async with anyio.create_task_group() as tasks:
        for question in ("one", "two"):
            tasks.start_soon(collect, question)
    assert sorted(answers) == ["one", "two"]
    assert converse.__doc__ == "Ask."
    for question in answers:
        assert pipe.output.count(f"“{question}!”") == 1


async def test_a_hub_and_its_questions() -> None:
    """The runs of a hub, those that had ended not; a call that waits for a person says so."""
    hub, terminal = Hub(), Terminal()

    @tool(approve=hub.approve)
    async def delete(path: str) -> str:
        """Delete a file."""
        return "deleted"

    async with run_of(reply(text("Earlier."))) as earlier:
        hub.observe(earlier)
        await earlier.finish()
    run = run_of(reply(tool_use("delete", {"path": "/tmp/x"})), DONE, tools=[delete])
    log = hub.observe(run, name="cleaner")
    async with run, terminal_progress(hub, console=terminal.console):
        await terminal.shows("delete  waiting for approval")
        hub.decide(log.id, 1, approved=True)
        await run.finish()
    assert "→ deleted" in terminal.frames[-1]
    assert "cleaner · completed" in terminal.frames[-1]
    assert "Earlier." not in terminal.output


async def test_a_saved_run() -> None:
    """The log of a run that is played again."""
    records = recorded(events_of('{"city": "Oslo"}'))
    log, terminal = RunLog("run_1"), Terminal()
    async with terminal_progress(log, console=terminal.console):
        await replay(records, log, speed=math.inf)
    assert "completed" in terminal.frames[-1]


@pytest.mark.slow
@each_recording
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # recordings differ in what they say, not in how they wait
async def test_each_recording(recording: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the API sends can be shown, in a terminal and in a pipe, to the same end as without anybody looking."""
    reply = retime(Recording.load(recording), Timing(speed=math.inf))

    async def failure(progress: Any) -> type[Exception] | None:
        async with progress, eagerstream.stream(reply, **REQUEST) as stream:
            try:
                await stream.finish()
            except EagerStreamError as error:
                return type(error)
        return None

    expected = await failure(contextlib.nullcontext())
    for is_pipe in (False, True):
        terminal = Terminal(width=40, height=12, is_pipe=is_pipe)
        assert await failure(terminal_progress(console=terminal.console)) is expected
        assert "progress display ends" not in caplog.text
        assert ("error · " if expected else "completed · ") in terminal.output
        if not is_pipe:
            terminal.check_restored()


@pytest.mark.slow
@pytest.mark.parametrize("is_pipe", [False, True])
async def test_falling_behind(is_pipe: bool) -> None:
    """Where more comes at once than is kept, it goes on with a snapshot: nothing is missing at the end, or told twice."""
    log, terminal = RunLog("run_1", max_recent=5), Terminal(is_pipe=is_pipe)
    records = recorded(events_of('{"text": "', *["word "] * 100, 'end"}'))
    async with terminal_progress(log, console=terminal.console):
        log.append(records[:5])
        await terminal.shows("writing" if is_pipe else "╭─ tool")
        for record in records[5:]:
            log.append([record])
        await terminal.shows("completed")
        log.close()
    if is_pipe:
        assert terminal.output.count("turn 1\n") == terminal.output.count("  writing") == 1
    else:
        assert "tool  waiting  515 B" in terminal.frames[-1]  # nobody ran it


@pytest.mark.slow
async def test_a_hub_lets_runs_go() -> None:
    """A program may go on for ever: what the hub has forgotten is not shown any more."""
    hub, terminal = Hub(max_runs=2), Terminal()
    async with terminal_progress(hub, console=terminal.console):
        for number in range(3):
            async with run_of(DONE) as run:
                hub.observe(run, name=f"run {number}")
                await run.finish()
            await terminal.shows(f"run {number} · completed")
    assert [f"run {number}" in terminal.frames[-1] for number in range(3)] == [False, True, True]


@pytest.mark.slow
async def test_a_narrowed_terminal() -> None:
    """What it has broken into two rows is taken away as well; `test_in_tmux.py` looks at the result."""
    terminal = Terminal()
    async with run_of(half_a_call()) as run, terminal_progress(run, console=terminal.console):
        await terminal.shows("“Os▌")
        begin = len(terminal.output)
        terminal.console.size = ConsoleDimensions(40, 24)
        await terminal.shows(f"╰{'─' * 38}╯")
    erased = terminal.output[begin : terminal.output.index("\x1b[?7l", begin)]
    assert erased.count("\x1b[1A\x1b[2K") == 6  # four rows, three of which were as wide as the terminal


async def test_it_is_entered_once() -> None:
    """A second time would show nothing.

    A thread that nobody waits for any more may be late: it must not take the terminal once it was given back.
    """
    terminal = Terminal()
    progress = terminal_progress(console=terminal.console)
    async with progress:
        pass
    with pytest.raises(UsageError, match="once"):
        await progress.__aenter__()
    progress._has_begun = False
    progress._in_turn(progress._begin)
    terminal.check_restored()


@pytest.mark.parametrize("is_pipe", [False, True])
async def test_an_exception_of_the_block(is_pipe: bool) -> None:
    """Comes out as it is, and the terminal is as before."""
    terminal = Terminal(is_pipe=is_pipe)
    with pytest.raises(ZeroDivisionError):
        async with terminal_progress(console=terminal.console):
            async with run_of(half_a_call()) as run:
                await anext(run)
                raise ZeroDivisionError
    assert "cancelled · " in terminal.output
    if not is_pipe:
        terminal.check_restored()


async def test_cancelling() -> None:
    """Passes through, and the terminal is as before."""
    terminal = Terminal()
    with anyio.CancelScope() as scope:
        async with terminal_progress(console=terminal.console):
            async with run_of(half_a_call()) as run:
                async for event in run:
                    if isinstance(event, InputDelta):
                        scope.cancel()
    assert scope.cancelled_caught
    assert "✗ get_weather  cut" in terminal.frames[-1]
    assert "cancelled" in terminal.frames[-1]
    terminal.check_restored()


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_ctrl_c_while_it_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """On trio it is raised in whatever runs just then: here in the watching. It comes out as everywhere else."""
    terminal = Terminal()
    find_runs = TerminalProgress._find_runs
    looks = itertools.count()

    def interrupted(progress: TerminalProgress) -> Any:
        if next(looks) == 0:
            raise KeyboardInterrupt
        return find_runs(progress)

    monkeypatch.setattr(TerminalProgress, "_find_runs", interrupted)
    with pytest.raises(KeyboardInterrupt):
        async with terminal_progress(console=terminal.console):
            async with run_of(half_a_call()) as run:
                await run.finish()
    terminal.check_restored()


@pytest.mark.parametrize("is_pipe", [False, True])
@pytest.mark.parametrize("writes", [0, 1])
async def test_a_terminal_that_goes_away(
    is_pipe: bool, writes: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever it does: the run does not notice, and the log says so."""
    caplog.set_level(logging.INFO, "eagerstream")
    before = sys.stdout
    settings: dict[str, Any] = {"width": 80, "height": 24, "_environ": {"TERM": "xterm"}}
    console = Console(file=Broken(writes), force_terminal=not is_pipe, **settings)
    # A console of `rich` turns the standard output off where its pipe is closed.
    monkeypatch.setattr(console, "on_broken_pipe", lambda: sys.exit(1))
    async with terminal_progress(console=console):
        async with run_of() as run:
            await run.finish()
    assert run.result.status is RunStatus.COMPLETED
    assert [record.name for record in caplog.records] == ["eagerstream.progress.terminal"]
    assert "Oslo" not in caplog.text
    assert sys.stdout is before


async def test_a_fault_of_its_own(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Where the drawing itself fails, the run does not notice either."""
    terminal = Terminal()
    monkeypatch.setattr(Frame, "rows_at", lambda *_: 1 // 0)
    monkeypatch.setattr("eagerstream_progress._frame.status_line", lambda *_: 1 // 0)
    async with run_of() as run, terminal_progress(run, console=terminal.console):
        await run.finish()
    assert run.result.status is RunStatus.COMPLETED
    assert "the progress display ends: ZeroDivisionError" in caplog.text
    assert terminal.output.endswith(SHOW_CURSOR)


async def test_two_at_once() -> None:
    """A second one on the same terminal, inside the first: both are shown, or the second gives way."""
    terminal = Terminal()
    async with terminal_progress(console=terminal.console):
        async with run_of() as run, terminal_progress(run, console=terminal.console):
            await run.finish()
    assert "completed · 2 turns" in terminal.frames[-1]
    terminal.check_restored()


# --- how often it is drawn, by a clock that jumps ------------------------------------------------------------------------


class Stopped(Written):
    """A terminal that takes nothing, as after Ctrl-S, until it is let go on."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()

    def write(self, text: str) -> int:
        self.goes_on.wait(20)
        return super().write(text)


async def _soon(is_so: Callable[[], bool]) -> bool:
    """Whether something is so that a thread is at, within ten seconds."""
    for _ in range(1000):
        if is_so():
            return True
        await anyio.sleep(0.01)
    return False


@pytest.mark.slow
async def test_a_terminal_that_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on beside it, to its end and its history; only the last frame is waited for, for a moment.

    Once the terminal goes on, it is what it was before, and so is the standard output.
    """
    monkeypatch.setattr("eagerstream_progress.terminal._LAST_S", 0.1)
    before = sys.stdout
    file = Stopped()
    console = Console(file=file, force_terminal=True, width=80, height=24)
    try:
        with anyio.fail_after(10):
            async with run_of() as run, terminal_progress(run, console=console):
                await run.finish()
        assert run.result.status is RunStatus.COMPLETED
        assert not file.goes_on.is_set()
    finally:
        file.goes_on.set()
    assert await _soon(lambda: sys.stdout is before and file.getvalue().endswith(SHOW_CURSOR))


class Drawings:
    """When a frame was drawn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times: list[float] = []
        self.clock: Callable[[], float] = time.monotonic
        refresh = Live.refresh

        def counted(live: Live) -> None:
            self.times.append(self.clock())
            refresh(live)

        monkeypatch.setattr(Live, "refresh", counted)

    def most_in_a_second(self) -> int:
        return max(sum(begin <= time_s < begin + 1 for time_s in self.times) for begin in self.times)


@pytest.fixture
def drawings(monkeypatch: pytest.MonkeyPatch) -> Drawings:
    return Drawings(monkeypatch)


def in_jumping_time(main: Callable[[], Any], drawings: Drawings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run with a clock that jumps to the next thing to be done; drawing then takes no time, and needs no thread."""
    from trio.testing import MockClock

    async def at_once(function: Callable[[], Any], **_: Any) -> Any:
        return function()

    clock = MockClock(autojump_threshold=0)
    drawings.clock = clock.current_time
    monkeypatch.setattr("anyio.to_thread.run_sync", at_once)
    anyio.run(main, backend="trio", backend_options={"clock": clock})


@pytest.mark.slow
def test_never_more_than_ten_redraws_a_second(drawings: Drawings, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many records come, evenly or all at once; and not many fewer, or it would not look alive."""

    fragments = ['{"text": "', *("word " for _ in range(1000))]
    records = recorded(events_of(*fragments, stops=False), ends=False)

    async def main() -> None:
        for burst in (1, 100):
            log = RunLog("run_1")
            drawings.times.clear()
            async with terminal_progress(log, console=Terminal().console, clock=drawings.clock):
                for at in range(0, len(records), burst):
                    log.append(records[at : at + burst])
                    await anyio.sleep(0.005 * burst)
            assert drawings.most_in_a_second() <= 10
            if burst == 1:
                assert drawings.most_in_a_second() >= 7
                assert len(drawings.times) >= 35

    in_jumping_time(main, drawings, monkeypatch)


def test_nothing_is_drawn_where_nothing_changes(drawings: Drawings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a second, for the time that is shown; and not at all once the run has ended."""

    async def main() -> None:
        log = RunLog("run_1")
        async with terminal_progress(log, console=Terminal().console, clock=drawings.clock):
            log.append(recorded(events_of('{"city'), ends=False))
            await anyio.sleep(60.5)
            assert 60 <= len(drawings.times) <= 64
            log.append(recorded(events_of('{"city'))[-1:])
            log.close()
            await anyio.sleep(1)
            count = len(drawings.times)
            await anyio.sleep(60)
            assert len(drawings.times) == count

    in_jumping_time(main, drawings, monkeypatch)
