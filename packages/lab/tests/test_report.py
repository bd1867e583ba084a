"""The report of a benchmark: what it says of a real one, and that nothing in any other gets the better of it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from html import escape
from html.parser import HTMLParser
from math import inf, nan
from pathlib import Path
from xml.etree import ElementTree as ET

import anyio
import pytest
from packages.lab.tests.lab import made_results as made_lab_results
from packages.lab.tests.made_results import (
    HOSTILE,
    METRICS,
    block_of,
    call_block,
    hostile_results,
    latency_of,
    made_case,
    made_results,
    made_run,
    poem_results,
    request_of,
)

from eagerstream.errors import MissingExtraError
from eagerstream.loop import LatencyData
from eagerstream_lab import _selection as selection
from eagerstream_lab._drawing import matplotlib_settings
from eagerstream_lab._kinds import MEANINGS
from eagerstream_lab._report import report_html, write_report
from eagerstream_lab._results import Results
from eagerstream_testing.demos import poem as demo_poem

pytestmark = pytest.mark.slow  # Matplotlib draws, and real runs are what it draws; `test_report_parts.py` is quick

_VOID = {"meta", "link", "br", "img", "input", "hr"}


@dataclass
class Page(HTMLParser):
    """What a browser makes of a report: its elements, and their texts."""

    html: str
    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._open: list[str] = []
        self.feed(self.html)
        self.close()
        assert self._open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self._open[-1] if self._open else "", data))

    def all(self, tag: str) -> list[str]:
        return [text for of, text in self.texts if of == tag]

    @property
    def svgs(self) -> list[ET.Element]:
        return [ET.XML(svg) for svg in re.findall(r"<svg .*?</svg>", self.html, re.DOTALL)]


def checked(html: str) -> Page:
    """The page, of which holds what holds of every report."""
    page = Page(html)
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "img", "link", "iframe", "object", "image", "foreignobject", "a", "base", "form"}
    assert html.count("<style>") == html.count("</style>") == 1
    policy = next(attributes for tag, attributes in page.elements if attributes.get("http-equiv"))
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'"
    ids = [id for _, attributes in page.elements if (id := attributes.get("id"))]
    assert len(ids) == len(set(ids))
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "action", "data")], tag
        for name, value in attributes.items():
            if name == "href" or (name != "aria-label" and "url(" in (value or "")):
                found = re.fullmatch(r"(?:.*url\()?#([\w.-]+)\)?.*", value or "")
                assert found and found[1] in ids, f"{name} of {tag} leads to nothing of the page"
    svgs = page.svgs
    assert len(svgs) == html.count("<svg ") == sum(tag == "svg" for tag, _ in page.elements)
    for svg in svgs:
        assert svg.get("role") == "img"
        assert len(svg.get("aria-label") or "") > 20
        assert not re.search(r"(?:fill|stroke): #", ET.tostring(svg, encoding="unicode")), "no fixed colours"
    return page


@pytest.fixture(scope="module")
def poem() -> Results:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_poem, "_TOOL_S", 0.05)
        return anyio.run(partial(poem_results, repetitions=2, speed=50))


@pytest.fixture(scope="module")
def poem_page(poem: Results) -> Page:
    return checked(report_html(poem))


# --- a real benchmark -------------------------------------------------------------------------------------------------


def test_all_sections_are_there(poem_page: Page) -> None:
    """From the verdicts to the time lines, each said to be simulated, and its charts: one of each kind that there is."""
    assert poem_page.all("h2") == [
        f"{title} (simulated)"
        for title in (
            "Verdicts",
            "Medians",
            "Each run",
            "Eager compared with buffered",
            "Gaps between fragments",
            "Every run on its time line",
        )
    ]
    assert poem_page.all("title")[0].startswith("Simulated latency")
    assert "embedded server" in " ".join(poem_page.all("p"))
    runs, pairs = 4, 1
    assert len(poem_page.svgs) == len(METRICS) + pairs + pairs + runs


def test_time_lines_name_what_ran(poem_page: Page) -> None:
    """Blocks, tools, turns and marks are written beside what is drawn of them."""
    texts = [
        {"".join(text.itertext()) for text in svg.iter("{http://www.w3.org/2000/svg}text")} for svg in poem_page.svgs
    ]
    beside, lines = texts[len(METRICS)], texts[-4:]
    assert len([text for text in beside if re.fullmatch(r"(Eager|Buffered), repetition [12]", text)]) == 2
    for shown in (beside, *lines):
        assert {"Turn 1", "Turn 2", "text", "get_weather", "get_tide", "make_file"} <= shown
        assert any("message_stop" in text for text in shown)
        assert any(text.startswith("tool ") for text in shown)
    assert sum("the median run" in text for shown in lines for text in shown) == 2


def test_tables_tell_the_medians(poem: Results, poem_page: Page) -> None:
    """Every figure of every case has its row."""
    cells = poem_page.all("td")
    for case in poem["cases"]:
        fragments = case["metrics"]["fragments_per_s"]["median"]
        assert any(cell == f"{fragments:,.0f}/s" or cell == f"{fragments:,.1f}/s" for cell in cells)
    assert len([text for text in poem_page.all("th") if text in ("eager", "buffered")]) == 2 * len(METRICS) + 2


def test_two_repetitions_are_no_verdict(poem_page: Page) -> None:
    """What the benchmark left undecided is told with its reason, and without a figure that could be taken for one."""
    words = " ".join(poem_page.all("li") + poem_page.all("span"))
    assert "no verdict" in words
    assert "2 of 6 values that it takes" in words
    assert not re.search(r"\d\s(?:m?s) (?:earlier|later|shorter|longer)", " ".join(poem_page.all("strong")))


def test_the_words_are_those_of_the_table() -> None:
    """What happens at a time is earlier or later, what lasts is shorter or longer; and each figure is explained."""
    results = made_lab_results()
    page = report_html(results)
    assert re.search(r'First finished field: <strong class="number">1[12]\.\d\xa0s earlier', page)
    assert re.search(r'Complete run: <strong class="number">1[12]\.\d\xa0s shorter', page)
    for meaning in MEANINGS.values():
        assert f"<dd>{escape(meaning)}.</dd>" in page


def test_the_interval_of_few_runs_is_their_range(poem_page: Page) -> None:
    """Of two runs there is no interval that holds the median so often as it says."""
    assert all(text.startswith("range ") for text in poem_page.all("td") if text.startswith(("[", "range")))
    assert any(text.startswith("range ") for text in poem_page.all("td"))


def test_the_same_results_are_the_same_report() -> None:
    """Whatever the process has set for Matplotlib, which is left as it was."""
    import matplotlib as mpl

    results = _ODD["never ended"]()
    html = report_html(results)
    with mpl.rc_context({"font.size": 40, "svg.fonttype": "path", "axes.facecolor": "red"}):
        assert report_html(results) == html
        assert mpl.rcParams["font.size"] == 40
    assert "matplotlib.pyplot" not in sys.modules, "no state of the whole process is made"


def test_noise_is_told() -> None:
    """On top, where nobody overlooks it, and as text."""
    page = checked(report_html({**_ODD["never ended"](), "warnings": ["other processes used 40 %", HOSTILE]}))
    assert "Warnings." in page.all("strong")
    assert any("other processes used 40 %; $x^$" in text for text in page.all("p"))


def test_live_figures_are_not_called_simulated() -> None:
    """The mark is where it belongs, and nowhere else."""
    html = report_html({**_ODD["never ended"](), "simulated": False})
    assert "imulated" not in html
    assert "embedded" not in html


# --- those that nobody should meet ------------------------------------------------------------------------------------


def test_hostile_texts_are_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of tools, cases, errors, machines: shown as they are, inside of charts as outside; the many are bounded."""
    monkeypatch.setattr(selection, "MAX_RUNS", 5)
    html = report_html(hostile_results())
    page = checked(html)
    assert "<script>" not in html
    assert "\x00" not in html
    assert "\x1b" not in html
    assert "\u202e" not in html
    html.encode("utf-8")
    assert "$x^$</svg></title><script>" in "".join(page.all("h3"))
    shown = "".join("".join(svg.itertext()) for svg in page.svgs)
    assert HOSTILE[:10] in shown
    assert "$x^$" in "".join(svg.get("aria-label") or "" for svg in page.svgs)
    assert "3 runs left out" in html
    assert "The first 60 rows; 24 left out." in html
    assert "1 run failed" in html
    assert len(html) < 600_000


