"""MCP Apps: what the app of a call gets, in which order, at which cost, and after a lost connection."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any

import anyio
import pytest
from packages.progress.tests.asgi import client_of, scope_of
from packages.progress.tests.made_log import MadeCall, add, hub_of, made_log
from packages.progress.tests.stories import Story
from packages.progress.tests.streams import IMAGE, Told, told_recordings
from tests.tables import rows

from eagerstream import Tool
from eagerstream.errors import UsageError
from eagerstream_progress import Hub, Record, RunLog
from eagerstream_progress.mcp_apps import (
    AppMessage,
    MCPAppsEncoder,
    _encoder as encoder_module,
    mcp_apps_app,
    ui_resources,
)
from eagerstream_progress.mcp_apps._result import MAX_DEPTH

PARTIAL, INPUT, RESULT, CANCELLED = "tool-input-partial", "tool-input", "tool-result", "tool-cancelled"
RESOURCES = {"draw": "ui://charts/chart.html"}


def said(messages: Sequence[AppMessage]) -> list[tuple[str, Any]]:
    """The messages of one call: the end of the method, and what the parameters say."""
    assert len({message["block"] for message in messages}) <= 1
    return [_said(message) for message in messages]


def _said(message: AppMessage) -> tuple[str, Any]:
    notification = message["notification"]
    assert set(notification) == {"jsonrpc", "method", "params"}
    params = notification["params"]
    name = notification["method"].removeprefix("ui/notifications/")
    return name, params.get("arguments", params.get("reason", params if name == RESULT else None))


def ends(messages: Sequence[AppMessage]) -> list[AppMessage]:
    """All but the partials."""
    return [message for message in messages if not message["notification"]["method"].endswith(PARTIAL)]


def drawing(log: RunLog | None = None, block: int = 2, **options: Any) -> tuple[RunLog, MadeCall]:
    """A log, and a call in it of a tool with an app."""
    log = log or made_log(**options)
    return log, MadeCall(log, block, "draw")


def encoded(log: RunLog) -> list[tuple[str, Any]]:
    """What the app of a log's call gets if each record comes alone."""
    encoder = MCPAppsEncoder(RESOURCES)
    return said([message for record in log.records() for message in encoder.encode([record])])


def test_the_life_of_a_call() -> None:
    """Partials grow, the complete arguments come once, then the result. Tools without an app are left out."""
    log, call = drawing()
    MadeCall(log, 3, "other").write('{"a": 1}')
    for fragment in ('{"tit', 'le": "Ye', 'ar", "bars": [1, ', "2]}"):
        call.write(fragment)
    call.stop()
    call.run([{"type": "text", "text": "drawn"}, IMAGE])
    image = {"type": "image", "data": IMAGE["source"]["data"], "mimeType": "image/png"}  # type: ignore[index]
    assert encoded(log) == [
        (PARTIAL, {}),
        (PARTIAL, {}),
        (PARTIAL, {"title": "Ye"}),
        (PARTIAL, {"title": "Year", "bars": [1]}),
        (PARTIAL, {"title": "Year", "bars": [1, 2]}),
        (INPUT, {"title": "Year", "bars": [1, 2]}),
        (RESULT, {"content": [{"type": "text", "text": "drawn"}, image], "isError": False}),
    ]
    (message, *_) = MCPAppsEncoder(RESOURCES).encode(log.records())
    assert {name: message[name] for name in ("block", "call", "tool", "resourceUri")} == {
        "block": 2,
        "call": "toolu_2",
        "tool": "draw",
        "resourceUri": "ui://charts/chart.html",
    }


def test_messages_do_not_change_afterwards() -> None:
    """A host may keep them back until its app is ready, while the input grows on."""
    log, call = drawing()
    encoder = MCPAppsEncoder(RESOURCES)
    call.write('{"bars": [1, 2, ')
    early = encoder.encode(log.records())
    before = json.dumps(early)
    after = log.seq
    call.write("3, 4]}")
    call.stop()
    late = encoder.encode([record for record in log.records() if record["seq"] > after])
    assert json.dumps(early) == before
    assert said(late) == [(INPUT, {"bars": [1, 2, 3, 4]})]


