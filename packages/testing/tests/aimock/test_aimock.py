"""What aimock and our double can do: each row of the guide's first table, tried on both by the anthropic package."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import anthropic
import httpx
import pytest
from packages.testing.tests.clients.job import Job
from packages.testing.tests.clients.npm import ClientError, anthropic_runner, anthropic_stream
from tests.node import need_packages

from eagerstream.recordings import Recording
from eagerstream_testing import (
    Fault,
    FaultKind,
    Faults,
    Platform,
    ReplayServer,
    Scenario,
    Timing,
    http_error,
    reply,
    retime,
    text,
    thinking,
    tool_use,
)
from eagerstream_testing.capture import RecordingProxy

pytestmark = pytest.mark.slow

_HERE: Final = Path(__file__).parent
_GUIDE: Final = _HERE.parents[3] / "docs/guides/aimock.md"
_RAW: Final = '{"city": "Paris, in the rain of an evening in late November"}'
_BODY: Final[dict[str, Any]] = {
    "model": "claude-opus-4-7",
    "max_tokens": 64,
    "messages": [{"role": "user", "content": "weather"}],
}
_HEADERS: Final = {"x-api-key": "any", "anthropic-version": "2023-06-01"}


class Double:
    """One of the two, running.

    Attributes:
        url: Its address for the API.
        url_of: Its addresses for platforms. aimock has one address for all.
    """

    def __init__(self, url: str, url_of: Callable[[Platform], str] | None = None) -> None:
        self.url = url
        self.url_of = url_of or (lambda _: url)

    def client(self) -> anthropic.Anthropic:
        """Return a new client, to be closed."""
        return anthropic.Anthropic(base_url=self.url, api_key="any", max_retries=0, timeout=20)

    def events(self, asked: str, *, eager: bool = True, **more: Any) -> list[tuple[float, Any]]:
        """Return the events of a streamed response, with their times; as many as come before a failure."""
        tool = {"name": "get_weather", "input_schema": {"type": "object"}, "eager_input_streaming": eager}
        request: Any = {**_BODY, "messages": [{"role": "user", "content": asked}], "tools": [tool], **more}
        begun_s, found = time.monotonic(), []
        # Each version of the client has other exceptions for a connection that breaks.
        with self.client() as client, suppress(Exception):
            for event in client.messages.create(**request, stream=True):
                found.append((time.monotonic() - begun_s, event))
        return found

    def fragments(self, asked: str, **more: Any) -> list[tuple[float, str]]:
        """Return the fragments of the input in a response, with their times."""
        events = ((at_s, event) for at_s, event in self.events(asked, **more) if event.type == "content_block_delta")
        return [(at_s, event.delta.partial_json) for at_s, event in events if event.delta.type == "input_json_delta"]

    def post(self, path: str = "/v1/messages", body: Any = None, **more: Any) -> httpx.Response:
        return httpx.post(self.url + path, json=body or {**_BODY, **more}, headers=_HEADERS, timeout=20)

    def is_refused(self, **more: Any) -> bool:
        answer = self.post(**more)
        return answer.status_code == 400 and answer.json()["error"]["type"] == "invalid_request_error"


# --- the two ----------------------------------------------------------------------------------------------------------


@contextmanager
def aimock(*options: str) -> Iterator[str]:
    """Run aimock, and yield its address."""
    need_packages(_HERE)
    node = shutil.which("node")
    assert node is not None
    command = [node, str(_HERE / "node_modules/@copilotkit/aimock/dist/cli.js"), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            yield next(found[0] for line in lines if (found := re.search(r"http://[\d.:]+", line)))
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def theirs() -> Iterator[Double]:
    with aimock("--fixtures", str(_HERE / "fixtures.json"), "--metrics") as url:
        yield Double(url)


def _answer(request: Mapping[str, Any]) -> Recording:
    """Answer as `fixtures.json` does."""
    content = request["messages"][-1]["content"]
    asked = content if isinstance(content, str) else "result"
    slow = Timing(first_byte_s=0.2, tokens_per_second=38, jitter=0.1)
    match asked:
        case "result":
            return reply(text("It has 15 degrees."))
        case "slowly":
            return retime(reply(tool_use("get_weather", _RAW)), slow)
        case "invalid":
            return reply(tool_use("get_weather", '{"city": Paris}'))
        case "busy":
            return http_error(529, "overloaded_error", "Overloaded")
        case "think":
            return reply(thinking("First this."), text("Done."))
        case "break" | "weather":
            return reply(tool_use("get_weather", _RAW, id="toolu_1"))
        case _:
            return Scenario.scripted().answer(request)


@pytest.fixture(scope="module")
def ours() -> Iterator[Double]:
    with ReplayServer(Scenario.of(_answer)) as server:
        yield Double(server.base_url, server.url_of)


# --- what they can do -------------------------------------------------------------------------------------------------


def _holds_back(double: Double) -> bool:
    """An eager request gets the value as it is written; another one gets all of it at its end."""
    spreads = []
    for eager in (True, False):
        times = [at_s for at_s, fragment in double.fragments("slowly", eager=eager) if fragment]
        spreads.append(times[-1] - times[0])
    assert spreads[0] > 0.15
    return spreads[1] < spreads[0] / 3


def _bedrock(double: Double, *, stream: bool) -> bool:
    url = double.url_of(Platform.BEDROCK)
    with anthropic.AnthropicBedrock(base_url=url, api_key="any", aws_region="us-east-1", max_retries=0) as client:
        if stream:
            return bool([*client.messages.create(**_BODY, stream=True)])
        return bool(client.messages.create(**_BODY).content)


def _vertex(double: Double) -> bool:
    url = double.url_of(Platform.VERTEX)
    client = anthropic.AnthropicVertex(base_url=url, access_token="any", project_id="p", region="global", max_retries=0)
    with client, suppress(anthropic.NotFoundError):
        return bool(client.messages.create(**_BODY).content)
    return False


def _unanswered(double: Double) -> bool:
    history = [*_BODY["messages"], {"role": "assistant", "content": [_CALL]}, {"role": "user", "content": "weather"}]
    return double.is_refused(messages=history)


_CALL: Final = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}
_RESULT: Final = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "15 degrees"}


def _second_turn(double: Double) -> bool:
    history = [*_BODY["messages"], {"role": "assistant", "content": [_CALL]}, {"role": "user", "content": [_RESULT]}]
    return bool(double.post(messages=history).json()["content"][0].get("text") == "It has 15 degrees.")


def _first_byte_and_pace(double: Double) -> bool:
    (first_s, _), *_, (last_s, _) = double.events("slowly")
    return first_s > 0.15 and last_s - first_s > 0.3


def _overloaded(double: Double) -> bool:
    with double.client() as client, pytest.raises(anthropic.APIStatusError) as caught:
        client.messages.create(**{**_BODY, "messages": [{"role": "user", "content": "busy"}]})
    body: Any = caught.value.body
    return bool(caught.value.status_code == 529 and body["error"]["type"] == "overloaded_error")


def _thinking(double: Double) -> bool:
    deltas = {event.delta.type for _, event in double.events("think") if event.type == "content_block_delta"}
    return {"thinking_delta", "signature_delta", "text_delta"} <= deltas


def _chaos(double: Double) -> bool:
    answer = httpx.post(f"{double.url}/v1/messages", json=_BODY, headers={**_HEADERS, "x-aimock-chaos-ratelimit": "1"})
    return answer.status_code == 429


def _said(double: Double, asked: str) -> str:
    return "".join(fragment for _, fragment in double.fragments(asked))


_GEMINI: Final = "/v1beta/models/gemini-2.0-flash:generateContent"
_COUNTED: Final = {name: _BODY[name] for name in ("model", "messages")}

_CHECKS: Final[dict[str, Callable[[Double], bool]]] = {
    "streamed tool inputs, in fragments": lambda double: len(double.fragments("weather")) > 2,
    "responses that are not streamed": lambda double: double.post().json()["content"][0]["input"] == json.loads(_RAW),
    "thinking with a signature": _thinking,
    "results select the next turn": _second_turn,
    "first byte, pace and jitter": _first_byte_and_pace,
    "the API's errors, by status and type": _overloaded,
    "Amazon Bedrock, not streamed": lambda double: _bedrock(double, stream=False),
    "Amazon Bedrock, streamed": lambda double: _bedrock(double, stream=True),
    "inputs written exactly as given": lambda double: _said(double, "weather") == _RAW,
    "inputs that are not JSON": lambda double: _said(double, "invalid") == '{"city": Paris}',
    "the empty first fragment of the API": lambda double: not double.fragments("weather")[0][1],
    "inputs held back unless the request is eager": _holds_back,
    "refuses a call without its result": _unanswered,
    "refuses a request without `max_tokens`": lambda double: double.is_refused(max_tokens=None),
    "refuses a wrong temperature": lambda double: double.is_refused(temperature=7),
    "`count_tokens`": lambda double: double.post("/v1/messages/count_tokens", _COUNTED).is_success,
    "the dialect of Google Vertex AI": _vertex,
    "calls tools without a script, from their schemas": lambda double: bool(double.fragments("anything")),
    "`GET /v1/models`": lambda double: httpx.get(f"{double.url}/v1/models").is_success,
    "earlier requests over HTTP": lambda double: httpx.get(f"{double.url}/__aimock/journal").is_success,
    "metrics for Prometheus": lambda double: httpx.get(f"{double.url}/metrics").is_success,
    "faults by a header of the request": _chaos,
    "OpenAI's chat completions": lambda double: double.post("/v1/chat/completions", _COUNTED).is_success,
    "Gemini's `generateContent`": lambda double: (
        double.post(_GEMINI, {"contents": [{"role": "user", "parts": [{"text": "weather"}]}]}).is_success
    ),
    "embeddings": lambda double: double.post("/v1/embeddings", {"model": "embedding", "input": "x"}).is_success,
}
"""By the words of the guide."""


@pytest.mark.parametrize("capability", _CHECKS)
def test_capability(capability: str, ours: Double, theirs: Double) -> None:
    """The guide says of both what they can do."""
    check = _CHECKS[capability]
    assert _claims()[capability] == (check(ours), check(theirs))


def test_each_claim_is_checked() -> None:
    """The first table of the guide has these rows, and no other ones; its version is the one that is tried."""
    assert list(_claims()) == [*_CHECKS, *_OTHER_CHECKS]
    version = json.loads((_HERE / "package.json").read_text())["dependencies"]["@copilotkit/aimock"]
    assert f"aimock {version}" in _GUIDE.read_text(encoding="utf-8")


_OTHER_CHECKS: Final = (
    "loops of Anthropic's tool runners",
    "a break inside an event",
    "recordings with the time of the first byte",
    "recordings with the time of the end",
    "recordings with every byte",
)
"""Rows with tests of their own, below."""


def _claims() -> dict[str, tuple[bool, bool]]:
    page = _GUIDE.read_text(encoding="utf-8").partition("| tried |")[2].partition("\n\n")[0]
    rows = (line.strip("|").split("|") for line in page.splitlines()[2:])
    return {row[0].strip(): (row[1].strip() == "yes", row[2].strip() == "yes") for row in rows}


@pytest.mark.anyio
async def test_typescript(ours: Double, theirs: Double) -> None:
    """Anthropic's client for TypeScript completes a loop with both. Its tool runner sends only what is new in a thread."""
    kept = []
    for double in (ours, theirs):
        job = Job(base_url=double.url, question="weather", tool=True)
        result = await anthropic_stream(job)
        assert (result.calls, result.text) == ([json.loads(_RAW)], "It has 15 degrees.")
        try:
            kept.append(await anthropic_runner(job) == result)
        except ClientError as error:
            assert "No fixture matched" in str(error)
            kept.append(False)
    assert _claims()["loops of Anthropic's tool runners"] == tuple(kept)


