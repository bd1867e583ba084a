"""The web page's server: who gets in, what is sent, what is taken. The page itself is tried in `test_web_page.py`."""

from __future__ import annotations

import gc
import json
import re
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import anyio.lowlevel
import httpx
import pytest
from packages.progress.tests import asgi
from packages.progress.tests.asgi import scope_of
from packages.progress.tests.made_log import add, hub_of, made_log
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.streams import MESSAGE_STOP, REQUEST, message_delta, message_start, text_delta
from tests.support import LocalAPI, all_tasks_blocked, whole_call

import eagerstream
from eagerstream import tool
from eagerstream._support.serving.access import new_token
from eagerstream._support.serving.asgi_server import ASGIApplication
from eagerstream.calls import RunStatus
from eagerstream.errors import UsageError
from eagerstream_progress import Hub, RunLog, save_records, web
from eagerstream_progress.web import serve, web_app
from eagerstream_testing import reply, text, tool_use
from eagerstream_wire import ServerSentEvent, SSEDecoder

pytestmark = pytest.mark.anyio

TOKEN = new_token()
HOST = "127.0.0.1:8765"
COOKIE = f"eagerstream-8765={TOKEN}"
ORIGIN = f"http://{HOST}"
PATHS = ["/", "/static/page.js", "/events", "/nowhere", "/runs/run_1/decide"]
STATIC = Path(web.__file__).parent / "static"


client_of = partial(asgi.client_of, base_url=f"http://{HOST}")  # what it knows of the token says each test


