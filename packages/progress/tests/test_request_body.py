"""`RequestBodies`: bounded in size, memory, values and time, however many clients there are and whatever they send."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from packages.progress.tests.asgi import scope_of
from starlette.requests import Request
from tests.support import until
from tests.tables import rows

import eagerstream
from eagerstream import MissingExtraError
from eagerstream._support.serving.access import Refused
from eagerstream_progress import Hub
from eagerstream_progress._request_body import RequestBodies, json_object, parse_body
from eagerstream_progress.agui import agui_app
from eagerstream_progress.agui._app import run_input
from eagerstream_progress.gateway import RunSlots, gateway_app
from eagerstream_progress.vercel import vercel_app
from eagerstream_progress.web import web_app

MIB = 1024 * 1024


def request_of(receive: Callable[[], Any], **headers: str) -> Request:
    """A request whose body comes from `receive`."""
    return Request(scope_of(**headers), receive)


def body_of(*parts: bytes) -> Callable[[], Any]:
    left = list(parts)

    async def receive() -> Any:
        part = left.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(left)}

    return receive


class Slow:
    """A client that sends the beginning of a body, and then nothing."""

    def __init__(self, bodies: RequestBodies, beginning: bytes = b"") -> None:
        self._bodies = bodies
        self._beginning = beginning
        self.is_waiting = False
        self.status: int | None = None

    async def _receive(self) -> Any:
        if self._beginning:
            part, self._beginning = self._beginning, b""
            return {"type": "http.request", "body": part, "more_body": True}
        self.is_waiting = True
        return await anyio.sleep_forever()

    async def ask(self) -> None:
        """Ask, and note how it was refused."""
        try:
            await self._bodies.read_json(request_of(self._receive), json_object)
        except Refused as bad:
            self.status = bad.status


@asynccontextmanager
async def asking(*clients: Slow) -> AsyncIterator[None]:
    """The clients ask, one after the other, and wait while the block runs."""
    async with anyio.create_task_group() as tasks:
        for client in clients:
            tasks.start_soon(client.ask)
            await until(lambda: client.is_waiting or client.status)  # noqa: B023  # awaited in the loop
        yield
        tasks.cancel_scope.cancel()


# --- values -----------------------------------------------------------------------------------------------------------


@rows(
    "body",
    [b"[" + b"[]," * 60_000 + b"1]", b"[" + b"1," * 60_000 + b"1]", b'{"a":[' + b'{"":1},' * 30_000 + b"1]}"],
)
def test_too_many_values(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted before any of them is made: 2 MiB of `[],` take 100 MB, and all that looks at them its time."""
    monkeypatch.setattr("eagerstream_progress._request_body.load_json", lambda _: pytest.fail("it was parsed"))
    with pytest.raises(Refused, match="more than 52,428 values") as refused:
        parse_body(body)
    assert refused.value.status == 413


