"""HTML from Python: text is escaped unless it is `Markup` already."""

from __future__ import annotations

from html import escape
from typing import TypeAlias

from .redaction import printable


class Markup(str):
    """Text that is HTML, and stays as it is."""

    __slots__ = ()


Child: TypeAlias = str | None
"""What an element holds; None is nothing."""


def element(tag: str, *children: Child, **attributes: str | bool | int | None) -> Markup:
    """An element; of the attributes those that are None or False are left out, True has no value.

    Underscores in names of attributes become hyphens, one at the end goes: `aria_label`, `class_`.
    """
    named = ((name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items())
    written = [
        f" {name}" if value is True else f' {name}="{escape(plain(str(value)))}"'
        for name, value in named
        if value is not None and value is not False
    ]
    return Markup(f"<{tag}{''.join(written)}>{joined(*children)}</{tag}>")


def joined(*children: Child) -> Markup:
    """One after the other."""
    return Markup("".join(child if isinstance(child, Markup) else escape(plain(child or "")) for child in children))


def plain(text: str, chars: int | None = None) -> str:
    """`text` on one line, without what acts, hides, or is no character of XML; at most so many characters."""
    cut = chars is not None and len(text) > chars
    shown = printable(text[: chars - 1] if cut and chars else text).translate(_NO_CHARACTERS)
    return f"{shown}…" if cut else shown


def ends(text: str, chars: int) -> str:
    """A text without its middle, where it is too long: names that are alike differ at their ends."""
    if len(text) <= chars:
        return text
    first = (chars - 1) // 3
    return f"{text[:first]}…{text[first + 1 - chars :]}"


_NO_CHARACTERS = {ord("\n"): " ", ord("\t"): " ", 0xFFFE: "\ufffd", 0xFFFF: "\ufffd"}
