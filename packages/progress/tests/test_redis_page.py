"""The page of one process, in a browser, with a run of another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal
from packages.progress.tests.page import Page
from packages.progress.tests.redis_server import RedisServer
from tests.streams import REQUEST
from tests.support import LocalAPI

import eagerstream
from eagerstream import tool
from eagerstream_progress import Hub
from eagerstream_progress.redis import RedisRelay
from eagerstream_progress.web import serve
from eagerstream_testing import reply, text, tool_use

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SECRET = "a secret of the test"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_run_of_another_process(
    page: Page, portal: BlockingPortal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theme: str
) -> None:
    """It grows, asks, is decided and ended there; if its process no longer answers, the page says so."""
    monkeypatch.setattr("eagerstream_progress.redis._session.LEASE_S", 1.0)
    monkeypatch.setattr("eagerstream_progress.redis._session._BEAT_S", 0.2)
    with RedisServer(tmp_path) as redis:
        relays = [RedisRelay(redis.url, secret=SECRET) for _ in range(2)]
        owner, other = (Hub(relay=relay) for relay in relays)

        @tool(approve=owner.approve)
        async def delete_file(path: str) -> str:
            """Delete a file."""
            return f"{path} is gone"

        asked = [reply(tool_use("delete_file", {"path": name})) for name in ("a.txt", "b.txt")]
        api = LocalAPI(*asked, reply(text("Done.")))

        async def drive() -> None:
            async with eagerstream.run(api.anthropic(), tools=[delete_file], max_turns=5, **REQUEST) as run:
                owner.observe(run, name="tidy up")
                await run.finish()

        running = portal.start_task_soon(drive)
        with serve(other) as server:
            page.open(server.url, color_scheme=theme)
            first = page.call("delete_file")
            page.wait_for_phase(first, "approval")
            page.click(f"{first} .approve")
            page.wait_for_phase(first, "done")
            second = page.wait(lambda: (found := page.call("delete_file")) != first and found)
            page.wait_for_phase(second, "approval")
            relays[0].close(timeout_s=0)  # as if the process were killed
            page.wait(lambda: "does not answer" in page.text(".problem"))
            assert page.text("#status") == "no answer"
            assert page.text("#runs .pill") == "no answer"
            assert page.all(".controls button") == []
            page.may_complain_of.append("status of 503")
            page.click(f"{second} .approve")
            page.wait(lambda: "The program of this run does not answer." in page.text(f"{second} [role=alert]"))
            for width in (390, 1280, 1920):
                page.look(width=width, color_scheme=theme)
                page.picture(f"redis-lost-{width}-{theme}.png")
                assert not page.is_too_wide()
        running.cancel()
        relays[1].close()
