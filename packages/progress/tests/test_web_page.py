"""The web page in a real browser: what somebody sees, hears and presses.

Needs Chromium and its driver (`chromium` and `chromium-driver` of Debian); in CI they have to be there. Pictures go to
`build/screenshots/`; with `EAGERSTREAM_SCREENSHOTS=examples` those that the README and the docs show are written there.
"""

from __future__ import annotations

import json
import random
import re
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.from_thread import BlockingPortal
from packages.progress.tests.made_log import MadeCall, add, hub_of, made_log
from packages.progress.tests.page import HOSTILE, Page
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from tests.node import installed_file
from tests.patches import Patches
from tests.streams import MESSAGE_STOP, REQUEST, message_delta, message_start, text_delta
from tests.support import LocalAPI, whole_call

import eagerstream
from eagerstream import tool
from eagerstream._support.serving.access import new_token
from eagerstream.calls import RunStatus
from eagerstream.loop import Run
from eagerstream_progress import Hub, RunLog, RunView
from eagerstream_progress._demo.watched import play_watched
from eagerstream_progress.web import serve
from eagerstream_testing import reply, tool_use
from eagerstream_testing.demos.poem import POEM

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def test_a_run_from_its_beginning_to_its_end(page: Page, portal: BlockingPortal) -> None:
    """The poem grows on the page, a reload in the middle misses nothing, a person approves, and it ends."""
    hub = Hub()
    with serve(hub) as server:
        page.open(server.url)
        page.wait(lambda: "No run yet" in page.text("main"))
        assert "token" not in page.driver.current_url
        played = portal.start_task_soon(play_watched, hub)

        make_file = page.call("make_file")
        page.wait_for_phase(make_file, "running")
        page.click(f"{make_file} .inspect")
        page.wait(lambda: page.text(f"{make_file} .inspector pre"))

        def look() -> tuple[str, str]:
            return page.text(f"{make_file} .fields"), page.text(f"{make_file} .inspector pre")

        fields, raw = look()
        page.wait(lambda: look()[0] != fields and len(look()[1]) > len(raw) + 100)
        assert look()[1].startswith(raw)
        assert "running writing" in page.text(f"{make_file} header")
        assert page.text(page.call("get_weather")).endswith("Lisbon: 17 degrees, wind from the west")
        overlap = f'.rows li:nth-child({1 + 3}) .bar[data-kind="overlap"]'
        assert page.one(overlap).size["width"] > 100
        page.click(f"{make_file} .inspect")
        page.run("scrollTo(0, 0)")
        page.wait(lambda: page.items(f"{make_file} .fields") >= 17)
        page.picture("watch.png")

        page.driver.refresh()
        make_file = page.call("make_file")
        page.click(f"{make_file} .inspect")
        run_code = page.call("run_code")
        page.wait(lambda: "count_visitors ×" in page.text(f"{run_code} .calls"))
        page.look(height=500)
        page.run("document.querySelector(arguments[0]).scrollIntoView()", run_code)
        page.picture("watch-code.png")
        page.look()
        publish = page.call("publish")
        page.wait_for_phase(publish, "approval")
        assert page.text(f"{run_code} .outcome").endswith("Lisbon: rising, 2.1 m\nLisbon")
        assert {*page.run("return [...document.querySelectorAll('.listing li')].map((li) => li.dataset.state)")} == {
            "done"
        }
        raw = page.text(f"{make_file} .inspector pre")
        assert json.loads(raw) == {"filename": "poem.txt", "lines_of_text": POEM}
        assert "waits for your decision" in page.text(".attention")
        page.wait(lambda: page.text(".runs .pill") == "needs approval")  # the longest that there is
        assert not page.cut_off(".runs .pill")
        page.click(f"{make_file} .inspect")
        assert page.driver.title.startswith("publish waits for you")

        page.look(width=390, height=844, color_scheme="dark")
        page.run("document.querySelector(arguments[0]).scrollIntoView({block: 'end'})", publish)
        page.picture("watch-phone.png")
        before_s = page.elapsed_s()
        page.driver.refresh()
        page.wait(lambda: page.all(f"{publish} .approve"))
        assert page.elapsed_s() >= before_s, "time goes on where nothing is said"
        assert not page.is_too_wide()
        assert not page.cut_off(".runs .pill")
        page.look()
        page.click(f"{publish} .approve")
        page.wait_for_phase(publish, "done")
        page.wait_for_status("completed")
        assert "It hangs at the harbour now" in page.text("main")
        played.result(30)
        page.picture("watch-ended.png")

        def shows(selector: str, text: str) -> bool:
            return page.text(selector) == text

        (log,) = hub.logs
        view = RunView()
        for record in log.records():
            view.feed(record)
        for call in view.calls:
            card = page.call(call.name)
            if not page.all(f"{card} .inspector"):
                page.click(f"{card} .inspect")
            page.wait(partial(shows, f"{card} .inspector pre", call.raw))
            assert call.result_text in page.text(f"{card} .outcome")


