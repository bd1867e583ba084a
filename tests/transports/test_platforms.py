"""The clients of every platform, unmodified, over a real socket, each in its own dialect."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream import APIError, ProtocolError, RunStatus, StreamInterrupted, UsageError
from eagerstream.recordings import Chunk, Recording
from eagerstream.tools import tool
from eagerstream_testing import (
    Fault,
    FaultKind,
    Faults,
    Platform,
    ReplayServer,
    Scenario,
    error_event,
    http_error,
    reply,
    text,
    tool_use,
)
from eagerstream_wire import EagerSupport
from eagerstream_wire._tool_kind import LEGACY_BETA
from tests.platforms import CLIENTS, PlatformClient, each_client, each_platform
from tests.streaming.streams import error_of, finished
from tests.streams import REQUEST, USER, blocks_of, event_line, made_recordings, needs_recordings, real_recordings
from tests.support import check_history

pytestmark = pytest.mark.anyio

WEATHER = reply(text("Let me look."), tool_use("get_weather", {"city": "Oslo"}))
THREE = reply(
    text("Let me look."),
    tool_use("get_weather", {"city": "Oslo"}),
    tool_use("get_time", {}),
    tool_use("add", {"a": 1, "b": 2}),
)
MODEL = REQUEST["model"]
_PATHS = {
    Platform.BEDROCK: f"/bedrock/model/{MODEL}/invoke-with-response-stream",
    Platform.VERTEX: f"/vertex/v1/projects/p/locations/global/publishers/anthropic/models/{MODEL}:streamRawPredict",
}


@tool
async def get_weather(city: str) -> str:
    """Current weather."""
    return f"{city}: 15 degrees"


@tool
async def get_time() -> str:
    """The time."""
    return "noon"


@tool
async def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


_QUICK = (Platform.ANTHROPIC, Platform.BEDROCK, Platform.VERTEX)
"""Responses in events and in frames, and requests with the model in their body and in their path."""

each_form = pytest.mark.parametrize(
    "platform_client",
    [
        pytest.param(client, id=client.platform, marks=() if client.platform in _QUICK else pytest.mark.slow)
        for client in {client.platform: client for client in reversed(CLIENTS) if client.is_there}.values()
    ],
)
"""Runs a test with one client of each platform; with the quick tests, one of each form of a request and a response."""


# --- requests ---------------------------------------------------------------------------------------------------------


@each_client
async def test_the_request(platform_client: PlatformClient) -> None:
    """Where it goes, and what is in it: each platform has its own place for the model and the version."""
    unknown: dict[str, Any] = {"thinking": {"type": "x"}, "made_up": 1}
    async with ReplayServer(WEATHER) as server, platform_client.client(server) as client:
        s = await finished(client, tools=[get_weather], **unknown)
        (request,) = server.requests
    platform = platform_client.platform
    assert request.platform is platform
    assert request.path == _PATHS.get(platform, f"{server_root(platform)}/v1/messages")
    sent = dict(request.body)
    if platform in _PATHS:
        assert isinstance(sent.pop("anthropic_version"), str)
        sent["model"] = MODEL
        assert sent.pop("stream", None) is (None if platform is Platform.BEDROCK else True)
        sent["stream"] = True
    assert sent.pop("tools") == [get_weather.to_dict()]
    assert sent == {**REQUEST, "stream": True, "thinking": {"type": "x"}, "made_up": 1}
    assert s.request_id == request.request_id
    assert blocks_of(s.message)[1]["input"] == {"city": "Oslo"}


def server_root(platform: Platform) -> str:
    """Where the dialect of a platform begins on a server."""
    from eagerstream_testing._platforms import DIALECTS

    return DIALECTS[platform].root


@each_platform
async def test_the_beta_namespace(platform_client: PlatformClient) -> None:
    """Betas, the container, MCP servers and their toolset arrive as they were given."""
    options: dict[str, Any] = {
        "container": {"id": "container_1", "skills": [{"type": "anthropic", "skill_id": "pdf", "version": "latest"}]},
        "mcp_servers": [{"type": "url", "url": "https://mcp.example", "name": "files"}],
        "tools": [get_weather, {"type": "mcp_toolset", "mcp_server_name": "files"}],
        "made_up": {"a": 1},
    }
    async with ReplayServer(WEATHER) as server, platform_client.client(server) as client:
        async with eagerstream.stream(
            client, **REQUEST, betas=["a-2025-01-01", "mcp-client-2025-11-20"], **options
        ) as stream:
            events = [event_line(event) async for event in stream]
        (request,) = server.requests
    async with eagerstream.stream(WEATHER, **REQUEST) as played:
        assert [event_line(event) async for event in played] == events
    expected = {**options, "tools": [get_weather.to_dict(), options["tools"][1]]}
    assert {name: request.body[name] for name in expected} == expected
    assert request.headers["anthropic-beta"] == "a-2025-01-01,mcp-client-2025-11-20"
    if platform_client.platform is Platform.BEDROCK:  # which looks there, and not at headers
        assert request.body["anthropic_beta"] == ["a-2025-01-01", "mcp-client-2025-11-20"]


@each_form
async def test_models_with_odd_names(platform_client: PlatformClient) -> None:
    """Ids of models and of inference profiles have signs that paths give a meaning to."""
    asked: list[str] = []

    def answer(request: Any) -> Recording:
        asked.append(request["model"])
        return WEATHER

    names = ["us.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5@20251001"]
    if platform_client.platform is not Platform.VERTEX:  # which has no such ids
        names.append("arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude")
    async with ReplayServer(Scenario.of(answer)) as server, platform_client.client(server) as client:
        for name in names:
            await finished(client, model=name)
    assert asked == names


# --- replies ----------------------------------------------------------------------------------------------------------


def _named(paths: list[Path]) -> dict[str, Recording]:
    recordings = {path.stem: Recording.load(path) for path in paths}
    return {name: recording for name, recording in recordings.items() if recording.status == 200}


async def _lines(client: Any, name: str) -> list[Any]:
    """The events of a recording, and how it ends."""
    lines: list[Any] = []
    message = {"role": "user", "content": name}
    try:
        async with eagerstream.stream(client, **{**REQUEST, "messages": [message]}, buffer="wait") as stream:
            async for event in stream:
                lines.append(event_line(event))
    except (APIError, ProtocolError) as error:
        lines.append(type(error).__name__)
    return lines


async def _replay(platform_client: PlatformClient, paths: list[Path]) -> None:
    recordings = _named(paths)
    scenario = Scenario.of(lambda request: recordings[request["messages"][0]["content"]])
    async with ReplayServer(scenario, speed=float("inf")) as server, platform_client.client(server) as client:
        for name, recording in recordings.items():
            instant = replace(recording, chunks=(Chunk(0.0, recording.body),))
            assert await _lines(client, name) == await _lines(instant, name), name


@pytest.mark.slow
@each_platform
async def test_made_recordings(platform_client: PlatformClient) -> None:
    """Each gives the same events over the wire of every platform as it gives played back alone."""
    await _replay(platform_client, made_recordings())


@needs_recordings
@pytest.mark.nightly
@each_platform
async def test_real_recordings(platform_client: PlatformClient) -> None:
    """And so do those of real replies."""
    await _replay(platform_client, real_recordings())


async def test_a_run_with_three_tools() -> None:
    """The loop, to its end, over the frames of Bedrock. A slow test does so with each client."""
    scenario = Scenario(THREE, reply(text("Done."), message_id="msg_last"))
    async with ReplayServer(scenario) as server, CLIENTS[1].client(server) as client:
        async with eagerstream.run(client, **REQUEST, tools=[get_weather, get_time, add]) as run:
            await run.finish()
        assert len(server.requests) == 2
    assert run.result.status is RunStatus.COMPLETED
    check_history(run.result.messages)
    results = [block["content"] for block in run.result.messages[2]["content"]]
    assert results == ["Oslo: 15 degrees", "noon", "3"]


@pytest.mark.skipif(not CLIENTS[2].is_there, reason="this version of anthropic has no api_key for Bedrock")
async def test_bedrock_without_the_packages_of_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a key nothing is to be signed, and the frames are decoded here: the extra is not needed."""
    for name in ("boto3", "botocore"):
        monkeypatch.setitem(sys.modules, name, None)
    async with ReplayServer(WEATHER) as server, CLIENTS[2].client(server) as client:
        stream = await finished(client)
    assert stream.is_whole


