"""The web page with long runs, in a real browser: only a part is drawn, all of it can be found, copied and kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from packages.progress.tests.made_log import MadeCall, add, hub_of, made_log
from packages.progress.tests.page import HOSTILE, PICTURES, Page
from selenium.webdriver.common.keys import Keys
from tests.node import installed_file

from eagerstream_progress import RunLog, load_records, save_records
from eagerstream_progress.web import save_page, serve

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PER_TURN = 10


def long_log(calls: int, *, id: str = "long") -> RunLog:
    """A run of many turns: each says something, and makes ten calls of three tools, of which some fail."""
    log = made_log(id, name="A long run", texts=1)
    block = 1
    for number in range(calls):
        if number and number % PER_TURN == 0:
            turn = number // PER_TURN + 1
            block += 1
            add(
                log,
                {"type": "turn_stop", "turn": turn - 1, "error": None},
                {"type": "turn_start", "turn": turn},
                {"type": "message_start", "id": f"msg_{turn}", "model": "m", "restarted": False},
                {"type": "block_start", "block": block, "index": 0, "kind": "text"},
                {"type": "text_delta", "block": block, "text": f"Turn {turn} looks further.\n" * (turn % 4 + 1)},
                {"type": "block_stop", "block": block, "content": {"type": "text"}},
            )
        block += 1
        call = MadeCall(log, block, ("lookup", "fetch", "write")[number % 3])
        call.write(json.dumps({"row": f"row {number}", "text": "harbour " * (number % 40)}))
        call.stop()
        call.run(f"row {number} is there", is_error=number % 17 == 3)
    return log


def rows_of_cards(page: Page) -> list[int]:
    """The numbers of the rows that the drawn cards are about, in their order on the page."""
    script = "return [...document.querySelectorAll('.call .fields')].map((fields) => Number(/row (\\d+)/.exec(fields.textContent)[1]))"
    return list(page.run(script))


def seen(page: Page) -> bool:
    """Something of the list is in the middle of what is visible: no gap but that between two items."""
    script = """return [0, 20].some((more) => document.elementFromPoint(innerWidth / 2, innerHeight / 2 + more)
        .closest('.turns > :not(.space), .keys') !== null)"""
    return bool(page.run(script))


def focused_fields(page: Page) -> str:
    """The fields of the card that has the focus."""
    return str(page.run("return document.activeElement.querySelector('.fields')?.textContent ?? ''"))


def test_every_call_can_be_seen(page: Page) -> None:
    """From the first to the last, by scrolling, while the page stays small."""
    log = long_log(300)
    with serve(hub_of(log)) as server:
        page.open(server.url, height=900)
        page.wait(lambda: page.all(".call"))
        page.run("document.querySelector('.turns').scrollIntoView()")
        found: set[int] = set()
        turns: set[str] = set()
        while not page.run("return scrollY + innerHeight >= document.documentElement.scrollHeight - 2"):
            page.run("scrollBy(0, 700)")
            page.wait(lambda: seen(page))
            rows = rows_of_cards(page)
            assert rows == sorted(rows)
            found.update(rows)
            turns.update(
                page.run("return [...document.querySelectorAll('.turns > h2')].map((head) => head.textContent)")
            )
            assert page.run("return document.querySelectorAll('*').length") < 4_000
        assert found == set(range(300))
        assert turns == {f"Turn {number}" for number in range(1, 31)}
        page.run("scrollTo(0, 0)")
        page.wait(lambda: page.text(".turns > h2") == "Turn 1")
        page.picture("long-run.png")


def test_what_is_read_stays_in_its_place(page: Page) -> None:
    """Parts above become higher and the run grows: the card that is read does not move."""
    log = long_log(400)
    with serve(hub_of(log)) as server:
        page.open(server.url, height=900)
        page.wait(lambda: page.all(".call"))
        page.run("scrollTo(0, document.documentElement.scrollHeight / 2)")
        page.wait(lambda: seen(page) and page.run("return window.settled === (window.settled = scrollY)"))
        middle = "return document.elementFromPoint(innerWidth / 2, innerHeight / 3).closest('.call')?.id"
        card = str(page.wait(lambda: page.run(middle)))
        top = "return document.getElementById(arguments[0]).getBoundingClientRect().top"
        before = page.run(top, card)
        for number in range(20):
            call = MadeCall(log, 10_000 + number, "later")
            call.write('{"row": "row 1000"}')
            call.stop()
        page.wait(lambda: "420 calls" in page.text(".summary"))
        assert abs(page.run(top, card) - before) < 3
        page.run("document.querySelector('.turns > .call .inspect').click()")  # above what is seen
        page.wait(lambda: page.all(".inspector"))
        assert abs(page.run(top, card) - before) < 3


def test_moving_far(page: Page) -> None:
    """By a row of the timeline, by the keyboard, and to the call that asks: the card is there, and has the focus."""
    log = long_log(500)
    asking = MadeCall(log, 9_000, "publish")
    asking.write('{"row": "row 500"}')
    asking.stop()
    asking.add("approval_start")
    with serve(hub_of(log)) as server:
        page.open(server.url, height=900)
        page.wait(lambda: page.all(".call"))
        page.run("document.querySelector('.rows').scrollTop = 200 * 27")
        page.wait(lambda: "row 200" in page.text(".rows"))
        assert len(page.all(".rows li")) < 100
        page.run(
            "[...document.querySelectorAll('.rows .label')].find((row) => /row 200$/.test(row.textContent)).click()"
        )
        page.wait(lambda: "row 200" in focused_fields(page))
        assert page.run(
            "const { top } = document.activeElement.getBoundingClientRect(); return top > 0 && top < innerHeight"
        )
        for _ in range(12):
            page.press("j")
        assert "row 212" in focused_fields(page)
        page.press(Keys.HOME)
        assert "row 0" in focused_fields(page)
        page.press(Keys.END)
        assert page.focused() == "publish needs approval"
        page.press(Keys.HOME)
        page.run("document.querySelector('.attention button').click()")
        page.wait(lambda: page.focused() == "publish needs approval")
        page.run("scrollTo(0, 0)")
        page.wait(lambda: "Turn 1" in page.text(".turns > h2"))
        assert page.focused() == "publish needs approval", "it keeps the focus, wherever the reader looks"


def test_finding(page: Page) -> None:
    """By a text, a state and a tool: exactly the calls that fit, and how many they are."""
    log = long_log(300)
    running = MadeCall(log, 9_000, "lookup")
    running.write('{"row": "row 300", "n": 12345678901234567890, "z": 1')
    with serve(hub_of(log)) as server:
        page.open(server.url, height=900)
        page.wait(lambda: page.all(".call"))

        def shows(rows: list[int], told: str) -> bool:
            return rows_of_cards(page) == rows and page.text(".find [role=status]").startswith(told)

        def press(word: str) -> None:
            page.run(
                "[...document.querySelectorAll('.states button')].find((one) => one.textContent === arguments[0]).click()",
                word,
            )

        press("failed")
        failed = [number for number in range(300) if number % 17 == 3]
        page.wait(lambda: shows(failed, f"{len(failed)} matches"))
        assert len(page.all(".rows button")) == len(failed)
        select = "const tool = document.querySelector('.find select'); tool.value = arguments[0]; tool.dispatchEvent(new Event('change'))"
        page.run(select, "fetch")
        page.wait(lambda: shows([number for number in failed if number % 3 == 1], "6 matches"))
        page.run(select, "")
        press("running")
        page.wait(lambda: shows([300], "1 match"))
        press("all")
        page.one("#find").send_keys("ROW 29")
        page.wait(lambda: shows([29, *range(290, 300)], "11 matches"))
        page.one("#find").clear()
        page.one("#find").send_keys("(is there")
        page.wait(lambda: page.text(".find [role=status]").startswith("0 matches"))
        page.one("#find").clear()
        page.one("#find").send_keys("12345678901234567890")
        page.wait(lambda: shows([300], "1 match"))
        page.one("#find").clear()
        page.one("#find").send_keys("turn 7 looks")
        page.wait(lambda: page.text(".turns").startswith("Turn 7") and len(page.all(".turns > *")) == 2)
        press("running")
        page.wait(lambda: page.text(".find [role=status]").startswith("0 matches"))
        page.run("[...document.querySelectorAll('.find .quiet')].at(-1).click()")
        page.wait(lambda: not page.text(".find [role=status]"))
        assert page.run("return document.getElementById('find').value") == ""
        press("running")
        page.wait(lambda: shows([300], "1 match"))
        running.write("}")
        running.stop()
        running.run()
        page.wait(lambda: shows([], "0 matches"))


@pytest.fixture
def kept(page: Page, tmp_path: Path) -> Callable[[str], bytes]:
    """Return a function that waits for a download, and returns it."""
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})

    def wait(name: str) -> bytes:
        page.wait((tmp_path / name).is_file)
        return (tmp_path / name).read_bytes()

    return wait


def test_keeping(page: Page, kept: Callable[[str], bytes], tmp_path: Path) -> None:
    """An input, a text, the records and the page come as files, an input and a text to the clipboard, too."""
    log = long_log(12)
    value = {"path": "../a b.txt", "text": HOSTILE + "é\n" * 2_000, "key": "sk-ant-api03-" + "a" * 80}
    call = MadeCall(log, 9_000, "écrire/file")
    call.write(json.dumps(value, ensure_ascii=False))
    call.stop()
    call.run()
    with serve(hub_of(log)) as server:
        page.open(server.url)
        card = page.call("écrire/file")
        page.driver.execute_cdp_cmd(
            "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
        )
        page.click(f"{card} .inspect")

        def press(part: str, word: str) -> None:
            script = "[...document.querySelectorAll(`${arguments[0]} .take button`)].find((one) => one.textContent.startsWith(arguments[1])).click()"
            page.run(script, f"{card} {part}", word)

        page.wait(lambda: page.all(f"{card} .inspector .take button"))
        press(".inspector", "download")
        assert kept("_crire_file-9000.json").decode() == call.raw
        press(".fields", "download")
        assert kept("_crire_file-9000.txt").decode() == value["text"]
        read = "const done = arguments[0]; navigator.clipboard.readText().then(done, (error) => done(String(error)))"

        def is_copied(text: str) -> bool:
            return bool(page.driver.execute_async_script(read) == text)

        for part, text in ((".inspector", call.raw), (".fields", value["text"])):
            press(part, "copy")
            page.wait(partial(is_copied, text))
        page.run("[...document.querySelectorAll('.downloads a')][0].click()")
        save_records(tmp_path / "expected", log.records())
        assert kept("long.jsonl") == (tmp_path / "expected").read_bytes()
        assert b"sk-ant-api03-aaa" not in kept("long.jsonl")
        assert load_records(tmp_path / "long.jsonl")[-1]["type"] == "tool_stop"
        page.run("[...document.querySelectorAll('.downloads a')][1].click()")
        save_page(tmp_path / "expected.html", [log.records()])
        assert kept("long.html") == (tmp_path / "expected.html").read_bytes()


def test_all_of_it_is_shown(page: Page) -> None:
    """Two megabytes of text, thousands of items, a hundred fields: after "show all", nothing is missing."""
    log = made_log(texts=0)
    text = (
        "".join(f"line {number} \N{GRINNING FACE}\n" for number in range(90_000)) + "x" * 100_000 + "\U0001f600" * 9_000
    )
    values: dict[str, Any] = {
        "text": text,
        "items": list(range(3_000)),
        **{f"field{number}": number for number in range(100)},
    }
    call = MadeCall(log, 2, "large", input=values)
    call.stop()
    call.run([{"type": "text", "text": f"part {number}"} for number in range(30)])
    add(log, {"type": "block_start", "block": 3, "index": 1, "kind": "text"})
    add(log, {"type": "text_delta", "block": 3, "text": "reply " * 50_000})
    with serve(hub_of(log)) as server:
        page.open(server.url)
        card = page.call("large")

        def show_all(selector: str) -> None:
            page.run(
                "[...document.querySelectorAll(`${arguments[0]} .quiet`)].find((one) => one.textContent === 'show all').click()",
                selector,
            )

        show_all(f"{card} .more")
        page.wait(lambda: "102 fields" in page.text(f"{card} .fields"))
        assert len(page.all(f"{card} .fields > li")) == 103
        show_all(f"{card} .fields > li:nth-child(1)")
        page.wait(lambda: page.text(f"{card} .whole") == text)
        show_all(f"{card} .fields > li:nth-child(2)")
        page.wait(lambda: len(page.all(f"{card} .whole")) == 2)
        shown = page.run("return [...document.querySelectorAll(`${arguments[0]} .whole`)][1].textContent", card)
        assert json.loads(shown) == values["items"]
        show_all(f"{card} .outcome")
        page.wait(lambda: "part 29" in page.text(f"{card} .outcome"))
        show_all(".reply:nth-of-type(3)" if page.all(".reply:nth-of-type(3)") else ".reply:last-of-type")
        page.wait(
            lambda: "reply " * 50_000 in page.run("return [...document.querySelectorAll('.reply')].at(-1).textContent")
        )


def test_a_page_in_one_file(page: Page, tmp_path: Path) -> None:
    """It shows what the page of the server shows, without a server; what a model wrote stays text."""
    log = made_log(name=HOSTILE, texts=1)
    call = MadeCall(log, 2, "pay")
    call.write('{"n": 9007199254740993, "text": "</script><script>document.title=1</script>", "p": "<!--"}')
    call.stop()
    call.add("approval_start")
    call.add("approval_stop", approved=True, reason="fine")
    call.run(HOSTILE)
    path = tmp_path / "run.html"
    save_page(path, [log.records(), long_log(30).records(), long_log(30).records()])
    assert path.stat().st_mode & 0o77 == 0
    page.open(path.as_uri())
    card = page.call("pay")
    assert "9007199254740993" in page.text(f"{card} .fields")
    assert "</script><script>document.title=1</script>" in page.text(f"{card} .fields")
    assert HOSTILE in page.text(f"{card} .outcome")
    assert page.text(f"{card} .decision").startswith("Approved after ")
    assert page.driver.title.endswith("eagerstream")
    assert page.text("#connection") == "saved"
    assert not page.all(".downloads"), "there is no server"
    assert not page.all(".controls")
    assert len(page.all("#runs li")) == 3
    page.run("document.querySelector('#runs li:nth-child(2) a').click()")
    page.wait(lambda: len(page.all(".call")) == 30)
    assert (
        page.run(
            "return performance.getEntriesByType('resource').filter((one) => !one.name.startsWith('data:')).length"
        )
        == 0
    )
    page.picture("one-file.png")


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark"), (1920, "light"), (1920, "dark")])
def test_a_long_run_on_any_screen(page: Page, width: int, scheme: str) -> None:
    """Nothing is wider than the screen, and axe-core has nothing to complain of; on a touch screen, no keys are named."""
    log = long_log(250)
    with serve(hub_of(log)) as server:
        page.open(server.url, width=width, height=1000, color_scheme=scheme)
        page.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": width < 600, "maxTouchPoints": 5})
        page.wait(lambda: page.all(".call"))
        page.one("#find").send_keys("row 1")
        page.wait(lambda: page.text(".find [role=status]").startswith("1"))
        assert not page.is_too_wide()
        assert page.one(".keys").is_displayed() is (width > 600)
        page.run(installed_file("axe-core/axe.min.js").read_text())
        script = "const done = arguments[0]; axe.run().then((found) => done(found.violations), (error) => done(String(error)))"
        found = page.driver.execute_async_script(script)
        assert [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in found] == []
        page.picture(f"long-run-{width}-{scheme}.png")
        page.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


MEASURE = """
window.longest = 0;
new PerformanceObserver((list) => { for (const one of list.getEntries()) longest = Math.max(longest, one.duration); })
    .observe({ type: 'longtask', buffered: true });