class Events:
    """Server-sent events as an ASGI application writes them."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.reads = anyio.Event()  # nothing is taken from the application before
        self.stalls_at = float("inf")  # bytes after which nothing is taken until `reads` is set again
        self.leaves = anyio.Event()
        self.has_ended = anyio.Event()
        self._decoder = SSEDecoder()
        self._messages: list[ServerSentEvent] = []
        self.more = anyio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await self.reads.wait()
        await anyio.lowlevel.checkpoint()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self._messages += self._decoder.feed(message["body"])
            self.stalls_at -= len(message["body"])
            if self.stalls_at <= 0:
                self.reads, self.stalls_at = anyio.Event(), float("inf")
        self.more.set()
        self.more = anyio.Event()

    async def next(self, kind: str) -> ServerSentEvent:
        """The next message of a kind; others before it are left out."""
        while True:
            while self._messages:
                message = self._messages.pop(0)
                if message.event == kind:
                    return message
            await self.more.wait()

    async def next_records(self) -> tuple[dict[str, Any], int]:
        message = await self.next("records")
        return json.loads(message.data), int(message.id)


@asynccontextmanager
async def listening(
    application: ASGIApplication, query: str, *, reads: bool = True, path: str = "/events", **headers: str
) -> AsyncIterator[Events]:
    events = Events()
    if reads:
        events.reads.set()
    named = {"host": HOST, "authorization": f"Bearer {TOKEN}", **headers}
    scope = {**scope_of(path, "GET", **named), "query_string": query.encode()}

    async def answer() -> None:
        await application(scope, events.receive, events.send)
        events.has_ended.set()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            yield events
            events.leaves.set()
            events.reads.set()
            await events.has_ended.wait()


# --- who gets in ------------------------------------------------------------------------------------------------------


async def test_nobody_gets_in_without_the_token() -> None:
    """Every path asks for it, also those that do not exist, and says nothing else."""
    for path in PATHS:
        for headers in [
            {},
            {"authorization": f"Bearer {TOKEN}x"},
            {"authorization": "Bearer "},
            {"cookie": "eagerstream-8765=wrong"},
            {"cookie": f"eagerstream-8766={TOKEN}"},
        ]:
            async with client_of(web_app(hub_of(made_log()), token=TOKEN), **headers) as client:
                answer = await client.get(path)
            assert answer.status_code == 401, (path, headers)
            assert "made" not in answer.text, (path, headers)


async def test_the_url_with_the_token_opens_the_page() -> None:
    """It becomes a cookie that no script and no other site can use, and a URL without it."""
    async with client_of(web_app(Hub(), token=TOKEN)) as client:
        answer = await client.get("/", params={"token": TOKEN, "more": "a b"})
        assert answer.status_code == 303
        assert answer.headers["location"] == "./?more=a+b"
        cookie = answer.headers["set-cookie"]
        assert {"httponly", "samesite=strict", "path=/"} <= {part.strip().lower() for part in cookie.split(";")}
        assert (await client.get("/")).status_code == 200  # the client keeps cookies
        assert (await client.get("/", params={"token": f"{TOKEN}x"})).status_code == 401


async def test_the_token_opens_nothing_but_the_page() -> None:
    """A URL with the token in it is for the page: anywhere else it would stay in logs."""
    async with client_of(web_app(Hub(), token=TOKEN)) as client:
        assert (await client.get("/static/page.js", params={"token": TOKEN})).status_code == 401


async def test_tokens_that_cannot_be() -> None:
    """One that is guessed, or breaks out of its cookie, is refused where it is given."""
    for token in ["", "short", "t" * 257, "t" * 16 + ";", "t" * 16 + "\n", "t" * 16 + "é"]:
        with pytest.raises(UsageError):
            web_app(Hub(), token=token)


async def test_every_answer_is_safe_to_show() -> None:
    """Refusals and files alike: nothing inline, nothing from elsewhere, in no frame, kept nowhere."""
    async with client_of(web_app(Hub(), token=TOKEN)) as client:
        for headers in ({}, {"cookie": COOKIE}, {"host": "evil.example"}):
            for path in set(PATHS) - {"/events"}:
                answer = await client.get(path, headers=headers)
                policy = answer.headers["content-security-policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert "frame-ancestors 'none'" in policy
                assert "require-trusted-types-for 'script'" in policy
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert answer.headers["referrer-policy"] == "no-referrer"
                assert "no-store" in answer.headers["cache-control"], "but for the files of a version, see below"


# --- the files --------------------------------------------------------------------------------------------------------


async def test_the_files_of_the_page() -> None:
    """All that the page and its modules name is there, below the place of the page, with its own type."""
    named = {"page.html": re.findall(r'(?:src|href)="(static/[^"]+)"', (STATIC / "page.html").read_text())}
    for module in STATIC.glob("*.js"):
        named[module.name] = [f"static/{name}" for name in re.findall(r'from "\./([^"]+)"', module.read_text())]
    types = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    async with client_of(web_app(Hub(), token=TOKEN), cookie=COOKIE) as client:
        assert (await client.get("/")).headers["content-type"].startswith("text/html")
        for path in {path for paths in named.values() for path in paths}:
            answer = await client.get(f"/{path}")
            assert answer.status_code == 200, path
            assert answer.headers["content-type"].startswith(types[Path(path).suffix]), path
        for path in ("/static/page.html", "/static/..%2f__init__.py", "/static/%2e%2e/access.py", "/static/none.js"):
            assert (await client.get(path)).status_code == 404, path


async def test_files_are_compressed_and_cached() -> None:
    """A page names its files by their version: they are sent once, and a browser never asks for them again."""
    async with client_of(web_app(Hub(), token=TOKEN), cookie=COOKIE) as client:
        (base,) = set(re.findall(r'"(static/\w{16})/', (await client.get("/")).text))
        for name in ("page.js", "page.css", "icon.svg"):
            plain = await client.get(f"/{base}/{name}", headers={"accept-encoding": "identity"})
            assert plain.content == (STATIC / name).read_bytes()
            assert "immutable" in plain.headers["cache-control"]
            packed = await client.get(f"/{base}/{name}")
            assert packed.headers["content-encoding"] == "gzip"
            assert packed.headers["vary"] == "accept-encoding"
            assert packed.content == plain.content
            assert int(packed.headers["content-length"]) < 0.6 * int(plain.headers["content-length"])
        assert (await client.get(f"/static/{'0' * 16}/page.js")).status_code == 404
        assert "no-store" in (await client.get("/static/records.js")).headers["cache-control"]


async def test_a_run_as_a_file(tmp_path: Path) -> None:
    """Its records and its page, with secrets masked, under a name that no header breaks on."""
    log = made_log('a"b\r\nc', texts=1)
    add(log, {"type": "text_delta", "block": 1, "text": "sk-ant-api03-" + "a" * 80})
    empty = RunLog("empty")
    async with client_of(web_app(hub_of(log, empty), token=TOKEN), cookie=COOKIE) as client:
        path = f"/runs/{quote(log.id)}"
        records = await client.get(f"{path}/records.jsonl")
        save_records(tmp_path / "saved", log.records())
        assert records.content == (tmp_path / "saved").read_bytes()
        page = await client.get(f"{path}/page.html")
        for answer in (records, page):
            assert answer.headers["content-disposition"].startswith('attachment; filename="a_b_c.')
            assert b"sk-ant-api03-aaa" not in answer.content
        assert (await client.get("/runs/none/page.html")).status_code == 404
        assert (await client.get("/runs/empty/page.html")).status_code == 409
    async with client_of(web_app(hub_of(log), token=TOKEN)) as client:
        assert (await client.get(f"{path}/records.jsonl")).status_code == 401


def test_nothing_in_the_files_makes_markup_of_text() -> None:
    """What a model wrote is set as text; the policy would stop the rest, and the page would break."""
    for file in STATIC.iterdir():
        source = file.read_text()
        markup = (
            r"innerHTML|outerHTML|insertAdjacent|document\.write|DOMParser|\beval\(|new Function|setAttribute\(\"style"
        )
        assert not re.search(markup, source), file.name
        elsewhere = [url for url in re.findall(r"https?://[^\s\"'<>]+", source) if url != "http://www.w3.org/2000/svg"]
        assert elsewhere == [], file.name
    page = (STATIC / "page.html").read_text()
    assert not re.search(r"\sstyle=|<style|\son\w+=|<script(?![^>]* src=)", page)


# --- what is sent -----------------------------------------------------------------------------------------------------


async def test_the_list_of_runs() -> None:
    """It comes at once, and again whenever a run begins or ends, with what their own records say."""
    hub = hub_of(made_log())
    async with listening(web_app(hub, token=TOKEN), "") as events:
        (only,) = json.loads((await events.next("runs")).data)
        assert only == {
            "id": "run_1", "name": "made", "started_at": "2026-11-22T10:00:00Z", "model": "m", "status": None, "ended": False, "asks": False, "acts": False, "lost": False,
        }  # fmt: skip
        other = made_log("run_2", name='<b>\n"\u2028\ud800')
        add(other, {"type": "run_stop", "status": "completed", "turns": 1, "usage": {}, "error": None})
        other.close()
        hub.add(other)
        _, newer = json.loads((await events.next("runs")).data)
        assert newer["name"] == '<b>\n"\u2028\ufffd'
        assert newer["status"] == "completed"
        assert newer["ended"] is True


async def test_the_list_says_where_somebody_is_asked() -> None:
    """A call that waits for a person is seen from every run's page, not only from its own."""
    hub = Hub()

    @tool(approve=hub.approve)
    async def delete_file(path: str) -> str:
        """Delete a file."""
        return "deleted"

    client = LocalAPI(reply(tool_use("delete_file", {"path": "a"})), reply(text("Done."))).anthropic()
    run = eagerstream.run(client, tools=[delete_file], **REQUEST)
    log = hub.observe(run)
    async with listening(web_app(hub, token=TOKEN), "") as events, run:

        async def until(asks: bool, ended: bool) -> None:
            seen = None
            while seen != (asks, ended):
                (summary,) = json.loads((await events.next("runs")).data)
                seen = summary["asks"], summary["ended"]

        await until(asks=True, ended=False)
        ((run_id, block),) = hub.questions
        hub.decide(run_id, block, approved=True)
        await until(asks=False, ended=True)
    assert run_id == log.id