# --- errors -----------------------------------------------------------------------------------------------------------


_ERROR_TYPES = {
    (Platform.BEDROCK, 400): "ValidationException",
    (Platform.BEDROCK, 401): "UnrecognizedClientException",
    (Platform.BEDROCK, 403): "AccessDeniedException",
    (Platform.BEDROCK, 404): "ResourceNotFoundException",
    (Platform.BEDROCK, 429): "ThrottlingException",
    (Platform.BEDROCK, 500): "InternalServerException",
    (Platform.BEDROCK, 504): "ModelTimeoutException",
    (Platform.BEDROCK, 529): "ServiceUnavailableException",
    **{
        (platform, status): word
        for platform in (Platform.VERTEX, Platform.GOOGLE_CLOUD)
        for status, word in {
            401: "UNAUTHENTICATED",
            403: "PERMISSION_DENIED",
            404: "NOT_FOUND",
            429: "RESOURCE_EXHAUSTED",
        }.items()
    },
}
_API_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


@pytest.mark.slow
@each_platform
async def test_refusals(platform_client: PlatformClient) -> None:
    """Each platform's words for an error become the same `APIError`, with the platform's own name of it."""
    platform = platform_client.platform
    for status, error_type in _API_TYPES.items():
        refused = http_error(status, error_type, "for a reason")
        async with ReplayServer(refused) as server, platform_client.client(server) as client:
            error = await error_of(client)
        assert (error.reason, error.status_code) == ("for a reason", status)
        assert error.retryable is (status in (429, 500, 504, 529))
        if platform is Platform.FOUNDRY and status in (401, 429):
            assert error.error_type is None  # Azure's gateway repeats the status, and no more
        else:
            assert error.error_type == _ERROR_TYPES.get((platform, status), error_type)
        assert error.request_id is not None


