"""`ReplayServer`: its life, and the real client at the other end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
import uvicorn
from anthropic import APIStatusError, AsyncAnthropic
from tests.platforms import PlatformClient, each_client
from tests.tables import rows

from eagerstream.errors import UsageError
from eagerstream.recordings import Chunk, Recording
from eagerstream_testing import ReplayServer, Scenario, encode_event, http_error, reply, text, thinking, tool_use

_WEATHER = reply(thinking("Weather."), text("Let me look."), tool_use("get_weather", {"city": "Oslo"}, id="toolu_1"))
_DONE = reply(text("It is cold in Oslo."))
_ENDLESS = Recording((Chunk(0, encode_event({"type": "ping"})), Chunk(3600, b"data: never\n\n")))
_USER: Any = {"role": "user", "content": "How is the weather in Oslo?"}
_BODY = {"model": "m", "max_tokens": 16, "stream": True, "messages": [_USER]}


def _client(server: ReplayServer) -> AsyncAnthropic:
    return AsyncAnthropic(api_key="k", base_url=server.base_url, max_retries=0, timeout=20)


_BEFORE = set(threading.enumerate())


@pytest.fixture(autouse=True)
def threads_before() -> None:
    """Tests of other files may have left a server."""
    _BEFORE.update(threading.enumerate())


def _threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "replay" in thread.name and thread not in _BEFORE]


def _wait_for_no_threads() -> None:
    for thread in threading.enumerate():
        if thread.name in _threads():
            thread.join(20)
    assert _threads() == []


@pytest.mark.anyio
async def test_conversation_with_the_anthropic_client() -> None:
    """The client's own stream helper gets through a conversation of two turns, on asyncio and on trio."""
    async with ReplayServer(Scenario(_WEATHER, _DONE)) as server, _client(server) as client:
        messages = [_USER]
        async with client.messages.stream(model="m", max_tokens=64, messages=messages) as stream:
            message = await stream.get_final_message()
        assert message.stop_reason == "tool_use"
        call = message.content[-1]
        assert call.type == "tool_use"
        assert call.input == {"city": "Oslo"}
        messages.append({"role": "assistant", "content": message.content})
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "-5 C"}
        messages.append({"role": "user", "content": [result]})
        events = await client.messages.create(model="m", max_tokens=64, messages=messages, stream=True)
        pieces = [
            e.delta.text async for e in events if e.type == "content_block_delta" and e.delta.type == "text_delta"
        ]
        assert "".join(pieces) == "It is cold in Oslo."
        assert [len(request.body["messages"]) for request in server.requests] == [1, 3]
        assert server.requests[1].body["messages"][2]["content"] == [result]


@pytest.mark.anyio
async def test_errors_reach_the_client() -> None:
    """The client understands an error as one of the API's, with its status, type and request id."""
    async with ReplayServer(http_error(529, "overloaded_error", "Overloaded")) as server, _client(server) as client:
        with pytest.raises(APIStatusError) as caught:
            await client.messages.create(model="m", max_tokens=64, messages=[_USER], stream=True)
        assert caught.value.status_code == 529
        assert caught.value.request_id == caught.value.body["request_id"]  # type: ignore[index]
        assert server.requests[0].status == 529


@pytest.mark.slow
@pytest.mark.anyio
async def test_clients_at_the_same_time() -> None:
    """Runs that overlap do not disturb one another: each is answered by its own history."""

    def echo(request: Mapping[str, Any]) -> Recording:
        return reply(text(request["messages"][-1]["content"]))

    answers: dict[int, list[str]] = {}
    async with ReplayServer(Scenario(echo, echo)) as server, _client(server) as client:

        async def converse(number: int) -> None:
            messages: list[Any] = []
            for turn in range(2):
                messages.append({"role": "user", "content": f"{number}.{turn}"})
                async with client.messages.stream(model="m", max_tokens=64, messages=messages) as stream:
                    said = await stream.get_final_text()
                messages.append({"role": "assistant", "content": said})
                answers.setdefault(number, []).append(said)

        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(converse, number)
        assert len(server.requests) == 20
    assert answers == {number: [f"{number}.0", f"{number}.1"] for number in range(10)}