_TIMES = {
    "sent_s": 0.0,
    "headers_s": 1.0,
    "first_byte_s": 1.0,
    "message_stop_s": 1.0,
    "end_s": 1.0,
    "settled_s": 1.0,
    "next_request_s": 1.0,
}
_ODD: dict[str, Callable[[], Results]] = {
    "no cases": lambda: made_results([]),
    "no runs": lambda: made_results([made_case([], streaming="eager"), made_case([], streaming="buffered")]),
    "nothing known": lambda: _two(latency_of()),
    "an empty reply": lambda: _two(latency_of(request_of())),
    "an empty block": lambda: _one(latency_of(request_of(block_of(), **_TIMES), duration_s=1.0)),
    "all at once": lambda: _two(latency_of(request_of(block_of(start_s=0.0, stop_s=0.0), sent_s=0.0), duration_s=0.0)),
    "no arrivals": lambda: _one(latency_of(request_of(call_block("a", 0.0, arrivals=0, fields=0)), duration_s=2.0)),
    "huge": lambda: _two(latency_of(request_of(call_block("a", 9e11), **_TIMES), duration_s=9e11, chars_per_s=1e300)),
    "tiny": lambda: _one(latency_of(duration_s=1e-9, time_to_first_field_s=5e-324)),
    "no numbers": lambda: _one(latency_of(request_of(call_block("a", nan)), duration_s=inf, chars_per_s=nan)),
    "negative": lambda: _one(latency_of(request_of(call_block("a", -5.0)), duration_s=-1.0, won_s=-3.0)),
    "never ended": lambda: _one(
        latency_of(
            request_of(
                call_block("a", 0.0, call={"end_s": None, "start_s": None}), call_block("b", 0.0, call={"end_s": None})
            )
        )
    ),
    "all failed": lambda: _two(latency_of(request_of(call_block("a", 0.0), **_TIMES)), error="StreamInterrupted"),
}