async def test_records_come_as_they_are_made() -> None:
    """First all that there was, then what comes; each message says where to go on; then the end."""
    log = made_log()
    async with listening(web_app(hub_of(log), token=TOKEN), "run=run_1") as events:
        batch, seq = await events.next_records()
        assert batch["snapshot"] is True
        assert batch["records"][0]["type"] == "run_start"
        assert batch["records"][-1]["text"] == "0 1 2 "
        assert seq == log.seq
        add(log, {"type": "text_delta", "block": 1, "text": "more"})
        batch, seq = await events.next_records()
        assert batch["snapshot"] is False
        assert [record["text"] for record in batch["records"]] == ["more"]
        assert seq == log.seq
        log.close()
        await events.next("end")
    assert events.headers["content-type"].startswith("text/event-stream")
    assert "default-src 'none'" in events.headers["content-security-policy"]


async def test_going_on_misses_nothing_and_repeats_nothing() -> None:
    """A connection that broke goes on behind the last message that came; the header is newer than the URL."""
    for how in ["header", "query", "both"]:
        query = {"header": "run=run_1", "query": "run=run_1&after=6", "both": "run=run_1&after=5"}[how]
        headers: dict[str, Any] = {} if how == "query" else {"last_event_id": "6"}
        log = made_log(texts=5)
        async with listening(web_app(hub_of(log), token=TOKEN), query, **headers) as events:
            batch, seq = await events.next_records()
        assert batch["snapshot"] is False, how
        assert "".join(record["text"] for record in batch["records"]) == "2 3 4 ", how
        assert seq == log.seq == 9, how


