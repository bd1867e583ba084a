"""`Durability`: a run writes each step into a journal before it matters, and continues from there after a crash.

| entry | is written | so that after a crash |
|---|---|---|
| `begin` | before anything is sent | the run is known |
| `said` | when a message is said | it is not lost |
| `request` | before a request | the same request is sent again, if nothing of its response had begun |
| `response` | with a `start`: the blocks before it; at the end of a response: the rest | what had begun is salvaged |
|            | before the rest of a cut input is asked for: all that has come | it is asked for again |
| `start` | before a tool is called | the call does not run twice |
| `approval` | when somebody has decided about a call | nobody is asked again |
| `cancel` | when another process has cancelled the run | it is not looked at again |
| `progress` | when a tool reports some | the model learns how far a call had come |
| `result` | when a call has its result | the result is not fetched again |
| `turn` | when a turn is settled, in place of its steps | the history is there |
| `end` | at the end of the run, in place of what came since the last turn | it is not continued |

Entries of a turn are in the order of their causes. So the await of a later one waits for the earlier ones, too.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from eagerstream_wire import JSONObject, MessageAssembler
from eagerstream_wire._assistant_message import AssistantMessage
from eagerstream_wire._values import encodable

from .._support.json_values import to_json
from ..calls._policy import RunStatus
from ..calls._sub_runs import ParentCall
from ..calls._turn import Turn
from ..errors import EagerStreamError, JournalError, LimitError, RunExistsError, UsageError
from ..tools._call import Decision, ToolCall
from ._course import Course
from ._entries import check_entries
from ._journal import RunJournal, RunLog
from ._keeper import Keeper
from ._restoring import OpenTurn, restore
from ._result import give_result
from ._written_response import WrittenResponse

_log = logging.getLogger(__name__)

_MAX_PROGRESS_CHARS: Final = 10_000
_PROGRESS_EACH: Final = 100
"""Number of first reports of a call that are all written. Later ones are written at growing intervals."""
_PROGRESS_PAUSE_S: Final = 1.0
_FAULTS: Final = (JournalError, LimitError, UsageError)
"""Errors of a journal after which a run may not continue: what happens could not be written down."""
_LOOK_S: Final = 0.5
"""Interval at which a run that waits looks for decisions."""

_WATCH_S: Final = 2.0
"""Interval at which a run that is busy looks for messages: each look is one query."""


class Durability(Keeper):
    """The journal of a run under way.

    Args:
        journal: Keeps the run.
        run_id: Id of the run.
        begin: The first entry of a new run.
        on_failure: Cancels the run: called if it may not continue, because its process lost it to another one, or
            nothing can be written any more; if it leaves; or if another process has cancelled it.
        on_said: Called when a message has come, with the time for which it is meant.
        on_cancel_call: Cancels a call, see `Run.cancel_call`.
        log: The run in the journal, if it was opened already.
    """

    keeps = True

    def __init__(
        self,
        journal: RunJournal,
        run_id: str,
        begin: JSONObject,
        *,
        course: Course,
        on_failure: Callable[[], object],
        on_said: Callable[[str], object],
        on_cancel_call: Callable[[str, str], object],
        log: RunLog | None,
    ) -> None:
        super().__init__(run_id)
        self._watching = anyio.CancelScope()
        self._left: list[JSONObject] = []
        self._end_before: JSONObject | None = None
        """The state of a run that had ended before; None if it had not, or once something is written."""
        self._inbox = 0
        self._decisions: dict[str, Decision] = {}
        self._asked: dict[str, ToolCall] = {}
        self._progress: dict[ToolCall, tuple[int, float, float]] = {}
        self._looking = anyio.Lock()
        self._journal = journal
        self._begin = begin
        self._course = course
        self._on_failure = on_failure
        self._on_said = on_said
        self._on_cancel_call = on_cancel_call
        self._is_handed_over = False
        self._was_cancelled = False
        self._log = log
        self._has_open_turn = False  # an earlier process left one, and it is not salvaged yet
        self._response: WrittenResponse | None = None
        self._settled_messages: list[Mapping[str, Any]] | None = None
        """The history at the last settled turn; None if it is not known which part of the history is in the journal."""
        self._settled_calls = 0
        self._settled_turn = 0
        self._last_turn: Awaitable[None] | None = None
        self._open_turn = 0
        """Number of the turn under way, or of the last one."""

    async def open(self, parent: ParentCall | None) -> OpenTurn | None:
        """See `Keeper`."""
        if parent is not None and parent.run is not None:
            self._begin = {**self._begin, "parent": {"run": parent.run, "call": parent.call}}
        log = self._log
        if log is None:
            try:
                log = await self._journal.create(self.run_id, _plain(self._begin))
            except RunExistsError:
                log = await self._journal.open(self.run_id)
        self._log = log
        try:
            check_entries(log.entries, self.run_id)
            if len(log.entries) == 1:
                self._settled_messages = self._course.result.messages
                return None
            open_turn = restore(self._course, log.entries)
            self._settled_calls = len(self._course.result.calls)
            self._settled_turn = self.resumed_after = self._course.turns
            for entry in log.entries:
                kept = entry.get("state", entry)
                self._inbox = max(self._inbox, kept.get("inbox", 0))
                self.carrier |= kept.get("carrier", {})
            if open_turn is not None:
                open_turn.check_tools(self._course.tools)
                self._has_open_turn = True
                self._open_turn = open_turn.number
                self._decisions.update(open_turn.decisions)
            elif log.entries[-1]["kind"] == "end" and self._has_ended:
                self._end_before = self._course.state()
        except BaseException:
            with suppress(*_FAULTS):
                await log.release(None, {})
            raise
        return open_turn

    async def close(self) -> None:
        """See `Keeper`."""
        is_too_large = isinstance(self.error, LimitError | UsageError)  # the log refused an entry, and can go on
        if self._log is None or (self.error is not None and not is_too_large):
            return
        result = self._course.result
        with anyio.CancelScope(shield=True):
            try:
                if self.is_leaving:
                    status = RunStatus.WAITING if self._left else RunStatus.RUNNING
                else:
                    status = result.status
                    # An end would hide the calls of an open turn: they could begin again.
                    hides_calls = self._has_open_turn or is_too_large
                    # If the run had ended before, an end is written only if something happened since.
                    if not hides_calls and (self._end_before is None or self._end_before != self._course.state()):
                        await self._end()
                await self._log.release(status.value, self._summary)
            except _FAULTS as error:
                self.error = error
                give_result(error, result)
                raise

    async def all_written(self) -> None:
        """See `Keeper`."""
        if self._last_turn is not None:
            try:
                await self._last_turn
            except _FAULTS as error:
                self.error = error
                raise

    @property
    def _summary(self) -> JSONObject:
        result = self._course.result
        return {
            "model": self._course.model,
            "turns": result.turns,
            "tokens": result.total_tokens,
            "approvals": self._left,
        }

    # --- the steps ----------------------------------------------------------------------------------------------------

    def salvaging(self, turn: Turn, assembler: MessageAssembler[Any], saved: OpenTurn) -> None:
        """See `Keeper`."""
        self._response = WrittenResponse(turn, assembler, len(saved.blocks), is_cut=saved.is_cut)
        self._has_open_turn = False

    async def sending(self, turn: Turn, assembler: MessageAssembler[Any]) -> None:
        """See `Keeper`."""
        self._response = WrittenResponse(turn, assembler)
        self._open_turn = turn.number
        self._progress.clear()
        self._decisions.clear()  # they are about earlier calls, and a gateway may use an id again
        waiting = self._course.steering.saved()
        entry = {"kind": "request", "turn": turn.number, "waiting": waiting, "carrier": self.carrier}
        await self._append(entry | self._history_since_settled())
        assert self._log is not None
        self._log.check()  # the process may have been stopped after the write

    def said(self, message: Mapping[str, Any], when: str) -> None:
        """See `Keeper`."""
        self._write({"kind": "said", "turn": self._course.turns, "message": dict(message), "when": when})

    async def take_messages(self) -> None:
        """See `Keeper`."""
        if self.error is not None:
            raise self.error
        assert self._log is not None
        async with self._looking:
            for number, left in await self._log.inbox(self._inbox):
                if self._was_cancelled and left.get("kind") == "say":
                    break  # it stays there, and the run continues with it after its end
                self._inbox = number
                # Each message has an entry, with which it leaves the inbox. Otherwise a worker would find it forever.
                self._note({"turn": self._course.turns, "inbox": number, **self._taken(left)})

    def _taken(self, left: Mapping[str, Any]) -> JSONObject:
        """Take a message that was left, and return its entry."""
        match left:
            case {"kind": "say", "message": message}:
                return self._say(message, left.get("when", "when_idle"))
            case {"kind": "decision", "call": str(id)} if id in self._decisions:
                return {"kind": "dropped"}  # the first one counts
            case {"kind": "decision", "call": str(id), "decision": bool() | str() as decision}:
                self._decisions[id] = decision
                return {"kind": "approval", "turn": self._open_turn, "id": id, "decision": decision}
            case {"kind": "cancel_call", "call": str(id), "reason": str(reason)}:
                try:
                    self._on_cancel_call(id, reason)
                except UsageError:  # it has ended, or its turn has, perhaps with an earlier process
                    return {"kind": "dropped"}
                return {"kind": "cancel_call"}
            case {"kind": "cancel"}:
                if not self._has_ended:
                    self._was_cancelled = True
                    self._on_failure()
                return {"kind": "cancel"}
            case _:
                _log.warning("a message of an unknown kind that was left for the run is dropped")
                return {"kind": "dropped"}

    def _say(self, message: Any, when: Any) -> JSONObject:
        if when == "next_turn" and self._has_ended:
            when = "when_idle"  # the run was woken for it: there is no next turn without it
        try:
            self._course.say(message, when)
        except UsageError as error:
            _log.warning("a message that was left for the run is dropped: %s", error)
            return {"kind": "dropped"}
        self._on_said(when)
        return {"kind": "said", "message": dict(self._course.result.undelivered[-1]), "when": when}

    @property
    def _has_ended(self) -> bool:
        return self._course.result.status is not RunStatus.RUNNING

    def start(self, tasks: TaskGroup) -> None:
        """See `Keeper`."""
        tasks.start_soon(self._watch)

    def stop(self) -> None:
        """See `Keeper`."""
        self._watching.cancel()

    async def _watch(self) -> None:
        with self._watching:
            while self.error is None:
                await anyio.sleep(_WATCH_S)
                try:
                    await self.take_messages()
                except JournalError as error:
                    self._fail(error)

    def hand_over(self, *, at_once: bool) -> None:
        """See `Keeper`."""
        self._is_handed_over = True
        may_continue = self._course.result.status in (RunStatus.RUNNING, RunStatus.ERROR)
        if at_once and may_continue and not self.is_leaving:
            self.is_leaving = True
            self._on_failure()

    def leaves_here(self) -> bool:
        """See `Keeper`."""
        self.is_leaving = self.is_leaving or (self._is_handed_over and not self._course.ended)
        return self.is_leaving

    def decision(self, call: ToolCall) -> Decision | None:
        """See `CallHost`."""
        return self._decisions.get(call.id)

    def decided(self, call: ToolCall, decision: Decision) -> None:
        """See `CallHost`."""
        if self._decisions.get(call.id) != decision:
            self._decisions[call.id] = decision
            self._note({"kind": "approval", "turn": call.turn, "id": call.id, "decision": decision})

    async def wait_for_decision(self, call: ToolCall) -> Decision:
        """See `CallHost`."""
        self._asked[call.id] = call
        assert self._response is not None
        self._note(*self._response.up_to(call), {"kind": "asked", "turn": call.turn, "id": call.id})
        try:
            while (decision := self.decision(call)) is None:
                await anyio.sleep(_LOOK_S)
                try:
                    await self.take_messages()
                except JournalError as error:  # the call is not refused: the run may not continue, and cancels this
                    self._fail(error)
                    await anyio.sleep_forever()
                if self.decision(call) is None and self._waits_only_for_decisions():
                    self._left = [{"call": each.id, "name": each.name} for each in self._asked.values()]
                    self.is_leaving = True
                    self._on_failure()
                    await anyio.sleep_forever()
        finally:
            if self._asked.get(call.id) is call:  # else a restarted response has another one with its id
                del self._asked[call.id]
        return decision

    def _waits_only_for_decisions(self) -> bool:
        turn = None if self._response is None else self._response.turn
        if turn is None or turn.ending is None:
            return False
        # A call about which somebody has decided by now is about to run.
        return all(
            call.result is not None or (call.id in self._asked and self.decision(call) is None) for call in turn.calls
        )

    async def gate(self, call: ToolCall) -> None:
        """Write that a call begins, with the blocks of the response up to it, before its tool is called.

        If the run may not continue, this does not return: the call is about to be cancelled.
        """
        assert self._log is not None
        assert self._response is not None
        response = self._response.up_to(call)
        try:
            await self._append(*response, {"kind": "start", "turn": call.turn, "id": call.id, "call": call.to_dict()})
            self._log.check()  # the process may have been stopped after the write
        except _FAULTS as error:
            self._fail(error)
            await anyio.sleep_forever()

    def call_progressed(self, call: ToolCall, value: Any, /) -> None:
        """See `CallListener`."""
        if call.turn <= self._settled_turn:
            return
        try:
            plain = to_json(value)
        except TypeError:
            return
        now_s = anyio.current_time()
        count, first_s, next_s = self._progress.get(call) or (0, now_s, now_s)
        if len(str(plain)) <= _MAX_PROGRESS_CHARS and (count < _PROGRESS_EACH or now_s >= next_s):
            # Only the last one counts after a crash. A call that reports for hours must not fill the journal.
            pause_s = max(_PROGRESS_PAUSE_S, (now_s - first_s) / _PROGRESS_EACH)
            self._progress[call] = count + 1, first_s, now_s + pause_s
            self._note({"kind": "progress", "turn": call.turn, "id": call.id, "value": plain})

    def call_ended(self, call: ToolCall) -> None:
        """Write the result, unless its turn is settled and has it, or its response was given up."""
        calls = () if self._response is None else self._response.turn.calls
        # If two calls share an id, the second one never runs: the next process refuses it as this one did.
        first = next((each for each in calls if each.id == call.id), None)
        if call.turn <= self._settled_turn or first is not call:
            return
        if self.leaves(call):
            return
        entry = {"kind": "result", "turn": call.turn, "id": call.id, "call": call.to_dict()}
        self._write({**entry, "sub_usage": call.sub_usage} if call.sub_usage else entry)

    def responded(self, turn: Turn, message: AssistantMessage) -> None:
        """See `Keeper`."""
        if turn.calls:
            assert self._response is not None
            self._note(self._response.rest(message))

    async def cut(self, message: AssistantMessage) -> None:
        """See `Keeper`."""
        assert self._response is not None
        await self._append(self._response.cut(message))

    def restarted(self, turn: Turn) -> None:
        """See `Keeper`."""
        assert self._response is not None
        self._response.restart()
        self._decisions.clear()  # the new beginning may use an id again, for a call about which nobody has decided
        self._note({"kind": "restart", "turn": turn.number})

    def settled(self, turn: Turn) -> None:
        """See `Keeper`."""
        # Not awaited: the next request waits for this entry, too.
        if self.error is None and not self.is_leaving:
            try:
                self._last_turn = self._settle({"kind": "turn", "turn": turn.number})
            except _FAULTS as error:
                self._fail(error)

    def _end(self) -> Awaitable[None]:
        turn = self._course.turns
        # A turn that was closed without its end: the run was cancelled, or failed.
        return self._settle({"kind": "end" if turn == self._settled_turn else "turn", "turn": turn})

    def _settle(self, entry: JSONObject) -> Awaitable[None]:
        assert self._log is not None
        course = self._course
        self._settled_turn = course.turns
        calls = [call.to_dict() for call in course.result.calls[self._settled_calls :]]
        state = {**course.state(), "inbox": self._inbox, "carrier": self.carrier}
        entry = {**entry, **self._history_since_settled(), "calls": calls, "state": state}
        self._settled_messages = course.result.messages
        self._settled_calls = len(course.result.calls)
        return self._log.settle(_plain(entry))

    def _history_since_settled(self) -> dict[str, Any]:
        """Return what the history has more than at the last settled turn; all of it, if it was replaced."""
        before, messages = self._settled_messages, self._course.result.messages
        if before is None or len(messages) < len(before) or not all(map(operator.is_, before, messages)):
            return {"messages": messages}
        return {"history": messages[len(before) :]}

    # --- the log ------------------------------------------------------------------------------------------------------

    def _append(self, *entries: JSONObject) -> Awaitable[None]:
        """Queue entries.

        Raises:
            JournalError: The run may not continue. When awaited, too.
        """
        if self.error is not None:
            raise self.error
        assert self._log is not None
        self._end_before = None
        return self._log.append(*map(_plain, entries))

    def _note(self, *entries: JSONObject) -> None:
        """Queue entries that the next awaited one waits for; none if the run leaves."""
        if not self.is_leaving:
            self._write(*entries)

    def _write(self, *entries: JSONObject) -> None:
        try:
            self._append(*entries)
        except _FAULTS as error:
            self._fail(error)

    def _fail(self, error: EagerStreamError) -> None:
        if self.error is None:
            self.error = error
            self._on_failure()


def _plain(entry: Mapping[str, Any]) -> JSONObject:
    written = to_json(encodable(dict(entry)))
    assert isinstance(written, dict)
    return written
