"""UI message streams in the hands of those who read them: the `ai` package, three versions of it, and assistant-ui."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Final

import anyio
import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from packages.progress.tests.compiling import build
from packages.progress.tests.stories import HOSTILE, Story, stories
from packages.progress.tests.streams import Told, told_faults, told_recordings
from packages.progress.tests.ui_messages import Reader
from starlette.exceptions import HTTPException
from tests.node import run_client, serving
from tests.reliability.schedules import at_bytes, at_events
from tests.source_tree import ROOT
from tests.streams import MESSAGE_STOP, REQUEST, message_delta, message_start
from tests.support import LocalAPI, Piece, check_history, whole_call

import eagerstream
from eagerstream import Run, RunStatus, tool, validate_history
from eagerstream_progress import Hub
from eagerstream_progress._merge import merge_records
from eagerstream_progress.vercel import ChatRequest, UIMessageEncoder, to_messages, vercel_app
from eagerstream_progress.vercel._app import encode_chunks
from eagerstream_progress.vercel._values import from_readable
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use

READERS: Final[dict[str, Any]] = {"ai5": 5, "ai": 6, "ai7": 7}
USER = {"role": "user", "parts": [{"type": "text", "text": "Hello"}]}
_EXACT: Final = 2**53


def _numbers(value: Any) -> Any:
    """As JavaScript has them: integers beyond 2 ** 53 are floats."""
    return json.loads(json.dumps(value), parse_int=lambda digits: _number(int(digits)))


def _number(value: int) -> float:
    return float(value) if abs(value) > _EXACT else value


def bodies(records: Sequence[Any], sdk: Any) -> tuple[str, Reader]:
    """The stream that an endpoint makes of a run, in small batches; and what our own reader makes of it."""
    encoder = UIMessageEncoder(sdk=sdk)
    chunks = []
    for at in range(0, len(records), 15):
        chunks += encoder.encode(merge_records(records[at : at + 15]))
    chunks += encoder.close()
    # As after some silence: a comment.
    body = encode_chunks(chunks[:3]) + b":\n\n" + encode_chunks(chunks[3:], ends=True)
    return body.decode(), Reader(sdk).read(chunks).ended()


def not_void(parts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """By the rule for pages: what lies between a `step-start` and `data-restarted` is void."""
    kept: list[dict[str, Any]] = []
    for part in parts:
        if part["type"] == "data-restarted":
            while kept.pop()["type"] != "step-start":
                pass
        else:
            kept.append(part)
    return kept


def expected(told: Told) -> Iterator[dict[str, Any]]:
    """Each call that is not void: its input as the API gets it, and its result; told by the records alone."""
    results = {record["block"]: record for record in told.records if record["type"] == "tool_stop"}
    outcomes = {record["block"]: record["outcome"] for record in told.records if record["type"] == "input_stop"}
    stops = [record["content"] for record in told.records if record["type"] == "block_stop"]
    for call in told.calls():
        start = next(r for r in told.records if r["type"] == "input_start" and r["block"] == call.block)
        valid = outcomes.get(call.block) == "valid"
        given = start["input"] if start["input"] is not None else None
        if valid:
            value = given if given is not None else json.loads(call.raw or "{}")
        else:
            value = {"INVALID_JSON": call.raw}
        result = results.get(call.block)
        fields: dict[str, Any] = {"toolName": call.name, "input": _numbers(value)}
        if call.kind != "tool_use":
            block = next((stop for stop in stops if stop.get("tool_use_id") == call.id), None)
            yield fields | {"output": {k: v for k, v in block.items() if k != "tool_use_id"} if block else None}
        elif result is None:
            yield fields | {"error": "Not executed."}
        elif result["is_error"]:
            yield fields | {"error": result["content"] or "(an error without text)"}
        else:
            yield fields | {"output": result["content"]}


def rebuilt(part: dict[str, Any]) -> dict[str, Any]:
    """A call that a reader rebuilt, in the same words."""
    fields = {"toolName": part["toolName"], "input": _numbers(from_readable(part["input"]))}
    if part.get("providerExecuted"):
        error = part.get("errorText", "")
        output = json.loads(error) if error.startswith("{") else None
        return fields | {"output": from_readable(part["output"]) if part["state"] == "output-available" else output}
    if part["state"] == "output-error":
        return fields | {"error": part["errorText"]}
    assert part["state"] == "output-available"
    assert not part.get("preliminary")
    return fields | {"output": from_readable(part["output"])}


def check_with_clients(runs: Sequence[Told]) -> None:
    """Every reader takes every stream, live and late, and rebuilds our inputs, results and texts."""
    streams: list[Any] = []
    jobs: list[tuple[Told, str, Reader]] = []
    for told in runs:
        for records in (told.records, told.snapshot):
            for name, sdk in READERS.items():
                body, ours = bodies(records, sdk)
                # assistant-ui does not know how version 7 takes parts back.
                streams.append({"body": body, "readers": [name, *(["assistant"] if sdk == 6 else [])]})
                jobs.append((told, name, ours))
    answers = run_client("vercel.mjs", "read", given={"streams": streams})
    for (told, name, ours), answer in zip(jobs, answers, strict=True):
        try:
            read = answer[name]
            assert read["errors"] == []
            assert read["reported"] == ours.errors
            parts = not_void(read["message"]["parts"])
            assert [rebuilt(part) for part in parts if part["type"] == "dynamic-tool"] == list(expected(told))
            for kind in ("text", "reasoning"):
                texts = [part["text"] for part in parts if part["type"] == kind]
                assert texts == [part["text"] for part in not_void(ours.parts) if part["type"] == kind]
                assert not [part for part in parts if part["type"] == kind and part["state"] != "done"]
            history = to_messages([USER, read["message"], USER])
            assert not validate_history(history)
            check_history(history)
            if "assistant" in answer:
                check_assistant(answer["assistant"], read["message"]["parts"])
        except AssertionError as error:
            error.add_note(f"{told.name}, {name}")
            raise


def check_assistant(read: Any, parts: Sequence[dict[str, Any]]) -> None:
    """assistant-ui has the same calls, void ones among them: it knows no version of a form for that."""
    assert read["errors"] == []
    # It shows a call once its input has ended: where two are written at once, the order may be another.
    ours = sorted((part for part in parts if part["type"] == "dynamic-tool"), key=itemgetter("toolCallId"))
    calls = (part for part in read["message"]["parts"] if part["type"] == "tool-call")
    theirs = sorted(calls, key=itemgetter("toolCallId"))
    assert [part["toolCallId"] for part in theirs] == [part["toolCallId"] for part in ours]
    for their, our in zip(theirs, ours, strict=True):
        assert _numbers(json.loads(their["argsText"])) == _numbers(our["input"])
        if our["state"] == "output-available":
            assert their["result"] == our["output"]
        else:
            assert their["isError"]


# --- a chat over a socket ---------------------------------------------------------------------------------------------


class Shop:
    """A chat's server: each run calls the tool `buy`, whose results are counted, and then says so.

    Attributes:
        runs: What was begun.
        comes_back: Set when a client asks for the stream of a run; the tool waits for it where `waits`.
        status_at_delete: The status of the last run when a client cancelled it.
    """

    def __init__(self, *, waits: bool = False, asks: bool = False) -> None:
        self.hub = Hub()
        self.runs: list[Run] = []
        self.comes_back = anyio.Event()
        self.status_at_delete: RunStatus | None = None
        self.waits = waits
        bodies: list[list[Piece]] = []
        for index in range(2):  # ids differ from reply to reply
            call = whole_call(index, "buy", '{"what": "tea"}')
            bodies += [[message_start(), *call, message_delta("tool_use"), MESSAGE_STOP], [reply(text("Bought."))]]
        self.api = LocalAPI(*bodies)
        self.tools = [tool(approve=self.hub.approve if asks else None)(self.buy)]
        self.app = vercel_app(self._start, hub=self.hub, resumable=waits)

    async def buy(self, what: str) -> str:
        """Buy something."""
        if self.waits:
            with anyio.fail_after(20):
                await self.comes_back.wait()
        return f"{what} number {len(self.runs)}"

    def _start(self, chat: ChatRequest) -> Run:
        request = REQUEST | {"messages": chat.messages}
        self.runs.append(eagerstream.run(self.api.transport(), **request, tools=self.tools))
        return self.runs[-1]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "GET":
            self.comes_back.set()
        if scope["type"] == "http" and scope["method"] == "DELETE":
            self.status_at_delete = self.runs[-1].result.status
        await self.app(scope, receive, send)


def chat(
    shop: Shop, reader: str, *steps: dict[str, Any], id: str = "chat-1", token: str | None = None, fails: bool = False
) -> list[Any]:
    """What a page has after each step of a person."""
    given = {"reader": reader, "steps": steps, "id": id, "token": token}
    with serving(shop) as address:
        told: list[Any] = run_client("vercel.mjs", "chat", given={**given, "api": f"{address}/api/chat"})
    assert any(step["errors"] for step in told) is fails
    return told


def tool_part(step: Any) -> Any:
    """The call in the last message."""
    (part,) = [part for part in step["messages"][-1]["parts"] if part["type"] == "dynamic-tool"]
    return part


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_a_chat(reader: str) -> None:
    """Two messages: the page has the calls and results of both, and the second request has all of the first."""
    shop = Shop()
    first, second = chat(shop, reader, {"send": "Tea!"}, {"send": "Again!"})
    assert [step["status"] for step in (first, second)] == ["ready", "ready"]
    assert tool_part(first)["output"] == "tea number 1"
    assert tool_part(second)["output"] == "tea number 2"
    assert [message["role"] for message in second["messages"]] == ["user", "assistant"] * 2
    history = shop.api.exchanges[2].body["messages"]
    assert history[:-1] == shop.runs[0].result.messages
    assert history[-1]["content"][0]["text"] == "Again!"


@pytest.mark.slow
@pytest.mark.parametrize(("reader", "approved"), [("ai", True), ("ai", False), ("ai7", True), ("ai7", False)])
def test_a_page_decides(reader: str, approved: bool) -> None:
    """A call waits for a person. The SDK's own way of answering continues the message, and the next one follows it."""
    begin, shop = {"begin": "Tea!", "until": "approval-requested"}, Shop(asks=True)
    _, last, after = chat(shop, reader, begin, {"decide": approved, "reason": "because"}, {"send": "Thanks."})
    assert last["status"] == "ready"
    assert [message["role"] for message in last["messages"]] == ["user", "assistant"], "it is the same message"
    assert tool_part(last)["state"] == ("output-available" if approved else "output-denied")
    assert [message["role"] for message in after["messages"]] == ["user", "assistant"] * 2
    assert shop.runs[0].result.status is RunStatus.COMPLETED
    assert tool_part(after)["state"] == "approval-requested"


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_a_page_stops(reader: str) -> None:
    """`stop()` cancels the run on the server."""
    shop = Shop(waits=True)
    shop.app = vercel_app(shop._start)
    _, last = chat(shop, reader, {"begin": "Tea!", "until": "input-available"}, {"stop": True})
    assert last["status"] == "ready"
    assert shop.runs[0].result.status is RunStatus.CANCELLED


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_a_page_stops_a_run_that_goes_on(reader: str) -> None:
    """With `resumable`, `stop()` only ends the reading: the SDK calls it for a page that leaves, too."""
    build()
    shop = Shop(waits=True)
    begin = {"begin": "Tea!", "until": "input-available"}
    last = chat(shop, reader, begin, {"stop": True}, {"cancel": True}, id="a/b c")[-1]
    assert last["status"] == "ready"
    assert shop.status_at_delete is RunStatus.RUNNING, "stop() did not cancel it"
    assert shop.runs[0].result.status is RunStatus.CANCELLED


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_a_page_signs_in(reader: str) -> None:
    """The SDK's own transport sends a token at each request, and its error has the reason of the server."""
    shop = Shop()

    def start(request: ChatRequest) -> Run:
        if request.headers.get("authorization") != "Bearer secret":
            raise HTTPException(403, "Sign in first.")
        return shop._start(request)

    shop.app = vercel_app(start)
    (signed_in,) = chat(shop, reader, {"send": "Tea!"}, token="secret")
    assert tool_part(signed_in)["output"] == "tea number 1"
    (refused,) = chat(shop, reader, {"send": "Tea!"}, token="wrong", fails=True)
    assert refused["status"] == "error"
    assert "Sign in first." in refused["errors"][0]


