"""The endpoint of AG-UI: a request begins a run, its events come back, and the conversation can go on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from ag_ui.core import RunAgentInput
from packages.progress.tests.agui_client import Client
from packages.progress.tests.asgi import client_of, scope_of
from packages.progress.tests.streams import IMAGE
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from tests.node import run_client, serving
from tests.reliability.conversations import Travel
from tests.reliability.schedules import SCENARIO, BySchedule, at_events, first_message
from tests.streams import REQUEST
from tests.support import Gate, LocalAPI, Piece, check_history, until

import eagerstream
from eagerstream import HTTPTransport, Limits, RunStatus, UsageError, tool, validate_history
from eagerstream.inputs import InputError
from eagerstream_progress import Hub
from eagerstream_progress.agui import AGUIEncoder, agui_app, answers_of, frontend_tools, messages_of
from eagerstream_progress.agui._history import system_of
from eagerstream_testing import ReplayServer, block, error_event, reply, server_tool_use, text, thinking, tool_use
from eagerstream_wire import SSEDecoder

USER = {"id": "user", "role": "user", "content": "What is the weather?"}
ASK = {
    "name": "ask_user",
    "description": "Ask.",
    "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
}


@tool
async def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"15 degrees in {city}"


@tool
async def draw() -> list[dict[str, Any]]:
    """A picture."""
    return [{"type": "text", "text": "here"}, IMAGE]


def request_body(messages: Sequence[Any] = (USER,), **fields: Any) -> dict[str, Any]:
    return {"threadId": "thread", "runId": "run", "messages": [*messages], **fields}


def parsed(messages: Sequence[Any], **fields: Any) -> RunAgentInput:
    return RunAgentInput.model_validate(request_body(messages, **fields))


def app_for(api: LocalAPI, *, tools: Sequence[Any] = (get_weather, draw), **options: Any) -> Starlette:
    def start(input: RunAgentInput) -> eagerstream.Run:  # the others here are async, which is taken as well
        return eagerstream.run(
            api.transport(),
            model="claude-made-1",
            max_tokens=1024,
            messages=messages_of(input),
            tools=[*tools, *frontend_tools(input)],
            restart_delay_s=0.001,
        )

    return agui_app(start, min_interval_s=0, **options)


def never(_: RunAgentInput) -> eagerstream.Run:
    raise AssertionError("nothing begins")


async def ask(app: Any, body: Any, *, path: str = "/", **options: Any) -> httpx.Response:
    async with client_of(app) as client:
        with anyio.fail_after(10):
            return await client.post(path, json=body, **options)


async def run_on(app: Any, messages: Sequence[Any] = (USER,), **fields: Any) -> Client:
    """What a client has after one run."""
    response = await ask(app, request_body(messages, **fields))
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    client = Client(messages)
    client.take(json.loads(event.data) for event in SSEDecoder().feed(response.content))
    return client


# --- a run ------------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_run_over_http() -> None:
    """The run's events, with the ids of the client; the rebuilt conversation is the one that the run had."""
    calls = reply(text("Let me see."), tool_use("get_weather", {"city": "Paris"}), tool_use("draw", {}))
    api = LocalAPI(calls, reply(text("It is 15 degrees.")))
    client = await run_on(app_for(api))
    assert [client.end[name] for name in ("type", "threadId", "runId")] == ["RUN_FINISHED", "thread", "run"]
    assert [each["phase"] for each in client.state["toolCalls"].values()] == ["done", "done"]
    back = messages_of(parsed(client.messages))
    assert validate_history(back) == []
    check_history(back)
    sent = api.exchanges[1].body["messages"]
    assert [_with_blocks(message) for message in back[: len(sent)]] == [_with_blocks(message) for message in sent]


def _with_blocks(item: Any) -> Any:
    """A message, or a result, with its text as a block, which is how it comes back."""
    content = item.get("content")
    if isinstance(content, str):
        return {**item, "content": [{"type": "text", "text": content}]}
    return {**item, "content": [_with_blocks(inner) for inner in content]} if isinstance(content, list) else item


