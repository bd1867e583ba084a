"""Additions to the theme for people who read with a keyboard or a screen reader."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from sphinx.application import Sphinx

_MISSING: Final = (
    # A heading without a level, and two landmarks without names.
    (re.compile(r'(<p class="caption" role="heading")>'), r'\1 aria-level="2">'),
    (re.compile(r'(<aside class="sidebar-drawer")>'), r'\1 aria-label="All pages">'),
    (re.compile(r'(<aside class="toc-drawer[^"]*")>'), r'\1 aria-label="This page">'),
    # The corner of a table that has heads at the left, too.
    (re.compile(r'<th (class="head[^"]*")><p></p></th>'), r"<td \1></td>"),
    # Programs and tables that are wider than the page scroll by themselves: also with the arrow keys.
    (re.compile(r"<pre>"), r'<pre tabindex="0">'),
    (re.compile(r'(<div class="table-wrapper[^"]*")>'), r'\1 tabindex="0">'),
)
_SIGNATURE: Final = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)
_NO_LIST: Final = (("<dl>", '<span class="sig-lines">'), ("</dl>", "</span>"), ("<dd>", "<span>"), ("</dd>", "</span>"))
"""The lines of a long signature: descriptions of nothing, in a list of descriptions."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register what this module does with Sphinx."""
    app.connect("build-finished", _complete)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _complete(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    for file in Path(app.outdir).rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        for pattern, replacement in _MISSING:
            text = pattern.sub(replacement, text)
        file.write_text(_SIGNATURE.sub(lambda signature: _without_list(signature[0]), text), encoding="utf-8")


def _without_list(signature: str) -> str:
    for old, new in _NO_LIST:
        signature = signature.replace(old, new)
    return signature
