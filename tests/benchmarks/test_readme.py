"""The figures of the README and the docs are those of results.json. To write them: `python -m benchmarks --render`."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from benchmarks import readme
from benchmarks.results import BENCHMARKS, NOT_RECORDED, paces_of, peers_of, read

from tests.streams import needs_recordings, real_recordings
from tests.tables import rows

PAGES = {str(page.relative_to(readme.ROOT)): page.read_text(encoding="utf-8") for page in readme.pages()}
RESULTS = read()
_SECTION = re.compile(r"<!-- bench: (\w+) -->\n(.*?)<!-- -->", re.DOTALL)
_CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_FIGURE = re.compile(r"\d\s*(?:(?:[µμunm]s|(?:micro|milli|nano)seconds?|times|per\s?cent)\b|[×%])|×\s*\d")
"""A number with a unit of what a benchmark measures: a short time, a ratio, a share."""
_PEERS = {peer for peers in BENCHMARKS.values() for peer in peers}


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


def _figures_outside(page: str) -> list[str]:
    """Return the lines with a measured figure that are in no section and in no block of code."""
    rest = _CODE.sub("", _SECTION.sub("", page))
    return [line for line in rest.splitlines() if _FIGURE.search(line)]


def _faults(page: str, results: dict[str, Any], *, needs_peer: bool = False) -> list[str]:
    """Return a description of each figure without its pace, or without its peer and the version of that.

    Args:
        page: The page.
        results: Content of `results.json`.
        needs_peer: Each section must compare with another library in a known version.
    """
    faults = []
    for name, text in _SECTION.findall(page):
        lines = [[cell.strip() for cell in line.split(" | ")] for line in text.splitlines() if line.startswith("| ")]
        targets = [dict(zip(lines[0], line, strict=True)) for line in lines[2:]] if "| target |" in text else []
        benchmarks = [] if targets else readme.SECTIONS[name].benchmarks
        for row in targets:
            named = set(re.findall(r"[\w-]+", row["compared with"])) & _PEERS
            with_version = re.findall(r"([\w-]+) (?:\d|\(version not recorded\))", row["compared with"])
            faults += [f"{name}: {peer}" for peer in named.difference(with_version)]
            faults += [f"{name}: no pace"] if row["pace"] in ("", "-") else []
        for benchmark in benchmarks:
            faults += [f"{name}: no pace" for pace in paces_of(results["benchmarks"][benchmark]) if pace not in text]
            peers = peers_of(results, benchmark)
            known = [f"{peer} {version}" for peer, version in peers.items() if version != NOT_RECORDED]
            unknown = [f"{peer} (version not recorded)" for peer, version in peers.items() if version == NOT_RECORDED]
            faults += [f"{name}: {peer}" for peer in (*known, *unknown) if peer not in text]
            faults += [f"{name}: no peer"] if needs_peer and not known else []
    return faults


def test_a_figure_of_the_readme_is_in_a_section() -> None:
    """A figure that somebody writes by hand has no peer and no pace, and nobody measures it again."""
    assert _figures_outside(PAGES["README.md"]) == []


@rows(
    "line",
    [
        "It costs 0.52 times as much.",
        "An event takes 35 µs.",
        "An event takes 35 us, or 0.035\N{NO-BREAK SPACE}ms.",
        "| start | 1,200 ms |",
        "It is 3× faster.",
        "It takes half a millisecond less, ×0.9 of the others.",
        "It takes 12 microseconds.",
        "A run takes 24% of the CPU.",
        "5 per cent less",
    ],
)
def test_figures_are_found(line: str) -> None:
    """Anywhere on a page, but in no section and no code, whose figures others check or whose reader runs it."""
    page = "before\n{}\n<!-- bench: price -->\n{}\n<!-- -->\n```sh\n{}\n```\n{}\n"
    assert _figures_outside(page.format(line, "1 ms", "2 ms", "behind")) == [line]
    assert _figures_outside(page.format("", "1 ms", "2 ms", line)) == [line]


@rows(
    "line",
    ["85 MB in 22 packages", "`SECONDS=600`", "in five minutes", "2 messages, 3 timestamps", "110 recorded responses"],
)
def test_other_numbers_are_not_figures(line: str) -> None:
    """A test with false alarms is switched off."""
    assert _figures_outside(line) == []


@rows("page", [*PAGES, "docs/reference/benchmarks.md"])
def test_a_section_names_its_peer_and_its_pace(page: str) -> None:
    """The same figure can be ten times as large at another pace, or with another version. README.md needs both."""
    text = PAGES.get(page) or readme.rendered((readme.ROOT / page).read_text(encoding="utf-8"), RESULTS)
    assert _SECTION.search(text)
    assert _faults(text, RESULTS, needs_peer=page == "README.md") == []


_MADE: dict[str, Any] = {
    "conditions": {"threads": {"anthropic": "1.2"}, "watchers": {}},
    "benchmarks": {
        "threads": {"rows": [{"pace": "one write"}, {"pace": "two writes"}]},
        "watchers": {"rows": [{"pace": "one write"}]},
    },
}
"""Results of two benchmarks. The second is not compared with another library."""

_TARGETS = """| work | compared with | pace | target |
| :-- | :-- | :-- | :-- |
| send | {} | {} | less |
"""


@rows(
    "name, text, fault",
    [
        ("threads", "1 ms. Pace: one write, or two writes. Compared with anthropic 1.2.", None),
        ("threads", "1 ms. Pace: one write. Compared with anthropic 1.2.", "threads: no pace"),
        ("threads", "1 ms. Pace: one write, or two writes.", "threads: anthropic 1.2"),
        ("threads", "1 ms. Pace: one write, or two writes. Compared with anthropic.", "threads: anthropic 1.2"),
        ("threads", "1 ms. Pace: one write, or two writes. Compared with anthropic 1.1.", "threads: anthropic 1.2"),
        ("watchers", "1 ms. Pace: one write. Compared with no other library.", "watchers: no peer"),
        ("misses", _TARGETS.format("the runner (anthropic 1.2)", "one write"), None),
        ("misses", _TARGETS.format("the median of them", "one write"), None),
        ("misses", _TARGETS.format("the runner of anthropic", "one write"), "misses: anthropic"),
        ("misses", _TARGETS.format("anthropic 1.2, and httpx2", "one write"), "misses: httpx2"),
        ("misses", _TARGETS.format("the median of them", "-"), "misses: no pace"),
    ],
)
def test_what_a_section_lacks_is_found(name: str, text: str, fault: str | None) -> None:
    """A check that cannot fail shows nothing."""
    page = f"before\n<!-- bench: {name} -->\n{text}\n<!-- -->\nbehind"
    assert _faults(page, _MADE, needs_peer=True) == ([] if fault is None else [fault])


@needs_recordings
def test_the_number_of_recordings() -> None:
    """The docs count the responses of the API that the tests replay. Seven of the shared bodies are handwritten."""
    for page in ("README.md", "docs/guides/progress.md"):
        assert f"{len(real_recordings()) - 7} recorded responses" in PAGES[page]
