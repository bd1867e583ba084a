"""One conversation of a soak: its tools, its consumer, and what it must be, however it ends."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

import eagerstream
from eagerstream import EagerStreamError, InputInterrupted, ItemStream, Restarted, RunningCall, RunStatus, TurnStop
from eagerstream.loop import Run, RunResult
from eagerstream.tools import tool
from tests.loop.serial import checked
from tests.reliability.soak_plans import Consumer, Plan, owners

_PATIENCE_S: Final = 240  # for a conversation of five turns, each of which may be asked for four times
_AGAIN: Final = "_again"
_SAVED: Final = 10  # one result in so many is saved and loaded


class _Gone(Exception):
    """What a consumer raises."""


# --- tools ------------------------------------------------------------------------------------------------------------


@dataclass
class Ledger:
    """What the tools of one conversation did to the world."""

    done: Counter[str] = field(default_factory=Counter)
    """By the id of the call."""
    strange: set[str] = field(default_factory=set)
    """Inputs of another conversation."""
    open: int = 0


class World:
    """The tools, one set for all conversations, as in a server; and what they did, by conversation."""

    def __init__(self) -> None:
        self.ledgers: dict[int, Ledger] = {}
        self.late = 0
        """Threads that began when their conversation was over."""

    def ledger_of(self, call: RunningCall, key: str) -> Ledger:
        """Note that a call does what it does, at the conversation that its id is of."""
        (number,) = owners(call.id)
        ledger = self.ledgers.get(number)
        if ledger is None:
            self.late += 1
            return Ledger()
        ledger.done[call.id] += 1
        if owners(key) - {number}:
            ledger.strange.add(key)
        return ledger

    def tools(self) -> list[Any]:
        """One of each kind: async, in a thread, streaming, a generator, a generator in a thread."""

        @tool(description="Book a flight.")
        async def book(key: str, flight: str, call: RunningCall) -> str:
            self.ledger_of(call, key)
            await anyio.sleep(0.005)
            if flight == "nowhere":
                raise LookupError(f"no flight for {key}")
            return f"booked {key}"

        @tool(description="Pay.")
        def pay(key: str, amount: int, currency: str, call: RunningCall) -> str:
            self.ledger_of(call, key)
            time.sleep(0.005)
            return f"paid {amount} {currency} for {key}"

        @tool(description="Write to a file.")
        async def write(key: str, lines: ItemStream[str], call: RunningCall) -> str:
            ledger = self.ledger_of(call, key)
            ledger.open += 1
            try:
                return f"wrote {len([line async for line in lines])} lines for {key}"
            except InputInterrupted:
                return f"removed {key} again"
            finally:
                ledger.open -= 1

        @tool(description="Search page by page.")
        async def search(key: str, pages: int, call: RunningCall) -> AsyncIterator[str]:
            ledger = self.ledger_of(call, key)
            ledger.open += 1
            try:
                for page in range(pages):
                    yield f"page {page}"
                    await anyio.sleep(0.01)
                yield f"found {key}"
            finally:
                ledger.open -= 1

        @tool(description="Count.")
        def count(key: str, upto: int, call: RunningCall) -> Iterator[str]:
            self.ledger_of(call, key)
            for number in range(upto):
                yield f"{number}"
            yield f"counted {key}"

        return [book, pay, write, search, count]


# --- from its first event to its end ----------------------------------------------------------------------------------


@dataclass
class Heard:
    """What its consumer saw of a conversation, and how it ended."""

    events: int = 0
    restarts: int = 0
    broken_turns: int = 0
    failure: EagerStreamError | None = None


async def listen(run: Run, plan: Plan, speed: float) -> Heard:
    """Be the consumer of the plan."""
    heard = Heard()
    patience_s = plan.patience_s / speed if plan.consumer is Consumer.IS_CANCELLED else float("inf")
    try:
        with anyio.fail_after(_PATIENCE_S), anyio.move_on_after(patience_s):
            async with run:
                if plan.consumer is Consumer.FINISHES:
                    await run.finish()
                else:
                    await _iterate(run, plan, heard)
    except EagerStreamError as error:
        heard.failure = error
    except _Gone:
        pass
    return heard


async def _iterate(run: Run, plan: Plan, heard: Heard) -> None:
    async for event in run:
        heard.events += 1
        heard.restarts += isinstance(event, Restarted)
        heard.broken_turns += isinstance(event, TurnStop) and event.error is not None
        is_enough = heard.events == plan.patience_events + 1
        match plan.consumer:
            case Consumer.LEAVES if is_enough:
                return
            case Consumer.RAISES if is_enough:
                raise _Gone
            case Consumer.CANCELS if is_enough:
                run.cancel()
            case Consumer.IS_SLOW:
                await anyio.sleep(0.01)
            case _:
                pass


def check(run: Run, plan: Plan, heard: Heard, ledger: Ledger) -> None:
    """What every conversation must be, however it ended."""
    result = checked(run.result, [plan.first_message])
    assert all(call.result is not None for call in result.calls), "a call has no result"
    # No effect twice, also not where the reply came twice, with other ids; and none whose call is lost.
    effects = Counter(id.removesuffix(_AGAIN) for id in ledger.done.elements())
    assert all(count == 1 for count in effects.values()), f"done twice: {effects}"
    ran = Counter(call.id for call in result.calls if call.ran)
    assert all(ran[id] == 1 for id in ledger.done), "what a tool did is in no call"
    assert all(call.in_history for call in result.calls if call.ran), "what a call did is not in the history"
    assert not ledger.open, "a tool's cleanup has not run"
    # Nothing of another conversation; and each result is that of its call.
    assert not ledger.strange, "a tool was given what is of another conversation"
    assert owners(json.dumps(result.messages)) <= {plan.number}, "the history has what is of another conversation"
    for call in result.calls:
        assert call.result is not None
        if call.ran and not call.is_error and call.response is not None:
            assert call.input.value is not None
            assert str(call.input.value["key"]) in str(call.result["content"]), "a result is that of another call"
    if heard.failure is not None:
        assert RunResult.of(heard.failure) is result
        assert result.status is RunStatus.ERROR
    elif plan.consumer in (Consumer.ITERATES, Consumer.FINISHES, Consumer.IS_SLOW):
        assert result.status in (RunStatus.COMPLETED, RunStatus.UNKNOWN), result.status
    else:
        assert result.status is not RunStatus.RUNNING
    if plan.number % _SAVED == 0:
        assert eagerstream.RunResult.from_json(result.to_json()).messages == result.messages