def test_on_a_phone_in_the_dark(page: Page, portal: BlockingPortal) -> None:
    """Nothing is wider than the screen, down to 320 pixels, and dark is dark; while it grows."""
    hub = Hub()
    with serve(hub) as server:
        page.open(server.url, width=390, height=844, color_scheme="dark")
        played = portal.start_task_soon(play_watched, hub)
        make_file = page.call("make_file")
        page.wait(lambda: "newest" in page.text(make_file))
        ground = page.run("return getComputedStyle(document.body).backgroundColor")
        assert max(map(int, re.findall(r"\d+", ground)[:3])) < 40
        page.wait(lambda: page.items(make_file) >= 20)
        page.picture("watch-phone-growing.png")
        page.look(width=320, height=640)
        page.click(f"{make_file} .inspect")
        page.wait(lambda: page.all(f"{make_file} .inspector"))
        assert not page.is_too_wide()
        first, second = page.all(f"{make_file} .inspector > div")
        assert second.location["y"] > first.location["y"], "below each other, where there is no room beside"
        page.picture("watch-small.png")
        played.cancel()


def test_hostile_text_is_text(page: Page) -> None:
    """Whatever a model wrote, in whatever place, is shown as it is: nothing of it becomes a part of the page."""
    log = made_log("run <b>", name=HOSTILE, texts=0)
    hidden = "pay\u3164pal ls\u200d\u200c ok\U000e0141"
    harmless = "\u845b\U000e0100 \U0001f469\u200d\U0001f467 \u0645\u06cc\u200c\u062e"  # a name, a family, a word
    add(log, {"type": "text_delta", "block": 1, "text": f"{HOSTILE} \u202egnp.exe {hidden} {harmless}"})
    add(log, {"type": "block_start", "block": 2, "index": 1, "kind": "thinking"})
    add(log, {"type": "thinking_delta", "block": 2, "thinking": HOSTILE})
    add(log, {"type": "block_start", "block": 3, "index": 2, "kind": HOSTILE})
    add(log, {"type": "block_stop", "block": 3, "content": {"type": HOSTILE, "tool_use_id": HOSTILE}})
    call = MadeCall(log, 4, HOSTILE)
    written = {HOSTILE: HOSTILE, "__proto__": {"polluted": HOSTILE}, "constructor": [HOSTILE], "a/b~c": {"": "\u2066x"}}
    for fragment in re.findall(r"(?s).{1,7}", json.dumps(written)):
        call.write(fragment)
    call.stop("valid", HOSTILE)
    call.add("approval_start")
    call.add("approval_stop", approved=False, reason=HOSTILE)
    call.add("tool_start")
    call.add("tool_progress", value={"<i>": HOSTILE})
    call.add("sub_run_start", run="run <b>", model=HOSTILE)
    call.add("sub_run_stop", run="run <b>", status=HOSTILE, turns=1, usage={"input_tokens": HOSTILE})
    other = MadeCall(log, 5, "__proto__")
    other.write('{"a": 1}')
    other.stop()
    call.add("tool_stop", ran=True, is_error=True, content=[{"type": "text", "text": HOSTILE}, {"type": HOSTILE}])
    add(log, {"type": "toString"}, {"type": "turn_stop", "turn": 1, "error": {"type": HOSTILE, "text": HOSTILE}})
    add(log, {"type": "turn_start", "turn": 2})
    add(log, {"type": "restarted", "turn": 2, "reason": HOSTILE, "delay_s": 1, "error": None})
    add(log, {"type": "run_stop", "status": HOSTILE, "turns": 1, "usage": {}, "error": {"type": "E", "text": HOSTILE}})
    log.close()
    with serve(hub_of(log)) as server:
        page.open(server.url)
        page.wait(lambda: page.all(".call"))
        for button in page.all(".inspect"):
            button.click()
        page.wait(lambda: len(page.all(".inspector")) == 2)
        assert page.run("return {}.polluted") is None
        assert page.all("main img, main script, main b, main i") == []
        assert len(page.all("script")) == 1
        assert "pwned" not in page.driver.title.replace("document.title='pwned'", "")
        shown = page.text("main")
        assert shown.count("<img src=x onerror=") >= 10
        assert "polluted" in shown
        assert "\u202e" not in shown
        assert f"\ufffdgnp.exe pay\ufffdpal ls\ufffd ok\ufffd {harmless}" in shown
        raw, value = (element.get_attribute("textContent") or "" for element in page.all(".inspector pre")[:2])
        assert raw == call.raw.replace("\u2066", "\ufffd")
        assert list(json.loads(value)) == list(written)
        page.picture("hostile.png")