new MutationObserver((_, observer) => {
    if (!document.querySelector('.call')) return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => { window.firstMs = performance.now(); }));
}).observe(document, { childList: true, subtree: true });
"""


def test_five_thousand_calls(page: Page) -> None:
    """The page stays small, with two megabytes of input on top. The times depend on the machine: they are written down."""
    log = long_log(5_000)
    with serve(hub_of(log)) as server:
        page.open(server.url, height=900)
        page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": MEASURE})
        page.driver.refresh()
        first_ms = page.wait(lambda: page.run("return window.firstMs"))
        large = MadeCall(log, 50_000, "large")
        large.write('{"text": "')
        for _ in range(1_000):
            large.write("the quick brown fox\\n" * 100)
        large.write('"}')
        large.stop()
        large.run()
        last = "return [...document.querySelectorAll('.rows .label')].at(-1)"
        page.wait(lambda: str(page.run(f"{last}.textContent")).startswith("large"))
        page.run(f"{last}.click()")
        card = page.call("large")
        page.wait_for_phase(card, "done")
        page.run(
            "[...document.querySelectorAll(`${arguments[0]} .quiet`)].find((one) => one.textContent === 'show all').click()",
            card,
        )
        page.wait(lambda: len(page.text(f"{card} .whole")) == 2_000_000)
        page.driver.execute_cdp_cmd("Performance.enable", {})
        page.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        measured = page.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        heap = {one["name"]: one["value"] for one in measured}["JSHeapUsedSize"]
        elements = page.run("return document.querySelectorAll('*').length")
        assert heap < 50 * 2**20
        assert elements < 4_000
        assert "5,001 calls" in page.text(".summary")
        longest_ms = page.run("return window.longest")
        told = (
            f"first card {first_ms:.0f} ms, longest task {longest_ms} ms, heap {heap / 1e6:.0f} MB, {elements} elements"
        )
        (PICTURES / "long-run.txt").write_text(told + "\n")
