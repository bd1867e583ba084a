"""Trace as an HTML page: it fetches nothing, runs no scripts, and its contents cannot act.

It is written as it grows: `head`, an `event` for each record, `foot`. It is readable without the foot.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from html import escape
from importlib.resources import files
from typing import Any, Final

from ...._support.markup import Markup, element, joined
from ...._support.redaction import printable
from .statistics import TraceStats

MAX_EVENTS: Final = 5_000
"""Maximum number of events on the page. Only the lines have the others, because browsers are slow with larger pages."""

_STYLE: Final = files(__package__).joinpath("page.css").read_text("utf-8")
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY: Final = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'"
_KINDS: Final = frozenset({"tool_call", "tool_result", "error", "model_output"})
"""Events with their own color."""
_RAW: Final = "raw_response"


def head(session_id: str, at: datetime) -> str:
    """Return the beginning of the page, up to the first event."""
    title = joined(f"Trace {session_id}")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<header><h1>{title}</h1>"
        f"{element('p', f'Started {at:%Y-%m-%d %H:%M:%S} UTC. ', Markup(_TO_STATISTICS))}</header>\n"
        "<main>\n<h2>Events</h2>\n"
    )


_TO_STATISTICS: Final = '<a href="#statistics">Statistics</a>'


def event(record: Mapping[str, Any], *, include_raw: bool) -> str:
    """Return one event, with its payload folded up.

    Args:
        record: Record in the form of `plain`.
        include_raw: Whether to show the `raw_response` of the payload.
    """
    payload = record["payload"]
    if not include_raw and isinstance(payload, dict) and _RAW in payload:
        payload = {name: value for name, value in payload.items() if name != _RAW}
    kind = record["event"] if record["event"] in _KINDS else None
    step = "-" if record["step"] is None else str(record["step"])
    shown = element(
        "details",
        element(
            "summary",
            element("span", f"Step {step}", class_="step"),
            element("time", str(record["ts"])),
            element("strong", str(record["event"])),
        ),
        element("pre", _text(json.dumps(payload, ensure_ascii=False, indent=2))),
        class_="event",
        data_kind=kind,
    )
    return f"{shown}\n"


def foot(stats: TraceStats, events: int) -> str:
    """Return the end of the page: the statistics, and the number of events that are not on it."""
    left_out = events - MAX_EVENTS
    more = element("p", f"{left_out} more events are in the JSONL file.") if left_out > 0 else ""
    figures = (
        ("Steps", f"{stats['total_steps']:,}"),
        ("Tokens", f"{stats['total_tokens']:,}"),
        ("Cost", f"${stats['total_cost']:.4f}"),
        ("Duration", f"{stats['duration_seconds']:.1f} s"),
        ("Model calls", f"{stats['model_calls']:,}"),
    )
    by_count = sorted(stats["tool_calls"].items(), key=lambda tool: -tool[1])
    rows = [element("tr", element("td", name), element("td", f"{count:,}")) for name, count in by_count]
    errors = [
        element("li", f"Step {error['step'] or '-'}: ", element("strong", str(error["type"])), f" {error['message']}")
        for error in stats["errors"]
    ]
    section = element(
        "section",
        element("h2", "Statistics"),
        element("dl", *(element("div", element("dt", name), element("dd", value)) for name, value in figures)),
        element("h3", "Tool calls"),
        element("table", element("tr", element("th", "Tool"), element("th", "Calls")), *rows)
        if rows
        else element("p", "None"),
        *((element("h3", f"Errors ({len(errors)})"), element("ul", *errors)) if errors else ()),
        id="statistics",
    )
    return f"{more}</main>\n{section}\n</body>\n</html>\n"


def _text(text: str) -> Markup:
    """Return text with its line breaks."""
    return Markup(escape(printable(text)))
