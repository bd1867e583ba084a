"""The check of the finished pages: links lead somewhere, and nothing is loaded from another host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx
from sphinx.util.logging import getLogger


def setup(app: Sphinx) -> dict[str, Any]:
    """Register what this module does with Sphinx."""
    app.connect("build-finished", _check, priority=900)  # after what writes files of its own
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _check(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        for problem in problems(Path(app.outdir)):
            getLogger(__name__).warning("%s", problem)


@dataclass
class _Page(HTMLParser):
    """The links and anchors of a page."""

    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element refers to."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if "href" in values:
            (self.links if tag in {"a", "area"} or _is_for_reading(values) else self.loaded).append(values["href"])
        if "src" in values:
            self.loaded.append(values["src"])


def _is_for_reading(values: dict[str, str]) -> bool:
    """Return True if a `<link>` only names a page, as `rel="next"` does, and is not loaded with this one."""
    return values.get("rel") in {"next", "prev", "index", "search", "canonical", "author", "copyright"}


def problems(folder: Path) -> Iterator[str]:
    """Return what is wrong with the links of the pages in a folder, in words."""
    pages = {file.resolve(): _read(file) for file in sorted(folder.rglob("*.html"))}
    for file, page in pages.items():
        name = file.relative_to(folder.resolve())
        for link in (*page.links, *page.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded and parts.scheme != "data":
                    yield f"{name}: loads {link} from another host"
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not target.is_file():
                yield f"{name}: {link} leads nowhere"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name}: {link} leads to no anchor"
    for sheet in sorted(folder.rglob("*.css")):
        for address in re.findall(r"""url\(\s*["']?((?:https?:)?//[^"')]+)""", sheet.read_text(encoding="utf-8")):
            yield f"{sheet.relative_to(folder)}: loads {address} from another host"


def _read(file: Path) -> _Page:
    page = _Page()
    page.feed(file.read_text(encoding="utf-8"))
    return page