@pytest.mark.slow
@pytest.mark.parametrize(("reader", "id"), [*((reader, "chat-1") for reader in READERS), ("ai", "a/b c")])
def test_a_page_is_loaded_again(reader: str, id: str) -> None:
    """The run went on, and the page gets all of it; when it is over, there is nothing to resume."""
    shop = Shop(waits=True)
    begin = {"begin": "Tea!", "until": "input-available"}
    *_, last, after = chat(shop, reader, begin, {"reload": True}, {"resume": True}, {"resume": True}, id=id)
    assert len(shop.runs) == 1
    assert last["status"] == after["status"] == "ready"
    assert tool_part(last)["output"] == "tea number 1"
    assert last["messages"] == after["messages"]


@pytest.mark.slow
def test_the_example() -> None:
    """The smallest program serves a page, tools and all."""
    letter = tool_use("draft_letter", {"to": "Ada", "paragraphs": ["Dear Ada,", "..."]})
    example = ROOT / "examples" / "serve_vercel.py"
    with ReplayServer(Scenario(reply(letter), reply(text("Drafted.")))) as api:
        server = subprocess.Popen(
            [sys.executable, example, "claude-made-1", "0"],
            env={**os.environ, "ANTHROPIC_BASE_URL": api.base_url, "ANTHROPIC_API_KEY": "simulated"},
            stderr=subprocess.PIPE,
            text=True,
        )
        with server:
            assert server.stderr is not None
            address = next(found[0] for line in server.stderr if (found := re.search(r"http://[\d.:]+", line)))
            elsewhere = httpx.post(f"{address}/api/chat", json={}, headers={"host": "elsewhere.example"})
            assert (elsewhere.status_code, "elsewhere.example" in elsewhere.text) == (421, True)
            forwarded = {"origin": "http://localhost:3000", "content-type": "text/plain"}
            assert httpx.post(f"{address}/api/chat", headers=forwarded).status_code == 415
            steps = [{"send": "Write to Ada."}]
            told = run_client(
                "vercel.mjs", "chat", given={"reader": "ai", "api": f"{address}/api/chat", "steps": steps}
            )
            server.terminate()
            server.stderr.read()
    assert tool_part(told[0])["output"] == "a letter to Ada, 2 paragraphs"