@rows("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_other_encodings_are_refused(encoding: str) -> None:
    """In UTF-16 the character U+2201 has a byte that looks like a quote: all values behind it would not be counted."""
    text = '{"\u2201": 1, "messages": [' + "{}," * 100_000 + "{}]}"
    with pytest.raises(Refused) as refused:
        parse_body(text.encode(encoding))
    assert refused.value.status in (400, 413)
    with pytest.raises(Refused, match="not JSON") as refused:
        parse_body('{"a": 1}'.encode(encoding))
    assert refused.value.status == 400


def test_only_utf8_is_taken() -> None:
    """With its mark or without; no surrogates, which `json` would let through."""
    assert parse_body(b'\xef\xbb\xbf{"a": "\xc3\xa9"}') == {"a": "\u00e9"}
    for body in (b'"\xed\xa0\x80"', b'"\xff"', b'"\xc3'):
        with pytest.raises(Refused, match="not JSON"):
            parse_body(body)


def test_faults_are_not_described_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """pydantic takes a second to describe those of a body that has as many values as it may."""
    few, many = ({"threadId": "t", "runId": "r", "messages": [{}] * number} for number in (3, 25_000))
    with pytest.raises(Refused, match=r"messages\.2"):
        run_input(few)
    monkeypatch.setattr("pydantic.ValidationError.errors", lambda *_, **__: pytest.fail("they were"), raising=False)
    with pytest.raises(Refused, match=r"it has 25,0.. faults"):
        run_input(many)


def test_what_is_only_long_is_taken() -> None:
    """Commas and brackets in strings are no values, whatever is escaped there."""
    text = '[{,"\\' * 100_000
    for written in ('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"',):
        assert parse_body(f'{{"a": {written}}}'.encode()) == {"a": text}
    assert len(parse_body(b"[" + b"1," * 52_000 + b"1]")) == 52_001


@rows("body", [b"[" * 100_000, b'{"a":' * 600 + b"1" + b"}" * 600])
def test_too_deep(body: bytes) -> None:
    """A thread's stack may be smaller than Python believes, so the parser never sees it."""
    with pytest.raises(Refused, match="nested too deep"):
        parse_body(body)


@rows("unit", [b'"', b'\\"', b'"\\', b" ", b"]", b'"a', b"1"])
def test_a_body_that_is_no_json_takes_no_longer(unit: bytes) -> None:
    """Above all, no string without an end is looked for again and again."""
    start = time.thread_time()
    with pytest.raises(Refused):
        parse_body(unit * (MIB // 4 // len(unit)))
    assert time.thread_time() - start < 2  # it takes 20 ms of this thread; quadratic, it would take half a minute


@pytest.mark.anyio
async def test_parsing_does_not_hold_up_the_loop() -> None:
    """It is done in a thread, and so is what an endpoint makes of the value."""
    threads: list[int] = []

    def convert(value: Any) -> Any:
        threads.append(threading.get_ident())
        return value

    assert await RequestBodies().read_json(request_of(body_of(b'{"a"', b": 1}")), convert) == {"a": 1}
    assert threads != [threading.get_ident()]


# --- size, memory and time --------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("length", ["2097153", "9" * 5_000])
async def test_a_length_that_is_too_large_is_refused_at_once(length: str) -> None:
    """Nothing is read at all."""
    with pytest.raises(Refused, match="2,097,152") as refused:
        await RequestBodies().read_json(request_of(body_of(), content_length=length), json_object)
    assert refused.value.status == 413


@pytest.mark.anyio
async def test_a_body_that_does_not_come() -> None:
    """Its client is told, and leaves."""
    client = Slow(RequestBodies(timeout_s=0.01), b"{")
    await client.ask()
    assert client.status == 408


@pytest.mark.anyio
async def test_silent_clients_keep_nobody_out() -> None:
    """If there are too many, the oldest is given up: others send their body in no time."""
    bodies = RequestBodies(max_arriving=3)
    silent = [Slow(bodies) for _ in range(5)]
    async with asking(*silent):
        await until(lambda: silent[1].status)
        assert [client.status for client in silent] == [503, 503, None, None, None]
        assert await bodies.read_json(request_of(body_of(b"{}")), json_object) == {}
        assert [client.status for client in silent] == [503, 503, 503, None, None]


@pytest.mark.anyio
async def test_the_memory_of_all_bodies_is_bounded() -> None:
    """Whoever holds it for the longest time gives it up."""
    bodies = RequestBodies(1_000, max_buffered_bytes=2_000)
    slow = [Slow(bodies, b" " * 900) for _ in range(6)]
    async with asking(*slow):
        await until(lambda: slow[3].status)
        assert [client.status for client in slow] == [503, 503, 503, 503, None, None]
        assert await bodies.read_json(request_of(body_of(b'{"a":', b" " * 990, b"1}")), json_object) == {"a": 1}
    # What was counted has been given back.
    assert await bodies.read_json(request_of(body_of(b"{}")), json_object) == {}
    assert bodies._buffered_bytes == 0


@pytest.mark.anyio
async def test_bodies_that_wait_for_the_parser_count() -> None:
    """They cannot be given up, so new ones are refused."""
    bodies = RequestBodies(1_000, max_buffered_bytes=1_000)
    goes_on = threading.Event()
    began = threading.Event()

    def convert(value: Any) -> Any:
        began.set()
        goes_on.wait(10)
        return value

    async def first() -> None:
        await bodies.read_json(request_of(body_of(b" " * 900 + b"{}")), convert)

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first)
            await until(began.is_set)
            with pytest.raises(Refused, match="busy") as refused:
                await bodies.read_json(request_of(body_of(b" " * 900 + b"{}")), json_object)
            goes_on.set()
    finally:
        goes_on.set()
    assert refused.value.status == 503


# --- the endpoints ----------------------------------------------------------------------------------------------------


def _never(_: Any) -> eagerstream.Run:
    raise AssertionError("nothing begins")


_APPS: dict[str, tuple[Callable[..., Any], str]] = {
    "gateway": (partial(gateway_app, _never, slots=RunSlots(1)), "/runs"),
    "agui": (partial(agui_app, _never), "/"),
    "vercel": (partial(vercel_app, _never), "/api/chat"),
    "decision": (partial(web_app, Hub(), token=None, hosts=None), "/runs/a/decide"),
}


async def _status(app: Any, path: str, next_message: Callable[[], Any]) -> int:
    """The status of the response to a request from a page of ours, whose body comes from a function."""
    sent: list[Any] = []

    async def receive() -> Any:
        return next_message()

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope_of(path, origin="http://localhost"), receive, send)
    return int(sent[0]["status"])


@pytest.mark.anyio
@pytest.mark.parametrize("name", _APPS)
async def test_bounds_of_each_endpoint(name: str) -> None:
    """By default a body has 2 MiB, and no more is read. A program may set another bound."""
    made, path = _APPS[name]
    bounds: list[tuple[dict[str, Any], int]] = [({}, 33), ({"max_body_bytes": 200_000}, 4)]
    for options, count in [({}, 1)] if name == "decision" else bounds:
        left = [b" " * 65_536] * 40
        message = lambda: {"type": "http.request", "body": left.pop(), "more_body": True}  # noqa: B023, E731
        assert await _status(made(**options), path, message) == 413
        assert len(left) == 40 - count


@pytest.mark.anyio
@pytest.mark.parametrize("name", _APPS)
async def test_a_client_that_leaves_before_it_has_asked(name: str) -> None:
    """Nothing begins, and nothing is raised."""
    made, path = _APPS[name]
    assert await _status(made(), path, lambda: {"type": "http.disconnect"}) == 400


def test_without_the_extra() -> None:
    """The error says which extra brings what is missing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ag_ui.core", None)
        with pytest.raises(MissingExtraError, match=r"eagerstream-progress\[agui\]"):
            _APPS["agui"][0]()