_ERRORS_INSIDE = {
    "overloaded_error": ("ServiceUnavailableException", True),
    "rate_limit_error": ("ThrottlingException", True),
    "timeout_error": ("ModelTimeoutException", True),
    "api_error": ("InternalServerException", True),
    "invalid_request_error": ("ValidationException", False),
    "permission_error": ("AccessDeniedException", False),
}


@each_form
async def test_errors_inside_a_reply(platform_client: PlatformClient) -> None:
    """An `error` event, or an exception frame, is told with what had come before it."""

    def broken(request: Any) -> Recording:
        return reply(text("Let me"), error_event(request["messages"][0]["content"], "in the middle"))

    async with ReplayServer(Scenario.of(broken)) as server, platform_client.client(server) as client:
        for error_type, (exception, retryable) in _ERRORS_INSIDE.items():
            error = await error_of(client, messages=[{"role": "user", "content": error_type}])
            assert (error.reason, error.status_code, error.retryable) == ("in the middle", None, retryable), error_type
            assert error.error_type == (exception if platform_client.platform is Platform.BEDROCK else error_type)
            assert error.request_id == server.requests[-1].request_id
            assert error.message is not None
            assert error.message["content"][0]["text"] == "Let me"
        assert len(server.requests) == len(_ERRORS_INSIDE)


@each_form
async def test_a_server_that_is_not_there(platform_client: PlatformClient) -> None:
    """Nobody listens."""
    async with ReplayServer(WEATHER) as server:
        client = platform_client.client(server)
    async with client:
        error = await error_of(client)
    assert type(error) is APIError
    assert (error.status_code, error.request_id, error.retryable, error.retried) == (None, None, True, False)