# --- every run --------------------------------------------------------------------------------------------------------


def check_same_parts(runs: Sequence[Story]) -> None:
    """What the real readers rebuild is what our own one does, part by part."""
    streams: list[Any] = []
    jobs: list[tuple[Story, str, Reader]] = []
    for story in runs:
        for name, sdk in READERS.items():
            body, ours = bodies(story.records, sdk)
            streams.append({"body": body, "readers": [name, "assistant"]})
            jobs.append((story, name, ours))
    for (story, name, ours), answer in zip(
        jobs, run_client("vercel.mjs", "read", given={"streams": streams}), strict=True
    ):
        assert answer["assistant"]["errors"] == [], story.records
        assert answer[name]["errors"] == [], story.records
        assert answer[name]["reported"] == ours.errors
        theirs = _numbers([_essence(part) for part in answer[name]["message"]["parts"]])
        assert theirs == _numbers([_essence(part) for part in ours.parts]), story.records


def _essence(part: dict[str, Any]) -> dict[str, Any]:
    """A part without what differs from version to version."""
    left_out = {"title"} | ({"state", "id"} if part["type"] in ("text", "reasoning") else set())
    if part.get("state") != "output-error":
        left_out |= {"errorText", "rawInput"}
    return {name: value for name, value in part.items() if name not in left_out and value is not None}