@pytest.mark.anyio
async def test_disconnect_is_noticed() -> None:
    """A client that leaves in the middle ends its reply at once, and the request says so."""
    raw = json.dumps(_BODY).encode()
    head = f"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(raw)}\r\n\r\n"
    async with ReplayServer(_ENDLESS) as server:
        async with await anyio.connect_tcp("127.0.0.1", server.port) as connection:
            await connection.send(head.encode() + raw)
            assert (await connection.receive()).startswith(b"HTTP/1.1 200")
            (request,) = server.requests
            assert not request.ended
            assert not request.disconnected
        assert await anyio.to_thread.run_sync(request.wait_ended, 20)
        assert request.disconnected


def test_disconnect_in_the_request() -> None:
    """A client that leaves before its request is whole is noticed too, and nothing is logged or left over."""
    with ReplayServer(_DONE) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
            connection.sendall(
                b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n"
            )
            assert connection.recv(100).startswith(b"HTTP/1.1 100")  # so the request has arrived
        (request,) = server.requests
        assert request.wait_ended(20)
        assert request.disconnected
        assert request.status is None


def test_close_cuts_what_runs(caplog: pytest.LogCaptureFixture) -> None:
    """Closing does not wait for a reply to end: the client sees it break off, and the thread is gone, silently."""
    with httpx.Client(timeout=20) as client:
        with ReplayServer(_ENDLESS) as server:
            request = client.build_request("POST", f"{server.base_url}/v1/messages", json=_BODY)
            chunks = client.send(request, stream=True).iter_raw()
            assert next(chunks)
        with pytest.raises(httpx.TransportError):
            next(chunks)
    assert server.requests[0].disconnected
    assert _threads() == []
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


@pytest.mark.slow
def test_start_again() -> None:
    """A closed server can be started again, also at once on the same port, and remembers its requests."""
    with ReplayServer(_DONE) as first:
        httpx.post(f"{first.base_url}/v1/messages", json=_BODY, timeout=20)
        port = first.port
    with ReplayServer(_DONE, port=port) as second:
        assert second.base_url == f"http://127.0.0.1:{port}"
        assert httpx.get(second.base_url, timeout=20).status_code == 200
    with first:
        httpx.post(f"{first.base_url}/v1/messages", json=_BODY, timeout=20)
    assert len(first.requests) == 2


def test_only_while_it_runs() -> None:
    """Before and after there is no address, starting twice is a mistake, closing twice is not."""
    server = ReplayServer(_DONE)
    with pytest.raises(UsageError, match="not running"):
        _ = server.base_url
    with server, pytest.raises(UsageError, match="running already"):
        server.start()
    with pytest.raises(UsageError, match="not running"):
        _ = server.port
    server.close()


@pytest.mark.anyio
async def test_entered_twice() -> None:
    """Entering a running server is refused, and does not stop it."""
    async with ReplayServer(_DONE) as server, httpx.AsyncClient(timeout=20) as client:
        with pytest.raises(UsageError, match="running already"):
            async with server:
                pass
        assert (await client.get(server.base_url)).status_code == 200


@pytest.mark.anyio
async def test_port_in_use() -> None:
    """A taken port is said in one line, and leaves nothing behind."""
    async with ReplayServer(_DONE) as server:
        before = _threads()
        with pytest.raises(UsageError, match=f"port {server.port}") as caught:
            async with ReplayServer(_DONE, port=server.port):
                pass
        assert "\n" not in str(caught.value)
        assert _threads() == before


@pytest.mark.parametrize("host", ["203.0.113.1", "no such host", "a" * 80])
def test_hosts_that_are_not_here(host: str) -> None:
    """An address that is not this machine's is said in one line."""
    with pytest.raises(UsageError, match="cannot listen on"), ReplayServer(_DONE, host=host):
        pass


