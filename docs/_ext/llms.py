"""`llms.txt` and `llms-full.txt`: the documentation for language models, as https://llmstxt.org describes it."""

from __future__ import annotations

import inspect
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from docutils import nodes
from sphinx.application import Sphinx

from .generated import expanded
from .options import options_table
from .pages import BLOCK, names_in
from .public_names import PublicName, assignment, public_names
from .reference import OPTIONS

SUMMARY: Final = (
    "An async Python SDK for the eager input streaming of Claude's Messages API: it shows the input of a tool while the"
    " model writes it, and runs each call as soon as its input is complete."
)

_TABLE_OF_CONTENTS: Final = re.compile(r"^```\{toctree\}\n.*?^```\n", re.MULTILINE | re.DOTALL)
_UNNAMED_LINK: Final = re.compile(r"(?<!!)\[\]\(([^)#]+\.md)\)")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register what this module does with Sphinx."""
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    documents = list(_in_order(app, app.config.root_doc))
    folder = Path(app.outdir)
    (folder / "llms.txt").write_text(_index(app, documents), encoding="utf-8")
    pages = "\n\n".join(_page(app, document) for document in documents)
    (folder / "llms-full.txt").write_text(f"{pages}\n", encoding="utf-8")


def _in_order(app: Sphinx, document: str) -> Iterator[str]:
    yield document
    for inner in app.env.toctree_includes.get(document, ()):
        yield from _in_order(app, inner)


def _index(app: Sphinx, documents: list[str]) -> str:
    lines = [f"# {app.config.project}", "", f"> {SUMMARY}"]
    section = ""
    for document in documents[1:]:
        if (folder := document.partition("/")[0]) != section:
            section = folder
            lines += ["", f"## {folder.capitalize()}", ""]
        lines.append(f"- [{app.env.titles[document].astext()}]({document}.html): {_first_sentence(app, document)}")
    return "\n".join((*lines, ""))


def _first_sentence(app: Sphinx, document: str) -> str:
    paragraph = next(iter(app.env.get_doctree(document).findall(nodes.paragraph)), None)
    text = " ".join(paragraph.astext().split()) if paragraph is not None else ""
    return re.sub(r"(\.) [A-Z].*", r"\1", text)


def _page(app: Sphinx, document: str) -> str:
    """Return a page as Markdown, with the documentation of names as text."""
    text = Path(app.env.doc2path(document)).read_text(encoding="utf-8")
    text = BLOCK.sub(lambda block: "\n\n".join(map(_name, names_in(block[1]))), _TABLE_OF_CONTENTS.sub("", text))
    text = OPTIONS.sub(lambda block: options_table(public_names()[f"eagerstream.{block[1]}"]), text)
    return _UNNAMED_LINK.sub(lambda link: f"[{_title(app, document, link[1])}]({link[1]})", expanded(text)).strip()


def _title(app: Sphinx, document: str, link: str) -> str:
    target = posixpath.normpath(posixpath.join(posixpath.dirname(document), link.removesuffix(".md")))
    return str(app.env.titles[target].astext())


def _name(name: PublicName) -> str:
    value = name.value
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        found = assignment(name)
        return f"### `{name.full}`\n\n{found.doc if found else ''}".strip()
    parts = [f"### `{name.full}{_signature(value)}`", inspect.cleandoc(value.__doc__ or "")]
    if inspect.isclass(value):
        for member_name, member in vars(value).items():
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            doc = function.__doc__ if inspect.isroutine(function) else None
            if doc and not member_name.startswith("_"):
                signature = "" if isinstance(member, property) else _signature(function)
                parts += [f"#### `{name.name}.{member_name}{signature}`", inspect.cleandoc(doc)]
    return "\n\n".join(filter(None, parts))


def _signature(value: Any) -> str:
    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
