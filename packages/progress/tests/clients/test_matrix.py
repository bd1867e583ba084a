"""Each protocol is used by its own client, for each cell of the table in docs/guides/progress.md."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from tests.node import run_client, serving
from tests.source_tree import ROOT

import eagerstream
from eagerstream import HTTPTransport, Recording, tool
from eagerstream._support.serving.access import new_token
from eagerstream_progress import Hub
from eagerstream_progress.agui import agui_app, messages_of
from eagerstream_progress.vercel import vercel_app
from eagerstream_progress.web import web_app
from eagerstream_testing import ReplayServer, Scenario, Timing, http_error, reply, text, tool_use

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

BODY = "The harbour is quiet, and the boats come home. " * 20
TOKEN = new_token()
PROTOCOLS = ("records", "useChat", "agui")


def model(request: Mapping[str, Any]) -> Recording:
    """Do what the newest message of a person says, and then quote what came with the results."""
    content = request["messages"][-1]["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    said = " ".join(block["text"] for block in blocks if block["type"] == "text")
    results = any(block["type"] == "tool_result" for block in blocks)
    match said:
        case "write":
            return reply(text("Writing."), tool_use("write", {"title": "Harbours", "body": BODY}))
        case "publish":
            return reply(tool_use("publish", {"title": "Harbours"}))
        case "wait":
            return reply(tool_use("wait", {}))
        case "fail":
            return http_error(400, "invalid_request_error", "this cannot be")
        case _:
            return reply(text(f"Answer to {said or results}."))


class Office:
    """A server of all protocols. Its runs do what a prompt says.

    Attributes:
        runs: By the prompt and the protocol that began it.
    """

    def __init__(self, api: str) -> None:
        self.hub = Hub()
        self.runs: dict[tuple[str, str], list[eagerstream.Run]] = {}
        self._api = api
        routes = [
            Route("/start", self._start, methods=["POST"]),
            Mount("/watch/", web_app(self.hub, token=TOKEN)),
            Mount("/chat", vercel_app(lambda chat: self.run("useChat", chat.messages), hub=self.hub)),
            Mount(
                "/resumable", vercel_app(lambda chat: self.run("useChat", chat.messages), hub=self.hub, resumable=True)
            ),
            Mount(
                "/agent", agui_app(lambda input: self.run("agui", messages_of(input)), hub=self.hub, min_interval_s=0)
            ),
        ]
        self.app = Starlette(routes=routes, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with (
            HTTPTransport(base_url=self._api, api_key="key") as self._transport,
            anyio.create_task_group() as self._tasks,
        ):
            yield
            self._tasks.cancel_scope.cancel()

    def run(self, protocol: str, messages: list[Any]) -> eagerstream.Run:
        """A run of the model above."""

        @tool
        async def write(title: str, body: str) -> str:
            """Write."""
            return f"{title}, {len(body)} characters"

        @tool(approve=self.hub.approve)
        async def publish(title: str) -> str:
            """Publish."""
            return f"{title} is published"

        @tool
        async def wait() -> str:
            """Wait until somebody cancels."""
            await anyio.sleep_forever()
            raise AssertionError

        content = messages[-1]["content"]
        prompt = content if isinstance(content, str) else content[-1].get("text", "")
        run = eagerstream.run(
            self._transport,
            model="m",
            max_tokens=4_096,
            max_turns=5,
            tools=[write, publish, wait],
            messages=messages,
        )
        self.runs.setdefault((prompt, protocol), []).append(run)
        return run

    async def _drive(self, prompt: str, *, task_status: Any) -> None:
        async with self.run("records", [{"role": "user", "content": prompt}]) as run:
            task_status.started(self.hub.observe(run).id)
            try:
                await run.finish()
            except eagerstream.EagerStreamError:
                pass  # the last record has it

    async def _start(self, request: Request) -> JSONResponse:
        return JSONResponse({"run": await self._tasks.start(self._drive, (await request.body()).decode())})


@pytest.fixture(scope="module")
def office() -> Iterator[Office]:
    """The server."""
    with ReplayServer(Scenario.of(model, timing=Timing(tokens_per_second=80))) as api:
        yield Office(api.base_url)


@pytest.fixture(scope="module")
def columns(office: Office) -> dict[str, dict[str, Any]]:
    """The observations of the client of each protocol, by cell."""
    with serving(office.app) as url:
        return {
            name: run_client("matrix.mjs", given={"url": url, "protocol": name, "token": TOKEN}) for name in PROTOCOLS
        }


def check(cell: str, seen: dict[str, Any], runs: list[eagerstream.Run]) -> None:
    """Check a cell. The rules are the same for all protocols."""
    assert "error" not in seen or cell == "an error", seen
    match cell:
        case "a partial input":
            growing = [length for length in seen["lengths"] if 0 < length < len(BODY)]
            assert len(set(growing)) >= 3
            assert growing == sorted(growing)
            assert seen["body"] == BODY
        case "a finished field":
            assert seen["seen"] == "Harbours"
        case "approval":
            assert seen["isAsked"]
            assert "Harbours is published" in str(seen["result"])
        case "denial":
            assert seen["isAsked"]
            assert "published" not in str(seen["result"])
            assert any("because" in str(run.result.messages) for run in runs), "the model reads the reason"
        case "cancel":
            assert [run.result.status for run in runs] == ["cancelled"]
        case "an error":
            assert seen["status"] == "error"
            assert seen["text"]
        case "come back after a lost connection":
            assert 50 < seen["before"] < len(BODY)
            assert seen["body"] == BODY
        case "a message to a run":
            assert "and a poem" in seen["text"]
        case _:
            raise AssertionError(f"no check of {cell}")


CELLS = {
    "records": (
        "a partial input",
        "a finished field",
        "approval",
        "denial",
        "cancel",
        "an error",
        "come back after a lost connection",
        "a message to a run",
    ),
    "useChat": (
        "a partial input",
        "approval",
        "denial",
        "cancel",
        "an error",
        "come back after a lost connection",
        "a message to a run",
    ),
    "agui": ("a partial input", "a finished field", "approval", "denial", "cancel", "an error", "a message to a run"),
}
ELSEWHERE = {
    "acp": {
        "a partial input": "test_acp_agent.py::test_an_editor",
        "a finished field": "test_acp_agent.py::test_an_editor",
        "approval": "test_acp_agent.py::test_an_editor",
        "denial": "test_acp_agent.py::test_an_editor",
        "cancel": "test_acp_agent.py::test_an_editor_that_cancels",
        "an error": "test_acp_agent.py::test_an_error_of_the_api",
        "a message to a run": "test_acp_agent.py::test_sessions_keep_their_conversations",
    },
    "mcp_apps": {
        "a partial input": "clients/test_mcp_apps_page.py::test_an_app_follows_its_call",
        "cancel": "clients/test_mcp_apps_page.py::test_two_calls_at_once_and_a_cancelled_one",
        "an error": "clients/test_mcp_apps_page.py::test_an_app_that_fails",
        "come back after a lost connection": "clients/test_mcp_apps_page.py::test_a_lost_connection",
    },
}
"""The cells of the protocols that are tried elsewhere, by their own clients, too."""
PROMPTS = {"approval": "publish", "denial": "publish", "cancel": "wait"}


@pytest.mark.parametrize(("protocol", "cell"), [(name, cell) for name, cells in CELLS.items() for cell in cells])
def test_cell(office: Office, columns: dict[str, dict[str, Any]], protocol: str, cell: str) -> None:
    """The protocol's own client has done it, and the run has heard of it."""
    check(cell, columns[protocol][cell], office.runs[PROMPTS.get(cell, "write"), protocol])


def test_the_table_has_these_cells() -> None:
    """A cell of the page is one of these tests, or says that the protocol has no form for it."""
    page = (ROOT / "docs/guides/progress.md").read_text(encoding="utf-8")
    section = page.split("## What each protocol has\n", 1)[1].split("\n## ", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"][
        2:
    ]
    told = {
        (name, cell)
        for row in rows
        for name, form in zip((*PROTOCOLS, *ELSEWHERE), row[1:], strict=True)
        for cell in re.split(", (?=denial)", row[0])
        if not form.startswith("no form")
    }
    tried = {**CELLS, **ELSEWHERE}
    assert told == {(name, cell) for name, cells in tried.items() for cell in cells}
    for place in {place for cells in ELSEWHERE.values() for place in cells.values()}:
        file, test = place.split("::")
        source = (ROOT / "packages/progress/tests" / file).read_text(encoding="utf-8")
        assert re.search(rf"def {test}\(", source), place