@pytest.mark.anyio
async def test_an_error_in_the_run() -> None:
    """It ends the stream, in the API's words; the status of the response was sent long before."""
    api = LocalAPI(
        reply(text("So"), error_event("invalid_request_error", "too long, sk-ant-api03-hunter2hunter2hunter2"))
    )
    client = await run_on(app_for(api))
    assert (client.end["type"], client.end["code"]) == ("RUN_ERROR", "APIError")
    assert "too long" in client.end["message"]
    assert "hunter2" not in client.end["message"]


@pytest.mark.anyio
async def test_a_start_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """The client hears that it failed and no more; the log has the rest."""

    async def start(_: RunAgentInput) -> eagerstream.Run:
        raise ConnectionError("postgres://me:hunter2@db")

    client = await run_on(agui_app(start))
    assert client.end == {"type": "RUN_ERROR", "message": "The run failed.", "code": "ConnectionError"}
    assert "a run of an AG-UI client failed" in caplog.text


@pytest.mark.anyio
@pytest.mark.parametrize("messages", [[], [{"id": "a", "role": "assistant", "content": "Hello"}]])
async def test_a_conversation_that_cannot_be_sent(messages: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    """What the API would refuse is refused in the same words."""
    client = await run_on(app_for(LocalAPI(reply(text("So.")))), messages)
    assert (client.end["type"], client.end["code"]) == ("RUN_ERROR", "HistoryError")
    assert "hunter2" not in caplog.text


@pytest.mark.anyio
async def test_a_client_that_leaves() -> None:
    """Its run ends: the connection to the API is closed, and running tools are cancelled."""
    gate = Gate()
    began, ended = anyio.Event(), anyio.Event()

    @tool
    async def work() -> None:
        """Work."""
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    body: list[Piece] = [reply(tool_use("work", {}), text("and"), stop_reason="tool_use").body[:-200], gate]
    api = LocalAPI(body)
    app = app_for(api, tools=[work])
    sent: list[Any] = []
    leaves = anyio.Event()
    asked = [{"type": "http.request", "body": json.dumps(request_body()).encode(), "more_body": False}]

    async def receive() -> Any:
        if asked:
            return asked.pop()
        await leaves.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(app, scope_of(), receive, send)
            await began.wait()
            await gate.reached.wait()
            leaves.set()
        await ended.wait()
    assert api.exchanges[0].closed
    assert any(b"TOOL_CALL_START" in message.get("body", b"") for message in sent)


@pytest.mark.anyio
async def test_an_encoder_that_fails(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever goes wrong on our side ends the stream with an error, and the run with it."""

    def fail(*_: Any) -> None:
        raise KeyError("hunter2")

    gate = Gate()
    api = LocalAPI([reply(text("So.")).body[:-100], gate])
    monkeypatch.setattr(AGUIEncoder, "encode", fail)
    client = await run_on(app_for(api))
    assert (client.end["code"], client.end["message"]) == ("KeyError", "The run failed.")
    assert all(exchange.closed for exchange in api.exchanges)
    assert "a run of an AG-UI client failed" in caplog.text
    assert "hunter2" not in caplog.text


class Paying:
    """An agent with a tool that asks; what a client gets of it."""

    def __init__(self, *more: Any, timeout_s: float = 600.0, **options: Any) -> None:
        self.hub = Hub()
        self._options = options
        self.paid: list[int] = []
        pay = tool(self._pay, name="pay", approve=self.hub.approve, approve_timeout_s=timeout_s)
        self.runs: list[eagerstream.Run] = []
        self.inputs: list[RunAgentInput] = []
        self.api = LocalAPI(reply(tool_use("pay", {"amount": 3}, id="toolu_pay")), *more, reply(text("Done.")))
        self._tools = [pay]
        self.app = agui_app(self._start, min_interval_s=0, hub=self.hub)

    def _start(self, input: RunAgentInput) -> eagerstream.Run:
        self.inputs.append(input)
        options: Any = {"model": "m", "max_tokens": 1024, "messages": messages_of(input), "tools": self._tools}
        self.runs.append(eagerstream.run(self.api.transport(), **options, **self._options))
        return self.runs[-1]

    async def _pay(self, amount: int) -> str:
        """Pay."""
        self.paid.append(amount)
        return f"paid {amount}"

    async def resumed(self, client: Client, payload: Any, status: str = "resolved", **fields: Any) -> Client:
        """The next request of a client, with an answer to each interrupt."""
        entries = [
            {"interruptId": each["id"], "status": status, **({"payload": payload} if status == "resolved" else {})}
            for each in client.end["outcome"]["interrupts"]
        ]
        given = {"state": client.state, "resume": entries, "runId": "run 2", **fields}
        return await run_on(self.app, client.messages, **given)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("payload", "status", "reason"),
    [
        ({"approved": True}, "resolved", None),
        (True, "resolved", None),
        ({"approved": False, "reason": "too much"}, "resolved", "too much"),
        ({"approved": "yes"}, "resolved", "not approved"),
        (None, "cancelled", "abandoned"),
    ],
)
async def test_an_interrupt(payload: Any, status: str, reason: str | None) -> None:
    """The run ends with the question for the client, and waits here. The next run of the client is the rest of it."""
    paying = Paying()
    client = await run_on(paying.app)
    (interrupt,) = client.end["outcome"]["interrupts"]
    assert (client.end["outcome"]["type"], interrupt["toolCallId"]) == ("interrupt", "toolu_pay")
    assert client.state["toolCalls"]["toolu_pay"]["phase"] == "approval"
    assert client.results == {}
    assert paying.runs[0].result.status is RunStatus.RUNNING
    rest = await paying.resumed(client, payload, status)
    assert (rest.end["outcome"]["type"], rest.end["runId"]) == ("success", "run 2")
    assert rest.messages[-1]["content"] == "Done."
    assert paying.paid == ([3] if reason is None else [])
    assert (reason or "paid 3") in rest.results["toolu_pay"]["content"]
    assert rest.state["toolCalls"]["toolu_pay"]["phase"] == ("done" if reason is None else "failed")
    assert validate_history(history := messages_of(parsed(rest.messages))) == []
    assert [each["role"] for each in history] == [each["role"] for each in paying.runs[0].result.messages]
    assert len(paying.inputs) == 1


@pytest.mark.anyio
async def test_an_interrupt_after_a_reload() -> None:
    """The client has lost its state, and gets the calls again; of two answers, the first counts."""
    paying = Paying(reply(tool_use("pay", {"amount": 4}, id="toolu_again")))
    first = await run_on(paying.app)
    second = await paying.resumed(first, True, state=None)
    assert second.state["toolCalls"]["toolu_pay"]["phase"] == "done"
    assert [each["toolCallId"] for each in second.end["outcome"]["interrupts"]] == ["toolu_again"]
    other_page = await paying.resumed(first, False)
    assert other_page.end["outcome"]["type"] == "interrupt"
    third = await paying.resumed(second, False)
    assert paying.paid == [3]
    assert "outcome" in third.end
    history = messages_of(parsed(third.messages))
    assert [each["role"] for each in history] == [each["role"] for each in paying.runs[0].result.messages]


@pytest.mark.anyio
async def test_a_failure_after_an_interrupt(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody waits for the first request any more: an error of the program is logged all the same, without its text."""

    def price(*_: Any) -> float:
        if len(paying.api.exchanges) < 2:
            return 0.0
        raise KeyError("hunter2")

    paying = Paying(price=price)
    asked = await run_on(paying.app)
    last = await paying.resumed(asked, {"approved": True})
    assert (last.end["type"], last.end["code"]) == ("RUN_ERROR", "KeyError")
    await until(lambda: "a run of an AG-UI client failed: KeyError" in caplog.text)
    assert "hunter2" not in caplog.text


@pytest.mark.anyio
async def test_an_interrupt_that_nobody_answers() -> None:
    """The run is cancelled. An answer that comes then starts another one, whose model learns what is known."""
    paying = Paying(timeout_s=0.2)
    client = await run_on(paying.app)
    await until(lambda: paying.runs[0].result.status is RunStatus.CANCELLED)
    late = await paying.resumed(client, True)
    assert late.end["outcome"]["type"] == "success"
    assert paying.paid == []
    assert [(each.call, each.approved) for each in answers_of(paying.inputs[1])] == [("toolu_pay", True)]
    assert paying.api.exchanges[1].body["messages"][-1]["content"][0]["is_error"]


@pytest.mark.anyio
async def test_a_person_elsewhere_decides() -> None:
    """On the page of the hub, for example: the run goes on, though the client has left with its question."""
    paying = Paying()
    await run_on(paying.app)
    ((run_id, block),) = paying.hub.questions
    paying.hub.decide(run_id, block, approved=True)
    await until(lambda: paying.runs[0].result.status is RunStatus.COMPLETED)
    assert paying.paid == [3]


@pytest.mark.slow
def test_interrupts_with_the_real_client() -> None:
    """`@ag-ui/client` ends its run with the interrupt, and answers it with its next one."""
    for approved in (True, False):
        paying = Paying()
        with serving(paying.app) as address:
            first, second = run_client("agui.mjs", given={"url": f"{address}/", "approvals": [{"approved": approved}]})
        assert first["error"] is second["error"] is first["runError"] is second["runError"] is None
        assert [first["finished"]["outcome"]["type"], second["finished"]["outcome"]["type"]] == ["interrupt", "success"]
        assert second["messages"][-1]["content"] == "Done."
        assert paying.paid == ([3] if approved else [])
        assert not (first["warnings"] or second["warnings"])


@pytest.mark.anyio
async def test_tools_of_the_application() -> None:
    """The run ends without their results once all else is done; they come with the messages of the next run."""
    asks = reply(tool_use("ask_user", {"q": "Sure?"}, id="toolu_ask"), tool_use("get_weather", {"city": "Paris"}))
    api = LocalAPI(asks, reply(text("Thank you.")))
    app = app_for(api)
    client = await run_on(app, tools=[ASK])
    assert client.end["outcome"] == {"type": "success", "pendingToolCallIds": ["toolu_ask"]}
    assert len(client.calls) == 2
    assert [result["content"] for result in client.results.values()] == ["15 degrees in Paris"]
    assert len(api.exchanges) == 1
    answer = {"id": "answer", "role": "tool", "toolCallId": "toolu_ask", "content": "Yes."}
    again = await run_on(app, [*client.messages, answer], tools=[ASK])
    assert again.messages[-1]["content"] == "Thank you."
    first, second = api.exchanges[1].body["messages"][-1]["content"]
    assert (first["tool_use_id"], first["content"]) == ("toolu_ask", [{"type": "text", "text": "Yes."}])
    assert second["content"] == [{"type": "text", "text": "15 degrees in Paris"}]


def test_schemas_of_a_client(caplog: pytest.LogCaptureFixture) -> None:
    """They go to the API as they are. Inputs are checked for all that can be checked, in a bounded time."""
    slow = {"properties": {"q": {"type": "string", "pattern": "^(a+)+$"}, "r": {"type": "string", "pattern": "(agui"}}}
    bare, evil = frontend_tools(parsed([USER], tools=[{"name": "a", "description": ""}, {**ASK, "parameters": slow}]))
    assert bare.to_dict() == bare.to_dict() | {"name": "a", "input_schema": {"type": "object"}}
    assert evil.to_dict()["input_schema"] == {"type": "object", **slow}
    assert evil.to_dict()["eager_input_streaming"] is True
    assert evil.check({"q": "a" * 60, "r": "?"}) == {"q": "a" * 60, "r": "?"}
    with pytest.raises(InputError, match="'q': expected pattern"):
        evil.check({"q": "a" * 60 + "!"})
    (told,) = [message for message in caplog.messages if "(agui" in message]
    assert "not checked for the pattern" in told
    with pytest.raises(UsageError, match="not a JSON schema"):
        frontend_tools(parsed([USER], tools=[{**ASK, "parameters": {"properties": 1}}]))


@pytest.mark.anyio
async def test_schemas_of_a_client_that_are_too_large() -> None:
    """The request is refused before anything begins, and the tool is named; all tools together have one bound."""

    half: dict[str, Any] = {"properties": {f"k{number:05}": {} for number in range(8_000)}}
    deep: dict[str, Any] = {}
    for _ in range(70):
        deep = {"not": deep}
    for tools in (
        [{**ASK, "parameters": {"properties": {f"k{number:05}": {} for number in range(20_000)}}}],
        [{**ASK, "name": "other", "parameters": half}, {**ASK, "parameters": half}],
        [{**ASK, "parameters": deep}],
    ):
        response = await ask(agui_app(never), request_body(tools=tools))
        assert response.status_code == 413
        assert "ask_user" in response.json()["error"]
        with pytest.raises(UsageError, match="ask_user"):
            frontend_tools(parsed([USER], tools=tools))


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_requests_that_are_refused() -> None:
    """With a status that says why, before anything begins; nothing of the body is repeated."""

    app = agui_app(never)
    for body, headers, status in [
        (b"{", {}, 400),
        (b'{"threadId": NaN}', {}, 400),
        (b'{"state": 1e999}', {}, 400),
        (b"[" * 100_000, {}, 400),
        (b"{}", {}, 422),
        (b"[1]", {}, 422),
        (b"{}", {"content-type": "text/plain"}, 415),
        (b"{}", {"accept": "application/vnd.ag-ui.event+proto"}, 406),
    ]:
        async with client_of(app) as client:
            response = await client.post("/", content=body, headers={"content-type": "application/json", **headers})
            assert response.status_code == status, (body, headers, status)
            assert len(response.content) < 1_200, (body, headers, status)
            assert (await client.get("/")).status_code == 405, (body, headers, status)


@pytest.mark.anyio
async def test_where_it_is_mounted() -> None:
    """It answers as an application, below a mount, and as the endpoint of a route."""
    app = app_for(LocalAPI(reply(text("So."))))
    outer = Starlette(routes=[Mount("/below", app), Route("/agent", app, methods=["POST"])])
    for path in ("/below/", "/below/agent", "/agent"):
        assert b"RUN_FINISHED" in (await ask(outer, request_body(), path=path)).content


@pytest.mark.slow
def test_what_is_loaded() -> None:
    """The encoder needs nothing of the extra, and the endpoint only once it is made."""
    script = "import sys, eagerstream_progress.agui; print({'ag_ui', 'starlette'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "set()\n"


# --- messages of a client -----------------------------------------------------------------------------------------------


def test_what_a_client_says() -> None:
    """Text, pictures, documents; what Claude does not take is named; instructions are given apart."""
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}},
        {"type": "image", "source": {"type": "url", "value": "https://example.com/a.png"}},
        {"type": "document", "source": {"type": "data", "value": "aGk=", "mimeType": "text/plain"}},
        {"type": "document", "source": {"type": "data", "value": "aGk=", "mimeType": "application/pdf"}},
        {"type": "document", "source": {"type": "file", "value": "file_1"}},
        {"type": "document", "source": {"type": "data", "value": "no base64!", "mimeType": "text/csv"}},
        {"type": "document", "source": {"type": "file", "value": "f", "provider": "elsewhere"}},
        {"type": "audio", "source": {"type": "data", "value": "aGk=", "mimeType": "audio/wav"}},
    ]
    messages = [
        {"id": "1", "role": "system", "content": "Be brief."},
        {"id": "2", "role": "developer", "content": "Be kind."},
        {"id": "3", "role": "user", "content": "Hello"},
        {"id": "4", "role": "user", "content": parts},
        {"id": "5", "role": "activity", "activityType": "x", "content": {}},
    ]
    input = parsed(messages)
    (message,) = messages_of(input)
    assert [block["type"] for block in message["content"]] == [
        *("text", "text", "image", "image", "document", "document", "document", "text", "text", "text")
    ]
    sources = [block["source"]["type"] for block in message["content"] if "source" in block]
    assert sources == ["base64", "url", "text", "base64", "file"]
    assert [each["text"] for each in message["content"][-3:]] == [
        "(Left out: document.)",
        "(Left out: document.)",
        "(Left out: audio.)",
    ]
    assert system_of(input) == "Be brief.\n\nBe kind."
    assert validate_history([message]) == []