async def test_a_number_that_is_none_of_ours_gets_everything() -> None:
    """Whatever a client says of where it was, it gets a state that is whole."""
    for after in ["-1", "x", "٣", "9" * 30, "", "999"]:
        log = made_log()
        async with listening(web_app(hub_of(log), token=TOKEN), f"run=run_1&after={after}") as events:
            batch, _ = await events.next_records()
        assert batch["snapshot"] is True, after


async def test_a_run_that_is_not_kept() -> None:
    """The page is told, and goes to another one: the list goes on."""
    async with listening(web_app(hub_of(made_log()), token=TOKEN), "run=other") as events:
        await events.next("gone")
        assert events.status == 200


async def test_a_client_that_is_too_slow_is_told_and_comes_again() -> None:
    """It is dropped instead of being waited for, and gets the whole state the next time."""
    log = made_log(texts=1, max_recent=8)
    application = web_app(hub_of(log), token=TOKEN)
    async with listening(application, "run=run_1") as events:
        _, seq = await events.next_records()
        events.reads = anyio.Event()
        for _ in range(3):
            add(log, {"type": "turn_start", "turn": 1})  # one is on its way, and stays there
            await all_tasks_blocked()
        for _ in range(20):
            add(log, {"type": "text_delta", "block": 1, "text": "x"})
        await all_tasks_blocked()
        events.reads.set()
        assert "max_recent" in json.loads((await events.next("dropped")).data)["reason"]
        await events.has_ended.wait()
    async with listening(application, "run=run_1", last_event_id=str(seq)) as events:
        batch, seq = await events.next_records()
    assert batch["snapshot"] is True
    assert seq == log.seq


async def test_a_client_that_is_too_slow_for_a_long_message() -> None:
    """The message that it was in the middle of ends with the response: no reader takes it for a whole one."""
    log = made_log(texts=1, max_recent=8)
    add(log, {"type": "text_delta", "block": 1, "text": "x" * 1_000_000})
    application = web_app(hub_of(log), token=TOKEN)
    async with listening(application, "run=run_1") as events:
        events.stalls_at = 200_000
        while events.stalls_at < float("inf"):
            await anyio.lowlevel.checkpoint()
        add(log, *[{"type": "turn_start", "turn": 1}] * 20)
        events.reads.set()
        await events.has_ended.wait()
        assert not [message for message in events._messages if message.event == "records"]
    async with listening(application, "run=run_1") as events:
        batch, seq = await events.next_records()
    assert batch["snapshot"] is True
    assert seq == log.seq


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_many_clients_that_do_not_read() -> None:
    """They hold one snapshot of a long run and a piece each, whenever they came; without them it is gone."""
    log = made_log(texts=1)
    for _ in range(16):
        add(log, {"type": "text_delta", "block": 1, "text": "x" * 2**20})
    log.snapshot()  # joins its texts, which is the log's own
    application = web_app(hub_of(log), token=TOKEN)
    tracemalloc.start()
    try:
        async with AsyncExitStack() as stack:
            for _ in range(40):
                events = await stack.enter_async_context(listening(application, "run=run_1"))
                events.stalls_at = 200_000
                while events.stalls_at < float("inf"):
                    await events.more.wait()  # a busy loop would keep the thread waiting that writes the snapshot
                add(log, {"type": "text_delta", "block": 1, "text": "x"})  # those who come later come to a longer run
            held, _ = tracemalloc.get_traced_memory()
        gc.collect()
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 3 * 2**24  # 40 of them would be 40 * 2**24
    assert left < 1.5 * 2**24  # the log itself: its texts were joined once more


async def test_a_client_that_leaves_leaves_nothing_behind() -> None:
    """Nobody watches for it any more."""
    log = made_log()
    async with listening(web_app(hub_of(log), token=TOKEN), "run=run_1") as events:
        await events.next_records()
        assert log._notifiers
        events.leaves.set()
        await events.has_ended.wait()
    assert not log._notifiers


# --- what is taken ----------------------------------------------------------------------------------------------------

DECISION = {"block": 1, "approved": True, "reason": None}


