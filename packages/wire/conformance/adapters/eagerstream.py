"""The adapter of eagerstream: what eagerstream-wire reads, and runs over its own client with answers made here."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
import httpx

import eagerstream
from eagerstream import RunningCall, tool
from eagerstream.transports import HTTPTransport
from eagerstream_wire import WireDecoder

from .eagerstream_wire import inputs, partial_json, sse

__all__ = ["faults", "histories", "inputs", "partial_json", "sse"]

logging.getLogger("eagerstream").addHandler(logging.NullHandler())  # cases are about broken responses: no warnings

_DONE = (
    b'event: message_start\ndata: {"type": "message_start", "message": {"id": "msg_done", "type": "message", "role": '
    b'"assistant", "model": "claude", "content": [], "stop_reason": null, "usage": {"input_tokens": 1, '
    b'"output_tokens": 1}}}\n\n'
    b'event: content_block_start\ndata: {"type": "content_block_start", "index": 0, "content_block": '
    b'{"type": "text", "text": "Done."}}\n\n'
    b'event: content_block_stop\ndata: {"type": "content_block_stop", "index": 0}\n\n'
    b'event: message_delta\ndata: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}\n\n'
    b'event: message_stop\ndata: {"type": "message_stop"}\n\n'
)


class _Body(httpx.AsyncByteStream):
    """A body, event by event. Calls that an event starts end before the next one."""

    def __init__(self, attempt: dict[str, Any]) -> None:
        self._attempt = attempt

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in self._attempt["body"].encode().split(b"\n\n"):
            yield event + b"\n\n"
            await anyio.wait_all_tasks_blocked()
        if self._attempt["ending"] == "lost":
            raise httpx.ReadError("the connection is lost")


class _API:
    """Answers each request with the next attempt, and any further one with a closing text."""

    def __init__(self, attempts: Sequence[dict[str, Any]]) -> None:
        self.requests: list[dict[str, Any]] = []
        self._attempts = attempts

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Return the response to a request."""
        self.requests.append(json.loads(request.content))
        last = {"status": 200, "body": _DONE.decode(), "ending": "complete"}
        attempt = [*self._attempts, last][min(len(self.requests) - 1, len(self._attempts))]
        if attempt["status"] is None:
            raise httpx.ConnectError("nobody listens")
        headers = {"content-type": "text/event-stream", **attempt.get("headers", {})}
        return httpx.Response(attempt["status"], headers=headers, stream=_Body(attempt))


class _Ran:
    """A finished run: its result or partial result, its status, and the calls that ran."""

    def __init__(self, given: dict[str, Any], attempts: Sequence[dict[str, Any]]) -> None:
        self.api = _API(attempts)
        self.calls: list[str] = []
        self._results: dict[str, Any] = given["results"]
        anyio.run(self._run, given, attempts)

    async def _run(self, given: dict[str, Any], attempts: Sequence[dict[str, Any]]) -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(self.api.answer)) as client:
            run = eagerstream.run(
                HTTPTransport(base_url="http://api.test", api_key="none", http_client=client),
                model="claude",
                max_tokens=1000,
                messages=given["messages"],
                tools=self._tools(attempts),
                restart_delay_s=0,
                max_restarts=given.get("restarts", 2),
            )
            try:
                async with run:
                    async for _ in run:
                        pass
                self.status = str(run.result.status)
            except eagerstream.EagerStreamError:
                self.status = "error"
        self.messages: list[Any] = run.result.messages

    def _tools(self, attempts: Sequence[dict[str, Any]]) -> list[Any]:
        """Return a tool for each name in the responses. It waits for the end if none of its calls is to run."""
        ids: dict[str, list[str]] = {}
        for attempt in attempts:
            decoder = WireDecoder()
            try:
                events = [
                    event for piece in attempt["body"].split("\n\n") for event in decoder.feed(f"{piece}\n\n".encode())
                ]
            except eagerstream.EagerStreamError:
                continue
            for event in events:
                block = event.get("content_block") or {}
                if block.get("type") == "tool_use":
                    ids.setdefault(str(block["name"]), []).append(str(block["id"]))
        return [self._tool(name, any(id in self._results for id in found)) for name, found in ids.items()]

    def _tool(self, name: str, runs: bool) -> Any:
        async def answer(input: dict[str, Any], call: RunningCall) -> str:  # noqa: ARG001
            self.calls.append(call.id)
            result = self._results.get(call.id)
            if result is None or result.get("is_error"):
                raise eagerstream.ToolError("Not executed." if result is None else result["content"])
            return str(result["content"])

        definition = {"name": name, "description": "A tool.", "input_schema": {"type": "object"}}
        return tool(definition=definition, start="input" if runs else "message")(answer)


def histories(given: dict[str, Any]) -> dict[str, Any]:
    """Return the messages of the request after a response. If the run needs none, the user speaks."""
    ran = _Ran(given, [{"status": 200, "body": given["response"], "ending": given["ending"]}])
    requests = ran.api.requests
    messages = requests[1]["messages"] if len(requests) > 1 else _spoken(ran.messages, given["next"])
    return {"messages": messages, "echoed": _echoed(messages)}


def faults(given: dict[str, Any]) -> dict[str, Any]:
    """Return the requests, the calls, the status and the messages of a run with a schedule of faults."""
    ran = _Ran(given, given["attempts"])
    messages = _spoken(ran.messages, given["next"])
    return {"requests": len(ran.api.requests), "calls": ran.calls, "status": ran.status, "messages": messages}


def _spoken(messages: Sequence[Any], text: str) -> list[Any]:
    is_answer = messages[-1]["role"] == "assistant"
    return [*messages, *([{"role": "user", "content": text}] if is_answer else [])]


def _echoed(messages: Sequence[Any]) -> dict[str, Any]:
    blocks = [block for message in messages if not isinstance(message["content"], str) for block in message["content"]]
    return {block["id"]: block["input"] for block in blocks if block["type"] == "tool_use"}
