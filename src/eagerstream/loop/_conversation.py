"""`Conversation`: the loop without I/O. It makes each request, and takes each response.

`run` is this and the tasks around it. If you want to control each step, drive it by hand. The requests are the same:

    conversation = Conversation(model=..., max_tokens=..., tools=[...], messages=[...])
    while not conversation.ended:
        async with eagerstream.stream(client, **conversation.request()) as stream:
            async for event in stream: ...
        turn = conversation.take(stream)
        for call in turn.calls: ...       # look at it; call.answer(...) answers it yourself
        await conversation.execute(turn)  # runs those that you have not answered
        turn.results()                    # the blocks that go back
    print(conversation.result.status)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack
from uuid import uuid4

from ..calls._runner import execute
from ..calls._turn import Turn
from ..errors import APIError, ProtocolError, UsageError
from ..streaming._message_stream import MessageStream
from ..streaming._types import RequestMessage
from ..tools._call import CallHost, ToolCall
from ..tools._foreign import NO_CONTEXT, ContextT, GivenTool
from ..transports._base import with_betas
from ._course import Course
from ._interruption import LOST_START
from ._message_thread import MAX_BREAKPOINTS_OF_THREADS, MessageThread
from ._options import ConversationOptions
from ._result import RunResult
from ._steering import When
from ._tool_changes import betas_of, refuses_inline_tools


class Conversation:
    """The history of a conversation, its next request, and its end.

    Args:
        model, max_tokens: As in the API.
        messages: As in the API, or the result of an earlier run to continue from.
        tools: Functions decorated with `@tool`, tools of other libraries (anything with `to_dict()` and `call()`), and
            definitions of tools that the API itself runs.
        output, context: As for `run`.
        options: See `ConversationOptions`, and there `LoopOptions`, `CallOptions`, `RequestParameters`. A `tool_choice`
            that forces a call holds for the first request.

    Raises:
        UsageError: A setting is out of range, a tool cannot be run, or two share a name.
        HistoryError: The API would refuse the messages or the tools.
    """

    def __init__(
        self,
        *,
        model: str,
        max_tokens: int,
        messages: Sequence[RequestMessage] | RunResult,
        tools: Sequence[GivenTool[ContextT]] = (),
        output: Any = None,
        context: ContextT = NO_CONTEXT,
        **options: Unpack[ConversationOptions],
    ) -> None:
        self._course = Course(
            model=model,
            max_tokens=max_tokens,
            messages=messages,
            tools=tools,
            output=output,
            context=context,
            **options,
        )
        self._course.host = CallHost(uuid4().hex, context, self._course.budget)
        self._thread = MessageThread() if options.get("threads") is not None else None
        if self._thread is not None:
            self._course.max_breakpoints = MAX_BREAKPOINTS_OF_THREADS

    @property
    def model(self) -> str:
        """The model of the requests; `next_request` may choose another one for a request."""
        return self._course.model

    @property
    def result(self) -> RunResult:
        """The result as of now."""
        return self._course.result

    @property
    def turns(self) -> int:
        """Number of turns so far, with the current one."""
        return self._course.turns

    @property
    def ended(self) -> bool:
        """True if there is nothing more to send. This closes a turn whose calls all have their answers."""
        return self._course.ended

    def request(self) -> dict[str, Any]:
        """Close the turn before, if any, and return the body of the next request.

        If its stream breaks off, nothing of the response has run: call this again, and send the result again.

        Raises:
            UsageError: There is nothing more to send, the response to the last request was not taken, or
                `next_request` asks for changes that cannot be made.
            HistoryError: The API would refuse the request.
        """
        self._course.prepare()
        return self._sent_form()

    def refused(self, error: APIError) -> dict[str, Any] | None:
        """Return the body to send instead of a request that was refused for its thread or its inline tools, else None.

        Only with the options `threads` and `inline_tools`. The API forgets a thread after five minutes, for example.
        """
        if self._course.has_inline_tools and refuses_inline_tools(error):
            self._course.leave_inline_tools()
            return self._sent_form()
        if self._thread is None or not self._thread.takes(error):
            return None
        return self._sent_form()

    def _sent_form(self) -> dict[str, Any]:
        complete = self._course.complete_request()
        complete["messages"] = list(complete["messages"])  # the user may change the request
        body = with_betas(complete, betas_of(complete), ())
        return dict(body if self._thread is None else self._thread.sent_form(body))

    def take(self, stream: MessageStream) -> Turn:
        """Return the turn of a complete response, if you drive the conversation by hand.

        Raises:
            UsageError: The response was not read to its end, or no request was made for it.
            ProtocolError: The start of a call was lost on the way. Nothing has run: make the request again.
            LimitError: The response was cut, with `on_truncated="raise"`; none of its calls was run.
        """
        # Each mistake is found before `begin`, which counts a turn: after the error the request can be made again.
        course = self._course
        if not course.awaits_reply:
            raise UsageError("there is no request that this could be the response to")
        if not stream.is_whole:
            raise UsageError("the stream has not been read to its end: iterate over it, or await stream.finish()")
        if stream.lost_fragments:
            raise ProtocolError(LOST_START)
        if self._thread is not None:
            self._thread.answered(stream.message if stream.is_intact else None)
        turn = course.begin()
        # In the order of the blocks; the inputs are in the order of their starts.
        for _, input in sorted(stream.inputs.items()):
            if input.kind == "tool_use":
                _ask_guard(course.make_call(turn, input, course.tools.find(input.block)))
        course.end(turn, stream.message)
        if course.failure is not None or not turn.calls:  # a turn without calls is not executed: nothing else closes it
            turn.close()
        if course.failure is not None:
            raise course.failure
        return turn

    async def execute(self, turn: Turn) -> None:
        """Run every call of a turn that has no answer yet, concurrently, if the ending of the response allows it.

        Then the turn is closed. Cancelling this cancels the tools, whose calls are answered as cancelled. Calls that
        had not started can still be run by executing the turn again.
        """
        await execute(turn)

    def say(self, message: str | Mapping[str, Any], when: When = "next_turn") -> None:
        """Add a message of the user to a conversation under way. See `Run.say`; `"now"` means the next request.

        Raises:
            UsageError: The message is not one of the user, or the API would refuse it.
        """
        self._course.say(message, when)

    def add_tools(self, *tools: GivenTool) -> None:
        """Give the model more tools; see `Run.add_tools`."""
        self._course.add_tools(*tools)

    def remove_tools(self, *tools: GivenTool | str) -> None:
        """Take tools from the model; see `Run.remove_tools`.

        Raises:
            UsageError: There is no such tool. Nothing has changed.
        """
        self._course.remove_tools(*tools)

    def compact(self, instructions: str | None = None) -> None:
        """Let the next request ask for a summary of the history, which replaces it; see `Run.compact`."""
        self._course.compact(instructions)

    def replace_history(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Replace the history, between a response and the next request.

        Raises:
            UsageError: They are no list of messages.
            HistoryError: The API would refuse them. The history stays.
        """
        self._course.replace_history(messages)


def _ask_guard(call: ToolCall) -> None:
    # For the step-by-step form: nobody could ask the guard while the input was written. A copy of the object, so
    # that a guard that takes keys out of it does not change the echo.
    if call.tool is not None and call.tool.guard is not None and call.input.value is not None:
        reject = call.tool.rejects({**call.input.value})
        if reject is not None:
            call.reject(reject.reason)
