"""A page as one printable HTML file, which loads nothing and runs no scripts."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from string import Template

from eagerstream._support.files import replacing
from eagerstream._support.markup import Markup, joined


def page_html(title: str, *body: Markup) -> str:
    """Return the page with this title and these parts."""
    template = Template(files(__package__).joinpath("page.html").read_text("utf-8"))
    return template.substitute(title=joined(title), body=joined(*body))


def write_page(page: str, path: Path) -> None:
    """Write a page to a file. An existing file is replaced once the new one is complete.

    Raises:
        OSError: The file cannot be written.
    """
    with replacing(path, private=False) as file:  # a page is meant for others
        file.write(page.encode())
