"""`Turn`: one reply of the model, and the calls that it makes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Final

import anyio

from ..errors import UsageError
from ..limits import Limits
from ..streaming._growing_input import GrowingInput
from ..tools._call import CallState, ToolCall
from ..tools._content import text_block
from ..tools._executor import Executor
from ..tools._results import CANCELLED, NOT_RUN, REPEATED
from ..wire import Outcome
from ..wire._events import Block, Message
from ._policy import Begins, Ending
from ._settle import kept_blocks, settle, taken_over, without_result

_log = logging.getLogger(__name__)

_CODE_WAITS_S: Final = 270.0
"""Seconds for which the API lets code wait for the result of a call; it then raises `TimeoutError` in the code."""


def _tell_nobody(_: object) -> None: ...


class Turn:
    """One reply of the model and its calls.

    Attributes:
        number: From 1.
        message: The assistant message; empty until the reply has ended.
        calls: The client's calls, in the order of their blocks once the reply has ended.
        ending: How the reply ended; None until it has.
    """

    def __init__(
        self,
        number: int,
        *,
        executor: Executor,
        limits: Limits,
        server_calls: Collection[str] = (),
        on_close: Callable[[Turn], object] | None = None,
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
        self._executor = executor
        self._limits = limits
        self._server_calls = server_calls  # of the history before, by id
        self._by_input: dict[GrowingInput, ToolCall] = {}
        self._failed_groups: dict[str, ToolCall] = {}
        self._begun: set[ToolCall] = set()  # by `execute`
        self.is_answered = False
        """Its results are in a request, or have a text behind them already."""
        self._on_close = on_close or _tell_nobody

    @property
    def kept(self) -> list[Block]:
        """The blocks of the reply that stay in the history."""
        assert self.ending is not None
        return kept_blocks(self.message, self.calls, self.ending.keeps, server_calls=self._server_calls)

    @property
    def forbids_retry(self) -> bool:
        """A call that must not run twice has begun to run, or is about to."""
        return any(call.has_begun and not call.idempotent for call in self.calls)

    def call_of(self, input: GrowingInput) -> ToolCall | None:
        """The call of an input, where there is one already."""
        return self._by_input.get(input)

    def add(self, input: GrowingInput) -> ToolCall:
        """A call of this turn. One whose id an earlier call of the response has is refused: it may be the same call."""
        call = ToolCall(input, self.number, self._limits, failed_groups=self._failed_groups)
        self.calls.append(call)
        self._by_input[input] = call
        if input.repeats_id:
            call.refuse(REPEATED)
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
        begun = [call for call in self.calls if call not in self._begun]  # the others are another task's
        self._begun.update(begun)
        try:
            async with anyio.create_task_group() as tasks:
                for call in begun:
                    self._executor.admit(call)
                    tasks.start_soon(execute, self._executor, call)
        finally:
            for call in begun:
                if call.ran:
                    call.refuse(CANCELLED)  # where it was cancelled: it must not run a second time
                elif call.result is None:
                    self._begun.discard(call)
        for call in self.calls:
            await call.answered.wait()
        self.close()

    def results(self, *, extra_user_text: str | None = None) -> list[Block]:
        """The `tool_result` blocks of the turn, in call order; a call without an answer gets one that says so.

        Nothing can be answered after this.

        Args:
            extra_user_text: Text of the user behind the results, `"What should I do next?"` for example. The API's
                advice is to leave it out: text after each result teaches the model to end its turns early.

        Raises:
            UsageError: The API would refuse such a text: the turn has no results, code made one of its calls, or the
                API has yet to run a call of its own. Or the results have been sent. They stay as they were.
        """
        self.close()
        results: list[Block] = self.history[1]["content"] if len(self.history) > 1 else []
        if extra_user_text is not None:
            self._check_extra_text(extra_user_text)
            results.append(text_block(extra_user_text))
            self.is_answered = True
        return results

    def _check_extra_text(self, text: str) -> None:
        wrong = None
        if self.is_answered:
            wrong = "the results have been sent, or have such a text already"
        elif len(self.history) < 2:
            wrong = "this turn has no results that a text could follow"
        elif not text.strip():
            wrong = "the API refuses a text without a word"
        elif any(call.in_history and call.is_programmatic for call in self.calls):
            wrong = "only results may follow a call that code made"
        elif without_result(self.history[0]["content"]):
            wrong = "only results may follow a turn in which the API has yet to run a call of its own"
        if wrong is not None:
            raise UsageError(f"extra_user_text: {wrong}")

    def discard(self) -> None:
        """Nothing of the turn stays: its request is sent once more."""
        self.is_closed = self.is_discarded = True
        self.withdraw(Begins.NONE)

    def void(self) -> None:
        """The peer begins its reply anew: what came of it so far does not count, and what it calls is not answered."""
        self.withdraw(Begins.ADMITTED)
        self.calls.clear()
        self._by_input.clear()
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
        content = message["content"]
        given_up = {block.get("id") for block in content[: taken_over(content)]}
        for call in self.calls:
            if call.input.echo_id in given_up:
                call.failed_groups = {}
                if not call.ran:
                    call.withdraw(NOT_RUN)

    def close(self) -> None:
        """Settle the turn: afterwards `history` is what stays of it."""
        if not self.is_closed:
            assert self.ending is not None
            self.is_closed = True
            self.history = settle(self.message, self.calls, self.ending.keeps, server_calls=self._server_calls)
            on_close, self._on_close = self._on_close, _tell_nobody  # no cycle with the conversation is left
            on_close(self)


async def execute(executor: Executor, call: ToolCall) -> None:
    """Have a call executed and see that it is answered, whatever the executor does."""
    try:
        if call.is_programmatic:
            await _execute_for_code(executor, call)
        else:
            await executor.execute(call)
    except Exception as error:
        call.fail(error)
    if call.result is None:
        call.refuse("Error: the executor gave this call no answer")


async def _execute_for_code(executor: Executor, call: ToolCall) -> None:
    """Have a call of code executed, and log it if the code stops waiting for it before it ends."""

    async def warn() -> None:
        await anyio.sleep(_CODE_WAITS_S)
        what = "a call of the tool %.80r by code runs for longer than %g s: the API waits no longer for its result"
        _log.warning(what, call.name, _CODE_WAITS_S)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(warn)
        try:
            await executor.execute(call)
        except Exception as error:  # here: the task group would wrap it
            call.fail(error)
        tasks.cancel_scope.cancel()