def _restart(log: RunLog, call: MadeCall) -> None:
    add(log, {"type": "restarted", "turn": 1, "reason": "interrupted", "delay_s": 0.1, "error": None})


def _cut(log: RunLog, call: MadeCall) -> None:
    call.stop("incomplete")
    _end(log, "error")


def _end(log: RunLog, status: str) -> None:
    add(log, {"type": "run_stop", "status": status, "turns": 1, "usage": {}, "error": None})


def _not_run(log: RunLog, call: MadeCall) -> None:
    call.write("}")
    call.stop()
    call.add("tool_stop", ran=False, is_error=True, content="Refused by the user.")


def _cancel_tool(log: RunLog, call: MadeCall) -> None:
    call.write("}")
    call.stop()
    call.add("tool_stop", ran=True, is_error=True, content="Cancelled: too slow.", cancelled=True)


def _invalid(log: RunLog, call: MadeCall) -> None:
    call.stop("invalid", "no JSON")
    call.add("tool_stop", ran=False, is_error=True, content="INVALID_JSON")


def _resumed(log: RunLog, call: MadeCall) -> None:
    add(log, {"type": "run_resumed", "started_at": "2026-11-22T10:00:00Z", "gap_s": 1.0})


def _omitted(log: RunLog, call: MadeCall) -> None:
    call.add("input_delta", fragment="", patch=[], finished=[], omitted_chars=9)
    call.write("}")
    call.stop()
    call.run()


@pytest.mark.parametrize(
    ("end", "reason", "has_input"),
    [
        (_restart, "The response was restarted.", False),
        (_cut, "The run ended: error.", False),
        (lambda log, call: _end(log, "cancelled"), "The run ended: cancelled.", False),
        (_not_run, "Refused by the user.", True),
        (_cancel_tool, "Cancelled: too slow.", True),
        (_invalid, "INVALID_JSON", False),
        (_resumed, "The run was interrupted.", False),
        (_omitted, "The arguments are no longer kept.", False),
    ],
)
def test_a_call_without_a_result(end: Any, reason: str, has_input: bool) -> None:
    """Its app is told so once, with the reason, and gets nothing after that."""
    log, call = drawing()
    call.write('{"title": "Year"')
    end(log, call)
    _end(log, "error")
    partials = [(PARTIAL, {}), (PARTIAL, {"title": "Year"})]
    given = [(INPUT, {"title": "Year"})] if has_input else []
    found = encoded(log)
    assert [each for each in found if each[0] != PARTIAL] == [*given, (CANCELLED, reason)]
    assert found[:2] == partials


def test_a_run_that_waits_for_a_person_leaves_its_apps_open() -> None:
    """It goes on later, in another process perhaps."""
    log, call = drawing()
    call.write("{}")
    call.stop()
    _end(log, "waiting")
    assert [name for name, _ in encoded(log)][-1] == INPUT


def test_a_failed_tool() -> None:
    """The app gets the error as a result, as MCP has it."""
    log, call = drawing()
    call.stop()
    call.run("no such year", is_error=True)
    error = {"content": [{"type": "text", "text": "no such year"}], "isError": True}
    assert encoded(log) == [(PARTIAL, {}), (INPUT, {}), (RESULT, error)]


def test_a_tool_that_ran_with_an_input_that_is_no_json() -> None:
    """It was repaired, or the tool takes any text. The app gets the best-effort arguments, and the result."""
    log, call = drawing()
    call.write('{"title": "Year')
    call.stop("invalid", "no JSON")
    call.run("drawn")
    assert [name for name, _ in encoded(log)] == [PARTIAL, PARTIAL, INPUT, RESULT]


def test_a_result_before_the_end_of_the_input() -> None:
    """A tool with streaming parameters may answer early. Its result waits for the complete arguments."""
    log, call = drawing()
    call.write('{"title": ')
    call.run("early")
    call.write('"Year"}')
    call.stop()
    assert [name for name, _ in encoded(log)][-2:] == [INPUT, RESULT]


