"""One trace across machines: an executor that asks another program over HTTP hands the trace on, and it is taken up."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from opentelemetry import propagate

from eagerstream.loop import RunStatus
from eagerstream.testing import reply, tool_use
from eagerstream.tools import ToolCall, tool
from tests.integrations.collected import AGENT, DONE, Collected, finished, id_of, parents, trace_of


@tool
async def far(city: str) -> str:
    """Runs elsewhere; here is only its definition."""
    raise AssertionError("not here")


class OverHTTP:
    """An executor whose tools are behind an address."""

    def __init__(self, url: str) -> None:
        self._url = url

    def admit(self, call: ToolCall) -> None:
        pass

    async def execute(self, call: ToolCall) -> None:
        call.start()
        headers: dict[str, str] = {}
        propagate.inject(headers)
        async with httpx.AsyncClient(verify=False) as client:
            response = await client.post(
                self._url, json={"name": call.name, "input": call.input.value}, headers=headers
            )
        call.answer(response.json()["result"])


@contextmanager
def worker(elsewhere: Collected) -> Iterator[str]:
    """A server with an SDK of its own, in threads of its own, that traces what it does for others."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            context = propagate.extract(dict(self.headers.items()))
            with elsewhere.tracer.start_as_current_span(f"remote {asked['name']}", context):
                answer = json.dumps({"result": f"done for {asked['input']['city']}"}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.anyio
async def test_remote_work(collected: Collected) -> None:
    """Two calls at once: the work that each asks for is in its own span."""
    elsewhere = Collected()
    calls = reply(tool_use("far", {"city": "Oslo"}, id="a"), tool_use("far", {"city": "Lima"}, id="b"))
    with collected.tracing(), worker(elsewhere) as url:
        async with collected.serving(calls, DONE) as (client, _):
            run = await finished(client, far, executor=OverHTTP(url))
    assert run.result.status is RunStatus.COMPLETED
    assert [call.response.text for call in run.result.calls if call.response] == ["done for Oslo", "done for Lima"]
    tools, remote = collected.spans("execute_tool far"), elsewhere.spans("remote far")
    assert len(tools) == len(remote) == 2
    assert {span.parent.span_id for span in remote if span.parent and span.parent.is_remote} == set(map(id_of, tools))
    assert {trace_of(span) for span in remote} == {trace_of(collected.span(AGENT))}
    assert all(parents(span, [*collected.spans(), *remote])[0] == "execute_tool far" for span in remote)
