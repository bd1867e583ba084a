"""The figures of the README and the docs are those of results.json. To write them: `python -m benchmarks --render`."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from benchmarks import readme
from benchmarks.results import read
from tests.streams import needs_recordings, real_recordings
from tests.tables import rows

PAGES = {str(page.relative_to(readme.ROOT)): page.read_text(encoding="utf-8") for page in readme.pages()}
RESULTS = read()


@rows("page", PAGES)
def test_a_page_has_the_measured_figures(page: str) -> None:
    """A figure that is edited by hand, or is older than the results, is a false claim."""
    assert readme.rendered(PAGES[page], RESULTS) == PAGES[page]


def test_every_section_is_on_one_page() -> None:
    """A section that disappears would take its misses with it."""
    sections = [name for text in PAGES.values() for name in re.findall(r"<!-- bench: (\w+) -->", text)]
    assert sorted(sections) == sorted(readme.SECTIONS)


@rows("name", readme.SECTIONS)
def test_a_section_is_written_from_the_results(name: str) -> None:
    """Each section replaces old text, and needs its results: without them, nothing is written."""
    section = readme.SECTIONS[name].text(RESULTS)
    old = f"before\n<!-- bench: {name} -->\nold\n<!-- -->\nbehind"
    assert readme.rendered(old, RESULTS) == f"before\n<!-- bench: {name} -->\n{section}\n<!-- -->\nbehind"
    with pytest.raises(LookupError):
        readme.rendered(old, {"benchmarks": {}})


def test_all_missed_targets_are_listed() -> None:
    """Every miss is listed, asserted or not; a target without a measurement counts as neither."""
    results: dict[str, Any] = copy.deepcopy(RESULTS)
    rows = [row for figures in results["benchmarks"].values() for row in figures.get("rows", ())]
    missed = sum(row["met"] is False for row in rows)
    assert readme.misses(results).count("\n| ") == missed + 2
    met = next(row for row in rows if row["met"])
    met["met"] = False
    assert f"| {met['work']} | " in readme.misses(results)
    met["met"] = None
    assert f"| {met['work']} | " not in readme.misses(results)


@needs_recordings
def test_the_number_of_recordings() -> None:
    """The docs count the responses of the API that the tests replay. Seven of the shared bodies are handwritten."""
    for page in ("README.md", "docs/guides/progress.md"):
        assert f"{len(real_recordings()) - 7} recorded responses" in PAGES[page]
