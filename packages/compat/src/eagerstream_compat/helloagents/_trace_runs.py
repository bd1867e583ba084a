"""`RunWatcher`: the events of a run in the form of a HelloAgents trace."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from eagerstream import (
    AssistantMessage,
    InputDelta,
    InputStart,
    InputStop,
    MessageStart,
    MessageStop,
    text_of,
    total_tokens,
)
from eagerstream._support.logs import logger_of
from eagerstream.inputs import GrowingInput
from eagerstream.loop import Restarted, Run, RunEvent, ToolStart, ToolStop, TurnStart, TurnStop
from eagerstream.streaming import FeedEnd
from eagerstream.tools import ToolCall, ToolResponse

_FIRST_SAMPLE_CHARS: Final = 64
_STATUS: Final = {"completed": "success", "limit": "timeout"}

_logger = logger_of(__name__)


class RunWatcher:
    """Observer that logs a run's events with a `log` that returns at once (`log_soon`). A step is a turn.

    - `session_start{agent_name, agent_type, config}`, `message_written{role, content}`: the question.
    - `model_output{content, tool_calls, usage{total_tokens, cost, ...}, stop_reason}`: a response, complete or not.
    - `tool_input_start{tool_name, tool_call_id}`, `tool_input_delta{..., chars}` and `tool_input_stop{..., chars,
      outcome}`: an input while it is written. A delta is logged each time its input has doubled in length. It has no
      text, because a piece of a text may be an unrecognizable piece of a secret. The call has the complete input.
    - `tool_call{tool_name, tool_call_id, args}` and `tool_result{tool_name, tool_call_id, result, ...}`, once for each
      call. `result` is the text, and the other fields are those of `ToolResponse.to_dict`. `is_error` is that of the
      result for the model. It differs from the response if a tool succeeded on an input that was then cut off.
    - `error{error_type, message}`: a response broke off, or the run failed. `restarted{reason, delay_s}`: the events of
      the turn so far are void.
    - `session_end{duration, total_steps, final_answer, status}`: the duration in seconds. `status` is `success`,
      `timeout` if the run reached its maximum of turns, or another value of `RunStatus`.
    """

    def __init__(
        self,
        run: Run,
        log: Callable[..., object],
        session: Mapping[str, Any],
        cost: Callable[[Mapping[str, Any]], float] | None,
    ) -> None:
        self._run = run
        self._log = log
        self._cost = cost
        self._start_s = time.monotonic()
        self._step: int | None = run.turn or None
        self._begun: dict[GrowingInput, ToolCall] = {}  # to be logged as calls when their inputs are complete
        self._called: set[ToolCall] = set()  # logged as calls, without a result yet
        self._next_chars: dict[GrowingInput, int] = {}  # of open inputs: size of the next logged delta
        self._has_reply = False  # a response of this turn is in the log
        log("session_start", session)
        messages = run.result.messages
        if messages and messages[-1].get("role") == "user" and (content := messages[-1].get("content")):
            log("message_written", {"role": "user", "content": content})

    def take(self, events: Sequence[RunEvent]) -> None:
        """See `Observer.take`."""
        for event in events:
            match event:
                case InputDelta(input=input):
                    if input not in self._next_chars:
                        self._start(input)
                    if input.chars >= self._next_chars[input]:
                        self._next_chars[input] = 2 * input.chars
                        self._log("tool_input_delta", {**_names(input), "chars": input.chars}, self._step)
                case TurnStart(turn=turn):
                    self._step = turn
                    self._has_reply = False
                case MessageStop(message=message):
                    self._reply(message)
                case TurnStop(message=message, error=error):
                    if not self._has_reply and message.get("content"):
                        self._reply(message)
                    self._fail(error)
                case Restarted(reason=reason, error=error, delay_s=delay_s):
                    self._fail(error)
                    self._void(reason, delay_s)
                case MessageStart(restarted=True):
                    self._void("message", 0.0)
                case InputStart(input=input):
                    self._start(input)
                case InputStop(input=input):
                    if self._next_chars.pop(input, None) is None:
                        self._log("tool_input_start", _names(input), self._step)
                    outcome = input.outcome.value if input.outcome else None
                    told = {**_names(input), "chars": input.chars, "outcome": outcome}
                    self._log("tool_input_stop", told, self._step)
                    if input in self._begun:
                        self._call(self._begun.pop(input))
                case ToolStart(call=call) if call not in self._called:
                    # A tool may start before its input is complete.
                    if call.input.outcome is None:
                        self._begun[call.input] = call
                    else:
                        self._call(call)
                case ToolStop(call=call):
                    self._begun.pop(call.input, None)
                    if call not in self._called:  # it never ran
                        self._call(call)
                    self._called.discard(call)
                    response = response_of_call(call)
                    told = {**_names(call.input), "is_error": call.is_error, "result": response.text}
                    self._log("tool_result", {**told, **response.to_dict()}, call.turn)
                case _:
                    pass

    def end(self, end: FeedEnd) -> None:
        """See `Observer.end`."""
        result = self._run.result
        if end.error is not None:
            self._log("error", {"error_type": end.error["type"], "message": end.error["text"]}, self._step)
        self._log(
            "session_end",
            {
                "duration": time.monotonic() - self._start_s,
                "total_steps": self._step or 0,
                "final_answer": result.text,
                "status": _STATUS.get(end.status, end.status),
                **({"violations": end.violations} if end.violations else {}),
            },
        )

    def _call(self, call: ToolCall) -> None:
        self._called.add(call)
        args = {} if call.input.outcome is None else call.input.wrapped
        self._log("tool_call", {**_names(call.input), "args": args}, call.turn)

    def _fail(self, error: Exception | None) -> None:
        if error is not None:
            self._log("error", {"error_type": type(error).__name__, "message": str(error)}, self._step)

    def _reply(self, message: AssistantMessage) -> None:
        self._has_reply = True
        content = message["content"]
        usage: dict[str, Any] = dict(message.get("usage") or {})
        cost = 0.0
        if self._cost is not None:
            try:
                cost = self._cost(usage)
            except Exception as error:  # trace the rest of the run anyway
                _logger.warning("the cost of a response is not known (%s)", type(error).__name__)
        self._log(
            "model_output",
            {
                "content": text_of(content),
                "tool_calls": sum(block.get("type") == "tool_use" for block in content),
                "usage": {**usage, "total_tokens": total_tokens(usage), "cost": cost},
                "stop_reason": message.get("stop_reason"),
            },
            self._step,
        )

    def _void(self, reason: str, delay_s: float) -> None:
        self._next_chars.clear()
        self._has_reply = False
        self._log("restarted", {"reason": reason, "delay_s": delay_s}, self._step)

    def _start(self, input: GrowingInput) -> None:
        self._next_chars[input] = _FIRST_SAMPLE_CHARS
        self._log("tool_input_start", _names(input), self._step)


def response_of_call(call: ToolCall) -> ToolResponse:
    """Return the response of a call. If it was answered without one, return the result's text as a response."""
    if call.response is not None:
        return call.response
    said = text_of((call.result or {}).get("content", ""))
    return ToolResponse.error("UNKNOWN", said) if call.is_error else ToolResponse.success(said)


def _names(input: GrowingInput) -> dict[str, str]:
    return {"tool_name": input.name, "tool_call_id": input.id}
