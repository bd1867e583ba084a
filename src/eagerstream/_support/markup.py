"""HTML from Python: text is escaped unless it is `Markup` already."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from .redaction import printable


class Markup(str):
    """Text that is HTML already, and stays unchanged."""

    __slots__ = ()


Child: TypeAlias = str | None
"""A child of an element; `None` for none."""


def element(tag: str, *children: Child, **attributes: str | bool | int | None) -> Markup:
    """Return an element. Attributes that are None or False are left out, and True has no value.

    Underscores in names of attributes become hyphens, and one at the end is removed: `aria_label`, `class_`.
    """
    named = ((name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items())
    written = [
        f" {name}" if value is True else f' {name}="{escape(plain(str(value)))}"'
        for name, value in named
        if value is not None and value is not False
    ]
    return Markup(f"<{tag}{''.join(written)}>{joined(*children)}</{tag}>")


def joined(*children: Child) -> Markup:
    """Return the children, one after the other."""
    return Markup("".join(child if isinstance(child, Markup) else escape(plain(child or "")) for child in children))


def plain(text: str, chars: int | None = None) -> str:
    """Return `text` on one line, without control, hidden or non-XML characters. It has at most `chars` characters."""
    cut = chars is not None and len(text) > chars
    shown = printable(text[: chars - 1] if cut and chars else text).translate(_NO_CHARACTERS)
    return f"{shown}…" if cut else shown


def figures(title: str, rows: Iterable[tuple[str, object]], *more: Child) -> Markup:
    """Return a table with a title, for `_repr_html_`. Each text is cut after 80 characters."""
    shown = [element("tr", element("th", name), element("td", plain(str(value), 80))) for name, value in rows]
    table = [element("table", *shown)] if shown else []
    return element("div", element("b", plain(title, 80)), *table, *more)


def ends(text: str, chars: int) -> str:
    """Return a text without its middle if it is too long. Similar names differ at their ends."""
    if len(text) <= chars:
        return text
    first = (chars - 1) // 3
    return f"{text[:first]}…{text[first + 1 - chars :]}"


_NO_CHARACTERS = {ord("\n"): " ", ord("\t"): " ", 0xFFFE: "\ufffd", 0xFFFF: "\ufffd"}
