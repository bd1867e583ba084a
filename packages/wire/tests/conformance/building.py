"""Turns fragments into cases, with the right answers of the second readings."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from typing import Any, Final

from . import reading_sse
from .reading_json import NOTHING, Reading, changes, pointer, shown

_BEYOND_DOUBLES: Final = re.compile(r"\d{310}")
"""An integer that only some languages have."""


def json_case(id: str, why: str, fragments: Sequence[str]) -> dict[str, Any]:
    """Return a case of the kind `partial_json`.

    Args:
        id: Family and name.
        why: The rule, in a sentence.
        fragments: The text, cut as given.
    """
    text = "".join(fragments)
    whole = Reading(text)
    steps: list[dict[str, Any]] = []
    others: list[Any] = []
    after_error: list[Any] | None = None
    read = 0
    for fragment in fragments:
        after, read = read, read + len(fragment)
        now = Reading(text[:read])
        step = _step(now, after, read, state=now.state)
        if now.state == "invalid" and after_error is None:
            # An implementation may show nothing of a fragment that turned out to be wrong. What it showed early stays.
            after_error = [shown(now.notes, after), *others]
            before = Reading(text[: now.error_at])
            if before.early is not None and before.early[1][0] in "-0123456789":
                after_error.append(_with_early(step["value"], *before.early))
            step.setdefault("also", {})["finished"] = [[]]
        others = _others(step["value"], now, after_error)
        if others:
            step.setdefault("also", {})["value"] = others
        if now.early == ((), text[:read].strip(" \t\n\r")):
            step.setdefault("also", {})["state"] = ["complete"]
        if now.in_string:
            step["needs"] = ["growing_strings"]
        steps.append({"feed": fragment, **step})
    is_over = any(note[1:3] == ("finish", ()) for note in whole.notes)
    end = _step(whole, read, read + 1, state="complete" if is_over and whole.state != "invalid" else whole.state)
    if others := _others(end["value"], whole, after_error):
        end["also"] = {"value": others}
    if whole.in_string:
        end["needs"] = ["growing_strings"]
    steps.append({"end": True, **end})
    value = end["value"]
    if not isinstance(value, dict) or value == NOTHING or "Infinity" in json.dumps(value):
        for step in steps:
            del step["changes"]
    outcome = {"complete": "valid", "partial": "incomplete", "invalid": "invalid"}[end["state"]]
    case: dict[str, Any] = {"id": f"partial_json/{id}", "why": why, "steps": steps}
    if needs := _needs(text, whole, value):
        case["needs"] = needs
    return {**case, "expect": {"outcome": outcome, "error_at": whole.error_at}}


def _step(reading: Reading, after: int, read: int, *, state: str) -> dict[str, Any]:
    finished = [note.path for note in reading.notes if note.op == "finish" and after < note.read <= read]
    return {
        "value": shown(reading.notes, read),
        "finished": [pointer(path) for path in finished],
        "changes": changes(reading.notes, after, read),
        "state": state,
    }


def _others(value: Any, now: Reading, after_error: list[Any] | None) -> list[Any]:
    """Return the values by other conventions, each once."""
    others = [*(after_error or ()), *([None] if value == NOTHING else ())]
    if now.early is not None:
        others.append(_with_early(value, *now.early))
    found: list[Any] = []
    for other in others:
        if json.dumps(other) not in map(json.dumps, [value, *found]):
            found.append(other)
    return found


def _with_early(value: Any, path: tuple[str | int, ...], text: str) -> Any:
    """Return a value in which an unfinished number or literal shows already."""
    root = json.loads(json.dumps([value]))
    parent: Any = root
    for step in (0, *path)[:-1]:
        parent = parent[step]
    key = (0, *path)[-1]
    if isinstance(parent, list) and key == len(parent):
        parent.append(json.loads(text))
    else:
        parent[key] = json.loads(text)
    return root[0]


def _needs(text: str, whole: Reading, value: Any) -> list[str]:
    needs = []
    # A repeated key may take a value away again, but the text had it.
    seen = json.dumps([value, *(note[2:] for note in whole.notes)], ensure_ascii=False)
    if any("\ud800" <= character <= "\udfff" for character in text + seen):
        needs.append("lone_surrogates")
    if "Infinity" in seen or _BEYOND_DOUBLES.search(seen):
        needs.append("infinity")
    if text.count("[") + text.count("{") > 64:
        needs.append("deep")
    return needs


def sse_case(id: str, why: str, chunks: Sequence[bytes]) -> dict[str, Any]:
    """Return a case of the kind `sse`; see `json_case`."""
    steps: list[dict[str, Any]] = []
    body = b""
    events: list[reading_sse.Event] = []
    for chunk in chunks:
        body += chunk
        now, _ = reading_sse.read(body)
        steps.append({**fed(chunk), **_events_step(now[len(events) :])})
        events = now
    steps.append({"end": True, **_events_step([])})
    retry = reading_sse.read(body)[1]
    return {"id": f"sse/{id}", "why": why, "steps": steps, "expect": {"retry": retry}}


def _events_step(events: Sequence[reading_sse.Event]) -> dict[str, Any]:
    return {
        "events": [{"event": event.event, "data": event.data} for event in events],
        "ids": [event.id for event in events],
        "retries": [event.retry for event in events],
    }


def fed(chunk: bytes) -> dict[str, str]:
    """Return the part of a step that feeds a chunk."""
    try:
        return {"feed": chunk.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(chunk).decode()}