@pytest.mark.parametrize(
    ("path", "content"),
    [("decide", DECISION), ("messages", {"message": "Hi"}), ("cancel", {}), ("cancel", {"block": 1})],
)
async def test_who_may_act(path: str, content: dict[str, Any]) -> None:
    """Our own page, and programs that know the token; 409 is what they get where nothing waits or runs."""
    for headers, status in [
        ({"cookie": COOKIE}, 403),
        ({"cookie": COOKIE, "origin": "null"}, 403),
        ({"cookie": COOKIE, "origin": "http://["}, 403),
        ({"cookie": COOKIE, "origin": HOST}, 403),
        ({"cookie": COOKIE, "origin": "http://evil.example"}, 403),
        ({"cookie": COOKIE, "origin": "http://127.0.0.1:9999"}, 403),
        ({"cookie": COOKIE, "origin": ORIGIN, "content-type": "text/plain"}, 415),
        ({"cookie": COOKIE, "origin": ORIGIN, "content-type": "application/x-www-form-urlencoded"}, 415),
        ({"cookie": COOKIE, "origin": ORIGIN}, 409),
        ({"authorization": f"Bearer {TOKEN}"}, 409),
        ({"authorization": f"Bearer {TOKEN}", "host": "evil.example"}, 421),
        ({"origin": ORIGIN}, 401),
    ]:
        async with client_of(web_app(hub_of(made_log()), token=TOKEN)) as client:
            given = {"content-type": "application/json", **headers}
            answer = await client.post(f"/runs/run_1/{path}", content=json.dumps(content), headers=given)
        assert answer.status_code == status, (headers, status)


async def test_an_application_that_asks_by_itself_still_checks_where_a_decision_comes_from() -> None:
    """Without a token a browser's own credentials may let anybody's page in: the origin is looked at all the same."""
    async with client_of(web_app(hub_of(made_log()), token=None)) as client:
        assert (await client.get("/")).status_code == 200
        assert (await client.post("/runs/run_1/decide", json=DECISION)).status_code == 403
        assert (await client.post("/runs/run_1/decide", json=DECISION, headers={"origin": ORIGIN})).status_code == 409


async def test_what_is_no_decision() -> None:
    """Nothing is guessed where a call may run or not."""
    for body in [
        b"",
        b"{",
        b"[]",
        b"1",
        b"\xff",
        b"[" * 10_000,
        b'{"block": 1}',
        b'{"block": true, "approved": true}',
        b'{"block": 1.5, "approved": true}',
        b'{"block": 1, "approved": 1}',
        b'{"block": 1, "approved": "yes"}',
        b'{"block": 1, "approved": true, "reason": 1}',
        json.dumps({**DECISION, "reason": "x" * 2_001}).encode(),
    ]:
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        async with client_of(web_app(hub_of(made_log()), token=TOKEN), **headers) as client:
            assert (await client.post("/runs/run_1/decide", content=body)).status_code == 400, body


async def test_what_is_no_action() -> None:
    """A message is a text for one of three times, and a call is a number."""
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with client_of(web_app(hub_of(made_log()), token=TOKEN), **headers) as client:
        for path, content in [
            ("messages", {}),
            ("messages", {"message": " "}),
            ("messages", {"message": ["Hi"]}),
            ("cancel", {"block": True}),
            ("cancel", {"block": "1"}),
            ("cancel", {"block": 1, "reason": 5}),
            ("cancel", {"block": 1, "reason": "x" * 2_001}),
        ]:
            assert (await client.post(f"/runs/run_1/{path}", json=content)).status_code == 400, content


async def test_actions_reach_the_run() -> None:
    """A call is cancelled with a reason, something is said, and the run is cancelled."""
    hub, begun = Hub(), anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await anyio.sleep_forever()
        return "never"

    api = LocalAPI(*(reply(tool_use("wait", {}, id=f"toolu_{number}")) for number in range(2)))
    with anyio.fail_after(10):
        async with eagerstream.run(api.transport(), tools=[wait], **REQUEST) as run:
            log = hub.observe(run)
            async with client_of(web_app(hub, token=TOKEN), authorization=f"Bearer {TOKEN}") as client:

                async def post(path: str, **content: Any) -> int:
                    return (await client.post(f"/runs/{log.id}/{path}", json=content)).status_code

                await begun.wait()
                begun = anyio.Event()
                assert await post("messages", message="x", when="soon") == 400
                assert await post("messages", message="Be quick.") == 204
                assert await post("cancel", block=77) == 409
                assert await post("cancel", block=1, reason="It takes too long.") == 204
                await begun.wait()
                assert await post("cancel") == 204
                await run.finish()
                assert await post("cancel") == 409
    sent = json.dumps(api.exchanges[1].body["messages"])
    assert "Cancelled: It takes too long." in sent
    assert "Be quick." in sent
    assert run.result.status is RunStatus.CANCELLED


