"""State after a failed response: eagerstream compared with the anthropic tool runner under the same faults.

A response calls three tools, and the next response says "Done.". The first response meets every kind of fault at every
boundary of its events, and a lost connection at every 50th byte. This is the fault matrix of the tests, on the same
server. All sides have the same tools and the same client with its two retries. The same time-out ends silence on all
sides: `idle_timeout_s` for eagerstream, the client's read time-out for the runner. Both are reduced from minutes. A
conversation hangs if it has not ended after `PATIENCE_S`. The endless input comes last, because reading it leaves no
processor for the others. eagerstream bounds the size of a response (here 200 KB instead of 256 MiB). The tool runner
does not. The tool runner runs without message threads (`thread=False`), because the server has none.

A conversation ends in one of five ways (`End`). The same code then judges all sides by two things: the effects of the
tools, and the history that the program has. eagerstream's history is `run.result.messages`. The runner has several
histories. The best one counts (fewest lost results, then fewest faults):

- its own list, from `set_messages_params`: if a response broke off, the list ends before that response;
- the same list and the part of the response that the stream had received (`current_message_snapshot`);
- for the "rescued" side, the same and the result of `generate_tool_call_response()`. The program calls it after the
  end if a call has no result. It returns the results of tools that had run. It runs the other tools now, even if their
  inputs are incomplete.

The judgement has these parts. Any number of them may be true. `Verdict` has the same names:

- `goes_on`: the end was not good, but the API would accept the history, and no result is lost.
- `orphaned`: the history has a `tool_use` without its `tool_result`, as `validate_history` reports.
- `orphaned_if_kept`: the side's own list has one, or the list with the partial response. A program that keeps the
  partial response has this orphan.
- `refused`: the API would refuse the history, because of an orphan or something else.
- `lost`: a tool ran, and the history lacks its result. If a tool ran twice, the history must have both results.
- `twice`: the same effect happened more than once.
- `wrong`: a tool ran with an input that the model had not written: cut or garbled. A tool that reads its input while it
  arrives does not count if it was notified of the cut and undid its work.

One cost is not visible here: the plain runner loses no result because it runs no tool before the response is complete.
`early_start` measures the cost of that.
"""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final

import anyio
from anthropic import AnthropicError, AsyncAnthropic, Timeout, beta_async_tool
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from tests.reliability.schedules import SCENARIO, BySchedule, Schedule, at_bytes, at_events, first_message

import eagerstream
from eagerstream import EagerStreamError, InputInterrupted, ItemStream, Limits, validate_history
from eagerstream_testing import FaultKind, ReplayServer

PATIENCE_S: Final = 10.0
PACE: Final = "one event per write, without pauses"
_SILENCE_S: Final = 0.8
_LIMITS: Final = Limits(idle_timeout_s=_SILENCE_S, max_reply_bytes=200_000)
_RESCUE_S: Final = 5.0
_AT_ONCE: Final = 24
_TURNS: Final = 5
_REQUEST: Final[dict[str, Any]] = {"model": "claude-made-1", "max_tokens": 1024}
_WRITTEN: Final[dict[str, dict[str, Any]]] = {
    "book": {"flight": "OS 381"},
    "pay": {"amount": 120, "currency": "EUR"},
    "write": {"path": "trip.txt", "lines": ["Oslo", "Vienna"]},
}
"""The inputs as the model writes them."""


class End(StrEnum):
    """End of a conversation."""

    WELL = "ended well"  # the last response is complete
    QUIET = "ended short, without an error"
    OWN_ERROR = "own error"
    RAW_ERROR = "raw error"  # from the transport, a parser or the interpreter: it does not name the library
    HANG = "hang"


# --- the tools --------------------------------------------------------------------------------------------------------


