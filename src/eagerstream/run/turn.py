"""`Turn`: one reply and its calls; and `settle`, the one place that decides what of it stays in the history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio

from ..growing import GrowingInput
from ..limits import Limits
from ..tools.call import CallState, ToolCall
from ..tools.executor import Executor
from ..tools.results import CANCELLED, NOT_RUN
from ..wire import Outcome, encodable
from ..wire.accumulator import TOOL_BLOCKS
from ..wire.events import Block, Message
from .policy import Begins, Ending, Keeps


class Turn:
    """One reply of the model and its calls.

    Attributes:
        number: From 1.
        message: The assistant message; empty until the reply has ended.
        calls: The client's calls, in the order of their blocks once the reply has ended.
        ending: How the reply ended; None until it has.
    """

    def __init__(
        self, number: int, *, executor: Executor, limits: Limits, on_close: Callable[[Turn], object] = lambda _: None
    ) -> None:
        self.number = number
        self.message: Message = {"role": "assistant", "content": []}
        self.calls: list[ToolCall] = []
        self.ending: Ending | None = None
        self.history: list[Message] = []
        """What the turn adds to the conversation; empty until it is closed."""
        self.is_closed = False
        self.is_discarded = False
        """Its request is sent once more, and nothing of it stays."""
        self.voided: dict[str, ToolCall] = {}
        """Calls of a reply that the peer began anew, by id; some of them may have run."""
        self._executor = executor
        self._limits = limits
        self._failed_groups: dict[str, ToolCall] = {}
        self._begun: set[ToolCall] = set()  # by `execute`
        self._on_close = on_close

    @property
    def kept(self) -> list[Block]:
        """The blocks of the reply that stay in the history."""
        assert self.ending is not None
        return kept_blocks(self.message, self.calls, self.ending.keeps)

    @property
    def forbids_retry(self) -> bool:
        """A call that must not run twice has begun to run, or is about to."""
        return any(call.has_begun and not call.idempotent for call in self.calls)

    def call_of(self, input: GrowingInput) -> ToolCall | None:
        """The call of an input, where there is one already."""
        return next((call for call in self.calls if call.input is input), None)

    def add(self, input: GrowingInput) -> ToolCall:
        """A call of this turn."""
        call = ToolCall(input, self.number, self._limits, failed_groups=self._failed_groups)
        self.calls.append(call)
        return call

    def withdraw(self, begins: Begins) -> None:
        """Answer what may not begin any more, so that it does not."""
        for call in self.calls:
            if call.ran:
                continue
            is_held = call.state is CallState.WAITING and not (call.streams and call.input.outcome is Outcome.VALID)
            waits = begins is Begins.NONE or (begins is Begins.ADMITTED and is_held)
            if call.input.outcome is Outcome.INCOMPLETE or (waits and call.input.outcome is not Outcome.VALID):
                call.refuse_invalid()
            elif waits:
                call.withdraw(NOT_RUN)

    async def execute(self) -> None:
        """Run every call that has no answer yet, beside one another, where the way in which the reply ended allows it.

        Then the turn is closed. Cancelling it cancels the tools, whose calls are answered as cancelled; those that had
        not begun can still be run.
        """
        if self.ending is not None and self.ending.begins is not Begins.ALL:
            self.withdraw(Begins.NONE)
        try:
            async with anyio.create_task_group() as tasks:
                for call in self.calls:
                    if call not in self._begun:
                        self._begun.add(call)
                        self._executor.admit(call)
                        tasks.start_soon(execute, self._executor, call)
        finally:
            for call in self.calls:
                if call.ran:
                    call.refuse(CANCELLED)  # where it was cancelled: it must not run a second time
                elif call.result is None:
                    self._begun.discard(call)
        for call in self.calls:
            await call.answered.wait()
        self.close()

    def results(self) -> list[Block]:
        """The `tool_result` blocks of the turn, in call order; a call without an answer gets one that says so.

        Nothing can be answered after this.
        """
        self.close()
        if len(self.history) < 2:
            return []
        results: list[Block] = self.history[1]["content"]
        return results

    def discard(self) -> None:
        """Nothing of the turn stays: its request is sent once more."""
        self.is_closed = self.is_discarded = True
        self.withdraw(Begins.NONE)

    def void(self) -> None:
        """The peer begins its reply anew: what came of it so far does not count, and what it calls is not answered."""
        self.withdraw(Begins.ADMITTED)
        self.voided |= {call.id: call for call in self.calls}
        self.calls.clear()
        self._failed_groups = {}

    def take_over(self) -> None:
        """Another model takes over: what the first one has called so far is not in its reply."""
        self.withdraw(Begins.NONE)
        self._failed_groups = {}

    def end(self, message: Message, ending: Ending) -> None:
        """The reply has ended, or broke off."""
        self.message = message
        self.ending = ending
        self.calls.sort(key=lambda call: call.input.index)
        taken_over = _taken_over(message["content"])
        given_up = {block.get("id") for block in message["content"][:taken_over]}
        for call in self.calls:
            if call.id in given_up:
                call.failed_groups = {}
                if not call.ran:
                    call.withdraw(NOT_RUN)

    def close(self) -> None:
        """Settle the turn: afterwards `history` is what stays of it."""
        if not self.is_closed:
            assert self.ending is not None
            self.is_closed = True
            self.history = settle(self.message, self.calls, self.ending.keeps)
            for call in self.voided.values():
                answer(call)
            self._on_close(self)


def is_whole_call(block: Mapping[str, Any]) -> bool:
    """It says which tool, and what to answer to."""
    return all(isinstance(block.get(name), str) and block[name] for name in ("id", "name"))


async def execute(executor: Executor, call: ToolCall) -> None:
    """Have a call executed and see that it is answered, whatever the executor does."""
    try:
        await executor.execute(call)
    except Exception as error:
        call.fail(error)
    if call.result is None:
        call.refuse("Error: the executor gave this call no answer")


def settle(message: Message, calls: Sequence[ToolCall], keeps: Keeps = Keeps.WHOLE) -> list[Message]:
    """The messages that a turn adds to the history: the assistant's, and the results of its calls in one user message.

    Each client call that stays has exactly one result: the real one where it was answered, and an error that says why
    not where it was not. A turn of which nothing stays adds nothing.

    Args:
        message: The assistant message of the turn.
        calls: The client's calls of the turn, in the order of their blocks.
        keeps: What of the turn stays.
    """
    content = kept_blocks(message, calls, keeps)
    for call in calls:
        answer(call)
    if not content:
        return []
    history: list[Message] = [{"role": "assistant", "content": content}]
    echoed = {block.get("id") for block in content if block.get("type") == "tool_use"}
    results: list[Block] = []
    for call in calls:
        if call.id in echoed and call.result is not None:
            call.in_history = True
            results.append(call.result)
    if results:
        history.append({"role": "user", "content": results})
    return history


def kept_blocks(message: Message, calls: Sequence[ToolCall], keeps: Keeps) -> list[Block]:
    """The blocks of a reply that stay in the history, in a form in which the API takes them back."""
    ran = any(call.ran for call in calls)
    if keeps is Keeps.NOTHING or (not ran and keeps in (Keeps.IF_RAN, Keeps.UP_TO_LAST_CALL)):
        return []
    content: Sequence[Block] = message["content"]
    if keeps is Keeps.TEXT and not ran:
        content = [block for block in content if block.get("type") == "text"]
    elif keeps in (Keeps.UP_TO_LAST_CALL, Keeps.CUT):
        content = _up_to_last_call(content, calls)
    return [encodable(block) for block in _sendable(content, message.get("stop_reason"))]


def answer(call: ToolCall) -> None:
    """See that a call has a result; the first answer counts: one that the tool gave stays."""
    if call.ran:
        call.refuse(CANCELLED)
    elif call.input.outcome is Outcome.VALID:
        call.refuse(NOT_RUN)
    else:
        call.refuse_invalid()


def _up_to_last_call(content: Sequence[Block], calls: Sequence[ToolCall]) -> list[Block]:
    """What is finished of a reply that broke off: all up to its last whole call, without the calls that are not."""
    # A call that had begun on its streaming parameters stays although it was cut, and so does one that a guard cut.
    whole = {call.id for call in calls if call.ran or call.rejected or call.input.outcome is not Outcome.INCOMPLETE}
    kept: list[Block] = []
    end = 0
    for block in content:
        if block.get("type") != "tool_use":
            kept.append(block)
        elif block.get("id") in whole:
            whole.remove(str(block["id"]))  # a peer that gives an id twice may be what broke the reply off
            kept.append(block)
            end = len(kept)
    return kept[:end]


def _sendable(content: Sequence[Block], stop_reason: str | None) -> list[Block]:
    """The blocks that the API takes back.

    Left out are: text without a word; thinking at the end; calls of a model that gave up; and calls that the API was to
    run itself and did not, except where it will do so in the next reply.
    """
    content = [block for block in map(_mended, content) if block is not None]
    taken_over = _taken_over(content)
    has_calls = any(block["type"] == "tool_use" for block in content[taken_over:])
    goes_on = stop_reason in ("pause_turn", "compaction") or (stop_reason == "tool_use" and has_calls)
    lost = set() if goes_on else _without_result(content)
    kept = [
        block
        for place, block in enumerate(content)
        if not (
            _is_empty_text(block)
            or (place < taken_over and block["type"] == "tool_use")
            or str(block.get("id")) in lost
        )
    ]
    while kept and kept[-1].get("type") in ("thinking", "redacted_thinking"):
        kept.pop()
    return kept


def _taken_over(content: Sequence[Block]) -> int:
    """How many blocks do not count because another model took over: a `fallback` block says so, and is one of them."""
    kinds = [block.get("type") for block in content]
    return len(kinds) - kinds[::-1].index("fallback") if "fallback" in kinds else 0


def _mended(block: Block) -> Block | None:
    """A block that a peer may have got wrong, in a form that the API takes; None where there is none."""
    kind = block.get("type")
    if not isinstance(kind, str):
        return None
    if kind == "text" and not isinstance(block.get("text"), str):
        return None
    if kind in TOOL_BLOCKS and not is_whole_call(block):
        return None
    if kind == "thinking" and not isinstance(block.get("signature"), str):
        return {**block, "signature": ""}
    return block


def _without_result(content: Sequence[Block]) -> set[object]:
    """Ids of the calls for the API to run that have no result; not those that code of a kept call goes on in."""
    results = {str(block.get("tool_use_id")) for block in content}
    callers = [block.get("caller") for block in content if block.get("type") == "tool_use"]
    needed = {str(caller.get("tool_id")) for caller in callers if isinstance(caller, dict)}
    calls = {block["id"] for block in content if block["type"] in ("server_tool_use", "mcp_tool_use")}
    return calls - results - needed


def _is_empty_text(block: Block) -> bool:
    # The API refuses to take back what it sent: a text block of nothing, or of white space.
    return block["type"] == "text" and (not block["text"] or block["text"].isspace())
