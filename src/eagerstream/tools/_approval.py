"""`approve`: ask whether a call may run."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import anyio

from ._call import ToolCall
from ._definition import Tool
from ._invoke import invoke
from ._response import ToolErrorCode, error_text


async def approve(call: ToolCall, tool: Tool, asks: Callable[[ToolCall], object]) -> None:
    """Ask for approval of the call, and answer the call if it is not approved."""
    answer: object = call.host.decision(call)
    if answer is None:

        async def cancel_once_answered() -> None:
            await call.answered.wait()  # it was withdrawn or rejected
            tasks.cancel_scope.cancel()

        answer = f"Not executed: nobody approved the call within {tool.approve_timeout_s:g} seconds."
        with anyio.move_on_after(math.inf if asks is ask_elsewhere else tool.approve_timeout_s):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel_once_answered)
                try:
                    answer = await invoke(partial(asks, call), None)
                except Exception as error:
                    answer = f"Not executed: the call could not be approved: {error_text(error)}"
                tasks.cancel_scope.cancel()
        if call.result is None:
            call.host.decided(call, answer if isinstance(answer, str) else answer is True)
    if answer is not True:
        refused = answer if isinstance(answer, str) and answer else "Not executed: the call was not approved."
        call.refuse(refused, code=ToolErrorCode.PERMISSION_DENIED)


async def ask_elsewhere(call: ToolCall) -> bool | str:
    """Ask for approval in the journal of the run, for the option `approve` of a tool: `approve=ask_elsewhere`.

    Somebody decides with `Journal.decide`, on the web page, or on the command line, also after days. If a run waits
    only for such decisions, it ends with status `WAITING`, and continues in any process after the decision. Cancelling
    this ends the wait, and no decision is lost.

    Raises:
        UsageError: The run has no journal.
    """
    return await call.host.wait_for_decision(call)
