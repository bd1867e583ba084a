"""Runs with message threads, over sockets: connections break, the API forgets, and the user speaks, all at random."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, Final, Literal

import anyio
import pytest

import eagerstream
from eagerstream import EagerStreamError, HTTPTransport, Limits, RunStatus
from eagerstream._support.terms import assistant_messages
from eagerstream.loop import MessageDelivered, RunResult, When
from eagerstream.loop._message_thread import _copied_message
from eagerstream.recordings import Recording
from eagerstream_testing import (
    FaultKind,
    Faults,
    MessageThreads,
    ReceivedRequest,
    ReplayServer,
    Scenario,
    Timing,
    reply,
    retime,
    text,
    tool_use,
)
from eagerstream_testing._threads import _refused
from tests.loop.serial import SLOWLY_S, checked
from tests.reliability.conversations import Travel
from tests.sampling import drawn
from tests.streams import REQUEST, USER

_TURNS: Final = 4
_WHEN: Final[tuple[When, ...]] = ("next_turn", "when_idle", "now")
_CODES: Final = ("thread_continue_in_flight", "thread_already_continued", "thread_fingerprint_mismatch")
_KINDS: Final = (
    FaultKind.CLOSE,
    FaultKind.RESET,
    FaultKind.END,
    FaultKind.BROKEN_CHUNKING,
    FaultKind.ERROR_EVENT,
    FaultKind.HTTP_ERROR,
    FaultKind.HTML_PAGE,
)
"""Those that lose a response. The double keeps what it sent, so a response that is altered on its way is left out."""


_UNDELIVERED: Final = (70, 74, 134)
"""Conversations of the kind that is rare: they end with an error while a message waits."""


class _Unreliable(MessageThreads):
    """Threads that expire, are forgotten, and are refused for each reason, at random."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._now_s = 0.0
        super().__init__(keeps_lost=random.random() < 0.5, clock=lambda: self._now_s)

    def complete(self, body: dict[str, Any], betas: Sequence[str], received: ReceivedRequest) -> dict[str, Any]:
        """See `MessageThreads.complete`."""
        match self._random.randrange(20):
            case 0:
                self._now_s += 2 * self.kept_s
            case 1:
                self.forget()
            case 2 if body.get("thread", {}).get("type") == "continue":
                raise _refused(self._random.choice(_CODES))
            case 3 if self._random.random() < 0.3:
                self.support = "refuses"
            case _:
                pass
        return super().complete(body, betas, received)


def _model() -> Scenario:
    """Calls in each turn but the last. Every response has ids of its own, also if it answers the same request again."""
    answers = iter(range(1_000))

    def answer(request: Mapping[str, Any]) -> Recording:
        number, turn = next(answers), assistant_messages(request)
        blocks = [
            tool_use("book", {"flight": f"{turn}"}, id=f"toolu_{number}_0", fragment_chars=5),
            tool_use("pay", {"amount": turn, "currency": "EUR"}, id=f"toolu_{number}_1", fragment_chars=9),
            tool_use("write", {"path": f"{turn}", "lines": ["a", "b"]}, id=f"toolu_{number}_2", fragment_chars=7),
        ]
        said = text(f"This is turn {turn}.", fragment_chars=6)
        return retime(reply(said, *(blocks if turn < _TURNS else []), message_id=f"msg_{number}"), Timing.instant())

    return Scenario.of(answer)