class Travel:
    """The three tools of one conversation, and their effects."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.ran: list[str] = []
        self.said: list[tuple[str, str]] = []
        self.wrong = False

    def begin(self, name: str, /, **given: Any) -> None:
        """Record that a tool runs, with the part of its input that it got."""
        self.ran.append(name)
        self.done[f"{name} {given}"] += 1
        self.check(name, **given)

    def check(self, name: str, /, **given: Any) -> None:
        """Set `wrong` if the model has not written these values."""
        self.wrong |= any(_WRITTEN[name].get(key) != value for key, value in given.items())

    def say(self, name: str, answer: str) -> str:
        """Record the result of a tool, and return it."""
        self.said.append((name, answer))
        return answer

    def tools(self, *, streaming: bool) -> list[Callable[..., Any]]:
        """Return the tools. `book` takes 2 ms, `pay` takes none. With `streaming`, `write` reads its input early."""

        async def book(flight: str) -> str:
            """Book a flight."""
            self.begin("book", flight=flight)
            await anyio.sleep(0.002)
            return self.say("book", f"booked {flight}")

        async def pay(amount: int, currency: str) -> str:
            """Pay."""
            self.begin("pay", amount=amount, currency=currency)
            return self.say("pay", "paid")

        async def write(path: str, lines: list[str]) -> str:
            """Write to a file."""
            self.begin("write", path=path)
            self.check("write", lines=lines)
            return self.say("write", f"wrote {len(lines)} lines")

        async def write_as_it_comes(path: str, lines: ItemStream[str]) -> str:
            """Write to a file."""
            self.begin("write", path=path)
            try:
                written = [line async for line in lines]
            except InputInterrupted:
                return self.say("write", "removed it again")
            self.check("write", lines=written)
            return self.say("write", f"wrote {len(written)} lines")

        write_as_it_comes.__name__ = "write"
        return [book, pay, write_as_it_comes if streaming else write]


# --- the sides --------------------------------------------------------------------------------------------------------

_Message = Mapping[str, Any]
_Hands = list[Sequence[_Message]]
"""Histories that a program has after a conversation, and could continue with."""


async def _eagerstream(client: AsyncAnthropic, first: Any, travel: Travel, hands: _Hands) -> None:
    tools = [eagerstream.tool(function) for function in travel.tools(streaming=True)]
    run = eagerstream.run(client, tools=tools, messages=[first], limits=_LIMITS, max_turns=_TURNS, **_REQUEST)
    try:
        async with run:
            async for _ in run:
                pass
    finally:
        hands.append(run.result.messages)


async def _anthropic(
    client: AsyncAnthropic, first: Any, travel: Travel, hands: _Hands, *, eager: bool, rescue: bool = False
) -> None:
    tools = [beta_async_tool(function) for function in travel.tools(streaming=False)]
    runner = client.beta.messages.tool_runner(
        tools=tools,
        messages=[first],
        stream=True,
        run_tools_eagerly=eager,
        max_iterations=_TURNS,
        thread=False,
        **_REQUEST,
    )
    streams: list[Any] = []
    try:
        async for stream in runner:
            streams.append(stream)
            async for _ in stream:
                pass
    finally:
        with anyio.CancelScope(shield=True):
            hands.append(_own_list(runner))
            if streams:
                await _add_reply(runner, streams, hands, rescue=rescue)
            await runner.close()


def _own_list(runner: Any) -> list[_Message]:
    taken: list[_Message] = []

    def take(params: Any) -> Any:
        taken.extend(_as_sent(params["messages"]))
        return params

    runner.set_messages_params(take)
    return taken


async def _add_reply(runner: Any, streams: Sequence[Any], hands: _Hands, *, rescue: bool) -> None:
    """Add the histories with the last response, if it has started."""
    try:
        reply = _as_sent(streams[-1].current_message_snapshot.to_param())
    except AssertionError:
        return
    before = list(hands[0])
    if before[-1]["role"] == "assistant":
        before.pop()  # the runner left out a cut block, but returns a result for it
    if sum(message["role"] == "assistant" for message in before) == len(streams):
        return  # the response was answered: another request failed
    hands.append([*before, reply])
    if rescue and any(block["type"] == "tool_use" for block in reply["content"]):
        with anyio.fail_after(_RESCUE_S):
            hands.append([*before, reply, _as_sent(await runner.generate_tool_call_response())])


def _as_sent(value: Any) -> Any:
    """Return models of the anthropic package as JSON values, as the package sends them."""
    if isinstance(value, Mapping):
        return {key: _as_sent(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_sent(item) for item in value]
    return value.to_dict() if hasattr(value, "to_dict") else value


_Converse = Callable[[AsyncAnthropic, Any, Travel, _Hands], Awaitable[None]]
_SIDES: Final[dict[str, tuple[_Converse, type[Exception]]]] = {
    "anthropic runner": (partial(_anthropic, eager=False), AnthropicError),
    "anthropic runner, eager": (partial(_anthropic, eager=True), AnthropicError),
    "anthropic runner, eager, rescued": (partial(_anthropic, eager=True, rescue=True), AnthropicError),
    "eagerstream": (_eagerstream, EagerStreamError),
}


# --- the judge --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """Judgement of one conversation."""

    row: str
    end: End
    error: str | None
    orphaned: bool
    orphaned_if_kept: bool
    refused: bool
    lost: bool
    twice: bool
    wrong: bool

    @property
    def goes_on(self) -> bool:
        return self.end is not End.WELL and not self.refused and not self.lost


def _judge(row: str, end: End | None, error: Exception | None, travel: Travel, hands: _Hands) -> Verdict:
    lost, faults, best = min(
        ((_lost(travel, history), list(map(str, validate_history(history))), history) for history in hands),
        key=lambda judged: (judged[0], len(judged[1])),
    )
    if end is None:
        end = End.WELL if _says_done(best[-1]) else End.QUIET
    return Verdict(
        row=row,
        end=end,
        error=None if error is None else f"{type(error).__module__.partition('.')[0]}.{type(error).__name__}",
        orphaned=_has_orphan(faults),
        orphaned_if_kept=any(_has_orphan(map(str, validate_history(history))) for history in hands[:2]),
        refused=bool(faults),
        lost=lost > 0,
        twice=any(count > 1 for count in travel.done.values()),
        wrong=travel.wrong,
    )


def _has_orphan(faults: Iterable[str]) -> bool:
    return any("were found without `tool_result` blocks" in fault for fault in faults)


def _lost(travel: Travel, history: Sequence[_Message]) -> int:
    """Return the number of tool runs without a result in the history. A returned result must be there itself."""
    blocks = [block for message in history if isinstance(message["content"], list) for block in message["content"]]
    names = {block["id"]: block["name"] for block in blocks if block["type"] == "tool_use"}
    answers = [(names.get(block["tool_use_id"]), str(block)) for block in blocks if block["type"] == "tool_result"]
    lost = 0
    for name, runs in Counter(travel.ran).items():
        kept = [text for called, text in answers if called == name]
        said = Counter(answer for teller, answer in travel.said if teller == name)
        missing = sum(max(0, count - sum(answer in text for text in kept)) for answer, count in said.items())
        lost += max(missing, runs - len(kept))
    return lost


def _says_done(message: _Message) -> bool:
    blocks = message["content"]
    return message["role"] == "assistant" and [block.get("text") for block in blocks] == ["Done."]


# --- many conversations -----------------------------------------------------------------------------------------------


async def _converse(side: str, client: AsyncAnthropic, number: int, schedule: Schedule) -> Verdict:
    converse, own_error = _SIDES[side]
    travel = Travel()
    hands: _Hands = []
    end: End | None = None
    error: Exception | None = None
    with anyio.move_on_after(PATIENCE_S) as patience:
        try:
            await converse(client, first_message(number), travel, hands)
        except Exception as raised:
            error = raised
            end = End.OWN_ERROR if isinstance(raised, own_error) else End.RAW_ERROR
    if patience.cancelled_caught:
        end = End.HANG
    return _judge(schedule.row, end, error, travel, hands)


@asynccontextmanager
async def _served(schedules: Mapping[int, Schedule]) -> AsyncIterator[AsyncAnthropic]:
    timeout = Timeout(PATIENCE_S, read=_SILENCE_S)
    async with (
        ReplayServer(SCENARIO, speed=float("inf"), faults=BySchedule(schedules)) as server,
        AsyncAnthropic(base_url=server.base_url, api_key="k", timeout=timeout) as client,
    ):
        yield client


async def converse_all(side: str, schedules: Iterable[Schedule], advance: Callable[[], None]) -> list[Verdict]:
    """Run a conversation of this side for each schedule, many at once."""
    numbered = dict(enumerate(schedules))
    verdicts: list[Verdict] = []

    async def work(client: AsyncAnthropic, numbers: Iterator[int]) -> None:
        for number in numbers:
            verdicts.append(await _converse(side, client, number, numbered[number]))
            advance()

    async with _served(numbered) as client:
        for endless in (False, True):
            numbers = [number for number, schedule in numbered.items() if _is_endless(schedule) is endless]
            waiting = iter(numbers)
            async with anyio.create_task_group() as tasks:
                for _ in range(len(numbers) if endless else _AT_ONCE):
                    tasks.start_soon(work, client, waiting)
    return verdicts


def _is_endless(schedule: Schedule) -> bool:
    return schedule.faults[0].kind is FaultKind.ENDLESS


# --- the table --------------------------------------------------------------------------------------------------------

_ILLS: Final = ("goes_on", "orphaned", "orphaned_if_kept", "refused", "lost", "twice", "wrong")


def _figures(side: str, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    by_fault: dict[str, Counter[str]] = {}
    for verdict in verdicts:
        counts = by_fault.setdefault(verdict.row, Counter())
        counts.update([verdict.end.name.lower(), *(ill for ill in _ILLS if getattr(verdict, ill))])
    return {
        "side": side,
        "conversations": len(verdicts),
        "ends": {end.name.lower(): sum(verdict.end is end for verdict in verdicts) for end in End},
        **{ill: sum(getattr(verdict, ill) for verdict in verdicts) for ill in _ILLS},
        "own_errors": Counter(verdict.error for verdict in verdicts if verdict.end is End.OWN_ERROR),
        "raw_errors": Counter(verdict.error for verdict in verdicts if verdict.end is End.RAW_ERROR),
        "by_fault": by_fault,
    }


def main(console: Console, *, quick: bool = False) -> dict[str, Any]:
    """Try every side, print a table, and return the figures."""
    schedules = [*at_events(step=4 if quick else 1), *at_bytes(step=400 if quick else 50)]
    figures = []
    logging.disable()  # the table counts the errors
    with Progress(console=console, transient=True) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for side in _SIDES:
            task = progress.add_task(side, total=len(schedules))
            verdicts = anyio.run(converse_all, side, schedules, partial(progress.advance, task))
            figures.append(_figures(side, verdicts))
    logging.disable(logging.NOTSET)
    table = Table(title=f"State after a failed response, in {len(schedules):,} conversations of each side")
    table.add_column("")
    for figure in figures:
        table.add_column(figure["side"], justify="right")
    for end in End:
        table.add_row(end.value, *(_share(figure["ends"][end.name.lower()], figure) for figure in figures))
    table.add_section()
    for ill, title in zip(_ILLS, _TITLES, strict=True):
        table.add_row(title, *(_share(figure[ill], figure) for figure in figures))
    console.print(table)
    for figure in figures:
        errors = ", ".join(f"{name} {count}" for name, count in figure["raw_errors"].most_common())
        if errors:
            console.print(f"{figure['side']}, raw errors: {errors}")
    return {"pace": PACE, "sides": figures}


_TITLES: Final = (
    "not well, but the history can be continued",
    "orphaned tool_use",
    "orphaned, if the broken response is kept",
    "history that the API would refuse",
    "result lost",
    "done twice",
    "ran with a wrong input",
)


def _share(count: int, figure: Mapping[str, Any]) -> str:
    return f"{count:,} ({count / figure['conversations']:.1%})" if count else "0"


if __name__ == "__main__":
    main(Console())
