"""Diffs of text edits on the page, in a real browser. Needs Chromium and its driver."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal
from packages.progress.tests.made_log import MadeCall, hub_of, made_log
from packages.progress.tests.page import HOSTILE, Page
from tests.node import installed_file
from tests.streams import MESSAGE_STOP, REQUEST, block_stop, input_delta, message_delta, message_start, tool_start
from tests.support import Gate, LocalAPI

import eagerstream
from eagerstream_progress import Hub
from eagerstream_progress.web import serve
from eagerstream_toolkit import EagerTextEditor

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

OLD = '''def total(items):
    """Add all prices."""
    result = 0
    for item in items:
        result = result + item.price
    return result


def average(items):
    return total(items) / len(items)
'''
NEW = '''    """Add all prices, without those of gifts."""
    result = 0
    for item in items:
        if item.is_gift:
            continue
        result += item.price
    return result
'''


def drawn(page: Page) -> list[str]:
    """The lines of the diff that are elements: state, number and text."""
    script = """return [...document.querySelectorAll('.diff li')].map((line) =>
        `${line.dataset.state} ${line.querySelector('.number').textContent} ${line.querySelector('.code').textContent}`)"""
    return list(page.run(script))


def counts(page: Page) -> str:
    return page.text(".diff .added")[:4].split(" ")[0] + " " + page.text(".diff .removed").split(" ")[0]


def edit_call(log: Any, old: str, new: str, **more: Any) -> MadeCall:
    """A call of an editor whose new text is being written."""
    call = MadeCall(log, 5, "text_editor")
    text = json.dumps({"command": "str_replace", "path": "a.py", "old_str": old, "new_str": new})
    call.write(text[:-2])
    context = {"before": "first\n", "head": "", "tail": None, "after": "last\n"}
    record = {
        "path": "a.py",
        "new": "/new_str",
        "old": "/old_str",
        "line": 8,
        "replaced_lines": None,
        "context": context,
    }
    call.add("edit", **{**record, **more})
    return call


def test_a_diff_grows_while_it_is_written(page: Page, portal: BlockingPortal, tmp_path: Path) -> None:
    """From the old text to the right diff, by the editor of the toolkit. A reload in the middle shows the same."""
    (tmp_path / "prices.py").write_text(OLD)
    old = OLD[OLD.index('    """') : OLD.index("\n\ndef average")]
    text = json.dumps({"command": "str_replace", "path": "prices.py", "old_str": old, "new_str": NEW})
    cuts = [0, text.index("without"), text.index("continue") + 6, len(text)]
    gates = [Gate(), Gate()]
    pieces: list[Any] = [input_delta(0, text[start:end]) for start, end in pairwise(cuts)]
    body = [message_start(), tool_start(0, "text_editor"), pieces[0], gates[0], pieces[1], gates[1], pieces[2]]
    client = LocalAPI([*body, block_stop(0), message_delta("tool_use"), MESSAGE_STOP]).anthropic()
    hub = Hub()

    async def act() -> None:
        async with eagerstream.run(client, **REQUEST, tools=[EagerTextEditor(tmp_path)], max_turns=1) as run:
            hub.observe(run, name="Leave gifts out")
            await run.finish()

    with serve(hub) as server:
        page.open(server.url)
        done = portal.start_task_soon(act)
        page.wait(lambda: page.all(".diff li"))
        page.wait(lambda: 'added 2     """Add all prices, ' in drawn(page))
        assert drawn(page)[:3] == [
            "same 1 def total(items):",
            'removed 2     """Add all prices."""',
            "removed 3     result = 0",
        ]
        assert drawn(page)[-4:] == [
            "same 3 ",
            "same 4 ",
            "same 5 def average(items):",
            "same 6     return total(items) / len(items)",
        ]
        portal.call(gates[0].opened.set)
        page.wait(lambda: "added 6             contin" in drawn(page))
        assert counts(page) == "+5 \u22125"
        assert page.text(".diff .path") == "prices.py"
        assert page.all(".diff .caret")
        before = drawn(page)
        page.picture("watch-diff.png")
        page.driver.refresh()
        page.wait(lambda: page.all(".diff li"))
        assert drawn(page) == before
        assert "old_str" not in page.text(".fields")
        portal.call(gates[1].opened.set)
        page.wait_for_phase(page.call("text_editor"), "done")
        page.look(height=860)
        page.picture("watch-diff-ended.png")
        assert drawn(page) == [
            "same 1 def total(items):",
            'removed 2     """Add all prices."""',
            'added 2     """Add all prices, without those of gifts."""',
            "same 3     result = 0",
            "same 4     for item in items:",
            "removed 5         result = result + item.price",
            "added 5         if item.is_gift:",
            "added 6             continue",
            "added 7         result += item.price",
            "same 8     return result",
            "same 9 ",
            "same 10 ",
            "same 11 def average(items):",
            "same 12     return total(items) / len(items)",
        ]
        assert counts(page) == "+4 \u22122"
        done.result(10)
    assert (tmp_path / "prices.py").read_text() == OLD.replace(old, NEW)


