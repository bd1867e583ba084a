"""`RunView`: the history of a run and its open calls, read from its entries without owning it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from eagerstream import JSONObject
from eagerstream._support.redaction import redact, redact_excerpt
from eagerstream._support.wording import clean, duration_text, visible
from eagerstream.errors import JournalError
from eagerstream.loop import check_entries

from ._summaries import RunSummary

_MAX_SHOWN_CHARS: Final = 2_000


@dataclass(slots=True)
class CallView:
    """A call of the turn under way.

    Attributes:
        id: Its id, for `Journal.decide`.
        name: The name of its tool.
        input: Its input; the text of the input if that is not complete.
        state: `"written"`: only its input is there. `"asked"`: it waits for approval. `"decided"`: somebody decided,
            and the run has not continued yet. `"begun"`: its tool was called. `"done"`: its result is there.
    """

    id: str
    name: str
    input: Any = field(repr=False)  # what models, tools and users say does not belong in a log
    state: Literal["written", "asked", "decided", "begun", "done"] = "written"


@dataclass(slots=True)
class RunView:
    """A run as its journal has it.

    Attributes:
        summary: Its summary.
        model: The model of its requests.
        messages: The history, as of the last settled turn or the last request.
        calls: The calls of the turn under way.
        said: The messages that were said to the run, and are not in the history yet.
        is_cancelled: Another process has cancelled it, and the run has not taken notice yet.
    """

    summary: RunSummary
    model: str
    messages: list[Any] = field(repr=False)
    calls: list[CallView] = field(default_factory=list)
    said: list[Any] = field(default_factory=list, repr=False)
    is_cancelled: bool = False

    @property
    def approvals(self) -> Sequence[CallView]:
        """The calls that wait for approval."""
        return [call for call in self.calls if call.state == "asked"]

    def lines(self) -> Iterator[str]:
        """Yield the run as lines of text, for people. Secrets are masked, and long texts are cut.

        The first two lines say how the run is. Its history follows, and what is open.
        """
        summary = self.summary
        owner = {"none": "no owner", "alive": "its owner is alive", "silent": "its owner is silent"}[summary.owner]
        yield f"{visible(summary.run_id)}: {summary.status}, {owner}, {clean(self.model)}"
        yield f"changed {duration_text(int(summary.idle_s))} ago, created {duration_text(int(summary.age_s))} ago"
        for message in self.messages:
            yield ""
            yield f"{clean(str(message.get('role')))}:"
            content = message.get("content")
            for block in [{"type": "text", "text": content}] if isinstance(content, str) else content or ():
                match block:
                    case {"type": "text", "text": str(text)}:
                        yield f"  {_shown(text)}"
                    case {"type": "tool_use", "name": name, "input": given}:
                        yield f"  calls {clean(str(name))}({_shown(given)})"
                    case {"type": "tool_result", **rest}:
                        yield f"  {'error' if rest.get('is_error') else 'result'}: {_shown(rest.get('content'))}"
                    case {"type": str(kind)}:
                        yield f"  ({clean(kind)})"
                    case _:
                        yield "  (unknown)"
        if self.calls:
            yield ""
            yield "calls of the open turn:"
            for call in self.calls:
                yield f"  {visible(call.id)} {clean(call.name)}({_shown(call.input)}): {call.state}"
        if self.said:
            yield ""
            yield "messages that wait:"
            for message in self.said:
                yield f"  {_shown(message.get('content'))}"
        if self.is_cancelled:
            yield ""
            yield "somebody has cancelled it: the next owner ends it"


def view_of(summary: RunSummary, entries: Sequence[JSONObject], inbox: Iterable[tuple[int, JSONObject]]) -> RunView:
    """Return the view of a run. Messages of the inbox that the entries have count once.

    Raises:
        JournalError: The entries are none that a run has written.
    """
    check_entries(entries, summary.run_id)
    view = RunView(summary, entries[0]["model"], [*entries[0]["messages"]])
    settled, taken = view.messages, 0
    for number, entry in enumerate(entries[1:], 2):
        try:
            settled = _take(view, settled, entry)
        except (LookupError, TypeError, AttributeError) as error:  # of a block of a response
            raise JournalError(
                f"it is damaged, or not written by a run: entry {number} of {len(entries)} has no valid block",
                run_id=summary.run_id,
            ) from error
        taken = max(taken, entry.get("state", entry).get("inbox", 0))
    for at, message in inbox:
        if at <= taken:
            continue
        match message:
            case {"kind": "say", "message": said}:
                view.said.append(said)
            case {"kind": "decision", "call": id}:
                _note(view, "approval", id)
            case {"kind": "cancel"}:
                view.is_cancelled = True
            case _:
                pass
    return view


def _take(view: RunView, settled: list[Any], entry: Mapping[str, Any]) -> list[Any]:
    """Take an entry, and return the history as of the last settled turn."""
    match entry["kind"]:
        case "turn" | "end":
            view.messages = settled = _continued(settled, entry)
            view.calls, view.said = [], _said(entry["state"])
        case "request":
            view.messages = _continued(settled, entry)
            view.calls, view.said = [], _said(entry)
        case "said":
            view.said.append(entry["message"])
        case "response":
            view.calls += [_call(block) for block in entry["blocks"] if block["block"].get("type") == "tool_use"]
        case "asked" | "approval" | "start" | "result" as kind:
            _note(view, kind, entry["id"])
        case _:
            pass
    return settled


def _continued(settled: list[Any], entry: Mapping[str, Any]) -> list[Any]:
    return [*entry["messages"]] if "messages" in entry else [*settled, *entry["history"]]


def _said(state: Mapping[str, Any]) -> list[Any]:
    return [message for message, _ in state["waiting"]]


def _call(saved: Mapping[str, Any]) -> CallView:
    block = saved["block"]
    given = block.get("input")
    if raw := saved.get("raw"):
        try:
            given = json.loads(raw)
        except (ValueError, RecursionError):
            given = raw
    return CallView(block["id"], block["name"], given)


def _note(view: RunView, kind: str, id: object) -> None:
    for call in view.calls:
        if call.id == id:
            match kind:
                case "asked":
                    call.state = "asked"
                case "approval" if call.state in ("written", "asked"):
                    call.state = "decided"
                case "start":
                    call.state = "begun"
                case "result":
                    call.state = "done"
                case _:
                    pass


def _shown(value: Any) -> str:
    """Return a value on one line, without secrets."""
    text = value if isinstance(value, str) else json.dumps(redact(value), ensure_ascii=False)
    return visible(redact_excerpt(text, _MAX_SHOWN_CHARS))
