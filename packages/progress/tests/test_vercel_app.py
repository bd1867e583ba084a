"""`vercel_app` as an ASGI application: what it answers, and what becomes of a run when its client leaves."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any
from unittest.mock import ANY

import anyio
import pytest
from packages.progress.tests.asgi import scope_of
from packages.progress.tests.ui_messages import Reader
from starlette.exceptions import HTTPException
from tests.streams import MESSAGE_STOP, REQUEST, message_delta, message_start
from tests.support import Gate, LocalAPI, Piece, until, whole_call

import eagerstream
from eagerstream import Run, RunStatus, tool
from eagerstream_progress import Hub, RunLog, _hub as hub_module
from eagerstream_progress.vercel import ChatRequest, to_messages, vercel_app
from eagerstream_progress.vercel._app import encode_chunks
from eagerstream_testing import reply, text, tool_use

pytestmark = pytest.mark.anyio

SAID = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}
BODY = {"id": "chat-1", "messages": [SAID], "trigger": "submit-message"}
HI = [reply(text("Hi there."))]


class Answer:
    """What came over one connection; `left` is set to leave."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.left = anyio.Event()
        self.has_ended = False
        self._sent = anyio.Event()

    async def until(self, holds: Callable[[Answer], bool]) -> None:
        """Wait until the answer has come so far."""
        with anyio.fail_after(5):
            while not holds(self):
                self._sent = anyio.Event()
                await self._sent.wait()

    @property
    def chunks(self) -> list[Any]:
        """Of a UI message stream, up to here."""
        lines = self.body.decode().split("\n\n")[:-1]
        return [json.loads(line.removeprefix("data: ")) for line in lines if line != "data: [DONE]" and line != ":"]

    def take(self, message: Mapping[str, Any]) -> None:
        """The server sent something."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message.get("body", b"")
            self.has_ended = not message.get("more_body", False)
        self._sent.set()


async def ask(
    app: Any,
    method: str = "POST",
    path: str = "/api/chat",
    body: Any = BODY,
    *,
    content_type: str = "application/json",
    answer: Answer | None = None,
) -> Answer:
    """One request, to its end."""
    answer = answer or Answer()
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    parts = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive() -> Any:
        if parts:
            return parts.pop()
        await answer.left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        await anyio.lowlevel.checkpoint()
        answer.take(message)

    with anyio.fail_after(10):
        await app(scope_of(path, method, content_type=content_type, x_user="me"), receive, send)
    return answer


@asynccontextmanager
async def asking(app: Any, **request: Any) -> AsyncIterator[Answer]:
    """A request that goes on while the block does something; it must come to an end by itself."""
    answer = Answer()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(ask, app, answer=answer, **request))
        yield answer


class Chats:
    """A `start` that remembers its runs."""

    def __init__(self, api: LocalAPI, **options: Any) -> None:
        self.api = api
        self.options = options
        self.requests: list[ChatRequest] = []
        self.runs: list[Run] = []

    def __call__(self, chat: ChatRequest) -> Run:
        self.requests.append(chat)
        request = REQUEST | {"messages": chat.messages}
        run = eagerstream.run(self.api.transport(), **request, restart_delay_s=0.001, **self.options)
        self.runs.append(run)
        return run


@tool
async def book(flight: str) -> str:
    """Book a flight."""
    return f"booked {flight}"


BOOKS = [message_start(), *whole_call(0, "book", '{"flight": "OS 381"}'), message_delta("tool_use"), MESSAGE_STOP]


def waiting() -> tuple[Gate, LocalAPI]:
    """A reply that breaks off after its first words, until the gate is opened."""
    gate = Gate()
    events = reply(text("Hi there.")).chunks
    body = b"".join(chunk.data for chunk in events)
    cut = body.index(b"event: content_block_stop")
    return gate, LocalAPI([body[:cut], gate, body[cut:]])


async def test_a_run_is_streamed() -> None:
    """The headers are the SDK's, the chunks a whole stream; the tool's call and its result are in it."""
    start = Chats(LocalAPI(BOOKS, HI), tools=[book])
    answer = await ask(vercel_app(start))
    assert answer.status == 200
    assert answer.headers == {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "x-vercel-ai-ui-message-stream": "v1",
        "x-accel-buffering": "no",
    }
    assert answer.body.endswith(b"data: [DONE]\n\n")
    reader = Reader().read(answer.chunks).ended()
    assert reader.calls[0]["output"] == "booked OS 381"
    assert reader.text == "Hi there."
    assert reader.message["metadata"]["status"] == "completed"
    assert start.api.exchanges[0].body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]


async def test_the_history_is_the_same() -> None:
    """What a page rebuilds and sends back is what the run itself would go on from."""
    start = Chats(LocalAPI(BOOKS, HI), tools=[book])
    app = vercel_app(start)
    message = Reader().read((await ask(app)).chunks).ended().message | {"role": "assistant"}
    await ask(app, body=BODY | {"messages": [SAID, message, SAID]})
    *history, said = start.requests[1].messages
    assert history == start.runs[0].result.messages
    assert said == history[0]


async def test_what_start_is_given() -> None:
    """The whole request, its headers, and which message the answer goes on with."""
    start = Chats(LocalAPI(HI))
    message = {"id": "a1", "role": "assistant", "parts": [{"type": "text", "text": "Well,"}]}
    body = BODY | {"messages": [SAID, message], "messageId": "a1", "model": "x"}
    answer = await ask(vercel_app(start), body=body)
    (chat,) = start.requests
    assert (chat.id, chat.trigger, chat.message_id, chat.answer_id) == ("chat-1", "submit-message", "a1", "a1")
    assert chat.body["model"] == "x"
    assert chat.headers["x-user"] == "me"
    assert answer.chunks[0]["messageId"] == "a1"


async def test_start_may_be_async() -> None:
    """It may look something up first."""
    chats = Chats(LocalAPI(HI))

    async def start(chat: ChatRequest) -> Run:
        await anyio.lowlevel.checkpoint()
        return chats(chat)

    answer = await ask(vercel_app(start, path="/chat"), path="/chat")
    assert Reader().read(answer.chunks).ended().text == "Hi there."


async def test_a_client_that_leaves_cancels_the_run() -> None:
    """Nothing is paid for that nobody reads: the connection to the API is closed."""
    _, api = waiting()
    start = Chats(api)
    async with asking(vercel_app(start)) as answer:
        await answer.until(lambda answer: b"Hi" in answer.body)
        answer.left.set()
    assert start.runs[0].result.status is RunStatus.CANCELLED
    assert api.exchanges[0].closed


async def test_a_server_that_stops_leaves_the_run() -> None:
    """Cancelling the application closes everything, too."""
    _, api = waiting()
    start = Chats(api, tools=[book])
    app = vercel_app(start, resumable=True)
    answer = Answer()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(ask, app, answer=answer))
        await answer.until(lambda answer: b"Hi" in answer.body)
        tasks.cancel_scope.cancel()
    assert start.runs[0].result.status is RunStatus.CANCELLED
    assert api.exchanges[0].closed
    assert (await ask(app, "GET", "/api/chat/chat-1/stream")).status == 204


@pytest.mark.parametrize("id", ["chat-1", "a/b", "."])
async def test_a_client_comes_back(id: str) -> None:
    """A resumable run goes on; whoever comes gets all of it, as long as it lasts."""
    gate, api = waiting()
    start = Chats(api)
    app = vercel_app(start, resumable=True)
    path = f"/api/chat/{id}/stream"
    assert (await ask(app, "GET", path)).status == 204
    async with asking(app, body=BODY | {"id": id}) as first:
        await first.until(lambda answer: b"Hi" in answer.body)
        first.left.set()
        async with asking(app, method="GET", path=path) as second:
            await second.until(lambda answer: b"Hi" in answer.body)
            gate.opened.set()
    assert not first.has_ended
    assert start.runs[0].result.status is RunStatus.COMPLETED
    reader = Reader().read(second.chunks).ended()
    assert reader.text == "Hi there."
    assert second.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert first.chunks[0]["messageId"] == second.chunks[0]["messageId"]
    assert (await ask(app, "GET", path)).status == 204


async def test_the_newest_run_of_a_chat() -> None:
    """Where a chat has two, the newer one is its own, also when the older one has ended."""
    gates = [Gate(), Gate()]
    bodies: list[list[Piece]] = [[gate, *HI] for gate in gates]
    app = vercel_app(Chats(LocalAPI(*bodies)))
    has_ended = anyio.Event()

    async def first() -> None:
        await ask(app)
        has_ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first)
        await gates[0].reached.wait()
        async with asking(app) as second:
            await gates[1].reached.wait()
            gates[0].opened.set()
            await has_ended.wait()
            async with asking(app, method="GET", path="/api/chat/chat-1/stream") as third:
                await third.until(lambda answer: answer.status > 0)
                gates[1].opened.set()
    assert third.status == 200
    assert third.chunks[0] == second.chunks[0]


async def test_a_run_is_stopped() -> None:
    """Of a run that goes on without its client, somebody must be able to say that it is enough."""
    _, api = waiting()
    start = Chats(api)
    app = vercel_app(start, resumable=True)
    async with asking(app) as answer:
        await answer.until(lambda answer: b"Hi" in answer.body)
        assert (await ask(app, "DELETE", "/api/chat/chat-1/stream")).status == 204
    assert answer.chunks[-1] == {"type": "abort"}
    Reader().read(answer.chunks).ended()
    assert (await ask(app, "DELETE", "/api/chat/chat-1/stream")).status == 204


class Paying:
    """An application with a tool that asks, and what a page does there. `asked` has what the page has after each step."""

    def __init__(self, *more: Any, timeout_s: float = 600.0, **options: Any) -> None:
        self.hub = Hub()
        self.paid: list[int] = []
        pay = tool(self._pay, name="pay", approve=self.hub.approve, approve_timeout_s=timeout_s)
        call = [message_start(), *whole_call(0, "pay", '{"amount": 3}'), message_delta("tool_use"), MESSAGE_STOP]
        self.start = Chats(LocalAPI(call, *more, HI), tools=[pay])
        self.app = vercel_app(self.start, hub=self.hub, **options)
        self.reader = Reader(options.get("sdk", 6))
        self.message: dict[str, Any] = {}

    async def _pay(self, amount: int) -> str:
        """Pay."""
        self.paid.append(amount)
        return f"paid {amount}"

    @property
    def run(self) -> Run:
        return self.start.runs[0]

    def take(self, answer: Any) -> None:
        self.reader.read(answer.chunks)
        self.message = self.reader.message | {"role": "assistant"}

    def decided(self, approved: bool, reason: str | None = None) -> dict[str, Any]:
        """The request of a page whose user has decided."""
        for part in self.reader.calls:
            if part["state"] == "approval-requested":
                part["state"] = "approval-responded"
                part["approval"] |= {"approved": approved} | ({"reason": reason} if reason else {})
        return copy.deepcopy(BODY | {"messages": [SAID, self.message]})


@asynccontextmanager
async def parked(paying: Paying) -> AsyncIterator[None]:
    """The run waits meanwhile, in the task of its request."""
    async with asking(paying.app) as answer:
        await answer.until(lambda answer: b"[DONE]" in answer.body)
        paying.take(answer)
        assert paying.reader.calls[0]["state"] == "approval-requested"
        assert answer.chunks[-1] == {
            "type": "finish",
            "finishReason": "tool-calls",
            "messageMetadata": {"status": "waiting"},
        }
        assert paying.run.result.status is RunStatus.RUNNING
        yield


@pytest.mark.parametrize("approved", [True, False])
async def test_a_decision(approved: bool) -> None:
    """The message ends with the question, and the next request with the same message decides and continues it."""
    paying = Paying()
    async with parked(paying):
        again = await ask(paying.app, body=paying.decided(approved, "because"))
        paying.take(again)
    assert again.chunks[0] == {"type": "start", "messageId": paying.message["id"], "messageMetadata": ANY}
    assert paying.reader.ended().calls[0]["state"] == ("output-available" if approved else "output-denied")
    assert paying.paid == ([3] if approved else [])
    assert to_messages([SAID, paying.message]) == paying.run.result.messages
    assert paying.run.result.status is RunStatus.COMPLETED


async def test_a_second_page_decides_too() -> None:
    """The first decision counts, and both pages get the rest of the message."""
    paying = Paying()
    async with parked(paying):
        body = paying.decided(True)
        other = json.loads(json.dumps(body).replace('"approved": true', '"approved": false'))
        first = await ask(paying.app, body=body)
        second = await ask(paying.app, body=other)
    assert paying.paid == [3]
    assert second.status == 200
    paying.take(first)
    assert paying.reader.ended().calls[0]["state"] == "output-available"


async def test_two_questions_in_a_row() -> None:
    """The message ends twice, and a page that has both continues after the second."""
    paying = Paying(reply(tool_use("pay", {"amount": 4}, id="toolu_second")))
    async with parked(paying):
        paying.take(await ask(paying.app, body=paying.decided(True)))
        assert [each["state"] for each in paying.reader.calls] == ["output-available", "approval-requested"]
        paying.take(await ask(paying.app, body=paying.decided(False)))
    assert [each["state"] for each in paying.reader.ended().calls] == ["output-available", "output-denied"]
    assert paying.paid == [3]
    assert to_messages([SAID, paying.message]) == paying.run.result.messages


@pytest.mark.parametrize("resumable", [True, False])
async def test_nobody_decides_in_time(resumable: bool) -> None:
    """The call is refused. The run goes on only if the page may come back."""
    paying = Paying(timeout_s=0.3, resumable=resumable)
    with anyio.fail_after(10):
        async with parked(paying):
            pass
        await until(lambda: paying.run.result.status is not RunStatus.RUNNING)
    assert paying.paid == []
    assert paying.run.result.status is (RunStatus.COMPLETED if resumable else RunStatus.CANCELLED)
    late = await ask(paying.app, body=paying.decided(True))
    if resumable:  # the rest of the run
        paying.take(late)
        assert paying.reader.ended().calls[0]["state"] == "output-denied"
    else:  # another one: nobody knows that it was approved, so the model learns that it was not executed
        assert late.status == 200
        assert paying.start.requests[-1].messages[-1]["content"][0]["is_error"]


async def test_another_message_instead_of_a_decision() -> None:
    """The run that waits is cancelled, and the new one gets the call as one that was not executed."""
    paying = Paying()
    async with parked(paying):
        body = BODY | {"messages": [SAID, paying.message, SAID]}
        assert (await ask(paying.app, body=body)).status == 200
    assert paying.run.result.status is RunStatus.CANCELLED
    assert [run.result.status for run in paying.start.runs[1:]] == [RunStatus.COMPLETED]


async def test_a_page_leaves_after_its_decision() -> None:
    """As a page that leaves before it: the run is cancelled."""
    gate = Gate()
    paying = Paying([message_start(), gate])
    async with parked(paying), asking(paying.app, body=paying.decided(True)) as answer:
        await answer.until(lambda answer: b"output-available" in answer.body)
        answer.left.set()
    await until(lambda: paying.run.result.status is not RunStatus.RUNNING)
    assert paying.run.result.status is RunStatus.CANCELLED
    assert paying.paid == [3]


async def test_a_decision_for_older_pages() -> None:
    """Version 5 has no approvals: the stream stays open, and the page posts; what does not fit the question is refused."""
    paying = Paying(sdk=5)
    path = "/api/chat/chat-1/approval"
    async with asking(paying.app) as answer:
        await answer.until(lambda answer: b"data-approval" in answer.body)
        asked = next(chunk for chunk in answer.chunks if chunk["type"] == "data-approval")["data"]
        decision = {"approvalId": asked["approvalId"], "approved": True, "reason": "because"}
        others: list[tuple[dict[str, Any], int]] = [
            ({"approved": 1}, 400),
            ({"reason": 1}, 400),
            ({"approvalId": "x"}, 404),
            ({"approvalId": f"{asked['approvalId']}0"}, 404),
            ({"approvalId": asked["approvalId"].partition(".")[0] + ".²"}, 404),
        ]
        for bad, status in others:
            assert (await ask(paying.app, path=path, body=decision | bad)).status == status
        assert (await ask(paying.app, path="/api/chat/other/approval", body=decision)).status == 404
        assert (await ask(paying.app, path=path, body=decision)).status == 204
        assert (await ask(paying.app, path=path, body=decision)).status == 404
    assert paying.paid == [3]


async def test_requests_that_are_none() -> None:
    """They are refused with a text that a page can show, and no run begins."""
    for body, status in [
        (b"{", 400),
        (b"[]", 400),
        (b"[" * 100_000, 400),
        (b"\xff", 400),
        (b'{"more": NaN}', 400),
        (b'{"more": 1e999}', 400),
        ({"id": "x"}, 400),
        (BODY | {"id": ""}, 400),
        (BODY | {"trigger": 1}, 400),
        (BODY | {"messageId": 1}, 400),
        (BODY | {"messages": [1]}, 400),
    ]:
        start = Chats(LocalAPI(HI))
        answer = await ask(vercel_app(start), body=body)
        assert answer.status == status, (body, status)
        assert answer.body, (body, status)
        assert answer.headers["content-type"].startswith("text/plain"), (body, status)
        assert not start.runs, (body, status)


async def test_a_form_of_another_page() -> None:
    """A browser sends JSON to another origin only after asking; anything else is refused."""
    assert (await ask(vercel_app(Chats(LocalAPI(HI))), content_type="text/plain")).status == 415


async def test_start_refuses() -> None:
    """Who may chat is the program's to say."""

    def start(_chat: ChatRequest) -> Run:
        raise HTTPException(401, "who are you?")

    answer = await ask(vercel_app(start))
    assert (answer.status, answer.body) == (401, b"who are you?")