def test_everything_by_keyboard(page: Page, portal: BlockingPortal) -> None:
    """Somebody without a mouse gets to every call, looks into it, and rejects it with a reason."""
    hub = Hub()

    @tool
    async def look_around(place: str) -> str:
        return "all quiet"

    @tool(approve=hub.approve)
    async def delete_file(path: str) -> str:
        raise AssertionError("it was not approved")

    calls = [*whole_call(0, "look_around", '{"place": "sea"}'), *whole_call(1, "delete_file", '{"path": "a"}')]
    api = LocalAPI(
        [message_start(), *calls, message_delta("tool_use"), MESSAGE_STOP],
        [message_start(), text_delta(0, "Then not."), message_delta("end_turn"), MESSAGE_STOP],
    )

    async def converse() -> None:
        async with eagerstream.run(api.transport(), tools=[look_around, delete_file], max_turns=3, **REQUEST) as run:
            hub.observe(run, name="by keyboard")
            await run.finish()

    with serve(hub) as server:
        page.open(server.url)
        done = portal.start_task_soon(converse)
        card = page.call("delete_file")
        page.wait_for_phase(card, "approval")
        page.press(Keys.TAB)
        assert page.focused() == "Skip to the run"
        page.press(Keys.ENTER)
        page.tab_to("look_around done")
        page.press("j")
        assert page.focused() == "delete_file needs approval"
        page.press("k", Keys.ARROW_DOWN, "i")
        page.wait(lambda: page.text(f"{card} .inspector pre") == '{"path": "a"}')
        page.press("i")
        page.wait(lambda: not page.all(f"{card} .inspector"))
        page.tab_to("Reason (optional, sent to the model on a rejection)")
        page.press(*"jinx")  # letters are letters here
        page.tab_to("Reject")
        page.press(Keys.ENTER)
        page.wait_for_phase(card, "failed")
        assert page.focused().startswith("delete_file"), "the focus is not lost with the button"
        page.wait_for_status("completed")
        done.result(10)
        assert re.fullmatch(r"Rejected after [\d.]+ s: jinx", page.text(f"{card} .decision"))
        assert "jinx" in json.dumps(api.exchanges[1].body["messages"])
        page.wait(lambda: "The run has ended: completed" in page.text("#announcer"))
        assert "Then not." not in page.text("#announcer"), "states are told, not each piece of text"


def test_nothing_moves_between_press_and_release(page: Page) -> None:
    """A button that is pressed while the page grows above it gets the click."""
    log = made_log()
    above, below = MadeCall(log, 2, "above"), MadeCall(log, 3, "below")
    above.write('{"lines": [')
    below.write('{"a": "b')
    with serve(hub_of(log)) as server:
        page.open(server.url)
        button = f"{page.call('below')} .inspect"
        title = page.driver.title
        place = page.one(button).location
        ActionChains(page.driver).click_and_hold(page.one(button)).perform()
        above.write("1, 2, 3, 4, 5")
        call_that_waits = MadeCall(log, 4, "asks")
        call_that_waits.stop()
        call_that_waits.add("approval_start")
        page.wait(lambda: page.driver.title != title)  # it has come, and is told where nothing is pressed
        page.run("return new Promise((resolve) => setTimeout(() => requestAnimationFrame(resolve), 300))")
        assert page.one(button).location == place
        ActionChains(page.driver).release().perform()
        page.wait(lambda: page.text(f"{page.call('below')} .inspector pre") == below.raw)
        page.wait(lambda: page.one(button).location != place)
        ActionChains(page.driver).click_and_hold(page.one(f"{page.call('below')} h3")).perform()
        below.write("c")
        page.wait(lambda: page.text(f"{page.call('below')} .inspector pre") == below.raw)  # nothing there to click
        ActionChains(page.driver).release().perform()


def test_a_decision_that_comes_too_late(page: Page) -> None:
    """Nobody waits any more, of a saved run say: that is said where it was pressed, and can be tried again."""
    log = made_log()
    call = MadeCall(log, 2, "pay")
    call.write('{"amount": 3}')
    call.stop()
    call.add("approval_start")
    page.may_complain_of.append("409 (Conflict)")
    with serve(hub_of(log)) as server:
        page.open(server.url)
        card = page.call("pay")
        overflow = "return getComputedStyle(document.querySelector('.rows')).overflowX"
        assert page.run(overflow) == "hidden", (
            "a bar that has just begun is wider than its time, and needs no scroll bar"
        )
        page.click(f"{card} .approve")
        page.wait(lambda: "This call no longer waits for a decision." in page.text(f"{card} [role=alert]"))
        assert page.one(f"{card} .approve").is_enabled()