def test_ipv6() -> None:
    """An IPv6 address is written in brackets, as URLs want it."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with ReplayServer(_DONE, host="::1") as server:
        assert server.base_url == f"http://[::1]:{server.port}"
        assert httpx.get(server.base_url, timeout=20).status_code == 200


def test_a_client_that_is_slow_to_send() -> None:
    """A connection without a request is cut after `idle_s`, and one that was used as well."""
    with ReplayServer(_DONE, idle_s=0.1) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as silent:
            assert silent.recv(100) == b""
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as used:
            used.send(b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n")
            received = [*iter(partial(used.recv, 65_536), b"")]
            assert b"404" in received[0]


@rows("options", [{"port": -1}, {"port": 65_536}, {"speed": 0}, {"read_bytes_per_s": 0}, {"idle_s": 0}])
def test_bad_options(options: dict[str, Any]) -> None:
    """Values that cannot be are refused before anything starts."""
    with pytest.raises(UsageError):
        ReplayServer(_DONE, **options)


@pytest.mark.anyio
async def test_cancelled_start_leaves_nothing() -> None:
    """Where entering is cancelled, a server that started all the same is closed again."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with ReplayServer(_DONE):
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert _threads() == []


@pytest.mark.anyio
async def test_serve_until_cancelled() -> None:
    """`serve` says when it listens, runs until it is cancelled, and closes then."""
    server = ReplayServer(_DONE)
    started = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, lambda _: started.set())
        await started.wait()
        async with httpx.AsyncClient(timeout=20) as client:
            assert (await client.get(server.base_url)).status_code == 200
        tasks.cancel_scope.cancel()
    assert _threads() == []


def test_start_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes wrong in the server's thread is raised where it was started, and the port is free again."""

    def fail(_: uvicorn.Config) -> None:
        raise RuntimeError("no")

    server = ReplayServer(_DONE)
    with monkeypatch.context() as patched:
        patched.setattr(uvicorn.Config, "load", fail)
        with pytest.raises(RuntimeError, match="no"):
            server.start()
    _wait_for_no_threads()
    with server:
        assert httpx.get(server.base_url, timeout=20).status_code == 200


def test_interrupted_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while it starts leaves no server behind."""

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("eagerstream._support.serving.asgi_server.Future.result", interrupt)
        with pytest.raises(KeyboardInterrupt):
            ReplayServer(_DONE).start()
    _wait_for_no_threads()


def test_run_returns_after_an_interrupt() -> None:
    """For `run`, being interrupted is the ordinary end: it closes and returns."""
    server = ReplayServer(_DONE)
    server.run(lambda _: signal.raise_signal(signal.SIGINT))
    assert _threads() == []


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there is no SIGINT for one process on Windows")
def test_run_until_ctrl_c() -> None:
    """`run` keeps a program in the foreground until Ctrl-C, and then ends it without a traceback."""
    script = (
        "from eagerstream_testing import ReplayServer, reply\n"
        "ReplayServer(reply()).run(lambda server: print(server.base_url, flush=True))\n"
        "print('closed')\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert httpx.get(url, timeout=20).status_code == 200
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "closed\n", "")


@pytest.mark.slow
def test_importing_is_cheap() -> None:
    """Recordings and scripts are for everybody: importing them loads no server, no client, and no model library."""
    script = (
        "import sys, eagerstream_testing\n"
        "heavy = {'starlette', 'uvicorn', 'anthropic', 'httpx', 'pydantic'} & set(sys.modules)\n"
        "sys.exit(repr(heavy) if heavy else 0)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@pytest.mark.anyio
@each_client
async def test_a_token_is_brought_as_a_key(platform_client: PlatformClient) -> None:
    """Any client of the API brings it with its own key. With another key, it gets an error as the API's."""
    token = "token-of-the-tests"
    keys = {"api_key": token, "aws_access_key": token, "access_token": token, "token_provider": lambda: token}
    given = {name: keys.get(name, value) for name, value in platform_client.arguments.items()}
    with ReplayServer(_DONE, token=token) as server:
        async with replace(platform_client, arguments=given).client(server) as client:
            message = await client.messages.create(model="m", max_tokens=64, messages=[_USER])
        assert message.content[0].text
        async with platform_client.client(server) as client:
            with pytest.raises(APIStatusError, match="has a token") as caught:
                await client.messages.create(model="m", max_tokens=64, messages=[_USER])
        assert caught.value.status_code == 401
        assert len(server.requests) == 1


def test_the_environment_has_the_token() -> None:
    """As the keys of all clients that read it."""
    with ReplayServer(_DONE, token="token-of-the-tests") as server:
        variables = server.environment()
    names = {name for name, value in variables.items() if value == server.token}
    assert names == {"ANTHROPIC_API_KEY", "ANTHROPIC_FOUNDRY_API_KEY", "AWS_ACCESS_KEY_ID"}
