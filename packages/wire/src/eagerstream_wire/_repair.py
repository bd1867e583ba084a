"""`repair_history`: make a history that the API accepts of one that it would refuse, with few changes.

Histories break when a process is killed between a call and its result, when an application shortens them, or when they
come from another API. The API refuses every later request with such a history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice, takewhile
from typing import Any, Final, TypeAlias, TypeVar, cast

from ._block_rules import THINKING, ends_in_white_space, is_programmatic, text_block, tool_result
from ._echo import stand_in_id
from ._history import MAX_BREAKPOINTS, HistoryReader, count_breakpoints, is_directive, tool_faults, validate_history
from ._repair_blocks import (
    Block,
    Draft,
    RepairKind,
    Report,
    as_text,
    belongs_to_assistant,
    for_user,
    mend_result,
    read_message,
    server_result_as_text,
)
from ._server_tools import SERVER_CALLS, is_server_result
from ._values import as_mapping

_NOT_EXECUTED: Final = "Not executed: the result of this call is missing from the conversation."
_NO_START: Final = "[The beginning of this conversation is missing.]"
# One round may make work for another: a message that becomes empty brings two others together. Each round leaves less
# to do, and two were the most that 40,000 random histories needed; the bound only ensures an end.
_MAX_ROUNDS: Final = 10


@dataclass(frozen=True, slots=True)
class HistoryRepair:
    """A change that `repair_history` made.

    Attributes:
        index: Index of the message in the given list.
        kind: What was done.
        message: The reason. It quotes nothing of the conversation.
    """

    index: int
    kind: RepairKind
    message: str

    def __str__(self) -> str:
        return f"messages.{self.index}: {self.kind.value.replace('_', ' ')}: {self.message}"


MessageT = TypeVar("MessageT", bound=Mapping[str, Any])


def repair_history(
    messages: Sequence[MessageT], tools: Sequence[Any] | None = None
) -> tuple[list[MessageT], list[HistoryRepair]]:
    """Return the messages in a form that the API accepts, and the changes that this took.

        messages, repairs = repair_history(messages, tools)
        for repair in repairs:
            log.warning("%s", repair)

    Everything that `validate_history(messages, tools, first_party=True)` finds in the messages is repaired. A legal
    history comes back as it is, and so does a repaired one. A real result is never lost: it is put with its call, or
    its content stays as text. A call without a result is answered with an error that says that it was not executed.

    Faults of the tools themselves stay, and so does a history without any message.

    Args:
        messages: As in the API. They are not changed. Messages without a fault are returned as the same objects.
        tools: The tools of the request, or their definitions. With `None`, nothing that depends on them is repaired.
    """
    definitions = None
    if tools is not None:
        definitions = [each.to_dict() if hasattr(each, "to_dict") else as_mapping(each) for each in tools]
    own = set(tool_faults(definitions or ()))
    faults = validate_history(messages, definitions, first_party=True)
    if all(fault.message in own for fault in faults):
        return [*messages], []
    repairer = _Repairer(messages, definitions)
    repairer.repair()
    repaired = cast("list[MessageT]", [draft.message() for draft in repairer.drafts])
    return repaired, sorted(repairer.repairs, key=lambda repair: repair.index)


_Place: TypeAlias = tuple[Draft, Block]
"""A block, and the message that it stands in."""


@dataclass(slots=True, eq=False)
class _Call:
    draft: Draft
    place: int
    """The index of its message among the drafts."""
    block: Block
    result: Block | None = None


class _Repairer:
    def __init__(self, messages: Sequence[object], tools: Sequence[Any] | None) -> None:
        self.repairs: list[HistoryRepair] = []
        self.drafts: list[Draft] = []
        self._tools = tools
        given = [messages] if isinstance(messages, Mapping) else messages
        for index, message in enumerate(given):
            draft = read_message(index, message, self._reporter(index))
            if draft is not None:
                self.drafts.append(draft)

    def repair(self) -> None:
        for _ in range(_MAX_ROUNDS):
            before = len(self.repairs)
            self._split_roles()
            self._place_systems()
            self._pair_calls()
            self._pair_server_calls()
            self._finish()
            if len(self.repairs) == before:
                break
        # The first cache breakpoints of the messages go, if there are too many: the later ones cover more.
        excess = count_breakpoints(self._messages()) + count_breakpoints(self._tools or ()) - MAX_BREAKPOINTS
        for draft in self.drafts:
            for place, block in enumerate(draft.blocks):
                marks = count_breakpoints([block])
                if excess > 0 and marks:
                    draft.blocks = [*draft.blocks[:place], _without_breakpoints(block), *draft.blocks[place + 1 :]]
                    excess -= marks
                    self._report(draft.index, RepairKind.OMITTED_BREAKPOINT, f"the API accepts {MAX_BREAKPOINTS}")

    def _report(self, index: int, kind: RepairKind, why: str) -> None:
        self.repairs.append(HistoryRepair(index, kind, why))

    # --- roles --------------------------------------------------------------------------------------------------------

    def _split_roles(self) -> None:
        """Put calls, and results of the API's own tools, into messages of the assistant."""
        drafts: list[Draft] = []
        for draft in self.drafts:
            if draft.role != "assistant" and any(block["type"] in THINKING for block in draft.blocks):
                draft.blocks = [block for block in draft.blocks if block["type"] not in THINKING]
                self._report(draft.index, RepairKind.OMITTED_BLOCK, "thinking in a message that is not the assistant's")
            if draft.role == "assistant" or not any(belongs_to_assistant(block["type"]) for block in draft.blocks):
                drafts.append(draft)
                continue
            self._report(draft.index, RepairKind.MOVED_BLOCK, "a call in a message that is not the assistant's")
            parts: list[Draft] = []
            for block in draft.blocks:
                role = "assistant" if belongs_to_assistant(block["type"]) else draft.role
                if not parts or parts[-1].role != role:
                    parts.append(Draft(draft.index, role, []))
                parts[-1].blocks.append(block)
            drafts += parts
        self.drafts = drafts

    def _place_systems(self) -> None:
        """Put `system` messages behind the user's, where the API accepts them, or make them the user's."""
        drafts = self.drafts
        start = 0
        while start < len(drafts):
            if drafts[start].role != "system":
                start += 1
                continue
            end = _end_of_run(drafts, start)
            group = drafts[start:end]
            if _is_directive(group[0]) or (start > 0 and any(map(_is_directive, group))):
                pass  # it may stand anywhere, and nothing is known about its neighbours
            elif start == 0:
                self._to_user(group)
            elif end < len(drafts) and drafts[end].role == "user":
                after = _end_of_run(drafts, end)
                drafts[start:after] = [*drafts[end:after], *group]
                for draft in group:
                    self._report(draft.index, RepairKind.MOVED_MESSAGE, "role 'system' must follow the user's messages")
                end = after
            elif drafts[start - 1].role == "assistant":
                last = drafts[start - 1].blocks[-1:]
                if not last or not is_server_result(last[0]["type"]):
                    self._to_user(group)
            start = end

    def _to_user(self, group: Sequence[Draft]) -> None:
        for draft in group:
            draft.role, draft.blocks, draft.given = "user", for_user(draft.blocks), None
            self._report(
                draft.index, RepairKind.CHANGED_ROLE, "there is no place for a 'system' message: it is the user's"
            )

    # --- calls of the client ------------------------------------------------------------------------------------------

    def _pair_calls(self) -> None:
        """Give each call one result, right behind it, and each result one call."""
        calls = [
            _Call(draft, place, block)
            for place, draft in enumerate(self.drafts)
            for block in draft.blocks
            if block["type"] == "tool_use"
        ]
        left = self._claim(calls)
        calls = self._without_twins(calls)
        taken = {call.block["id"] for call in calls}
        seen: set[str] = set()
        for call in calls:
            id = call.block["id"]
            if id in seen:
                id = next(new for n in count() if (new := stand_in_id(f"{id} {n}", "tool_use")) not in taken)
                taken.add(id)
                call.block["id"] = id
                self._report(call.draft.index, RepairKind.RENAMED_CALL, "another call has the same id")
                if call.result is not None:
                    call.result["tool_use_id"] = id
            seen.add(id)
        self._keep_as_text(left, calls)
        by_draft: dict[Draft, list[_Call]] = {}
        for call in calls:
            if is_programmatic(call.block) and call.result is not None:
                mend_result(call.result, self._reporter(call.draft.index), text_only=True)
            by_draft.setdefault(call.draft, []).append(call)
        self._place_results(by_draft)

    def _reporter(self, index: int) -> Report:
        return lambda kind, why: self._report(index, kind, why)

    def _claim(self, calls: Sequence[_Call]) -> list[_Place]:
        """Find the call of each result. Return the results that no call can take."""
        by_id: dict[str, list[_Call]] = {}
        by_place: dict[int, list[_Call]] = {}
        for call in calls:
            by_id.setdefault(call.block["id"], []).append(call)
            by_place.setdefault(call.place, []).append(call)
        results = [
            (place, draft, block)
            for place, draft in enumerate(self.drafts)
            for block in draft.blocks
            if block["type"] == "tool_result"
        ]
        left: list[_Place] = []
        places = sorted(by_place)
        # Real results first: one that an earlier repair has made must not stand in the way of a real one.
        for place, draft, block in sorted(results, key=lambda each: _is_synthetic(each[2])):
            if block["tool_use_id"]:
                candidates = by_id.get(block["tool_use_id"], [])
            else:
                last = max((each for each in places if each <= place), default=-1)
                candidates = by_place.get(last, [])
            free = [call for call in candidates if call.result is None]
            before = [call for call in free if call.place <= place]
            nearest = [call for call in before if call.place == before[-1].place] if before else free
            if nearest:
                nearest[0].result = block
                if not block["tool_use_id"]:
                    block["tool_use_id"] = nearest[0].block["id"]
            else:
                left.append((draft, block))
        return left

    def _without_twins(self, calls: Sequence[_Call]) -> list[_Call]:
        """Leave out calls without a result that are in the history a second time."""
        first: dict[str, list[_Call]] = {}
        for call in sorted(calls, key=lambda call: call.result is None):
            twins = first.setdefault(call.block["id"], [])
            said = (call.block["name"], call.block["input"])
            if call.result is None and any((twin.block["name"], twin.block["input"]) == said for twin in twins):
                call.draft.blocks = [block for block in call.draft.blocks if block is not call.block]
                self._report(call.draft.index, RepairKind.OMITTED_CALL, "the same call is in the history twice")
            else:
                twins.append(call)
        kept = {call for twins in first.values() for call in twins}
        return [call for call in calls if call in kept]

    def _keep_as_text(self, left: Sequence[_Place], calls: Sequence[_Call]) -> None:
        """Keep the content of results that no call can take."""
        contents: dict[str, list[object]] = {}
        for call in calls:
            if call.result is not None:
                contents.setdefault(call.result["tool_use_id"], []).append(call.result.get("content"))
        behind: dict[Draft, list[Block]] = {}
        for draft, block in left:
            place = next(n for n, each in enumerate(draft.blocks) if each is block)
            text = [] if _is_synthetic(block) else as_text(block)
            if not text or block.get("content") in contents.get(block["tool_use_id"], ()):
                self._report(draft.index, RepairKind.OMITTED_RESULT, "it repeats the result of a call, or says nothing")
                text = []
            else:
                self._report(draft.index, RepairKind.RESULT_AS_TEXT, "there is no call that it could be the result of")
            if draft.role == "assistant":
                behind.setdefault(draft, []).extend(text)
                text = []
            draft.blocks = [*draft.blocks[:place], *text, *draft.blocks[place + 1 :]]
        self._insert_behind(behind)

    def _insert_behind(self, behind: Mapping[Draft, list[Block]]) -> None:
        """Put messages of the user behind others."""
        drafts: list[Draft] = []
        for draft in self.drafts:
            drafts.append(draft)
            if behind.get(draft):
                drafts.append(Draft(draft.index, "user", behind[draft]))
        self.drafts = drafts

    def _place_results(self, by_draft: Mapping[Draft, list[_Call]]) -> None:
        """Put the results of each message right behind it, before everything else."""
        at = {draft: place for place, draft in enumerate(self.drafts)}
        moved: set[int] = set()  # by identity: equal blocks are different results
        fronts: dict[Draft, list[Block]] = {}
        behind: dict[Draft, list[Block]] = {}
        for draft, calls in by_draft.items():
            place = at[draft]
            # In place, they are the first blocks of the user's messages right behind it, in any order.
            users = takewhile(lambda each: each.role == "user", self.drafts[place + 1 :])
            first = islice((block for each in users for block in each.blocks), len(calls))
            if {id(call.result) for call in calls} == set(map(id, first)):
                continue
            for call in calls:
                if call.result is None:
                    call.result = tool_result(call.block["id"], _NOT_EXECUTED, is_error=True)
                    self._report(draft.index, RepairKind.ADDED_RESULT, "a call without a result")
                else:
                    self._report(draft.index, RepairKind.MOVED_RESULT, "the results are not right behind their calls")
            results = [call.result for call in calls if call.result is not None]
            moved.update(map(id, results))
            following = self.drafts[place + 1] if place + 1 < len(self.drafts) else None
            if following is not None and following.role == "user":
                fronts[following] = results
            else:
                behind[draft] = results
        for draft in self.drafts if moved else ():
            rest = [block for block in draft.blocks if id(block) not in moved]
            if len(rest) < len(draft.blocks) or draft in fronts:
                draft.blocks = [*fronts.get(draft, ()), *rest]
        self._insert_behind(behind)

    # --- calls that the API runs --------------------------------------------------------------------------------------

    def _pair_server_calls(self) -> None:
        """Give each call that the API runs its result, and each result its call."""
        orphans, unresolved, contents = self._read_server_calls()
        for draft, call in unresolved:
            found = next((each for each in orphans if each[1]["tool_use_id"] == call["id"]), None)
            if found is not None:
                orphans.remove(found)
                _remove(*found)
                after = 1 + next(n for n, each in enumerate(draft.blocks) if each is call)
                draft.blocks = [*draft.blocks[:after], found[1], *draft.blocks[after:]]
                self._report(found[0].index, RepairKind.MOVED_RESULT, "a result of the API's own is not with its call")
            else:
                _remove(draft, call)
                self._report(draft.index, RepairKind.OMITTED_CALL, "the API has run no such call, and will not")
            # Its code waits for no result any more: left out, or at an end before the calls that it made. No call says
            # that this code made it.
            for block in (block for each in self.drafts for block in each.blocks):
                caller = block.get("caller")
                if isinstance(caller, Mapping) and caller.get("tool_id") == call["id"]:
                    del block["caller"]
        for draft, result in orphans:
            if result.get("content") in contents.get(result["tool_use_id"], ()):
                _remove(draft, result)
                self._report(draft.index, RepairKind.OMITTED_RESULT, "it repeats the result of a call")
            else:
                place = next(n for n, each in enumerate(draft.blocks) if each is result)
                draft.blocks[place] = server_result_as_text(result)
                self._report(draft.index, RepairKind.RESULT_AS_TEXT, "there is no call that it could be the result of")

    def _read_server_calls(self) -> tuple[list[_Place], list[_Place], dict[str, list[object]]]:
        """Return results without a call before them, calls that get no result, and the contents of the others by id."""
        orphans: list[_Place] = []
        unresolved: list[_Place] = []
        contents: dict[str, list[object]] = {}
        pending: dict[str, _Place] = {}
        for draft in self.drafts:
            for block in draft.blocks:
                kind = block["type"]
                if draft.role == "user" and kind != "tool_result":
                    # It ends the turn of the assistant, and the API runs nothing of it any more.
                    unresolved += [place for place in pending.values() if place[1]["type"] in SERVER_CALLS]
                    pending.clear()
                elif draft.role == "assistant" and kind.endswith("_tool_use") and isinstance(block.get("id"), str):
                    pending[block["id"]] = (draft, block)
                elif draft.role == "assistant" and is_server_result(kind):
                    if pending.pop(block["tool_use_id"], None) is None:
                        orphans.append((draft, block))
                    else:
                        contents.setdefault(block["tool_use_id"], []).append(block.get("content"))
        # The calls that the API would run next, if it had their tools.
        waiting: set[str] = set()
        if self._tools is not None:
            reader = HistoryReader(first_party=True)
            reader.read(self._messages())
            waiting.update(reader.ids_without_tool(self._tools))
        early = {result["tool_use_id"] for _, result in orphans}
        unresolved += [place for id, place in pending.items() if id in waiting or id in early]
        return orphans, unresolved, contents

    def _messages(self) -> list[Mapping[str, Any]]:
        return [draft.message() for draft in self.drafts]

    # --- the end ------------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Remove thinking at the end of messages, and messages without content; let the user begin."""
        for place, draft in enumerate(self.drafts):
            if draft.role == "assistant" and self._role(place + 1) != "assistant":
                while draft.blocks and draft.blocks[-1]["type"] in THINKING:
                    draft.blocks.pop()
                    self._report(draft.index, RepairKind.OMITTED_BLOCK, "thinking at the end of a message")
        last = self.drafts[-1] if self.drafts else None
        if last is not None and last.role == "assistant" and last.blocks and ends_in_white_space(last.blocks[-1]):
            last.blocks[-1] = {**last.blocks[-1], "text": last.blocks[-1]["text"].rstrip()}
            self._report(last.index, RepairKind.CHANGED_BLOCK, "white space at the end of the conversation")
        kept: list[Draft] = []
        for place, draft in enumerate(self.drafts):
            may_be_empty = draft.is_unchanged and draft.role == "assistant" and self._role(place + 1) is None
            if draft.blocks or _is_directive(draft) or may_be_empty:
                kept.append(draft)
            else:
                self._report(draft.index, RepairKind.OMITTED_MESSAGE, "it has no content")
        self.drafts = kept
        if kept and kept[0].role == "assistant":
            self.drafts.insert(0, Draft(kept[0].index, "user", [text_block(_NO_START)]))
            self._report(kept[0].index, RepairKind.ADDED_MESSAGE, "the first message must be the user's")

    def _role(self, place: int) -> str | None:
        return self.drafts[place].role if place < len(self.drafts) else None


def _end_of_run(drafts: Sequence[Draft], start: int) -> int:
    """Return the index behind the messages of one role that begin at `start`."""
    end = start
    while end < len(drafts) and drafts[end].role == drafts[start].role:
        end += 1
    return end


def _is_directive(draft: Draft) -> bool:
    return draft.role == "system" and not draft.blocks and draft.given is not None and is_directive(draft.given)


def _is_synthetic(result: Mapping[str, Any]) -> bool:
    return result.get("content") == _NOT_EXECUTED


def _remove(draft: Draft, block: Block) -> None:
    draft.blocks = [each for each in draft.blocks if each is not block]


def _without_breakpoints(block: Mapping[str, Any]) -> Block:
    kept = {name: value for name, value in block.items() if name != "cache_control"}
    if isinstance(kept.get("content"), list | tuple):
        inner = map(as_mapping, kept["content"])
        kept["content"] = [_without_breakpoints(each) if isinstance(each, Mapping) else each for each in inner]
    return kept