def test_an_input_that_is_no_object() -> None:
    """Arguments are objects: nothing else is ever sent."""
    log, call = drawing()
    call.write("[1, 2")
    call.write("]")
    call.stop("invalid", "no object")
    assert all(isinstance(value, dict) for _, value in encoded(log))


@rows(
    "block, expected",
    [
        ({"type": "text", "text": "a"}, {"type": "text", "text": "a"}),
        (
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "a"},
                "title": "file:///a",
            },
            {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "a"}},
        ),
        (
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}},
            {"type": "resource", "resource": {"uri": "document:", "mimeType": "application/pdf", "blob": "JVBE"}},
        ),
        (
            {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}},
            {"type": "resource_link", "uri": "https://a.example/b.png", "name": "image"},
        ),
        ({"type": "new", "é": 1}, {"type": "text", "text": '{"type": "new", "é": 1}'}),
    ],
)
def test_content(block: Any, expected: Any) -> None:
    """Each block of a result has a form of MCP."""
    log, call = drawing()
    call.stop()
    call.run([block])
    assert encoded(log)[-1] == (RESULT, {"content": [expected], "isError": False})


def test_structured_content() -> None:
    """It is passed on if the records have it."""
    log, call = drawing()
    call.stop()
    call.add("tool_stop", ran=True, is_error=False, content="one row", data={"rows": [1]})
    content = [{"type": "text", "text": "one row"}]
    result = {"content": content, "structuredContent": {"rows": [1]}, "isError": False}
    assert encoded(log)[-1] == (RESULT, result)


def test_content_that_is_too_deep() -> None:
    """A page could not copy it to its app. The rest of the stream goes on."""
    deep: Any = {"type": "new"}
    for _ in range(MAX_DEPTH):
        deep = {"type": "new", "a": deep}
    log, call = drawing()
    call.stop()
    call.run([deep])
    (_, result) = encoded(log)[-1]
    assert "too deeply" in result["content"][0]["text"]


def test_a_call_that_the_api_runs() -> None:
    """Tools of the API's own connector to MCP servers may have apps, too."""
    story = Story().turn()
    story.call("{}", "draw", id="mcptoolu_1", kind="mcp_tool_use")
    inner = {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False}
    content = {**inner, "content": [{"type": "text", "text": "drawn"}]}
    story.add("block_stop", block=story.block(), content=content)
    found = said(MCPAppsEncoder(RESOURCES).encode(story.records))
    assert found == [(INPUT, {}), (RESULT, {"content": [{"type": "text", "text": "drawn"}], "isError": False})]