async def test_an_error_of_the_api() -> None:
    """It ends the stream as an error, in words that give nothing away."""
    answer = await ask(vercel_app(Chats(LocalAPI([b'{"error": {"message": "key sk-1"}}'], status=401))))
    reader = Reader().read(answer.chunks).ended()
    assert reader.errors == ["The run failed (APIError)."]
    assert b"sk-1" not in answer.body


async def test_a_run_that_cannot_begin(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no error of the library's still ends the stream, and is named in the log."""
    monkeypatch.setattr(Run, "__aenter__", None)
    answer = await ask(vercel_app(Chats(LocalAPI(HI))))
    assert Reader().read(answer.chunks).ended().errors == ["The run failed (Interrupted)."]
    assert caplog.messages == ["the run of a chat failed: TypeError"]


async def test_a_client_that_cannot_keep_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told so; nobody waits for it, and nothing is kept for it alone."""
    monkeypatch.setattr(hub_module, "RunLog", partial(RunLog, max_recent=2))
    gate, api = waiting()
    hub = Hub()
    app = vercel_app(Chats(api), hub=hub, min_interval_s=0)

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        async def send_slowly(message: Any) -> None:
            await send(message)
            if b"Hi" in message.get("body", b""):
                gate.opened.set()
                async with aclosing(hub.changes()) as changes:
                    async for logs in changes:
                        if logs[0].is_closed:
                            return

        await app(scope, receive, send_slowly)

    answer = await ask(slow)
    assert Reader().read(answer.chunks).ended().errors == ["The run failed (WatcherDropped)."]


async def test_halves_of_a_surrogate_pair() -> None:
    """They go out as escapes: what reads JavaScript strings puts them together."""
    sent = encode_chunks([{"type": "text-delta", "delta": "\ud83d"}, {"type": "text-delta", "delta": "ö"}], ends=True)
    assert sent.decode() == (
        'data: {"type":"text-delta","delta":"\\ud83d"}\n\ndata: {"type":"text-delta","delta":"ö"}\n\ndata: [DONE]\n\n'
    )