def _calls(*calls: tuple[str, str], **fields: Any) -> dict[str, Any]:
    written = [{"id": id, "type": "function", "function": {"name": "t", "arguments": raw}} for id, raw in calls]
    return {"id": "m", "role": "assistant", "toolCalls": written, **fields}


def test_calls_of_another_agent() -> None:
    """Calls without a result, results without a call, two of an id, inputs that are no JSON: the API takes what comes."""
    messages = [
        USER,
        _calls(("a", '{"x": 1}'), ("b!", '{"x": '), ("c", ""), ("d", "[1]"), ("e", '{"x": 1e999}'), content="See:"),
        {"id": "r1", "role": "tool", "toolCallId": "b!", "content": "no", "error": "it failed"},
        {"id": "r2", "role": "tool", "toolCallId": "a", "content": [{"type": "text", "text": "one"}]},
        {"id": "r3", "role": "tool", "toolCallId": "nobody", "content": "orphan"},
        {"id": "r4", "role": "tool", "toolCallId": "c", "content": ""},
        {**_calls(("a", "{}")), "id": "m2"},
        {"id": "u2", "role": "user", "content": "And?"},
    ]
    back = messages_of(parsed(messages))
    assert validate_history(back) == []
    check_history(back)
    asked, called, answered = back
    assert asked["role"] == "user"
    assert [each.get("input") for each in called["content"][1:]] == [
        {"x": 1},
        {"INVALID_JSON": '{"x": '},
        {},
        {"INVALID_JSON": "[1]"},
        {"INVALID_JSON": '{"x": 1e999}'},  # an infinity, which cannot be sent
    ]
    results = [each for each in answered["content"] if each["type"] == "tool_result"]
    assert [each["tool_use_id"] for each in results] == ["a", "b_", "c", "d", "e"]
    assert [each.get("is_error", False) for each in results] == [False, True, False, True, True]
    assert answered["content"][-1] == {"type": "text", "text": "And?"}