def test_what_is_approved_is_shown_complete(page: Page, portal: BlockingPortal) -> None:
    """Every digit, every item and every character, before the button can be pressed; the tool gets the same."""
    got: list[dict[str, Any]] = []
    hub = Hub()

    @tool(approve=hub.approve)
    async def pay(account: int, items: list[int], note: str) -> str:
        """Pay."""
        got.append({"account": account, "items": items, "note": note})
        return "paid"

    items = [2**53 + number for number in range(1_000)]
    input = {"account": 10000000000000001, "items": items, "note": "from me\u202e to you\n" * 500}
    body = reply(tool_use("pay", input, fragment_chars=1_000))

    async def act() -> None:
        async with eagerstream.run(LocalAPI(body).anthropic(), **REQUEST, tools=[pay], max_turns=1) as run:
            hub.observe(run)
            await run.finish()

    done = portal.start_task_soon(act)
    with serve(hub) as server:
        page.open(server.url)
        card = page.call("pay")
        page.wait_for_phase(card, "approval")
        exact = page.text(f"{card} .exact")
        assert json.loads(re.sub(r"\\n\n *", r"\\n", exact)) == input
        assert "\u202e" not in exact
        assert "…" not in exact
        assert page.one(f"{card} .approve").is_enabled()
        assert page.run("return getComputedStyle(document.querySelector('.exact')).overflowY") == "auto"
        assert not page.is_too_wide()
        page.picture("approval.png")
        page.click(f"{card} .approve")
        page.wait_for_phase(card, "done")
        page.wait(lambda: "10000000000000001" in page.text(f"{card} .fields"))
    done.result(10)
    assert got == [input]


def test_a_broken_connection_catches_up(page: Page) -> None:
    """The server goes away and comes back: what was missed comes, once, and the reader is told."""
    log = made_log(texts=3)
    call = MadeCall(log, 2, "write")
    call.write('{"text": "one ')
    hub, token = hub_of(log), new_token()
    with serve(hub, token=token) as server:
        port = server.port
        page.open(server.url)
        page.wait(lambda: page.text("#connection") == "live")
        card = page.call("write")
        page.run("window.same = true")
        page.click(f"{card} .inspect")
    page.wait(lambda: page.text("#connection") == "reconnecting")
    page.picture("reconnecting.png")
    page.wait(lambda: page.text("#connection") == "The program has ended")  # it is asked all the same
    call.write("two ")
    add(log, {"type": "text_delta", "block": 1, "text": "3 "})
    with serve(hub, token=token, port=port):
        page.wait(lambda: page.text("#connection") == "live")
        page.wait(lambda: page.text(f"{card} .inspector pre") == '{"text": "one two ')
        assert page.text(".reply") == "0 1 2 3 "
        call.write('three"}')
        page.wait(lambda: page.text(f"{card} .inspector pre") == call.raw)
        page.wait(lambda: "Connected again" in page.text("#announcer"))
        assert page.run("return window.same") is True, "the page is the same one"


def test_several_runs(page: Page) -> None:
    """Each has its place in the list; the one that was picked stays, also over a reload; one that is gone is left."""
    logs = [made_log(f"run_{number}", name=f"Run {number}", texts=number) for number in range(3)]
    hub = hub_of(*logs)
    with serve(hub) as server:
        page.open(server.url)
        page.wait(lambda: page.text("h1") == "Run 2")
        assert page.text("#runs").index("Run 2") < page.text("#runs").index("Run 0")
        page.click('#runs a[href="#run=run_1"]')
        page.wait(lambda: page.text(".reply") == "0 ")
        page.driver.refresh()
        page.wait(lambda: page.text("h1") == "Run 1")
        hub.add(made_log("run_3", name="Run 3"))
        page.wait(lambda: "Run 3" in page.text("#runs"))
        assert page.text("h1") == "Run 1"
        page.driver.get(f"{server.base_url}/#run=nowhere")
        page.driver.refresh()
        page.wait(lambda: page.text("h1") == "Run 3")