@each_form
async def test_a_connection_that_is_lost(platform_client: PlatformClient) -> None:
    """In the middle of an event, or of a frame."""
    faults = Faults({0: [Fault(FaultKind.RESET, after_bytes=1000)]})
    async with ReplayServer(WEATHER, faults=faults) as server, platform_client.client(server) as client:
        error = await error_of(client, StreamInterrupted)
        (request,) = server.requests
    assert (error.request_id, error.retryable) == (request.request_id, True)
    assert error.message is not None


@each_platform
async def test_retries_are_the_client_s(platform_client: PlatformClient) -> None:
    """What the client has sent again itself is marked so, with the `retry-after` of the platform: a run does not send
    it once more."""
    fault = Fault(FaultKind.HTTP_ERROR, status=429, retry_after_s=0.001)
    async with ReplayServer(WEATHER, faults=Faults({0: [fault] * 9})) as server:
        async with platform_client.client(server, max_retries=1) as client:
            error = await error_of(client)
        assert len(server.requests) == 2
    assert (error.status_code, error.retry_after_s) == (429, 0.001)
    assert (error.retryable, error.retried) == (True, True)


# --- where eager input streaming is refused -------------------------------------------------------------------------


@pytest.mark.slow
@each_client
@pytest.mark.parametrize(
    ("support", "eager", "requests"),
    [("any", "field", 1), ("field", "field", 1), ("header", "header", 2), ("none", None, 3)],
)
async def test_eager_fallback(
    platform_client: PlatformClient, support: EagerSupport, eager: str | None, requests: int
) -> None:
    """The field, then the legacy beta, then neither, by the words of each platform; and remembered by the client."""
    scenario = Scenario(THREE, reply(text("Done."), message_id="msg_last"))
    async with ReplayServer(scenario, eager=support) as server, platform_client.client(server) as client:
        async with eagerstream.run(client, **REQUEST, tools=[get_weather, get_time, add]) as run:
            await run.finish()
        assert len(server.requests) == requests + 1
        assert [request.status for request in server.requests] == [400] * (requests - 1) + [200, 200]
        stream = await finished(client, tools=[get_weather], eager_fallback="auto")
        assert len(server.requests) == requests + 2
    assert run.result.status is RunStatus.COMPLETED
    check_history(run.result.messages)
    results = [block["content"] for block in run.result.messages[2]["content"]]
    assert results == ["Oslo: 15 degrees", "noon", "3"]
    assert run.eager == stream.eager == eager


async def test_a_body_with_betas_of_its_own() -> None:
    """Bedrock looks for betas in the body, where the client leaves those alone that are there already."""
    async with ReplayServer(WEATHER, eager="header") as server, CLIENTS[1].client(server) as client:
        betas = {"anthropic_beta": ["mine-2025-01-01"]}
        stream = await finished(client, tools=[get_weather], extra_body=betas)
        assert server.requests[-1].body["anthropic_beta"] == ["mine-2025-01-01", LEGACY_BETA]
    assert stream.eager == "header"


@pytest.mark.parametrize("number", [0, 1], ids=["anthropic", "bedrock"])
async def test_a_beta_that_the_client_has_already(number: int) -> None:
    """Bedrock's client reads the headers of a request only: what a tool needs must be there."""
    beta = "computer-use-2025-01-24"
    computer = {"type": "computer_20250124", "name": "computer", "display_width_px": 800, "display_height_px": 600}
    async with (
        ReplayServer(WEATHER) as server,
        CLIENTS[number].client(server) as client,
        # Closed by itself: some versions of the package give a copy a connection of its own.
        client.with_options(default_headers={"anthropic-beta": beta}) as known,
    ):
        await finished(known, tools=[computer])
        request = server.requests[-1]
        assert beta in (request.headers.get("anthropic-beta") or "", *(request.body.get("anthropic_beta") or ()))


# --- credentials ------------------------------------------------------------------------------------------------------


