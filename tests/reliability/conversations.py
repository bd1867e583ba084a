"""Conversations over a real socket, each under its schedule of faults, and what became of them."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import anyio
import anyio.lowlevel

import eagerstream
from eagerstream import EagerStreamError, InputInterrupted, ItemStream, Limits, Restarted, RunStatus, TurnStop
from eagerstream.loop import RunResult
from eagerstream.tools import ToolCall, tool
from eagerstream_testing import MessageThreads, ReplayServer, Scenario
from tests.loop.serial import checked
from tests.reliability.schedules import SCENARIO, BySchedule, Schedule, Threaded, first_message
from tests.support import anthropic_client

AT_ONCE: Final = 24
_PATIENCE_S: Final = 30  # for a conversation that takes a second; over it, it hangs
_LIMITS: Final = Limits(idle_timeout_s=1.5, progress_timeout_s=3, tool_timeout_s=5, max_reply_bytes=200_000)
_EVENTS: Final = 67
"""More than a conversation with threads has as long as nothing goes wrong."""
_FILES: Final = Path("/proc/self/fd")


class Ended(Enum):
    """How a conversation ended: the columns of the table."""

    WHOLE = "as if nothing had happened"
    RESTARTED = "after the same request again"
    WENT_ON = "with the results of what had run"
    ERROR = "with an error that has the history"


ERRORS: Final = frozenset({"APIError", "ProtocolError", "LimitError", "StreamInterrupted"})
"""What a conversation may end with where it does not go on."""


@dataclass(frozen=True)
class Report:
    """What became of one conversation."""

    schedule: Schedule
    ended: Ended
    error: str | None


class Travel:
    """The three tools; what they do to the world is counted, by what it is and not by the id of the call."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.open = 0

    def tools(self) -> list[Any]:
        """`book` takes a moment, `pay` and `look` do not, `write` begins inside its input."""

        @tool(description="Look at the weather.")
        async def look(city: str) -> str:
            self.done[f"look at {city}"] += 1
            return "rain"

        @tool(description="Book a flight.")
        async def book(flight: str) -> str:
            self.done[f"book {flight}"] += 1
            await anyio.sleep(0.002)
            return f"booked {flight}"

        @tool(description="Pay.")
        async def pay(amount: int, currency: str) -> str:
            self.done[f"pay {amount} {currency}"] += 1
            return "paid"

        @tool(description="Write to a file.")
        async def write(path: str, lines: ItemStream[str]) -> str:
            self.done[f"write {path}"] += 1
            self.open += 1
            try:
                return f"wrote {len([line async for line in lines])} lines"
            except InputInterrupted:
                return "removed it again"
            finally:
                self.open -= 1

        return [look, book, pay, write]

    def check(self, _: Sequence[ToolCall]) -> None:
        """Check that nothing was done twice, and that all has ended."""
        assert all(count == 1 for count in self.done.values()), f"done twice: {self.done}"
        assert not self.open, "a tool's cleanup has not run"


class World(Protocol):
    """The tools of a conversation, and what they did to the world."""

    def tools(self) -> list[Any]:
        """The tools."""
        ...

    def check(self, calls: Sequence[ToolCall]) -> None:
        """Check what they did, after the conversation."""
        ...


SAID: Final = {"role": "user", "content": "Wait: I have a dog."}


async def converse(
    client: Any,
    number: int,
    schedule: Schedule,
    *,
    world: World | None = None,
    say_at: int | None = None,
    **options: Any,
) -> Report:
    """One conversation. What it must be, however it ends, is asserted here.

    Args:
        client: Sends the requests.
        number: That of the conversation.
        schedule: What goes wrong.
        world: Has the tools; by default, the three.
        say_at: The number of the event at which the user says something at once.
        options: Further ones of the run.
    """
    world = world or Travel()
    message = first_message(number)
    run = eagerstream.run(
        client,
        model="claude-made-1",
        max_tokens=1024,
        messages=[message],
        tools=world.tools(),
        limits=_LIMITS,
        restart_delay_s=0.001,
        **options,
    )
    is_said = False
    events: list[Any] = []
    failure: EagerStreamError | None = None
    with anyio.fail_after(_PATIENCE_S):
        try:
            async with run:
                async for event in run:
                    events.append(event)
                    if len(events) - 1 == say_at:
                        run.say(SAID, "now")
                        is_said = True
        except EagerStreamError as error:
            failure = error
    try:
        result = checked(run.result, [message])
        world.check(result.calls)
        assert all(call.result is not None for call in result.calls)
        # What ran is in the history, with what it answered: nothing is lost.
        assert all(call.in_history for call in result.calls if call.ran)
        # What the user said is there once, or handed back.
        assert [*result.messages, *result.undelivered].count(SAID) == is_said
        saved = eagerstream.RunResult.from_json(result.to_json())
        assert saved.messages == result.messages
        if failure is None:
            # A reply that is whole, and does not say why it ended, ends the run.
            assert result.status in (RunStatus.COMPLETED, RunStatus.UNKNOWN)
        else:
            assert RunResult.of(failure) is result
            assert result.status is RunStatus.ERROR
    except AssertionError as error:
        error.add_note(str(schedule))
        raise
    error_type = type(failure).__name__ if failure else None
    return Report(schedule, _ended(events, failure), error_type)