class Waiting:
    """A run with calls that wait to be cancelled, and what was sent of it."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.api = LocalAPI(*(reply(tool_use("wait", {}, id=f"toolu_{number}")) for number in range(4)))

    async def __call__(self) -> Run:
        async with eagerstream.run(
            self.api.transport(), tools=[tool(self.wait)], **REQUEST, max_cost=9, price=_price
        ) as run:
            self.hub.observe(run, name="waiting")
            await run.finish()
        return run

    async def wait(self) -> str:
        """Wait."""
        await anyio.sleep_forever()
        return "never"


def _price(usage: Any, model: str) -> float:
    return 0.25


def test_the_reader_acts_on_a_run(page: Page, portal: BlockingPortal) -> None:
    """A call is cancelled, something is said and cuts in, and the run is stopped; a run that is only shown takes nothing."""
    hub = Hub()
    hub.add(made_log("saved", name="Saved"))
    waiting = Waiting(hub)
    with serve(hub) as server:
        page.open(server.url)
        page.wait(lambda: page.text("h1") == "Saved")
        assert page.all(".controls, .cancel") == []
        done = portal.start_task_soon(waiting)
        page.wait(lambda: "waiting" in page.text("#runs"))
        page.click("#runs a")
        first = page.call("wait")
        page.wait_for_phase(first, "running")
        page.one("#message").send_keys("Be quick.")
        page.click(".controls button[value=next_turn]")
        page.wait(lambda: page.one("#message").get_property("value") == "")
        page.picture("controls.png")
        page.click(f"{first} .cancel")
        page.wait_for_phase(first, "failed")
        assert "Cancelled by the user." in page.text(first)
        page.wait(lambda: len(waiting.api.exchanges) == 2)
        assert "Be quick." in json.dumps(waiting.api.exchanges[1].body["messages"])
        page.click(".controls .stop")
        page.click(".controls .keep")
        page.wait(lambda: len(page.all(".controls .stop")) == 1)
        page.click(".controls .stop")
        page.wait(lambda: page.text(".controls .stop") == "Yes, stop the run")
        page.look(width=390, height=844, color_scheme="dark")
        assert not page.is_too_wide()
        page.run("document.querySelector('.controls').scrollIntoView({block: 'end'})")
        page.picture("controls-phone.png")
        page.click(".controls .stop")
        page.wait_for_status("cancelled")
        page.wait(lambda: not page.all(".controls, .cancel"))
        assert "Cost0.5" in page.text(".run-header")
    assert done.result(10).result.status is RunStatus.CANCELLED


def test_a_silence_is_told(page: Page) -> None:
    """A model that thinks is not a dead connection: the page says for how long it is quiet, and if the API is alive."""
    log = made_log(texts=2)
    with serve(hub_of(log)) as server:
        page.open(server.url)
        page.wait(lambda: page.text(".reply") == "0 1 ")
        assert "Quiet" not in page.text(".run-header")
        add(log, {"type": "ping", "at_s": 30.5})
        page.wait(lambda: re.search(r"Quiet for3\d s, alive \d s ago", page.text(".run-header")) is not None)
        page.picture("quiet.png")
        add(log, {"type": "text_delta", "block": 1, "text": "2", "at_s": 31.0})
        page.wait(lambda: "Quiet" not in page.text(".run-header"))


def test_the_runs_of_a_tool(page: Page) -> None:
    """They stand in the card of the call, with a link to each run that is in the list, as soon as it is there."""
    log = made_log("parent", name="Parent", texts=0)
    call = MadeCall(log, 1, "research")
    call.write("{}")
    call.stop()
    call.add("tool_start")
    call.add("sub_run_start", run="child", model="claude-made-2")
    hub = hub_of(log)
    with serve(hub) as server:
        page.open(server.url)
        page.wait(lambda: page.text(".sub-runs li") == "claude-made-2  running")
        assert page.all(".sub-runs a") == []
        hub.add(made_log("child", name="Child"))
        page.wait(lambda: page.all(".sub-runs a"))
        page.picture("sub-runs.png")
        usage = {"input_tokens": 1000, "output_tokens": 20, "service_tier": "standard"}
        call.add("sub_run_stop", run="child", status="completed", turns=2, usage=usage)
        page.wait(lambda: "completed · 2 turns · 1,020 tokens" in page.text(".sub-runs li"))
        page.click(".sub-runs a")
        page.wait(lambda: page.text("h1") == "Child")


def test_a_reply_that_is_begun_anew(page: Page) -> None:
    """What is void is shown as such, what ended badly says why, and a call of the API's own has its result."""
    log = made_log(name="Odd ends", texts=1)
    lost = MadeCall(log, 2, "lost")
    lost.write('{"a": "b')
    with serve(hub_of(log)) as server:
        page.open(server.url)
        page.wait_for_phase(page.call("lost"), "writing")
        log_restart = {
            "type": "restarted",
            "turn": 1,
            "reason": "the connection was lost",
            "delay_s": 0.5,
            "error": None,
        }
        add(log, log_restart, {"type": "message_start", "id": "msg_2", "model": "m", "restarted": False})
        cut = MadeCall(log, 3, "cut")
        cut.write('{"a": "b')
        cut.stop("incomplete", "cut off")
        wrong = MadeCall(log, 4, "wrong")
        wrong.write('{"a": x')
        wrong.stop("invalid", "not JSON")
        unrun = MadeCall(log, 7, "unrun")
        unrun.write("{}")
        unrun.stop()
        search = {
            "index": 4,
            "id": "srvtoolu_1",
            "name": "web_search",
            "kind": "server_tool_use",
            "input": {"query": "tide"},
        }
        add(
            log,
            {"type": "input_start", "block": 5, **search},
            {"type": "input_stop", "block": 5, "outcome": "valid", "error": None},
        )
        found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"title": "Tides"}]}
        add(log, {"type": "block_start", "block": 6, "index": 5, "kind": "web_search_tool_result"})
        add(log, {"type": "block_stop", "block": 6, "content": found})
        add(
            log,
            {
                "type": "run_stop",
                "status": "error",
                "turns": 1,
                "usage": {},
                "error": {"type": "APIError", "text": "no"},
            },
        )
        log.close()
        page.wait_for_status("error")
        names = ("lost", "cut", "wrong", "unrun", "web_search")
        assert [page.phase(page.call(name)) for name in names] == ["void", "cut", "invalid", "unrun", "done"]
        assert "APIError: no" in page.text("main")
        assert "Tides" in page.text(page.call("web_search"))
        assert "Restarted, after 0.50 s: the connection was lost" in page.text("main")
        page.picture("odd-ends.png")