def _until_it_breaks(url: str, asked: str) -> bytes:
    body = b""
    asked_for = {**_BODY, "messages": [{"role": "user", "content": asked}], "stream": True}
    with httpx.stream("POST", f"{url}/v1/messages", json=asked_for, headers=_HEADERS) as answer:
        with pytest.raises(httpx.RemoteProtocolError):
            for chunk in answer.iter_raw():
                body += chunk
    return body


def test_breaks(theirs: Double) -> None:
    """Both break a response off. aimock does so between events, ours after any byte."""
    broken = _until_it_breaks(theirs.url, "break")
    assert broken.count(b"text_delta") > 1
    assert broken.endswith(b"\n\n")
    whole = reply(text("This text is never complete."))
    for after_bytes in (700, 701):
        faults = Faults({0: [Fault(FaultKind.CLOSE, after_bytes=after_bytes)]})
        with ReplayServer(whole, faults=faults) as server:
            assert len(_until_it_breaks(server.base_url, "weather")) == after_bytes
    assert _claims()["a break inside an event"] == (True, False)


def test_recordings(tmp_path: Path) -> None:
    """Both record from an upstream, which is our double here. Ours keeps bytes and times, aimock contents and times."""
    said = reply(tool_use("get_weather", _RAW, fragment_chars=3))
    upstream = retime(said, Timing(first_byte_s=1.0, tokens_per_second=10))
    (tmp_path / "fixtures").mkdir()
    with ReplayServer(upstream) as server:
        with RecordingProxy(server.base_url, tmp_path / "ours") as proxy:
            first = Double(proxy.base_url).events("hello")
        options = ("--fixtures", str(tmp_path / "fixtures"))
        with aimock(*options, "--record", "--provider-anthropic", server.base_url) as url:
            assert Double(url).events("hello")
    (file,) = (tmp_path / "ours").glob("*.jsonl")
    with ReplayServer(Recording.load(file)) as server:
        ours = Double(server.base_url).events("hello")
    with aimock(*options) as url:
        theirs = Double(url).events("hello")
    keeps_bytes = tuple([event for _, event in played] == [event for _, event in first] for played in (ours, theirs))
    assert _claims()["recordings with every byte"] == keeps_bytes
    for row, place in (("recordings with the time of the first byte", 0), ("recordings with the time of the end", -1)):
        kept = (abs(played[place][0] - first[place][0]) < 0.6 for played in (ours, theirs))
        assert _claims()[row] == tuple(kept)


def test_from_ours_to_aimock(tmp_path: Path) -> None:
    """The guide's way from a double of ours to fixtures: aimock records it."""
    (tmp_path / "fixtures").mkdir()
    options = ("--fixtures", str(tmp_path / "fixtures"))
    with ReplayServer(Scenario.of(_answer)) as server:
        with aimock(*options, "--record", "--provider-anthropic", server.base_url) as url:
            assert Double(url).fragments("weather")
    with aimock(*options) as url:
        assert json.loads(_said(Double(url), "weather")) == json.loads(_RAW)