# --- cost -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chars", [2_000, 20_000])
def test_all_partials_together_are_bounded_by_the_input(chars: int) -> None:
    """They have at most 51 times its size, however it is cut, and not the square."""
    log, call = drawing(max_recent=10**6)
    pieces = ['{"text": "', *["abcdefgh"] * (chars // 8), '"}']
    encoder = MCPAppsEncoder(RESOURCES)
    seq = sent = each = count = 0
    for piece in pieces:
        call.write(piece)
        messages = encoder.encode(record for record in log.records()[-2:] if record["seq"] > seq)
        seq = log.seq
        each += len(call.raw)
        sent += sum(len(json.dumps(message["notification"]["params"]["arguments"])) for message in messages)
        count += len(messages)
    assert 100 < count < 500  # it still grows smoothly
    assert sent <= (1 + 1 / encoder_module.GROWTH) * len(call.raw) + 20 * count
    if chars > 10_000:
        assert sent < each / 20


def test_a_very_long_input_comes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is shown after the bound, until it is complete."""
    monkeypatch.setattr(encoder_module, "MAX_PARTIAL_CHARS", 100)
    log, call = drawing()
    for piece in ('{"text": "', "x" * 50, "x" * 500, '"}'):
        call.write(piece)
    call.stop()
    assert [name for name, _ in encoded(log)] == [PARTIAL, PARTIAL, PARTIAL, INPUT]


# --- every recording --------------------------------------------------------------------------------------------------


@cache
def told() -> list[Told]:
    return told_recordings()


def lives(records: Sequence[Record], size: int) -> dict[int, list[tuple[str, Any]]]:
    """What each app gets if the records come in batches of this size and each tool has an app."""
    names = {record["name"]: "ui://a" for record in records if record["type"] == "input_start"}
    encoder = MCPAppsEncoder(names)
    found: dict[int, list[tuple[str, Any]]] = defaultdict(list)
    for start in range(0, len(records), size):
        for message in encoder.encode(records[start : start + size]):
            found[message["block"]].append(_said(message))
    return found


@pytest.mark.slow
def test_the_order_holds_for_every_recording() -> None:
    """Partials, then the arguments at most once, then one end. Batches and snapshots change only the partials."""
    count = 0
    for each in told():
        alone = lives(each.records, 1)
        for life in alone.values():
            names = [name for name, _ in life]
            rest = [name for name in names if name != PARTIAL]
            assert rest in ([INPUT, RESULT], [INPUT, CANCELLED], [CANCELLED]), each.name
            assert names == [PARTIAL] * (len(names) - len(rest)) + rest
        kept = {call.block: call for call in each.calls()}
        for records, size in ((each.records, 7), (each.records, 10**6), (each.snapshot, 1), (each.snapshot, 10**6)):
            again = lives(records, size)
            assert again.keys() >= kept.keys()
            for block in again:
                assert [one for one in again[block] if one[0] != PARTIAL] == [
                    one for one in alone[block] if one[0] != PARTIAL
                ]
        for block, call in kept.items():
            arguments = [value for name, value in alone[block] if name == INPUT]
            if call.outcome == "valid" and arguments:
                assert arguments == [json.loads(call.raw) if call.raw else call.partial], each.name
                count += 1
    assert count > 10


# --- which tools have an app ------------------------------------------------------------------------------------------


def test_ui_resources() -> None:
    """From the metadata of MCP tools, in the new form and in the older one. Other schemes are left out."""
    metas: list[Any] = [
        {"ui": {"resourceUri": "ui://a"}, "ui/resourceUri": "ui://old"},
        {"ui/resourceUri": "ui://b"},
        {"ui": {"resourceUri": "https://evil.example"}},
        {"ui": "ui://c"},
        {"ui": {"resourceUri": "ui://" + "x" * 2_000}},
        {},
    ]
    tools = [Tool(_nothing, definition={"name": f"t{n}", "input_schema": {"type": "object"}}) for n in range(6)]
    for one, meta in zip(tools, metas, strict=True):
        one.meta = meta
    assert ui_resources(tools) == {"t0": "ui://a", "t1": "ui://b"}


async def _nothing(input: dict[str, Any]) -> str:
    return ""


# --- the stream -------------------------------------------------------------------------------------------------------


class Page:
    """What a page does with a stream, as an `EventSource` does."""

    def __init__(self) -> None:
        self.last_id = ""
        self.resets = 0
        self.has_ended = False
        self.got: list[AppMessage] = []
        self.ids: list[str] = []

    def read(self, body: str, *, events: int = 10**9) -> None:
        for event in body.split("\n\n")[:events]:
            fields = dict(line.split(": ", 1) for line in event.split("\n") if ": " in line)
            self.last_id = fields.get("id", self.last_id).strip()
            match fields.get("event"):
                case "reset":
                    self.resets += 1
                    self.got.clear()
                case "end":
                    self.has_ended = True
                case None if "data" in fields:
                    self.got += json.loads(fields["data"])
                    self.ids.append(self.last_id)


async def fetch(hub: Hub, run: str = "run_1", page: Page | None = None) -> Any:
    headers = {"last-event-id": page.last_id} if page is not None and page.last_id else {}
    async with client_of(mcp_apps_app(hub, RESOURCES)) as client:
        return await client.get(f"/apps/{run}", headers=headers)


def a_run(**options: Any) -> RunLog:
    """A run with a call that is void after a restart, one that has its result, and one that is cut by the end."""
    log, void = drawing(**options)
    void.write('{"title": "void"')
    _restart(log, void)
    add(log, {"type": "message_start", "id": "msg_2", "model": "m", "restarted": True})
    _, done = drawing(log, 3)
    done.write('{"title": "done"')
    _, cut = drawing(log, 4)
    cut.write('{"title": "cut"')
    done.write("}")
    done.stop()
    done.run()
    _end(log, "cancelled")
    return log


@pytest.mark.anyio
async def test_a_page_that_comes_late_gets_the_state() -> None:
    """With `reset` first, and `end` last. Calls that are void by then have no app."""
    log = a_run()
    log.close()
    response = await fetch(hub_of(log))
    assert response.headers["content-type"].startswith("text/event-stream")
    page = Page()
    page.read(response.text)
    assert (page.resets, page.has_ended, page.last_id) == (1, True, str(log.seq))
    ended = [(message["block"], _said(message)[0]) for message in ends(page.got)]
    assert ended == [(3, INPUT), (3, RESULT), (4, CANCELLED)]
    assert (await fetch(hub_of(log), "other")).status_code == 404


@pytest.mark.anyio
@pytest.mark.parametrize("max_recent", [10_000, 5])
async def test_a_lost_connection(max_recent: int) -> None:
    """Wherever it is lost, the page gets each end once. If records are no longer kept, it starts again."""
    for known in range(1, len(a_run().records()) + 1):
        log = RunLog("run_1", max_recent=max_recent)
        hub = hub_of(log)
        page = Page()
        records = a_run().records()
        log.append(records[:known])
        page.read(await fetch_state(hub))
        for record in records[known:]:
            log.append([record])
        log.close()
        page.read((await fetch(hub, page=page)).text)
        assert page.has_ended
        assert page.resets == (2 if max_recent == 5 else 1)
        found: dict[int, list[str]] = defaultdict(list)
        for message in ends(page.got):
            found[message["block"]].append(_said(message)[0])
        void = found.pop(2, [CANCELLED])
        assert (void, dict(found)) == ([CANCELLED], {3: [INPUT, RESULT], 4: [CANCELLED]})
        assert {message["block"] for message in page.got} == {message["block"] for message in ends(page.got)}


async def fetch_state(hub: Hub) -> str:
    """What comes until the state was sent. Then the connection is lost."""
    left = anyio.Event()
    received: list[bytes] = []

    async def receive() -> Any:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        received.append(message.get("body", b""))
        if b"data: []" in received[-1]:
            left.set()

    with anyio.fail_after(30):
        await mcp_apps_app(hub, RESOURCES)(scope_of("/apps/run_1", "GET"), receive, send)
    return b"".join(received).decode()


@pytest.mark.anyio
async def test_a_position_of_another_run() -> None:
    """A page that is ahead of the log starts again, and so does one whose position is no number."""
    log = a_run()
    log.close()
    for position in ("999", "x", "-1", "9" * 20):
        page = Page()
        page.last_id = position
        page.read((await fetch(hub_of(log), page=page)).text)
        assert (page.resets, len(ends(page.got))) == (1, 3)


def test_a_hub_without_contents() -> None:
    """Lines about calls are no arguments: the mistake shows at once."""
    with pytest.raises(UsageError, match="contents"):
        mcp_apps_app(Hub(contents=False), RESOURCES)


@pytest.mark.anyio
async def test_who_is_refused() -> None:
    """Pages of other origins, and other host names, unless they are allowed."""
    log = a_run()
    log.close()
    app = mcp_apps_app(hub_of(log), RESOURCES, origins=["http://allowed.example"])
    async with client_of(app) as client:
        answers = [
            await client.get("/apps/run_1", headers=headers)
            for headers in (
                {"origin": "http://evil.example"},
                {"host": "evil.example"},
                {"origin": "http://allowed.example"},
            )
        ]
    assert [answer.status_code for answer in answers] == [403, 421, 200]
