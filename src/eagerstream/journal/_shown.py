"""`shown_lines`: a run of a journal as text, for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from .._support.redaction import redact, redact_excerpt
from .._support.wording import clean, duration_text, visible

if TYPE_CHECKING:
    from ._view import RunView

_MAX_SHOWN_CHARS: Final = 2_000


def shown_lines(view: RunView) -> Iterator[str]:
    """Yield the history of a run and its open calls as lines of text. Secrets are masked, and long texts are cut."""
    summary = view.summary
    owner = {"none": "no owner", "alive": "its owner is alive", "silent": "its owner is silent"}[summary.owner]
    yield f"{visible(summary.run_id)}: {summary.status}, {owner}, {clean(view.model)}"
    yield f"changed {duration_text(int(summary.idle_s))} ago, created {duration_text(int(summary.age_s))} ago"
    for message in view.messages:
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
    if view.calls:
        yield ""
        yield "calls of the open turn:"
        for call in view.calls:
            yield f"  {visible(call.id)} {clean(call.name)}({_shown(call.input)}): {call.state}"
    if view.said:
        yield ""
        yield "messages that wait:"
        for message in view.said:
            yield f"  {_shown(message.get('content'))}"
    if view.is_cancelled:
        yield ""
        yield "somebody has cancelled it: the next owner ends it"


def _shown(value: Any) -> str:
    """Return a value on one line, without secrets."""
    text = value if isinstance(value, str) else json.dumps(redact(value), ensure_ascii=False)
    return visible(redact_excerpt(text, _MAX_SHOWN_CHARS))
