"""`ToolUser`: Claude with tools, in the message format of anthropic-tools, on this library's loop."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import anyio

from eagerstream import AssistantMessage, ToolInput
from eagerstream._support.inspecting import without_middle
from eagerstream.calls import RunStatus
from eagerstream.errors import APIError
from eagerstream.loop import Conversation
from eagerstream.streaming import MessageStream, stream

from .._clients import DEFAULT_MODEL, KeptClient, default_model
from .._deprecation import deprecated
from .._sync import SyncLoop, run_plain, run_sync
from ._base_tool import BaseTool
from ._checks import CallCheck, Validate
from ._history import from_history, inputs_message, is_block, to_history

_log = logging.getLogger("eagerstream.compat.anthropic_tools")

ExecutionMode: TypeAlias = Literal["manual", "automatic"]
"""`"manual"` returns the calls of the model. `"automatic"` runs them."""

_RETIRED: Final = ("claude-2", "claude-instant", "claude-3-opus", "claude-3-sonnet", "anthropic.claude-v2")
"""Prefixes of the model ids in programs for anthropic-tools."""

_USUAL_ENDS: Final = ("end_turn", "stop_sequence", "tool_use")
_CALLS_COUNT: Final = (*_USUAL_ENDS, "pause_turn", "max_tokens")
"""Stop reasons of responses with valid calls."""
_MAX_LOGGED_CHARS: Final = 10_000
_MAX_RETRIES: Final = 2
"""Maximum number of times that automatic mode requests a response again that broke off."""
_PAUSE_S: Final = 1.0
_MAX_PAUSE_S: Final = 60.0
"""Maximum pause that a peer may ask for."""


class ToolUser:
    """Claude with tools: `use_tools`, or `ause_tools` if an event loop runs.

    The warning of anthropic-tools also applies here: the output of a model may be malicious. Check arguments before
    they do harm, in the tool or with `validate`.

    Args:
        tools: Any number of tools, with unique names.
        temperature: Kept as an attribute and never sent, as in anthropic-tools; see `use_tools`.
        max_retries: Maximum number of consecutive retries in automatic mode, after turns in which every call failed.
        first_party: Whether to use the API itself. `False` uses Bedrock, with credentials and region from the
            environment.
        model: Id of the model. `"default"` uses `ANTHROPIC_MODEL`, or else a current model. Bedrock has no default. A
            retired model gets a `DeprecationWarning`, and is still sent.
        client: Any client that `eagerstream.run` accepts, for example an async client of the anthropic package. If it
            is `None`, a client is made when it is first needed, and only then a key must exist. All synchronous calls
            share one client. Each asynchronous call has its own.
        validate: Called with the tool's name and its arguments before they are returned or run. It returns a fault for
            the model, or `None`. An exception that it raises counts as a fault.
        on_message: Called with each message of automatic mode, and with the returned message of manual mode. A `def` or
            an `async def`.
        raise_tool_exceptions: Whether an exception of a tool ends `use_tools`, as in anthropic-tools, when the other
            calls of the turn have ended. If `False`, the model gets the error.
        strict: Whether an output without a call is a `ValueError`. If not, it is a warning.

    Raises:
        ValueError: A model is missing for Bedrock, or `max_retries` is not a count.

    Attributes:
        tools, temperature, max_retries, first_party, client, validate, on_message, raise_tool_exceptions, strict: As
            given. Changes apply to the next call.
        model: The model's id.
    """

    def __init__(
        self,
        tools: Sequence[BaseTool],
        temperature: float = 0,
        max_retries: int = 3,
        first_party: bool = True,
        model: str = "default",
        *,
        client: Any = None,
        validate: Validate | None = None,
        on_message: Callable[[dict[str, Any]], object] | None = None,
        raise_tool_exceptions: bool = False,
        strict: bool = False,
    ) -> None:
        if type(max_retries) is not int or max_retries < 0:
            raise ValueError(f"max_retries must be a whole number, at least 0, not {max_retries!r}")
        self.tools = tools
        self.temperature = temperature
        self.max_retries = max_retries
        self.first_party = first_party
        if model == "default":
            if not first_party:
                raise ValueError("With first_party=False a model is required: the id of a model of Bedrock.")
            model = default_model()
        elif model.startswith(_RETIRED):
            current = f"{DEFAULT_MODEL}, for example" if first_party else "one that Bedrock has"
            instead = f"it was retired, and requests for it fail; use a current model: {current}"
            deprecated(f"The model {model}", instead)
        self.model: str = model
        self.client = client
        self.validate = validate
        self.on_message = on_message
        self.raise_tool_exceptions = raise_tool_exceptions
        self.strict = strict
        self._kept = KeptClient()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy, here or in another process. It has no client of synchronous calls."""
        return {**self.__dict__, "_kept": KeptClient()}

    def use_tools(
        self,
        messages: list[dict[str, Any]],
        verbose: float = 0,
        execution_mode: ExecutionMode = "manual",
        max_tokens_to_sample: int = 2000,
        temperature: float | None = None,
    ) -> dict[str, Any]:
        """Return the next message of a conversation.

        `"manual"` asks the model once. A response without calls gives `{"role": "assistant", "content": str}`. A
        response with calls gives `{"role": "tool_inputs", "content": str, "tool_inputs": [{"tool_name",
        "tool_arguments"}, ...]}`. The calls are checked: the tools exist, and they accept the arguments. If not, the
        message also has `"status": "ERROR"` and `"error_message"`. Then answer with this text as the `tool_error`, and
        run no call.

        `"automatic"` runs the calls and continues until a response has none. It returns that response as above. The
        calls of a response start when it has ended. If one of them is faulty, none runs, and all are answered with the
        fault of the first faulty one. If a tool raises, the model gets the error, and the other calls keep their
        results. A response that breaks off is requested again, at most twice in a row.

        A response that did not end normally has `"stop_reason"` in the message: `"max_tokens"` (the text is cut),
        `"refusal"` (without content), or another one of the API. A call that was cut by `max_tokens` is faulty.

        Plain tools (and `validate` and `on_message`) run in this thread, one after another. A call that exceeds the
        time limit of `Limits` gets an error result, and the end still waits for the tool. Several threads may call this
        at the same time. Ctrl-C ends the conversation, its connection, and the running tool.

        Args:
            messages: The conversation, see `check_messages`. It is not changed.
            verbose: 0.5 logs the messages (level INFO, with arguments and results). 1 also logs the tools (DEBUG).
            execution_mode: `"manual"` or `"automatic"`.
            max_tokens_to_sample: The API's `max_tokens`, for each request.
            temperature: Sent if given. Some models accept none.

        Raises:
            ValueError: The mode or the messages are not valid, or every call failed in more than `max_retries`
                consecutive turns.
            UsageError: An event loop runs in this thread, two tools share a name, the API would not accept a tool, or
                `validate` returned neither a text nor `None`.
            APIError, ProtocolError, LimitError: See `eagerstream.run`. A missing key is also found only now.
            Exception: Any error of a tool, with `raise_tool_exceptions`.
        """
        request = self._request(messages, execution_mode, max_tokens_to_sample, temperature)
        use = partial(self._use, request, execution_mode, verbose)
        return run_sync("use_tools", "ause_tools", use)

    async def ause_tools(
        self,
        messages: list[dict[str, Any]],
        verbose: float = 0,
        execution_mode: ExecutionMode = "manual",
        max_tokens_to_sample: int = 2000,
        temperature: float | None = None,
    ) -> dict[str, Any]:
        """Return the next message, as `use_tools`, for callers with an event loop.

        Plain tools run concurrently in worker threads. Cancelling it closes the connection and cancels the tools. A
        running `def` continues in its thread.

        Raises:
            Exception: As for `use_tools`, except for the event loop.
        """
        request = self._request(messages, execution_mode, max_tokens_to_sample, temperature)
        return await self._use(request, execution_mode, verbose)

    def _request(self, messages: object, mode: object, max_tokens: int, temperature: float | None) -> dict[str, Any]:
        if mode not in ("manual", "automatic"):
            raise ValueError(
                f"Error: execution_mode must be either 'manual' or 'automatic'. Provided Value: {mode!s:.80}"
            )
        history = to_history(messages if isinstance(messages, list) else [], strict=self.strict)
        given = {} if temperature is None else {"temperature": temperature}
        return {"model": self.model, "max_tokens": max_tokens, "messages": history, **given}

    async def _use(self, request: dict[str, Any], mode: ExecutionMode, verbose: float) -> dict[str, Any]:
        check = CallCheck(self.tools, self.validate)
        request["tools"] = list(check.runnable.values())
        if verbose >= 1:
            _log.debug("tools: %s", _shown([tool.to_dict() for tool in request["tools"]]))
        if verbose > 0:
            _log.info("messages: %s", _shown(from_history(request["messages"])))
        async with self._kept.opened(self.client, partial(_made_client, first_party=self.first_party)) as client:
            if mode == "manual":
                return await self._ask(client, request, check, verbose)
            return await self._converse(client, request, check, verbose)

    # --- manual -------------------------------------------------------------------------------------------------------

    async def _ask(self, client: Any, request: Mapping[str, Any], check: CallCheck, verbose: float) -> dict[str, Any]:
        async with stream(client, **request) as reply:
            await reply.finish()
        inputs = sorted(reply.inputs.values(), key=lambda input: input.index)
        calls = [input for input in inputs if input.kind == "tool_use"]
        message = _message_of(reply.message, len(request["messages"]))
        if message["role"] == "tool_inputs":
            fault = await _looked_at(check, calls)
            if fault is None:
                for each in message["tool_inputs"]:
                    each["tool_arguments"] = check.arguments_of(each["tool_name"], each["tool_arguments"])
            else:
                message |= {"status": "ERROR", "error_message": fault}
        await self._tell([message], verbose)
        return message

    # --- automatic ----------------------------------------------------------------------------------------------------

    async def _converse(
        self, client: Any, request: Mapping[str, Any], check: CallCheck, verbose: float
    ) -> dict[str, Any]:
        conversation = Conversation(
            executor=check.executor(),
            max_turns=None,
            max_consecutive_tool_errors=self.max_retries + 1,
            on_truncated="report",
            **request,
        )
        told = len(request["messages"])
        while not conversation.ended:
            turn = conversation.take(await _response(client, conversation))
            calls = [call for call in turn.calls if call.result is None]
            fault = await _looked_at(check, [call.input for call in calls])
            if fault is not None:
                for call in calls:
                    call.refuse(fault)
            await conversation.execute(turn)
            for call in calls:
                if self.raise_tool_exceptions and call.ran and call.error is not None:
                    raise call.error
            if verbose > 0 or self.on_message is not None:
                await self._tell(from_history(conversation.result.messages[told:]), verbose)
            told = len(conversation.result.messages)
        result = conversation.result
        if result.status is RunStatus.LIMIT:
            raise ValueError("Hit maximum number of retries attempting to use tools.")
        assert result.message is not None  # the conversation has ended normally
        return _message_of({**result.message, "content": _without_calls(result.message)}, 0)

    async def _tell(self, messages: Sequence[dict[str, Any]], verbose: float) -> None:
        for message in messages:
            if verbose > 0:
                _log.info("message: %s", _shown(message))
            if self.on_message is not None:
                tell = partial(self.on_message, message)
                # In the thread of the caller of `use_tools`, or in this task.
                returned = tell() if SyncLoop.current() is None else await run_plain(tell)
                if inspect.isawaitable(returned):
                    await returned


