"""`Conversation`: the loop without its input and output. It makes each request, and takes in each reply.

`run` is this and the tasks around it. Who wants to be in charge of each step drives it by hand, with the same requests:

    conversation = Conversation(model=..., max_tokens=..., tools=[...], messages=[...])
    while not conversation.ended:
        async with eagerstream.stream(client, **conversation.request()) as stream:
            async for event in stream: ...
        turn = conversation.take(stream)
        for call in turn.calls: ...    # look at it; call.answer(...) answers it yourself
        await turn.execute()           # runs those that you have not answered
        turn.results()                 # the blocks that go back
    print(conversation.result.status)
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from random import uniform
from typing import Any, Final, Unpack

from ..errors import APIError, HistoryError, LimitError, ProtocolError, UsageError
from ..limits import DEFAULT_LIMITS, Limits
from ..streaming._growing_input import GrowingInput
from ..streaming._message_stream import MessageStream, checked_messages, request_parameters
from ..streaming._options import FEED_DEFAULTS, INPUT_DEFAULTS, check_names, taken
from ..tools._call import ToolCall
from ..tools._foreign import ForeignTool
from ..tools._history import count_breakpoints, validate_history
from ..wire import check_count, encodable
from ..wire._echo import stand_in_id
from ..wire._events import Message
from ..wire._server_tools import server_calls
from ._cache_breakpoints import with_breakpoints
from ._callable_tools import callable_tools, toolbox_of
from ._options import CALL_DEFAULTS, LOOP_DEFAULTS, ConversationOptions, RunOptions, check_loop_options
from ._policy import BROKEN_OFF, CANCELLED, INTERRUPTED, Ending, Then, ending_of
from ._result import RunResult, RunStatus, add_usage
from ._turn import Turn

_log = logging.getLogger(__name__)

LOST_START: Final = "a call of the reply came without its beginning"
_MAX_RESTART_DELAY_S: Final = 30.0
_MAX_DOUBLINGS: Final = 64


class Conversation:
    """What has been said, what is to be sent next, and when it is over.

    Args:
        model, max_tokens: As in the API.
        messages: As in the API, or the result of an earlier run, to go on from.
        tools: Functions decorated with `@tool`, tools of other libraries (anything with `to_dict()` and `call()`), and
            definitions of tools that the API itself runs.
        options: See `ConversationOptions`, and there `LoopOptions`, `CallOptions`, `RequestParameters`. A `tool_choice`
            that forces a call holds for the first request.

    Raises:
        UsageError: A setting is out of range, a tool cannot be run, or two share a name.
        HistoryError: The API would refuse the messages or the tools.

    Attributes:
        result: As of now.
        tools: By their names.
        executor: Runs the calls.
        limits: Bounds on what is taken in.
    """

    def __init__(
        self,
        *,
        model: str,
        max_tokens: int,
        messages: Sequence[Mapping[str, Any]] | RunResult,
        tools: Sequence[ForeignTool | Mapping[str, Any]] = (),
        **options: Unpack[ConversationOptions],
    ) -> None:
        given: dict[str, Any] = dict(options)
        if misplaced := sorted(given.keys() & _OPTIONS_OF_READING):
            raise UsageError(f"{', '.join(misplaced)}: these are options of stream, not of a conversation")
        self.limits: Limits = given.pop("limits", DEFAULT_LIMITS)
        if not isinstance(self.limits, Limits):
            raise UsageError(f"limits must be a Limits, not {type(self.limits).__name__}")
        check_count("max_tokens", max_tokens, least=0)
        self._options = taken(given, LOOP_DEFAULTS)
        check_loop_options(self._options)
        calls = taken(given, CALL_DEFAULTS)
        self._given_executor = calls["executor"]
        self._eager: bool = given.pop("eager", True)
        self.tools, self.executor = callable_tools(tools, limits=self.limits, **calls)
        self.result = RunResult(RunStatus.RUNNING, None, [])
        if isinstance(messages, RunResult):
            self.result.container = messages.container
            messages = messages.messages
        self.result.messages = checked_messages(messages)
        self._awaits_reply = False
        self.failure: LimitError | None = None
        """What the run is to raise once its last turn is closed."""
        check_names(given, RunOptions)
        self._tools = tools
        self._parameters = request_parameters(model, max_tokens, tools, given, eager=self._eager)
        self._request = self._parameters  # of the turn under way
        self._prepared = 0  # the number of that turn
        self._turn: Turn | None = None
        self._turns = 0
        self._continuations = 0
        self._failed_turns = 0
        self._restarts = 0
        self._retry_max_tokens: int | None = None  # of the turn under way, once it is sent again
        self._ids = _call_ids(self.result.messages)
        self._check_history()

    @property
    def model(self) -> str:
        """The model of the run; `before_request` may ask another one."""
        return str(self._parameters["model"])

    @property
    def _has_ended(self) -> bool:
        return self.result.status is not RunStatus.RUNNING

    @property
    def ended(self) -> bool:
        """There is nothing more to send. A turn whose calls all have their answers is closed for it."""
        if self._turn is not None and self._turn.ending and all(call.result for call in self._turn.calls):
            self._turn.close()
        return self._has_ended

    def request(self) -> dict[str, Any]:
        """The body of the next request; the turn before it, if any, is closed.

        Where its stream breaks off, nothing of the reply has run: call this again, and send it again.

        Raises:
            UsageError: There is nothing more to send.
            HistoryError: The API would refuse it.
        """
        if self._turn is not None and self._turn.ending is None and not self._turn.is_discarded:
            raise UsageError("the reply to the last request has not been taken in")
        self.close_turn()
        if self._has_ended:
            raise UsageError(f"the conversation has ended: {self.result.status.value}")
        self._prepare(self._turns + (not self.retries))
        self._check_history()
        self._awaits_reply = True
        if self._turn is not None:
            self._turn.is_answered = True
        request = {**self._request, "messages": list(self.result.messages)}
        if self._retry_max_tokens is not None:
            request["max_tokens"] = self._retry_max_tokens
        if self.result.container is not None:
            request["container"] = _with_container(request.get("container"), self.result.container)
        return with_breakpoints(request) if self._options["cache"] == "auto" else request

    def _prepare(self, turn: int) -> None:
        """Find the parameters of the request of a turn; one that is sent again keeps them."""
        if turn == self._prepared:
            return
        request = dict(self._parameters)
        choice = request.get("tool_choice")
        if turn > 1 and isinstance(choice, Mapping) and choice.get("type") in ("any", "tool"):
            # A model that must call a tool in each response can never end its turn.
            request["tool_choice"] = {name: value for name, value in choice.items() if name != "name"} | {
                "type": "auto"
            }
        if self._options["before_request"] is not None:
            asked = self._options["before_request"]({**request, "messages": list(self.result.messages)}, turn)
            request = self._changed(request, asked or {})
        self._request = request
        self._prepared = turn

    def _changed(self, request: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of a request with what its hook changes, and its tools ready to be called."""
        if not isinstance(changes, Mapping):
            raise UsageError(f"before_request must return the parameters to change, not {type(changes).__name__}")
        if wrong := sorted({"messages", "stream", "eager", *_OPTIONS_OF_READING} & set(changes)):
            raise UsageError(f"before_request cannot change {', '.join(wrong)}")
        tools = changes.get("tools", self._tools)
        self.tools.replace(toolbox_of(self._runnable(tools), self._given_executor))
        merged = {**request, **changes}
        check_count("max_tokens", merged["max_tokens"], least=0)
        left_out = {"model", "max_tokens", "tools"} | ({"tool_choice"} if not tools else set())
        others = {name: value for name, value in merged.items() if name not in left_out}
        return request_parameters(merged["model"], merged["max_tokens"], tools, others, eager=self._eager)

    def _runnable(self, tools: Any) -> Any:
        """The tools that a hook asks for; a definition under the name of one of the run's tools is run by that tool."""
        if not isinstance(tools, Sequence):
            return tools  # refused by `toolbox_of`, with a reason
        definitions = self._parameters.get("tools", ())
        own = {_key(each): tool for each, tool in zip(definitions, self._tools, strict=True)}
        return [own.get(_key(tool), tool) if isinstance(tool, Mapping) else tool for tool in tools]

    def take(self, stream: MessageStream) -> Turn:
        """The turn that a whole reply makes, for those who drive the conversation by hand.

        Raises:
            UsageError: The reply has not been read to its end, or no request was made for it.
            ProtocolError: The start of a call was lost on the way. Nothing has run: make the request again.
            LimitError: The reply was cut, with `on_truncated="raise"`; none of its calls was run.
        """
        if not self._awaits_reply:
            raise UsageError("no request has been made that this could be the reply to")
        if not stream.is_whole:
            raise UsageError("the stream has not been read to its end: iterate over it, or await stream.finish()")
        if stream.lost_fragments:
            raise ProtocolError(LOST_START)
        turn = self.begin()
        for index in sorted(stream.inputs):
            if stream.inputs[index].kind == "tool_use":
                self.make_call(turn, stream.inputs[index])
        self.end(turn, stream.message)
        if self.failure is not None or not turn.calls:
            turn.close()
        if self.failure is not None:
            raise self.failure
        return turn

    def begin(self) -> Turn:
        """A turn whose request is about to be sent, or has been."""
        self.close_turn()
        self._awaits_reply = False
        if not self.retries:
            self._turns += 1
        self._turn = Turn(
            self._turns,
            self,
            executor=self.executor,
            limits=self.limits,
            server_calls=server_calls(self.result.messages).keys(),
        )
        return self._turn

    def make_call(self, turn: Turn, input: GrowingInput) -> ToolCall:
        """Add a call to the turn, for an input that begins or has ended.

        If an earlier turn has a call of the same id (some gateways count from 0 in each response), the history gets
        another one for it: the API refuses an id that comes twice.
        """
        while input.echo_id in self._ids:
            input.echo_id = stand_in_id(f"{input.echo_id} {turn.number} {input.index}", input.kind)
        self._ids.add(input.echo_id)
        tool = self.tools.find(input.block)
        if tool is not None and tool.name == input.name:
            input.echo_name = input.name  # the API takes it in the definition, too
        call = turn.add(input)
        call.idempotent = tool is not None and tool.idempotent
        self.result.calls.append(call)
        if tool is not None and tool.guard is not None and input.value is not None:
            reject = tool.rejects({**input.value})
            if reject is not None:
                call.reject(reject.reason)
        return call

    def end(self, turn: Turn, message: Message, ending: Ending | None = None) -> None:
        """The reply has ended: decide how the conversation goes on.

        Which of the turn's calls may still begin is in `turn.ending`; they are run, or not, before the turn is closed.

        Args:
            turn: The turn that `begin` gave.
            message: The assistant message.
            ending: How it ended; by its stop reason where it is None.
        """
        result = self.result
        result.message = message
        result.turns += ending is not CANCELLED
        self._take_account(message)
        reason = message.get("stop_reason")
        turn.end(message, ending or self.ending_of(turn, reason))
        if turn.ending is not None and turn.ending.then is Then.TRUNCATED:
            self._end_truncated(turn)
        if not turn.is_discarded:
            self._decide(turn, reason)

    def interrupt(self, turn: Turn, message: Message, error: APIError | ProtocolError) -> float:
        """The reply broke off: decide how the conversation goes on.

        Where nothing has begun to run, the turn is discarded, and its request is to be made again. Where something has,
        the turn is to be closed with what was whole.

        Args:
            turn: The turn that `begin` gave.
            message: What had come of the assistant message.
            error: Why it broke off.

        Returns:
            Seconds to wait before the next request.

        Raises:
            APIError, ProtocolError: `error` itself: it does not go on.
        """
        retry_after_s = 0.0
        if isinstance(error, APIError):
            retry_after_s = max(error.retry_after_s or 0.0, 0.0)
            # A time that is no number is over the limit, too.
            if not error.retryable or error.retried or not retry_after_s <= self.limits.max_retry_after_s:
                raise error
        if self._options["on_interrupt"] == "raise" or self._restarts == self._options["max_restarts"]:
            raise error
        longest_s = max(self._options["restart_delay_s"], _MAX_RESTART_DELAY_S)
        delay_s: float = min(self._options["restart_delay_s"] * 2 ** min(self._restarts, _MAX_DOUBLINGS), longest_s)
        self._restarts += 1
        self._take_account(message)
        if turn.forbids_retry:
            self.result.message = message
            self._retry_max_tokens = None
            turn.end(message, INTERRUPTED)
            if turn.number == self._options["max_turns"]:
                self.result.status = RunStatus.LIMIT
        else:
            self.void(turn)
            turn.discard()
        # Spread out: those who were interrupted at the same time must not come back at the same time.
        return retry_after_s + delay_s * uniform(0.5, 1)

    def void(self, turn: Turn) -> None:
        """The calls of the turn do not count any more: others may have their ids."""
        self._ids -= {call.input.echo_id for call in turn.calls}

    def ending_of(self, turn: Turn, stop_reason: str | None) -> Ending:
        """How a reply with this stop reason ends the turn."""
        return ending_of(stop_reason, on_truncated=self._options["on_truncated"], forbids_retry=turn.forbids_retry)

    def abandon(self, message: Message, status: RunStatus) -> None:
        """The reply under way broke off, or nobody waits for it any more: nothing more is sent.

        The turn is still to be closed: what has begun to run may come to its end before.
        """
        if self._turn is not None and self._turn.ending is None and not self._turn.is_discarded:
            self._turn.end(message, BROKEN_OFF)
            self._take_account(message)
        if message["content"]:
            self.result.message = message
        self.result.status = status

    def _take_account(self, message: Message) -> None:
        """What a reply cost, and where its code ran, however it ended."""
        add_usage(self.result.usage, message.get("usage") or {})
        container = message.get("container")
        if isinstance(container, str | Mapping) and container:
            self.result.container = encodable(container)

    def close_turn(self) -> None:
        """Settle the turn under way, if any; what stays of it is added to the history."""
        if self._turn is not None:
            self._turn.close()

    @property
    def retries(self) -> bool:
        """The last turn was discarded: its request is sent once more."""
        return self._turn is not None and self._turn.is_discarded

    def _end_truncated(self, turn: Turn) -> None:
        """A reply cut by `max_tokens` that is not reported: it is discarded and sent again, or the end."""
        asked = self._request["max_tokens"]
        if self._options["on_truncated"] == "raise":
            self.failure = LimitError("max_tokens", asked, "the reply")
        elif self._options["on_truncated"] == "retry" and self._retry_max_tokens is None:
            more = min(2 * asked, self._options["max_tokens_cap"] or 2 * asked)
            if more > asked:
                self._retry_max_tokens = more
                self.void(turn)
                turn.discard()

    def _decide(self, turn: Turn, reason: str | None) -> None:
        """Whether the conversation goes on after a turn, and its status where it does not."""
        ending = turn.ending
        assert ending is not None
        self._retry_max_tokens = None
        self._restarts = 0
        kept = turn.kept
        has_results = any(block.get("type") == "tool_use" for block in kept)
        wants_more = ending.then is Then.RESUME or (ending.then is Then.RESULTS and has_results)
        if not wants_more or not kept:
            self.result.status = ending.status
            if reason == "tool_use":
                _log.warning("the reply stopped for tools and calls none: the run ends")
            return
        is_continuation = not has_results or ending.status is RunStatus.TRUNCATED
        self._continuations = self._continuations + 1 if is_continuation else 0
        if self._continuations > self._options["max_continuations"]:
            self.result.status = ending.status
        elif turn.number == self._options["max_turns"]:
            self.result.status = RunStatus.LIMIT

    def settled(self, turn: Turn) -> None:
        """A turn is settled: it joins the history."""
        self.result.messages = [*self.result.messages, *turn.history]
        results = [call for call in turn.calls if call.in_history]
        if turn.ending is INTERRUPTED:
            if not turn.history:
                self.void(turn)  # nothing of it ran after all: whatever ran stays
        elif results:
            self._failed_turns = self._failed_turns + 1 if all(call.is_error for call in results) else 0
            if self._failed_turns == self._options["max_consecutive_tool_errors"] and not self._has_ended:
                self.result.status = RunStatus.LIMIT

    def _check_history(self) -> None:
        system = count_breakpoints(self._request.get("system"))
        faults = validate_history(self.result.messages, self._request.get("tools"), system_breakpoints=system)
        if faults:
            raise HistoryError(faults)


_OPTIONS_OF_READING: Final = frozenset(INPUT_DEFAULTS) | frozenset(FEED_DEFAULTS)


def _key(definition: Mapping[str, Any]) -> tuple[str, ...]:
    """The name of a tool; toolsets have none, and are known by their kind and their server."""
    return tuple(str(definition.get(field)) for field in ("name", "type", "mcp_server_name"))


def _call_ids(messages: Sequence[Mapping[str, Any]]) -> set[str]:
    """Ids of the calls that the history has already."""
    ids: set[str] = set()
    for message in messages:
        content = message.get("content")
        for block in content if isinstance(content, list | tuple) else ():
            if isinstance(block, Mapping) and block.get("type") == "tool_use":
                ids.add(str(block.get("id")))
    return ids


def _with_container(given: Any, container: Any) -> Any:
    """The container that code of the last reply ran in, for the next request; skills that the user asked for stay."""
    id = container.get("id") if isinstance(container, Mapping) else container
    return {**given, "id": id} if isinstance(given, Mapping) else id