@pytest.mark.anyio
async def test_a_conversation_that_goes_on() -> None:
    """Thinking with its signature, calls that the API ran, text behind calls: the next run can send what came back."""
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    api = LocalAPI(
        reply(
            thinking("Hm.", signature="c2ln"),
            text("First."),
            server_tool_use("web_search", {"query": "tide"}, id="srvtoolu_1"),
            block(found),
            text("Found."),
            tool_use("get_weather", {"city": "Oslo"}, id="toolu_1"),
            text("Behind."),
            tool_use("get_weather", '{"city": Oslo}', id="toolu_2"),
        ),
        reply(thinking("Well.", signature="c2ln"), text("Done.")),
    )
    client = await run_on(app_for(api))
    assert len(client.results) == 3
    back = messages_of(parsed([*client.messages, {"id": "u", "role": "user", "content": "Thanks."}]))
    assert validate_history(back) == []
    check_history(back)
    kinds = [[each["type"] for each in message["content"]] for message in back]
    assert kinds == [
        ["text"],
        ["thinking", "text", "text", "tool_use", "text", "tool_use"],
        ["tool_result", "tool_result"],
        ["thinking", "text"],
        ["text"],
    ]
    assert back[1]["content"][0] == {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    assert back[2]["content"][1]["is_error"] is True


def test_thinking_that_cannot_be_sent_again() -> None:
    """Thinking that is not signed, or stands at the end, is left out; what was redacted goes back as it came."""
    messages = [
        USER,
        {"id": "R.1.1", "role": "reasoning", "content": "not signed"},
        {
            "id": "R.1.2",
            "role": "reasoning",
            "content": "",
            "encryptedValue": "cmVk",
            "metadata": {"eagerstream": {"type": "redacted_thinking"}},
        },
        {"id": "R.1.3", "role": "assistant", "content": "So."},
        {"id": "R.1.4", "role": "reasoning", "content": "last", "encryptedValue": "c2ln"},
    ]
    back = messages_of(parsed(messages))
    assert back[1]["content"] == [{"type": "redacted_thinking", "data": "cmVk"}, {"type": "text", "text": "So."}]


# --- the real client over a socket ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_real_client_over_http() -> None:
    """`HttpAgent` of `@ag-ui/client` on a real server: a conversation in which it answers a call of its own."""
    api = LocalAPI(
        reply(text("Let me ask."), tool_use("ask_user", {"q": "Sure?"}, id="toolu_ask"), message_id="msg_1"),
        reply(tool_use("get_weather", {"city": "Paris"}, id="toolu_w"), message_id="msg_2"),
        reply(thinking("Hm."), text("It is 15 degrees."), message_id="msg_3"),
        reply(text("Goodbye."), message_id="msg_4"),
    )
    with serving(app_for(api)) as address:
        given = {
            "url": f"{address}/agent",
            "conversation": ["Weather?", "Bye."],
            "tools": [ASK],
            "answers": {"ask_user": "Yes."},
        }
        asked, answered, last = run_client("agui.mjs", given=given)
    for outcome in (asked, answered, last):
        assert (outcome["error"], outcome["runError"], outcome["warnings"]) == (None, None, [])
    assert asked["pending"] == ["toolu_ask"]
    assert [(message["role"], message.get("content")) for message in last["messages"]] == [
        ("user", "Weather?"),
        ("assistant", "Let me ask."),
        ("tool", "Yes."),
        ("assistant", None),
        ("tool", "15 degrees in Paris"),
        ("reasoning", "Hm."),
        ("assistant", "It is 15 degrees."),
        ("user", "Bye."),
        ("assistant", "Goodbye."),
    ]
    for exchange in api.exchanges:
        check_history(exchange.body["messages"])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_real_client_and_faults_over_http() -> None:
    """Under each kind of fault, `HttpAgent` accepts what the endpoint says, and rebuilds what came of the run."""
    schedules = dict(enumerate(at_events(step=9)))
    with ReplayServer(SCENARIO, speed=float("inf"), faults=BySchedule(schedules)) as server:
        transports: list[HTTPTransport] = []

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            async with HTTPTransport(base_url=server.base_url, api_key="k") as transport:
                transports.append(transport)
                yield

        async def start(input: RunAgentInput) -> eagerstream.Run:
            return eagerstream.run(
                transports[0],
                **{**REQUEST, "messages": messages_of(input)},
                tools=Travel().tools(),
                limits=Limits(idle_timeout_s=0.5, progress_timeout_s=1, tool_timeout_s=5, max_reply_bytes=200_000),
                restart_delay_s=0.001,
            )

        app = Starlette(routes=[Route("/agent", agui_app(start))], lifespan=lifespan)
        with serving(app) as address:
            contents = [first_message(number)["content"] for number in schedules]
            outcomes = run_client("agui.mjs", given={"url": f"{address}/agent", "contents": contents})
    for number, outcome in enumerate(outcomes):
        assert (outcome["error"], outcome["warnings"]) == (None, []), str(schedules[number])
        assert (outcome["runError"] is None) is (outcome["finished"] is not None)
        calls = [call for message in outcome["messages"] for call in message.get("toolCalls", ())]
        answered = {message["toolCallId"] for message in outcome["messages"] if message["role"] == "tool"}
        assert answered == {call["id"] for call in calls} == outcome["state"].get("toolCalls", {}).keys()
        if outcome["finished"]:
            assert outcome["finished"]["result"]["status"] in ("completed", "unknown")