def test_long_inputs_and_many_calls_stay_smooth(page: Page) -> None:
    """A hundred calls, and one of a megabyte that grows: all of it arrives, and the page answers meanwhile."""
    log = made_log(texts=1)
    for number in range(99):
        call = MadeCall(log, 2 + number, f"tool_{number}")
        call.write(json.dumps({"number": number, "text": "words " * 20}))
        call.stop()
        call.run(f"result {number}")
    with serve(hub_of(log)) as server:
        page.open(server.url)
        page.wait(lambda: len(page.all(".call")) == 99)
        longest = """window.longest = 0; let last = performance.now();
            (function look() { const now = performance.now(); longest = Math.max(longest, now - last); last = now;
            requestAnimationFrame(look); })();"""
        page.run(longest)
        large = MadeCall(log, 200, "large")
        large.write('{"path": "big.txt", "content": "')
        pieces = 2_048
        for number in range(pieces):
            large.write("x" * 511 + ("\\n" if number % 2 else "y"))
            if number % 16 == 0:
                page.driver.title  # noqa: B018  # the browser has its turn between, as in a reply that takes time
        card = page.call("large")
        page.wait(lambda: f"{len(large.raw):,} bytes" in page.text(card))
        assert page.run("return longest") < 1_000
        assert page.run("return document.querySelectorAll('*').length") < 6_000
        large.write('"}')
        large.stop()
        large.run()
        page.wait_for_phase(card, "done")
        page.click(f"{card} .quiet")
        page.wait(lambda: len(page.text(f"{card} .fields pre")) > 150_000)
        page.picture("many-calls.png")


def lines_call(log: RunLog, code: str) -> MadeCall:
    """A call whose code is being written while it runs."""
    call = MadeCall(log, 2, "run_code")
    call.write(f'{{"code": {json.dumps(code)[:-1]}')
    call.add("tool_start")
    return call


def at_line(line: int, end_line: int, state: str = "running", **fields: Any) -> dict[str, Any]:
    return {
        "parameter": "code",
        "line": line,
        "end_line": end_line,
        "state": state,
        "calls": [],
        "output": "",
        **fields,
    }


def listed(page: Page) -> list[str]:
    """The lines of a listing that are elements: state, number, text."""
    return [
        str(text)
        for text in page.run("return [...document.querySelectorAll('.listing li')].map((li) => li.textContent)")
    ]


def visible_lines(page: Page) -> list[int]:
    """The numbers of the lines that somebody sees, those of the statement over the others included."""
    script = """const frame = document.querySelector('.frame').getBoundingClientRect();
        const away = document.querySelector('.away')?.getBoundingClientRect() ?? { top: 0, bottom: 0 };
        return [...document.querySelectorAll('.listing .number')].filter((number) => {
          const { top, bottom } = number.getBoundingClientRect();
          const isOver = number.closest('.away') !== null;
          return top >= frame.top - 1 && bottom <= frame.bottom + 1 && (isOver || bottom <= away.top + 1 || top >= away.bottom - 1);
        }).map((number) => Number(number.textContent)).sort((one, other) => one - other)"""
    return list(page.run(script))


