"""Short visible texts: parts of values, sizes, times. Their length is bounded, and measured in cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from .redaction import printable

SHOWN_CHARS: Final = 240
"""Maximum number of characters to inspect for a text of which one row is shown."""


def visible(text: str) -> str:
    """Return `text` on one line, without anything that a terminal would act on."""
    return printable(text).replace("\n", " ").replace("\t", " ")


def clean(text: str, chars: int = SHOWN_CHARS) -> str:
    """Return the start of a text, on one line."""
    return visible(text[:chars]) + ("…" if len(text) > chars else "")


def size_text(size: float) -> str:
    """Return a number of bytes as text, for example `"1.5 kB"`."""
    for unit in ("B", "kB", "MB"):
        if size < 999.5:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 99.95 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"


def duration_text(seconds: float) -> str:
    """Return a number of seconds as text; an integer has no tenths."""
    if seconds < 10 and not isinstance(seconds, int):
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"


def count_text(number: int, what: str) -> str:
    """Return a number of things as text, for example `"2 items"`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def usage_texts(usage: Mapping[str, Any]) -> Iterator[str]:
    """Yield the tokens in and out, as the API counts them."""
    counts = {name: count for name, count in usage.items() if isinstance(count, int)}
    fresh = counts.get("input_tokens", 0) + counts.get("cache_creation_input_tokens", 0)
    cached = counts.get("cache_read_input_tokens", 0)
    if fresh or cached:
        yield f"{fresh:,} tokens in" + (f" + {cached:,} cached" if cached else "")
    if out := counts.get("output_tokens", 0):
        yield f"{out:,} out"


# --- parts of texts and values ----------------------------------------------------------------------------------------


def value_text(value: Any, *, at_end: bool = False, depth: int = 0) -> str:
    """Return a value on one line, as starts or ends of its parts. The length is bounded, whatever the value."""
    match value:
        case str():
            text = value[-SHOWN_CHARS:] if at_end else value[:SHOWN_CHARS]
            return visible(text) if not depth else f"“{visible(text)}”"
        case list() if depth > 2 or not value:
            return f"[{count_text(len(value), 'item')}]" if value else "[]"
        case dict() if depth > 2 or not value:
            return f"{{{count_text(len(value), 'field')}}}" if value else "{}"
        case list():
            items = ", ".join(value_text(item, at_end=at_end, depth=depth + 1) for item in value[-4:])
            return f"[{'…, ' if len(value) > 4 else ''}{items}]"
        case dict():
            newest = list(islice(reversed(value.items()), 4))[::-1]
            fields = (
                f"{clean(str(name), 40)}: {value_text(item, at_end=at_end, depth=depth + 1)}" for name, item in newest
            )
            return ("…, " if len(value) > 4 else "") + ", ".join(fields)
        case _:
            return _literal(value)


def _literal(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() if abs(value) >= 10**30:
            return "a number of more than 30 digits"  # writing it out takes quadratic time
        case _:
            return clean(str(value))


def gap_text(gap_s: float | None) -> str:
    """Return the words about the gap of a run, such as `"continued from its journal after 3 min 20 s"`."""
    return "continued from its journal" + (f" after {duration_text(gap_s)}" if gap_s is not None else "")