def _ended(events: Sequence[Any], failure: EagerStreamError | None) -> Ended:
    if failure is not None:
        return Ended.ERROR
    if any(isinstance(event, TurnStop) and event.error for event in events):
        return Ended.WENT_ON
    return Ended.RESTARTED if any(isinstance(event, Restarted) for event in events) else Ended.WHOLE


def _first_party(server: ReplayServer) -> Any:
    return anthropic_client(server.base_url)


def converse_all(
    schedules: Iterable[Schedule],
    backend: str,
    connect: Callable[[ReplayServer], Any] = _first_party,
    *,
    threads: MessageThreads | None = None,
    scenario: Scenario | None = None,
    world: Callable[[], World] = Travel,
    at_once: int = AT_ONCE,
) -> list[Report]:
    """A conversation for each schedule, many at once; nothing of them may be left when they are over.

    Args:
        schedules: What goes wrong.
        backend: `"asyncio"`, `"uvloop"` or `"trio"`.
        connect: Makes the client, for a server.
        threads: The server keeps conversations. Three of four use that, the faults meet their second request, and in
            every second one the user says something at once, each at another event.
        scenario: Answers the conversations; by default, that of the three tools.
        world: Makes the tools of a conversation.
        at_once: Maximum number of conversations at once.
    """
    numbered = dict(enumerate(schedules))
    name, options = ("asyncio", {"use_uvloop": True}) if backend == "uvloop" else (backend, {})
    run = partial(anyio.run, backend=name, backend_options=options)
    run(anyio.lowlevel.checkpoint)  # the first loop of uvloop opens a pipe, which serves all later ones
    gc.collect()  # what a test before this one left does not count
    files = _open_files()
    reports: list[Report] = run(_converse_all, numbered, connect, threads, scenario, world, at_once)
    _wait_for_files(files)
    return reports


def _wait_for_files(before: Collection[str]) -> None:
    """Wait until no more files are open than before."""
    # The process of an interpreter ends a little after its session was closed, and a thread waits for that. What such a
    # thread was the last to refer to, may be a cycle, which nothing collects while this waits.
    deadline_s = time.monotonic() + 60
    while gc.collect() >= 0 and len(after := _open_files()) > len(before) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    left = Counter(after) - Counter(before)
    threads = [thread.name for thread in threading.enumerate()]
    assert len(after) <= len(before), f"a socket or a file is left: {[*left]}, threads: {threads}"


async def _converse_all(
    numbered: dict[int, Schedule],
    connect: Callable[[ReplayServer], Any],
    threads: MessageThreads | None,
    scenario: Scenario | None,
    world: Callable[[], World],
    at_once: int,
) -> list[Report]:
    reports: dict[int, Report] = {}
    waiting = iter(numbered.items())

    async def work(client: Any) -> None:
        for number, schedule in waiting:
            options: dict[str, Any] = {}
            if threads is not None:
                options = {"threads": "always" if number % 4 else None}
                if number % 2:
                    options["say_at"] = number // 2 % _EVENTS
            reports[number] = await converse(client, number, schedule, world=world(), **options)

    scenario = scenario or (SCENARIO if threads is None else Threaded(threads).scenario)
    faults = BySchedule(numbered, turn=0 if threads is None else 1)
    async with ReplayServer(scenario, speed=float("inf"), faults=faults, threads=threads) as server:
        before = _tasks()
        async with connect(server) as client:
            async with anyio.create_task_group() as tasks:
                for _ in range(min(at_once, len(numbered))):
                    tasks.start_soon(work, client)
        assert _tasks() == before, "a task is left"
    return [reports[number] for number in numbered]


def _tasks() -> set[Any]:
    """On asyncio; trio has no task outside of a block that waits for it."""
    try:
        return set(asyncio.all_tasks())
    except RuntimeError:
        return set()


def _open_files() -> list[str]:
    """What the open files are, such as "/dev/null" and "socket:[4711]"."""
    files = []
    for path in _FILES.iterdir() if _FILES.exists() else ():
        with suppress(FileNotFoundError):  # that of the folder itself, and those that another thread closes
            files.append(str(path.readlink()))
    return files


# --- the table --------------------------------------------------------------------------------------------------------


def table(reports: Iterable[Report]) -> str:
    """What became of the conversations, as Markdown: a row for each kind of fault."""
    rows: dict[str, Counter[Ended]] = {}
    errors: dict[str, Counter[str]] = {}
    for report in reports:
        rows.setdefault(report.schedule.row, Counter())[report.ended] += 1
        if report.error:
            errors.setdefault(report.schedule.row, Counter())[report.error] += 1
    lines = [
        f"| what goes wrong with the first reply | conversations | {' | '.join(end.value for end in Ended)} |",
        f"|---|{'--:|' * (1 + len(Ended))}",
    ]
    for row, ended in rows.items():
        counts = [f"{ended[end]:,}" if ended[end] else "" for end in Ended]
        if row in errors:
            counts[-1] += f" ({', '.join(sorted(errors[row]))})"
        lines.append(f"| {row} | {ended.total():,} | {' | '.join(counts)} |")
    total = sum((ended for ended in rows.values()), Counter[Ended]())
    lines.append(f"| all | {total.total():,} | {' | '.join(f'{total[end]:,}' for end in Ended)} |")
    return "\n".join(lines)