def test_code_that_runs_while_it_is_written(page: Page) -> None:
    """The statement that runs and the line that is written are both seen, also after a reload and behind 10,000 lines."""
    log = made_log(texts=0)
    call = lines_call(log, "import os\nx = await fetch(\n    1)\nprint")
    call.add("tool_progress", value=at_line(2, 3, calls=["fetch", "fetch"]))
    with serve(hub_of(log)) as server:
        page.open(server.url)
        page.wait(lambda: page.all(".listing"))
        assert listed(page) == ["done 1import os", "running 2x = await fetch(", "running 3    1)", "not yet run 4print"]
        assert page.text(".statement") == "runningLines 2 to 3 of 4Running calls: fetch ×2"
        top = page.one(".listing").location["y"]
        call.write("".join(f"(1)\\nline_{number}" for number in range(5, 40)))
        page.wait(lambda: 39 in visible_lines(page))
        assert visible_lines(page) == [2, 3, *range(20, 40)], "the end, and the statement over the first lines"
        call.write("".join(f"\\nline_{number}" for number in range(40, 10_001)))
        page.wait(lambda: 10_000 in visible_lines(page))
        assert {2, 3} < {*visible_lines(page)}
        assert page.run("return document.querySelectorAll('.listing *').length") < 700
        assert page.one(".listing").location["y"] == top
        page.picture("code-written.png")
        before = listed(page), page.text(".statement")
        page.driver.refresh()
        page.wait(lambda: page.all(".listing") and 10_000 in visible_lines(page))
        assert (listed(page), page.text(".statement")) == before

        page.click(".away")
        page.wait(lambda: visible_lines(page)[:3] == [1, 2, 3])
        assert not page.all(".away")
        call.write("\\nlast")
        page.wait(lambda: "of 10,001" in page.text(".statement"))
        assert visible_lines(page)[:3] == [1, 2, 3], "a reader who has gone elsewhere stays there"
        page.run("document.querySelector('.scroller').scrollTop = 5000 * 20")
        page.wait(lambda: 5_005 in visible_lines(page))
        page.run("document.querySelector('.scroller').scrollTop = 1e9")
        page.wait(lambda: 10_001 in visible_lines(page))
        call.write('\\n"}')
        call.stop()
        call.add("tool_progress", value=at_line(9_000, 9_001, "raised", output="1\n2\n"))
        page.wait(lambda: 9_000 in visible_lines(page))
        assert page.text(".statement") == "raisedLines 9,000 to 9,001 of 10,001", "no line after the last line end"
        assert "raised 9000line_9000" in listed(page)
        assert page.text(".output pre") == "1\n2"
        call.add("tool_stop", ran=True, is_error=True, content="1\n2\nNameError (line 9000)")
        page.wait(lambda: page.text(".outcome pre").endswith("NameError (line 9000)"))
        assert "not run 9002line_9002" in listed(page)
        assert 9_000 in visible_lines(page)
        assert not page.all(".output")


def test_hostile_code_is_text(page: Page) -> None:
    """Code, output and names with markup, escape sequences, and characters that turn or hide text."""
    log = made_log(texts=0)
    evil = f"{HOSTILE}\x1b[2J\x1b]0;pwned\x07\u202egnp.exe\u2066\u200b"
    call = lines_call(log, f"# {evil}\r\n\r# {evil}\n" + "x" * 100_000)
    call.add("tool_progress", value=at_line(1, 2, evil, calls=[evil], output=f"{evil}\r\nend\n"))
    with serve(hub_of(log)) as server:
        page.open(server.url)
        page.wait(lambda: page.all(".listing .output pre"))
        assert page.run("return document.querySelectorAll('main img, main script, main b').length") == 0
        shown = page.text("main")
        assert "pwned" not in page.driver.title
        assert not set(shown) & set("\x1b\x07\r\u202e\u2066\u200b")
        assert shown.count(HOSTILE) == 3, "two lines and the output; names are cut"
        assert [text.split()[-1][:4] for text in listed(page)][1:2] == ["2"]
        assert len(shown) < 12_000, "a line of a hundred thousand characters is cut"
        assert page.text(".output pre").endswith("\nend")
        call.add("tool_progress", value=at_line(2**53 - 1, 2**53 - 1, output="y" * 10**6 + "end"))
        page.wait(lambda: page.text(".statement").startswith("runningLine 9,007,199,254,740,991"))
        assert len(page.text(".output pre")) < 5_000
        assert len(listed(page)) == 4
        assert not page.is_too_wide()
        page.look(width=320, height=640)
        page.wait(lambda: not page.is_too_wide())
        page.picture("code-hostile.png")


