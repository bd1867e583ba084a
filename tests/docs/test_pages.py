"""The pages of `docs/start` and `docs/guides`: their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.programs import PAGES, ROOT
from tests.docs.tables import TABLES, with_table
from tests.prose import headings
from tests.tables import rows

REPOSITORY = "https://github.com/eagerstream/eagerstream/blob/main/"
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_GENERATED = ("docs/reference/", "docs/inside/")  # the build of the docs fails if one of their pages is missing


@rows("page", PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    """A page links to pages beside it, and to files of the repository."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in _LINK.findall(text):
        link, _, heading = target.partition("#")
        if link.startswith("https://"):
            if link.startswith(REPOSITORY):
                assert (ROOT / link.removeprefix(REPOSITORY)).exists(), target
            continue
        file = (page.parent / link).resolve() if link else page
        if not str(file.relative_to(ROOT)).startswith(_GENERATED):
            assert file.exists(), target
            if heading:
                assert heading in headings(file), target


@rows("page", TABLES)
def test_tables_are_up_to_date(page: Path) -> None:
    """`python -m tests.docs.tables` writes them."""
    assert page.read_text("utf-8") == with_table(page, TABLES[page]())