@pytest.mark.slow
def test_hostile_values() -> None:
    """Keys and depths that the readers refuse never reach them."""
    runs = []
    for value in HOSTILE:
        story, raw = Story().turn(), json.dumps(value)
        call = story.input()
        story.fragments(call, raw[:9], raw[9:]).stop(call).add("tool_progress", block=call, value=value)
        story.result(call).add("unknown", event=value).add("block_stop", block=story.block(), content=value)
        runs.append(story.turn_stop().end())
    deep = Story().turn()
    call = deep.input()
    deep.fragments(call, *['{"a":[' * 10] * 1000).stop(call, "invalid", "too deep").result(call, "no", is_error=True)
    check_same_parts([*runs, deep.turn_stop().end()])


@pytest.mark.slow
@given(st.lists(stories(), min_size=30, max_size=30))
@settings(max_examples=3, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
def test_any_run(runs: list[Story]) -> None:
    """Whatever happens in a run, the readers take it."""
    check_same_parts(runs)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_recording() -> None:
    """Every shared recording, as the first reply of a run with tools."""
    check_with_clients(told_recordings())


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_every_fault() -> None:
    """Every kind of fault of the matrix at every boundary of events, and lost connections at many bytes."""
    check_with_clients(told_faults(chain(at_events(), at_bytes(step=61))))