_MISSING = {
    Platform.ANTHROPIC: (401, "x-api-key header is required"),
    Platform.BEDROCK: (403, "Missing Authentication Token"),
    Platform.BEDROCK_MANTLE: (403, "Missing Authentication Token"),
    Platform.AWS: (403, "Missing Authentication Token"),
    Platform.VERTEX: (401, "missing required authentication credential"),
    Platform.FOUNDRY: (401, "Access denied"),
    Platform.GOOGLE_CLOUD: (401, "missing required authentication credential"),
}


@each_form
async def test_without_credentials(platform_client: PlatformClient) -> None:
    """Each platform refuses a request without them, in its own words."""
    status, words = _MISSING[platform_client.platform]

    async def without(request: Any) -> None:
        for name in ("authorization", "x-api-key", "api-key"):
            request.headers.pop(name, None)

    async with ReplayServer(WEATHER) as server:
        client = platform_client.client(server)
        client._client.event_hooks = {"request": [without]}
        async with client:
            error = await error_of(client)
    assert error.status_code == status
    assert words in error.reason
    assert not error.retryable


_SIGNING = [client for client in CLIENTS if "aws_access_key" in client.arguments and client.is_there]


_SPOILT = [
    ("/aws4_request", "", "not a complete AWS signature"),
    (r"[;=]host\b", "=", "not a complete AWS signature"),
    ("Signature=.*", "Signature=0", "not a complete AWS signature"),
    ("/[a-z-]+/aws4_request", "/s3/aws4_request", "scoped to correct service"),
]


@pytest.mark.parametrize("client", _SIGNING, ids=[client.platform for client in _SIGNING])
async def test_signatures(client: PlatformClient) -> None:
    """A signature has all its parts, the name of the host among what it signs, and is for this service."""

    async def change(part: str, instead: str, request: Any) -> None:
        signed = request.headers["authorization"]
        request.headers["authorization"] = re.sub(part, instead, signed)
        assert request.headers["authorization"] != signed

    async with ReplayServer(WEATHER) as server:
        made = client.client(server)
        async with made:
            for part, instead, words in _SPOILT:
                made._client.event_hooks = {"request": [partial(change, part, instead)]}
                error = await error_of(made)
                assert error.status_code == 403, part
                assert words in error.reason, part


async def test_a_key_with_the_end_of_its_line() -> None:
    """As read from a file. It is for its user to mend, and it is nowhere in what is told."""
    import traceback

    client = PlatformClient(Platform.FOUNDRY, "AsyncAnthropicFoundry", {"api_key": "0123456789abcdef\n"})
    async with ReplayServer(WEATHER) as server, client.client(server) as made:
        with pytest.raises(UsageError, match="a header contains characters that HTTP does not allow") as caught:
            await finished(made)
        assert not server.requests
    assert "0123456789abcdef" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.slow
async def test_no_credentials_to_sign_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A client that finds none has not sent anything: that is for its user to mend."""
    from anthropic import AsyncAnthropicBedrock

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "absent"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    region = "eu-south-2"  # of no other test: for each the package remembers credentials that it once found
    async with ReplayServer(WEATHER) as server:
        async with AsyncAnthropicBedrock(base_url=server.url_of(Platform.BEDROCK), aws_region=region) as client:
            with pytest.raises(UsageError, match=r"cannot send this request: .*credentials"):
                await finished(client)
        assert not server.requests


# --- many at once -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_all_of_them_at_once() -> None:
    """One server, and each client beside the others: nothing of one reaches another."""
    there = [client for client in CLIENTS if client.is_there]
    scenario = Scenario.of(lambda request: reply(text(f"Hello, {request['messages'][0]['content']}.")))
    said: dict[int, str] = {}

    async def talk(number: int, client: Any) -> None:
        messages = [{**USER, "content": f"number {number}"}]
        async with client, eagerstream.stream(client, **{**REQUEST, "messages": messages}) as stream:
            await stream.finish()
        said[number] = blocks_of(stream.message)[0]["text"]

    async with ReplayServer(scenario) as server, anyio.create_task_group() as tasks:
        for number, client in enumerate(there):
            tasks.start_soon(partial(talk, number, client.client(server)))
    assert said == {number: f"Hello, number {number}." for number in range(len(there))}