def _one(latency: LatencyData) -> Results:
    return made_results([made_case([made_run(latency)], streaming="eager")])


def _two(latency: LatencyData, error: str | None = None) -> Results:
    runs = [made_run(latency, error=error)]
    base, other = made_case(runs, streaming="buffered"), made_case(runs, streaming="eager")
    return made_results([base, other], compared=[(base, other)])


@pytest.mark.parametrize("name", _ODD)
def test_odd_results_make_a_report(name: str) -> None:
    """Nothing known, nothing there, numbers that are none: there is a page, and it is whole."""
    page = checked(report_html(_ODD[name]()))
    assert page.all("h1")


def test_names_in_any_script() -> None:
    """The font that Matplotlib measures with has not these characters: no warning, and they are in the page."""
    names = ["天気を取得する", "\U0001f600\U0001f469\u200d\U0001f467", "\u05e9\u05dc\u05d5\u05dd", "\U00100000"]
    latency = latency_of(request_of(*(call_block(name, 0.0) for name in names)), duration_s=2.0)
    html = report_html(made_results([made_case([made_run(latency)], streaming="eager", label=names[0])]))
    checked(html)
    assert all(f">{name}</text>" in html for name in names)


def test_all_failed() -> None:
    """Runs that failed are listed and drawn, and count in no figure."""
    page = checked(report_html(_ODD["all failed"]()))
    words = " ".join(text for _, text in page.texts)
    assert "2 runs failed" in words
    assert "StreamInterrupted" in words
    assert "Repetition 1, failed: StreamInterrupted" in words
    assert "No run has figures." in words


def test_a_failed_run_does_not_stretch_the_scale() -> None:
    """One that hung for a minute is cut off at the end of the time line, and says so."""
    whole = made_run(latency_of(request_of(call_block("a", 0.0)), duration_s=2.0))
    hung = made_run(latency_of(request_of(call_block("a", 60.0)), duration_s=62.0), error="TimeoutError", order=1)
    html = report_html(made_results([made_case([whole, hung], streaming="eager")]))
    checked(html)
    assert "continues to 62.0\u00a0s \u2192" in html


def test_many_arrivals_weigh_no_more() -> None:
    """A block of 50,000 arrivals and 10,000 fields is drawn with some of them."""
    runs = [made_run(latency_of(request_of(call_block("a", 0.0, arrivals=50_000, fields=10_000)), duration_s=3.0))]
    assert len(report_html(made_results([made_case(runs, streaming="eager")]))) < 120_000


@pytest.mark.slow
def test_large_matrices_are_bounded() -> None:
    """Of 60 cases 40 are drawn, a few runs of each; what is left out is said."""
    runs = [made_run(latency_of(request_of(), duration_s=1.0 + number), repetition=number) for number in range(8)]
    cases = [
        made_case(runs, streaming=streaming, source=f"source {number}", label=f"source {number}/{streaming}")
        for number in range(30)
        for streaming in ("eager", "buffered")
    ]
    with matplotlib_settings():  # may stand in another
        html = report_html(made_results(cases))
    checked(html)
    assert "20 cases left out" in html
    assert "18 pairs left out" in html
    assert "5 runs left out" in html


# --- the file ---------------------------------------------------------------------------------------------------------


def test_the_file_is_whole_or_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where something goes wrong what was there stays, and nothing is beside it."""
    path = tmp_path / "report.html"
    write_report(made_results([]), path)
    before = path.read_text("utf-8")
    assert before.startswith("<!doctype html>")
    blocked = tmp_path / "folder"
    (blocked / "in").mkdir(parents=True)
    with pytest.raises(OSError):
        write_report(made_results([]), blocked)
    with pytest.raises(OSError):
        write_report(made_results([]), tmp_path / "missing" / "report.html")

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("eagerstream_lab._tables.waterfall", stop)
    with pytest.raises(KeyboardInterrupt):
        write_report(_ODD["nothing known"](), path)
    assert path.read_text("utf-8") == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "report.html"]


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What to install is said, and nothing is written."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"matplotlib is not installed.*eagerstream-lab\[bench\]"):
        write_report(made_results([]), tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []
