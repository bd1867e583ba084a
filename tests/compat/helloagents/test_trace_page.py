"""The page of a trace: it can be read, and nothing that models or tools say can act in it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from selenium.webdriver.common.by import By

from eagerstream.compat.helloagents import TraceLogger
from eagerstream.compat.helloagents._trace import page
from tests.browser import chromium

HOSTILE = (
    "<script>document.title='pwned'</script>",
    "</pre></details><img src=x onerror=\"document.title='pwned'\">",
    "</script><script>document.title='pwned'</script>",
    '" onmouseover="document.title=\'pwned\'" data-x="',
    "' onclick='document.title=1' '",
    "<a href=\"javascript:document.title='pwned'\">click</a>",
    "<style>body{display:none}</style>",
    "<meta http-equiv=refresh content='0;url=https://example.com'>",
    "--><svg onload=\"document.title='pwned'\">",
    "&lt;b&gt;\u202etxt.exe\u2028\x00\x1b[31m",
    "<iframe srcdoc='<script>parent.document.title=1</script>'></iframe>",
    "]]><base href='https://example.com/'>",
)
TAGS = {"html", "head", "meta", "title", "style", "body", "header", "h1", "p", "a", "main", "h2", "details", "summary"}
TAGS |= {
    "span",
    "time",
    "strong",
    "pre",
    "section",
    "dl",
    "div",
    "dt",
    "dd",
    "h3",
    "table",
    "tr",
    "th",
    "td",
    "ul",
    "li",
}


def hostile_trace(folder: Path, texts: tuple[str, ...] = HOSTILE) -> Path:
    """A page in which every place that takes a text has one that is made to do harm."""
    with TraceLogger(folder) as logger:
        logger.log_event("session_start", {"agent_name": texts[0]})
        for number, text in enumerate(texts):
            logger.log_event(text, {text: [text, {"deep": text}], "args": {"code": text}}, step=number)
            logger.log_event("tool_call", {"tool_name": text})
            logger.log_event("error", {"error_type": text, "message": text}, step=number)
        logger.log_event("model_output", {"usage": {"total_tokens": 1234, "cost": 0.25}}, step=3)
    assert logger.html_path is not None
    return logger.html_path


class Elements(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def elements(html: str) -> Elements:
    parsed = Elements()
    parsed.feed(html)
    parsed.close()
    return parsed


def check(html: str) -> Elements:
    """There is nothing in a page but what this program puts there."""
    parsed = elements(html)
    assert {tag for tag, _ in parsed.tags} <= TAGS
    for tag, attributes in parsed.tags:
        assert not any(name.startswith("on") or name in ("src", "style") for name in attributes)
        assert attributes.get("href") in (None, "#statistics")
        assert attributes.get("data-kind") in (None, "tool_call", "tool_result", "error", "model_output")
        assert tag != "meta" or "refresh" not in attributes.values()
    return parsed


def test_hostile_texts_are_text(tmp_path: Path) -> None:
    """They are on the page, as text and as nothing else."""
    html = hostile_trace(tmp_path).read_text("utf-8")
    parsed = check(html)
    assert "<script>document.title='pwned'</script>" in parsed.text
    assert not re.search("[\u202e\x00\x1b]", html)


@given(st.lists(st.text(st.characters() | st.sampled_from("<>&\"'/")), min_size=1, max_size=5))
def test_any_text_is_text(texts: list[str]) -> None:
    """Whatever is in an event, its tags are the same."""
    record = {"ts": texts[0], "step": None, "event": texts[-1], "payload": {"texts": texts}}
    parsed = elements(page.event(record, include_raw=True))
    assert [tag for tag, _ in parsed.tags] == ["details", "summary", "span", "time", "strong", "pre"]


def test_statistics_and_policy(tmp_path: Path) -> None:
    """What the panel says; and the policy, which lets nothing in but the page's own style."""
    html = hostile_trace(tmp_path).read_text("utf-8")
    for shown in ("<dt>Tokens</dt><dd>1,234</dd>", "<dt>Cost</dt><dd>$0.2500</dd>", "<dt>Steps</dt><dd>11</dd>"):
        assert shown in html
    assert f"Errors ({len(HOSTILE)})" in html
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_it_can_be_read_while_it_grows(tmp_path: Path) -> None:
    """Each event is there at once; a trace without an end is a page, too."""
    with TraceLogger(tmp_path) as logger:
        logger.log_event("message_written", {"content": "你好"})
        assert logger.html_path is not None
        assert "你好" in check(logger.html_path.read_text("utf-8")).text


@pytest.mark.parametrize("include_raw", [False, True])
def test_raw_responses(tmp_path: Path, include_raw: bool) -> None:
    """They are on the page only where that is asked for, and in the lines always."""
    with TraceLogger(tmp_path, html_include_raw_response=include_raw) as logger:
        logger.log_event("model_output", {"content": "said", "raw_response": "as it came"})
    assert logger.html_path is not None
    assert ("as it came" in logger.html_path.read_text()) is include_raw
    assert "as it came" in logger.jsonl_path.read_text()


def test_long_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page has so many events, and says how many more there are."""
    monkeypatch.setattr(page, "MAX_EVENTS", 3)
    with TraceLogger(tmp_path) as logger:
        for step in range(5):
            logger.log_event("step_start", {}, step=step)
    assert logger.html_path is not None
    parsed = check(logger.html_path.read_text())
    assert [tag for tag, _ in parsed.tags].count("details") == 3
    assert "2 more events are in the JSONL file." in parsed.text
    assert len(logger.jsonl_path.read_text().splitlines()) == 5


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_in_a_browser(tmp_path: Path) -> None:
    """In Chromium: nothing runs, nothing is asked for, the style is taken, and each event unfolds to its payload."""
    path = hostile_trace(tmp_path / "traces")
    with chromium(tmp_path / "profile") as driver:
        driver.get(path.as_uri())
        title = f"Trace {path.stem.removeprefix('trace-')}"
        assert driver.title == title
        assert driver.execute_script("return performance.getEntriesByType('resource').length") == 0
        assert driver.execute_script("return document.scripts.length + document.images.length + frames.length") == 0
        assert driver.execute_script("return getComputedStyle(document.body).maxWidth") != "none"
        places = driver.find_elements(By.CSS_SELECTOR, "details")
        assert len(places) == 2 + 3 * len(HOSTILE)
        for place in places:
            place.find_element(By.TAG_NAME, "summary").click()
        shown = [place.find_element(By.TAG_NAME, "pre").text for place in places]
        for number, text in enumerate(HOSTILE[:9]):
            assert json.loads(shown[1 + 3 * number])["args"] == {"code": text}
        driver.find_element(By.LINK_TEXT, "Statistics").click()
        assert "1,234" in driver.find_element(By.ID, "statistics").text
        assert driver.title == title
        assert driver.current_url.startswith(path.as_uri())
        complaints = [entry["message"] for entry in driver.get_log("browser")]  # type: ignore[no-untyped-call]
        assert complaints == []
