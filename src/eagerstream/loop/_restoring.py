"""`restore`: the way back from the entries of a journal to a conversation, and to the turn that was under way."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import anyio

from eagerstream_wire import JSONObject, Outcome
from eagerstream_wire._assistant_message import add_usage

from .._support.cancellation import raise_if_cancelled
from .._support.json_values import dump_json
from ..errors import JournalError, UsageError
from ..tools._call import CallHost, CallState, Invoked, ToolCall
from ..tools._definition import Tool
from ..tools._invoke import invoke
from ..tools._options import Done
from ..tools._response import ToolErrorCode, ToolResponse, error_text, response_of
from ..tools._toolbox import Toolbox
from ._course import Course

_log = logging.getLogger(__name__)

_UNKNOWN: Final = (
    "Nobody knows whether this call was done: the program ended while its tool was running. Find out before you call "
    "it again."
)
_WRONG_ANSWER: Final = 'recover of tool %r returned a %s, not Done, "not done" or None: nobody knows about the call'
_REASONS: Final = ("stop_reason", "stop_sequence", "stop_details", "container")


@dataclass(slots=True)
class OpenTurn:
    """A turn that was under way when the program ended.

    Attributes:
        number: Its number.
        message: The fields of the assistant message, without its content.
        blocks: The blocks of the response that are known. Each is `{"block": as it started, "raw": text of its input}`.
        is_whole: The response had ended.
        is_cut: The input of its last block had been cut off, and the rest of it was about to be asked for.
        calls: The calls that had begun or have a result, by id, as saved.
        results: The ids of those that have a result.
        progress: The last progress of each call.
        decisions: The decisions about calls that needed approval.
        asked: The ids of the calls about which somebody was asked for a decision.
    """

    number: int
    message: dict[str, Any] = field(default_factory=dict)
    blocks: list[dict[str, Any]] = field(default_factory=list)
    is_whole: bool = False
    is_cut: bool = False
    calls: dict[str, dict[str, Any]] = field(default_factory=dict)
    results: set[str] = field(default_factory=set)
    progress: dict[str, Any] = field(default_factory=dict)
    decisions: dict[str, bool | str] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

    @property
    def has_begun(self) -> bool:
        """True if something of the response had begun: it must not be requested again."""
        return (
            self.is_cut
            or bool(self.asked)
            or any(id not in self.results or CallState(call["state"]).ran for id, call in self.calls.items())
        )

    @property
    def last_id(self) -> str:
        """The id in the last block."""
        return str(self.blocks[-1]["block"].get("id")) if self.blocks else ""

    def check_tools(self, tools: Toolbox) -> None:
        """Check that there is a tool for each call that had begun or waits for a decision, and has no result.

        Raises:
            UsageError: A tool is missing: the call would be answered as not found, in place of what was decided.
        """
        under_way = ({*self.calls} | self.asked) - self.results
        for saved in self.blocks:
            block = saved["block"]
            if str(block.get("id")) in under_way and tools.find(block) is None:
                raise UsageError(f"a call of {block.get('name')!r:.80} has begun or waits: give a tool of that name")

    def add(self, entry: Mapping[str, Any]) -> None:
        """Take an entry of the turn."""
        match entry["kind"]:
            case "response":
                # A block whose input was cut off comes again, with more of its input.
                self.blocks[entry.get("at", len(self.blocks)) :] = entry["blocks"]
                self.message = dict(entry["message"])
                self.is_whole, self.is_cut = entry.get("is_whole", False), entry.get("is_cut", False)
            case "start":
                self.calls[entry["id"]] = entry["call"]
            case "result":
                self.calls[entry["id"]] = entry["call"]
                self.results.add(entry["id"])
            case "restart":
                self.blocks, self.message, self.is_whole, self.is_cut = [], {}, False, False
                self.calls, self.results, self.asked = {}, set(), set()
                self.progress, self.decisions = {}, {}
            case "asked":
                self.asked.add(entry["id"])
            case "approval":
                self.decisions[entry["id"]] = entry["decision"]
            case "progress":
                self.progress[entry["id"]] = entry["value"]
            case _:
                pass


def restore(course: Course, entries: Sequence[JSONObject]) -> OpenTurn | None:
    """Bring a conversation to the state that a journal has, and return the turn that was under way, if any.

    Raises:
        JournalError: The entries are none that a run has written.
    """
    try:
        messages: list[Any] = [*entries[0]["messages"]]
        history = messages
        state: Mapping[str, Any] = {}
        calls: list[Any] = []
        waiting: list[Any] = []
        unsettled: dict[str, Any] = {}  # the counts of runs that tools had started
        turn: OpenTurn | None = None
        for entry in entries[1:]:
            match entry["kind"]:
                case "turn" | "end":
                    messages = history = _continued(messages, entry)
                    state, turn, unsettled = entry["state"], None, {}
                    calls += entry["calls"]
                    waiting = [*state["waiting"]]
                case "request":
                    history = _continued(messages, entry)
                    turn = OpenTurn(entry["turn"])
                    waiting = [*entry["waiting"]]
                case "said":
                    waiting.append([entry["message"], entry["when"]])
                case "cancel" | "dropped":
                    pass
                # Else it was written behind its turn: a decision about a call that had ended, for example.
                case _ if turn is not None and entry["turn"] == turn.number:
                    turn.add(entry)
                    add_usage(unsettled, entry.get("sub_usage") or {})
                case _:
                    pass
        course.restore(state, history, calls, waiting)
        for account in (course.result.usage, course.result.sub_usage):
            add_usage(account, unsettled)
        return turn if turn is not None and turn.has_begun else None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, UsageError) as error:
        # The text of an exception may quote what was said.
        text = f": {error}" if isinstance(error, UsageError) else ""
        raise JournalError(f"the journal of this run cannot be read: {type(error).__name__}{text}") from error


def _continued(messages: list[Any], entry: Mapping[str, Any]) -> list[Any]:
    return [*entry["messages"]] if "messages" in entry else [*messages, *entry["history"]]


def events_of(turn: OpenTurn) -> Iterator[dict[str, Any]]:
    """Yield the wire events of the known part of a response."""
    fields = {name: value for name, value in turn.message.items() if name not in ("stop_reason", "stop_sequence")}
    yield {"type": "message_start", "message": {**fields, "content": []}}
    for index, saved in enumerate(turn.blocks):
        block: dict[str, Any] = dict(saved["block"])
        raw, is_closed = saved.get("raw"), saved.get("is_closed", True)
        call = turn.calls.get(str(block.get("id")))
        if call is not None and call["input"]["outcome"] is not None:
            # The result came after the rest of the input, or after its cut.
            raw, is_closed = call["input"]["raw"], call["input"]["outcome"] != Outcome.INCOMPLETE
        pieces = [raw] if raw else []
        if saved.get("is_damaged") or (call is not None and call["input"]["damage"]):
            pieces.append(None)  # a fragment was lost: the rest may be JSON, and must not run
        deltas: list[dict[str, Any]] = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        if block.get("type") == "text" and not block.get("citations"):
            deltas, block["text"] = [{"type": "text_delta", "text": block.get("text", "")}], ""
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        # Also one that was cut off: the API closes its block.
        if is_closed or (turn.is_cut and index == len(turn.blocks) - 1):
            yield {"type": "content_block_stop", "index": index}
    if turn.is_whole:
        reasons = {name: value for name in _REASONS if (value := turn.message.get(name)) is not None}
        yield {"type": "message_delta", "delta": reasons, "usage": turn.message.get("usage") or {}}
        yield {"type": "message_stop"}
    elif turn.is_cut:
        # However it was cut: if the rest cannot be had, the run goes on with what there is.
        yield {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {}}
        yield {"type": "message_stop"}


async def answers_of(turn: OpenTurn, tools: Toolbox, host: CallHost) -> dict[str, Callable[[ToolCall], None]]:
    """Return a function for each call of an open turn whose answer is known, by the id of the call.

    A call that had begun and has no result is done again only if its tool is idempotent, or says that it was not done.

    Raises:
        JournalError: A call is none that was saved.
    """
    answers: dict[str, Callable[[ToolCall], None]] = {}
    for id, saved in turn.calls.items():
        try:
            before = ToolCall.from_dict(saved)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise JournalError(f"a call cannot be read: {type(error).__name__}", run_id=host.run_id) from error
        before.host, before.run_id = host, host.run_id or ""
        if id in turn.results:
            answers[id] = before.hand_on
        elif not before.idempotent and (
            answer := await _recovered(before, tools.find(before.block), turn.progress.get(id))
        ):
            answers[id] = answer
    return answers


async def _recovered(before: ToolCall, tool: Tool | None, progress: Any) -> Callable[[ToolCall], None] | None:
    """Return the answer to a call that had begun; None if it was not done, and runs now."""
    text = _UNKNOWN
    if tool is not None and tool.recover is not None:
        try:
            with anyio.fail_after(tool.timeout_s):
                match await invoke(partial(tool.recover, before), None):
                    case "not done":
                        return None
                    case Done(result):
                        done = Invoked(response_of(result))
                        return lambda call: call.answer_for_before(done)
                    case None:
                        pass
                    case wrong:
                        _log.warning(_WRONG_ANSWER, tool.name, type(wrong).__name__)
        except TimeoutError:
            _log.warning("recover of tool %r took longer than its timeout_s: nobody knows about the call", tool.name)
        except Exception as error:
            text = f"{_UNKNOWN} ({error_text(error)})"
        except anyio.get_cancelled_exc_class() as error:
            await raise_if_cancelled(error)
            text = f"{_UNKNOWN} ({type(error).__name__})"  # of something that `recover` had awaited
    if progress is not None:
        text = f"{text}\nIts last progress: {dump_json(progress)}"
    unknown = Invoked(ToolResponse.error(ToolErrorCode.EXECUTION_ERROR, text), raised=True)
    return lambda call: call.answer_for_before(unknown)