def test_patches_give_the_same_as_in_python(page: Page) -> None:
    """The page's own code brings a value to every state that the patches were made for."""
    random_ = random.Random(3)
    keys = ["a", "b/c", "d~e", "", "__proto__", "constructor", "0", "length", "é\u2028", "~1"]

    def make(depth: int) -> Any:
        match random_.randrange(6 if depth else 4):
            case 0:
                return random_.choice([None, True, False, -0.5, 10**20, 7])
            case 1 | 2 | 3:
                return "".join(random_.choices('ab"\\\n/~é😀', k=random_.randrange(12)))
            case 4:
                return [make(depth - 1) for _ in range(random_.randrange(5))]
            case _:
                return {key: make(depth - 1) for key in random_.sample(keys, random_.randrange(5))}

    cases = []
    for _ in range(300):
        text = json.dumps({key: make(3) for key in random_.sample(keys, 4)})
        maker, patches, at = Patches(), [], 0
        while at < len(text):
            size = random_.randint(1, 9)
            patches.append(maker.feed(text[at : at + size]))
            at += size
        cases.append({"patches": patches, "text": text})
    with serve(hub_of(made_log())) as server:
        page.open(server.url)
        script = """const [cases, done] = arguments;
            import("./static/records.js").then(({applyPatch, PartialValue}) => done(cases.filter(({patches, text}) => {
              let value = null;
              const partial = new PartialValue(), read = [];
              for (const patch of patches) {
                value = applyPatch(value, patch);
                partial.apply(patch);
                read.push([partial.value, JSON.stringify(value)]);
              }
              if (read.some(([earlier, then]) => JSON.stringify(earlier) !== then)) return true; // it changed later
              return JSON.stringify(value) !== JSON.stringify(JSON.parse(text));
            }).map(({text}) => text)), (error) => done(String(error)));"""
        assert page.driver.execute_async_script(script, cases) == []
        script = """const [records, done] = arguments;
            import("./static/run.js").then(({RunView}) => {
              const view = new RunView();
              for (const record of records) view.feed(record);
              done([view.calls[0].error, String(view.calls[0].raw)]);
            }, (error) => done(String(error)));"""
        torn = made_log()
        call = MadeCall(torn, 2, "torn")
        patch = [{"op": "append", "path": "/a/b", "value": "x"}]
        call.add("input_delta", fragment="{", patch=patch, finished=[])
        call.stop()
        error, raw = page.driver.execute_async_script(script, torn.records())
        assert "do not fit together" in error, "what was changed by hand stops nothing else"
        assert raw == "{"


def add_every_state(log: RunLog) -> None:
    """Calls that wait, run and have ended in every way, behind a reply that is void."""
    add(log, {"type": "restarted", "turn": 1, "reason": "lost", "delay_s": 0, "error": None})
    add(log, {"type": "block_start", "block": 10, "index": 1, "kind": "thinking"})
    add(log, {"type": "thinking_delta", "block": 10, "thinking": "Hm."})
    done, failed, gated, running, cut, writing = (
        MadeCall(log, 11 + number, name)
        for number, name in enumerate(("done", "failed", "gated", "running", "cut", "writing"))
    )
    for call in (done, failed, gated, running):
        call.write('{"text": "a b", "list": [1, 2, 3, 4, 5, 6, 7, 8, 9], "long": "' + "long " * 100 + '"}')
        call.stop()
    done.run()
    failed.run("no", is_error=True)
    gated.add("approval_start")
    running.add("tool_start")
    running.add("tool_progress", value={"percent": 40})
    running.add("sub_run_start", run=log.id, model="claude-made-1")
    running.add("sub_run_start", run="elsewhere", model="claude-made-2")
    cut.write('{"text": "a')
    cut.stop("incomplete", "cut off")
    writing.write('{"text": "a')
    code = MadeCall(log, 17, "code")
    code.write('{"code": "done\\nrunning' + "\\nwaiting" * 40)
    code.add("tool_start")
    code.add("tool_progress", value=at_line(2, 2, calls=["fetch"], output="one\n"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_for_axe_to_complain_of(page: Page, scheme: str) -> None:
    """Names, roles, landmarks, headings and contrast, as axe-core checks them, in every state of a call."""
    axe = installed_file("axe-core/axe.min.js").read_text()
    log = made_log(name="All states", texts=1)
    lost = MadeCall(log, 2, "lost")
    lost.write('{"text": "a')
    with serve(hub_of(log)) as server:
        page.open(server.url, color_scheme=scheme, reduced_motion="reduce")
        page.wait(lambda: page.all(".call"))
        add_every_state(log)
        page.wait(lambda: len(page.all(".call")) == 8)
        for number in range(2):  # by script: what the first one opens moves the second one away from the pointer
            page.run("document.querySelectorAll('.inspect')[arguments[0]].click()", number)
        page.wait(lambda: len(page.all(".inspector")) == 2)
        assert page.run("return getComputedStyle(document.querySelector('.caret')).animationName") == "none"
        page.run(axe)
        script = "const done = arguments[0]; axe.run().then((found) => done(found.violations), (error) => done(String(error)))"
        for width in (1280, 360) if scheme == "light" else (1280,):  # the layout is the same in the dark
            page.look(width=width, color_scheme=scheme, reduced_motion="reduce")
            found = page.driver.execute_async_script(script)
            assert isinstance(found, list), found
            assert [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in found] == []
        page.picture(f"all-states-{scheme}.png")
