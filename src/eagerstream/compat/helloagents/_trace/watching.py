"""`RunWatcher`: the events of a run in the form of a HelloAgents trace."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ....loop import Restarted, Run, RunEvent, TurnStart, TurnStop
from ....streaming import FeedEnd, GrowingInput
from ....wire import (
    AssistantMessage,
    InputDelta,
    InputStart,
    InputStop,
    MessageStart,
    MessageStop,
    text_of,
    total_tokens,
)
from .._tool_calls import CallPairs, call_data, question_of, response_of_call

_FIRST_SAMPLE_CHARS: Final = 64

_logger = logging.getLogger(__name__)


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
        self._pairs = CallPairs()
        self._next_chars: dict[GrowingInput, int] = {}  # of open inputs: size of the next logged delta
        self._has_reply = False  # a response of this turn is in the log
        log("session_start", session)
        content = question_of(run.result.messages)
        if content:
            log("message_written", {"role": "user", "content": content})

    def take(self, events: Sequence[RunEvent]) -> None:
        """See `Observer.take`."""
        for event in events:
            self._take(event)

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

    def _take(self, event: RunEvent) -> None:
        match event:
            case InputDelta(input=input):
                self._grow(input)
            case TurnStart(turn=turn):
                self._step = turn
                self._has_reply = False
            case MessageStop(message=message):
                self._reply(message)
            case TurnStop(message=message, error=error):
                if not self._has_reply and message.get("content"):
                    self._reply(message)
                if error is not None:
                    self._log("error", {"error_type": type(error).__name__, "message": str(error)}, self._step)
            case Restarted(reason=reason, error=error, delay_s=delay_s):
                if error is not None:
                    self._log("error", {"error_type": type(error).__name__, "message": str(error)}, self._step)
                self._void(reason, delay_s)
            case MessageStart(restarted=True):
                self._void("message", 0.0)
            case InputStart(input=input):
                self._start(input)
            case InputStop(input=input):
                if self._next_chars.pop(input, None) is None:
                    self._log("tool_input_start", _names(input), self._step)
                outcome = input.outcome.value if input.outcome else None
                self._log("tool_input_stop", {**_names(input), "chars": input.chars, "outcome": outcome}, self._step)
            case _:
                pass
        for what, call in self._pairs.take(event):
            if what == "call":
                self._log("tool_call", call_data(call), call.turn)
            else:
                response = response_of_call(call)
                said = response.to_dict()
                # Short fields come first: the end of a long payload is omitted.
                first: dict[str, Any] = {name: said[name] for name in ("status", "error", "stats") if name in said}
                told: dict[str, Any] = {"tool_name": call.name, "tool_call_id": call.id, "is_error": call.is_error}
                self._log("tool_result", {**told, **first, "result": response.text, **said}, call.turn)

    def _reply(self, message: AssistantMessage) -> None:
        self._has_reply = True
        content = message["content"]
        usage: dict[str, Any] = dict(message.get("usage") or {})
        self._log(
            "model_output",
            {
                "content": text_of(content),
                "tool_calls": sum(block.get("type") == "tool_use" for block in content),
                "usage": {**usage, "total_tokens": total_tokens(usage), "cost": self._cost_of(usage)},
                "stop_reason": message.get("stop_reason"),
            },
            self._step,
        )

    def _cost_of(self, usage: Mapping[str, Any]) -> float:
        try:
            return 0.0 if self._cost is None else self._cost(usage)
        except Exception as error:  # trace the rest of the run anyway
            _logger.warning("the cost of a response is not known (%s)", type(error).__name__)
            return 0.0

    def _void(self, reason: str, delay_s: float) -> None:
        self._next_chars.clear()
        self._has_reply = False
        self._log("restarted", {"reason": reason, "delay_s": delay_s}, self._step)

    def _start(self, input: GrowingInput) -> None:
        self._next_chars[input] = _FIRST_SAMPLE_CHARS
        self._log("tool_input_start", _names(input), self._step)

    def _grow(self, input: GrowingInput) -> None:
        if input not in self._next_chars:
            self._start(input)
        if input.chars >= self._next_chars[input]:
            self._next_chars[input] = 2 * input.chars
            self._log("tool_input_delta", {**_names(input), "chars": input.chars}, self._step)


def _names(input: GrowingInput) -> dict[str, str]:
    return {"tool_name": input.name, "tool_call_id": input.id}


_STATUS: Final = {"completed": "success", "limit": "timeout"}