@pytest.mark.parametrize("approved", [True, False])
async def test_a_decision_reaches_the_run(approved: bool) -> None:
    """A call waits, is shown as waiting, and runs or is refused with the reason; once."""
    hub = Hub()
    deleted: list[str] = []

    @tool(approve=hub.approve)
    async def delete_file(path: str) -> str:
        deleted.append(path)
        return "gone"

    first = [message_start(), *whole_call(0, "delete_file", '{"path": "a"}'), message_delta("tool_use"), MESSAGE_STOP]
    second = [message_start(), text_delta(0, "ok"), message_delta("end_turn"), MESSAGE_STOP]
    api = LocalAPI(first, second)
    application = web_app(hub, token=TOKEN)
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with eagerstream.run(api.transport(), tools=[delete_file], max_turns=3, **REQUEST) as run:
        log = hub.observe(run)
        async with listening(application, f"run={log.id}") as events, client_of(application, **headers) as client:
            assert 0 <= json.loads((await events.next("clock")).data)["elapsed_s"] < 60
            waiting = None
            while waiting is None:
                batch, _ = await events.next_records()
                waiting = next((record for record in batch["records"] if record["type"] == "approval_start"), None)
            decision = {"block": waiting["block"], "approved": approved, "reason": "not that one"}
            answer = await client.post(f"/runs/{log.id}/decide", json=decision)
            assert answer.status_code == 204
            await run.finish()
            assert (await client.post(f"/runs/{log.id}/decide", json=decision)).status_code == 409
    assert deleted == (["a"] if approved else [])
    assert ("not that one" in json.dumps(api.exchanges[1].body["messages"])) is not approved


# --- where it runs ----------------------------------------------------------------------------------------------------


async def test_mounted_under_a_path() -> None:
    """Every URL is relative, and the cookie stays below that path."""
    application = Starlette(routes=[Mount("/tools/watch", web_app(hub_of(made_log()), token=TOKEN))])
    async with client_of(application) as client:
        answer = await client.get(f"/tools/watch/?token={TOKEN}")
        assert answer.status_code == 303
        assert answer.headers["location"] == "./"
        assert "Path=/tools/watch/" in answer.headers["set-cookie"]
        assert (await client.get("/tools/watch/")).status_code == 200
        assert (await client.get("/tools/watch/static/page.js")).status_code == 200
    async with listening(application, "run=run_1", path="/tools/watch/events") as events:
        await events.next_records()


async def test_on_a_socket_of_its_own() -> None:
    """Next to a run, on asyncio and trio: what it prints opens the page, and nothing else does."""
    async with serve(hub_of(made_log())) as server, httpx.AsyncClient(timeout=20, follow_redirects=True) as client:
        assert (await client.get(server.base_url)).status_code == 401
        page = await client.get(server.url)
        assert page.status_code == 200
        assert str(page.url) == f"{server.base_url}/"
        head = f"GET /events?run=run_1 HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {server.token}\r\n\r\n"
        with anyio.fail_after(10):
            async with await anyio.connect_tcp("127.0.0.1", server.port) as connection:
                await connection.send(head.encode())
                received = b""
                while not (b"event: runs" in received and b"event: records" in received):
                    received += await connection.receive()
        with pytest.raises(UsageError, match=f"port {server.port}"):
            async with serve(Hub(), port=server.port):
                pass


def test_in_plain_code_with_a_token_of_ones_own() -> None:
    """The same URL every time, for a bookmark; a token that cannot be one is told before anything listens."""
    with serve(Hub(), token="b" * 16) as server:
        assert server.url == f"{server.base_url}/?token={'b' * 16}"
        headers = {"authorization": f"Bearer {'b' * 16}", "content-type": "application/json"}
        with httpx.Client(base_url=server.base_url, headers=headers, timeout=20) as client:
            assert client.get("/").status_code == 200
            too_long = client.post("/runs/run_1/decide", content=b" " * 20_000)
            assert too_long.status_code == 413, "and is not read to its end"
    with pytest.raises(UsageError, match="16 to 256"), serve(Hub(), token="short"):
        pass
    with pytest.raises(UsageError, match="not running"):
        _ = server.url