def _made_client(*, first_party: bool) -> Any:
    """Make a client from the environment's credentials, for the API or for Bedrock."""
    import anthropic

    return anthropic.AsyncAnthropic() if first_party else anthropic.AsyncAnthropicBedrock()


def _message_of(reply: AssistantMessage, place: int) -> dict[str, Any]:
    """Return a response in the old format. `place` is the index of the message in its conversation."""
    reason = reply.get("stop_reason")
    if reason == "refusal":
        return {"role": "assistant", "content": "", "stop_reason": reason}
    content: Sequence[Any] = reply["content"] if reason in _CALLS_COUNT else _without_calls(reply)
    message = inputs_message([block for block in content if is_block(block)], place)
    if reason not in _USUAL_ENDS and message["role"] == "assistant":
        message["stop_reason"] = reason
    return message


def _without_calls(reply: AssistantMessage) -> list[Any]:
    return [block for block in reply["content"] if block.get("type") != "tool_use"]


async def _response(client: Any, conversation: Conversation) -> MessageStream:
    """Return the response to the next request. If it breaks off, request it again."""
    retries = 0
    while True:
        try:
            async with stream(client, **conversation.request()) as reply:
                await reply.finish()
            return reply
        except APIError as error:
            pause_s = max(error.retry_after_s or 0.0, _PAUSE_S)
            if retries == _MAX_RETRIES or error.retried or not error.retryable or not pause_s <= _MAX_PAUSE_S:
                raise
            retries += 1
            await anyio.sleep(pause_s)


async def _looked_at(check: CallCheck, inputs: Sequence[ToolInput]) -> str | None:
    """Return the fault of the first faulty call of a response. Check in a thread, because a large input takes time."""
    return await run_plain(partial(check.first_fault, inputs)) if inputs else None


def _shown(value: object) -> str:
    return without_middle(repr(value), _MAX_LOGGED_CHARS)