async def _converse(seed: int) -> Counter[str]:
    """One conversation, with all its laws. Returns what happened in it."""
    random = Random(seed)
    travel = Travel()
    said: list[str] = []
    threads: Literal["always"] | None = random.choice(("always", "always", None))
    says = {random.randrange(120): random.choice(_WHEN) for _ in range(random.randrange(5))}
    faults = Faults.random(seed, random.choice((0.0, 0.3)), _KINDS)
    speed = random.choice((float("inf"), 1.0))
    seen: Counter[str] = Counter()
    delivered: list[Any] = []
    failure: EagerStreamError | None = None
    async with (
        ReplayServer(_model(), speed=speed, faults=faults, threads=_Unreliable(random)) as server,
        HTTPTransport(base_url=server.base_url) as transport,
    ):
        run = eagerstream.run(
            transport,
            **REQUEST,
            tools=travel.tools(),
            threads=threads,
            restart_delay_s=0,
            limits=Limits(idle_timeout_s=2, tool_timeout_s=5),
        )
        number = 0
        try:
            with anyio.fail_after(SLOWLY_S):
                async with run:
                    async for event in run:
                        seen[type(event).__name__] += 1
                        if isinstance(event, MessageDelivered):
                            delivered += event.messages
                        if when := says.get(number):
                            run.say(f"said {len(said)} {when}", when=when)
                            said.append(f"said {len(said)} {when}")
                        number += 1
        except EagerStreamError as error:
            failure = error
        requests = server.requests
    result = checked(run.result)
    assert max(travel.done.values(), default=1) == 1, f"done twice: {travel.done}"
    assert not travel.open, "a tool's cleanup has not run"
    assert all(call.in_history for call in result.calls if call.ran), "what a call did is not in the history"
    if failure is None:
        assert result.status is RunStatus.COMPLETED, result.status
    else:
        assert RunResult.of(failure) is result
        assert result.status is RunStatus.ERROR
    _check_said(said, delivered, result)
    _check_complete(requests, result)
    for request in requests:
        thread = request.body.get("thread")
        assert thread is None or threads == "always"
        seen[thread["type"] if thread else "no thread"] += 1
    seen.update(f"thread {request.thread_refused}" for request in run.latency.requests if request.thread_refused)
    seen["failed"] += failure is not None
    seen["undelivered"] += len(result.undelivered)
    return seen


def _check_said(said: list[str], delivered: list[Any], result: Any) -> None:
    """Each message is once in the history or still waits, and those of one time keep their order."""
    kept = _said_in([message for message in result.messages if message["role"] == "user"])
    waiting = _said_in(result.undelivered)
    assert sorted([*kept, *waiting]) == sorted(said), "a message was lost, or is there twice"
    for is_idle in (False, True):
        in_order = [words for words in said if words.endswith("when_idle") is is_idle]
        assert [words for words in [*kept, *waiting] if words.endswith("when_idle") is is_idle] == in_order
    assert _said_in(delivered) == kept


def _said_in(messages: Sequence[Any]) -> list[str]:
    return re.findall(r"said \d+ [a-z_]+", json.dumps(messages))


def _check_complete(requests: Sequence[ReceivedRequest], result: Any) -> None:
    """The API has, for each request, what a run without threads sends: the history so far, and all other fields."""
    history = [_copied_message(message) for message in result.messages]
    assert history[0] == _copied_message(USER)
    fields = {name: value for name, value in requests[0].complete.items() if name not in ("messages", "thread")}
    for request in requests:
        if request.complete.get("thread", {}).get("type") == "continue":  # it was refused
            assert request.status in (400, 404)
            continue
        messages = [_copied_message(message) for message in request.complete["messages"]]
        assert messages == history[: len(messages)], "the API has another conversation"
        assert fields == {n: v for n, v in request.complete.items() if n not in ("messages", "thread")}


async def _converse_all(seeds: Iterable[int]) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        try:
            seen += await _converse(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    return seen


def test_some_conversations() -> None:
    """A few of them."""
    anyio.run(_converse_all, range(8))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_many_conversations() -> None:
    """Everything that they should meet is met, on one event loop or the other. Each commit draws others."""
    seeds = drawn(range(10_000), 150)
    seen = anyio.run(_converse_all, [*seeds[:75], *_UNDELIVERED], backend="asyncio")
    seen += anyio.run(_converse_all, [*seeds[75:], *_UNDELIVERED], backend="trio")
    assert {"create", "continue", "no thread", "failed", "undelivered", "Restarted", "MessageDelivered"} <= set(seen)