def test_long_and_hostile_diffs(page: Page) -> None:
    """Only the lines near the visible ones are elements, the newest one is among them, and text is text."""
    log = made_log(texts=0)
    evil = f"{HOSTILE}\x1b[2J\u202egnp.exe\u200b"
    old = "".join(f"old {number}\n" for number in range(3_000))
    call = edit_call(log, old, f"{evil}\n" + "x" * 50_000 + "\n", path=f"{evil}.py")
    with serve(hub_of(log)) as server:
        page.open(server.url)
        page.wait(lambda: page.all(".diff li"))
        assert page.run("return document.querySelectorAll('main img, main script, main b').length") == 0
        assert not set(page.text("main")) & set("\x1b\u202e\u200b")
        assert "pwned" not in page.driver.title
        assert any(line.startswith("added 9 <img") for line in drawn(page))
        assert len(page.text("main")) < 12_000
        call.write("".join(f"new {number}\\n" for number in range(10_000)))
        page.wait(lambda: "added 10010 new 9999" in drawn(page))
        assert len(drawn(page)) < 100
        assert counts(page).startswith("+10,") or counts(page).startswith("+10")
        assert not page.is_too_wide()
        page.look(width=320, height=640)
        page.wait(lambda: not page.is_too_wide())
        page.picture("diff-hostile.png")


def test_several_edits_of_a_call(page: Page) -> None:
    """One below another, each with a heading. An approval shows the diff above the exact input."""
    log = made_log(texts=0)
    call = MadeCall(log, 5, "MultiEdit")
    call.write('{"path": "a.py", "edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": "')
    for number in range(2):
        at = {"new": f"/edits/{number}/new_string", "old": f"/edits/{number}/old_string", "line": None}
        call.add("edit", path="a.py", replaced_lines=None, context=None, **at)
    with serve(hub_of(log)) as server:
        page.open(server.url)
        page.wait(lambda: page.all(".diff li"))
        assert drawn(page) == ["heading  Edit 1", "removed  a", "added  b", "heading  Edit 2", "pending  c"]
        call.write('d"}]}')
        call.stop()
        call.add("approval_start")
        page.wait(lambda: page.all(".exact"))
        assert drawn(page)[-2:] == ["removed  c", "added  d"]
        assert json.loads(page.text(".exact"))["edits"][1] == {"old_string": "c", "new_string": "d"}
        assert page.one(".diff").location["y"] < page.one(".exact").location["y"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_for_axe_to_complain_of(page: Page, scheme: str) -> None:
    """Names, roles and contrast of each state of a line. Each state has a sign besides its colour."""
    axe = installed_file("axe-core/axe.min.js").read_text()
    log = made_log(texts=0)
    edit_call(log, "a\nb\n", "a\nc\n")
    pending = MadeCall(log, 6, "text_editor")
    pending.write('{"old_str": "a\\nb", "new_str": "a')
    pending.add("edit", path="b.py", new="/new_str", old="/old_str", line=1, replaced_lines=None, context=None)
    with serve(hub_of(log)) as server:
        page.open(server.url, color_scheme=scheme, reduced_motion="reduce")
        page.wait(lambda: len(page.all(".diff")) == 2)
        assert {line.split()[0] for line in drawn(page)} == {"same", "removed", "added", "pending"}
        sign = """return [...document.querySelectorAll('.diff .gutter')].map((gutter) =>
            getComputedStyle(gutter, '::before').content.split('"')[1])"""
        assert {*page.run(sign)} == {"", "+", "\u2212", "\u2026"}
        page.run(axe)
        script = "const done = arguments[0]; axe.run().then((found) => done(found.violations), (error) => done(String(error)))"
        for width in (1280, 360):
            page.look(width=width, color_scheme=scheme, reduced_motion="reduce")
            found = page.driver.execute_async_script(script)
            assert isinstance(found, list), found
            assert [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in found] == []
