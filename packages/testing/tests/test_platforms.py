"""The dialects of the platforms, request by request, without any client: what is refused, in whose words, and what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from tests.streams import REQUEST
from tests.tables import rows

from eagerstream.errors import UsageError
from eagerstream.recordings import Chunk, Recording
from eagerstream_testing import Platform, ReplayServer, Timing, http_error, reply, retime, text
from eagerstream_testing._faults import ERROR_STATUS
from eagerstream_testing._framing import AWS_EVENT_STREAM, in_aws_frames
from eagerstream_testing._platforms import DIALECTS, PLAIN, Dialect, Refused
from eagerstream_testing._refusals import KINDS_WITHOUT_BETA
from eagerstream_wire import EagerSupport
from eagerstream_wire._tool_kind import LEGACY_BETA

_REPLY = retime(reply(text("Hello, world.")), Timing.instant())
_SECRET = "0123456789abcdef" * 4
_SIGNATURE = (
    "AWS4-HMAC-SHA256 Credential=AKIAEXAMPLEEXAMPLE00/20260101/us-east-1/{}/aws4_request, "
    f"SignedHeaders=host;x-amz-date, Signature={_SECRET}"
)
_NAMED_IN_PATH = (Platform.BEDROCK, Platform.VERTEX)
_FIELD: dict[str, Any] = {"tools": [{"name": "t", "input_schema": {"type": "object"}, "eager_input_streaming": True}]}

each_platform = rows("platform", [None, *Platform])


def _path(platform: Platform | None, model: str = "m") -> str:
    dialect = PLAIN if platform is None else DIALECTS[platform]
    path = dialect.path.replace(":path", "").format(model=model, project="p", region="global")
    return dialect.root + path


def _headers(platform: Platform | None) -> dict[str, str]:
    """The least that a platform wants."""
    match platform:
        case None:
            return {}
        case Platform.ANTHROPIC | Platform.FOUNDRY:
            return {"x-api-key": _SECRET, "anthropic-version": "2023-06-01"}
        case Platform.AWS:
            return {"x-api-key": _SECRET, "anthropic-workspace-id": "w"}
        case _:
            return {"authorization": f"Bearer {_SECRET}"}


def _body(platform: Platform | None, **fields: Any) -> dict[str, Any]:
    if platform not in _NAMED_IN_PATH:
        return {**REQUEST, "stream": True, **fields}
    body = {name: value for name, value in REQUEST.items() if name != "model"}
    return {**body, "anthropic_version": "bedrock-2023-05-31", **fields}


def _said(platform: Platform | None, response: httpx.Response) -> tuple[str, str]:
    """The type and the text of an error that is the request's fault, in the form of its platform."""
    body = response.json()
    if platform is Platform.BEDROCK:
        return response.headers["x-amzn-errortype"].partition(":")[0], body["message"]
    assert body["type"] == "error"
    return body["error"]["type"], body["error"]["message"]


@pytest.fixture(scope="module")
def server() -> Iterator[ReplayServer]:
    with ReplayServer(_REPLY) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: ReplayServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.base_url, timeout=20) as http_client:
        yield http_client


# --- requests ---------------------------------------------------------------------------------------------------------


@each_platform
def test_the_least_that_is_taken(client: httpx.Client, server: ReplayServer, platform: Platform | None) -> None:
    """Each platform answers in its own framing, tells the id under its own name, and the request is remembered as its."""
    path = _path(
        platform, "arn:aws:bedrock:us-east-1:1:inference-profile/us.claude" if platform is Platform.BEDROCK else "m"
    )
    response = client.post(f"{path}?beta=true", json=_body(platform), headers=_headers(platform))
    assert response.status_code == 200
    is_framed = platform is Platform.BEDROCK
    assert response.content == (in_aws_frames(_REPLY) if is_framed else _REPLY).body
    assert response.headers["content-type"].startswith(
        AWS_EVENT_STREAM.media_type if is_framed else "text/event-stream"
    )
    request = server.requests[-1]
    assert (request.platform, request.path, request.query) == (platform, path, "beta=true")
    assert (request.body, request.status) == (_body(platform), 200)
    assert response.headers["x-amzn-requestid" if is_framed else "request-id"] == request.request_id


_INVALID: list[tuple[bytes | dict[str, Any], str]] = [
    (b"{", "not valid JSON"),
    (b"\xff", "not valid JSON"),
    (b"[" * 200_000, "not valid JSON"),
    (b"[]", "Input should be an object"),
    (b"null", "Input should be an object"),
    ({"max_tokens": None}, "max_tokens: Field required"),
    ({"messages": 5}, "messages: Input should be a valid list"),
]


@rows("wrong, words", _INVALID)
@each_platform
def test_bodies_that_nobody_takes(
    client: httpx.Client, platform: Platform | None, wrong: bytes | dict[str, Any], words: str
) -> None:
    """Each platform says so in the form of its errors."""
    body: Any = {"content": wrong} if isinstance(wrong, bytes) else {"json": _body(platform, **wrong)}
    response = client.post(_path(platform), **body, headers=_headers(platform))
    assert response.status_code == 400
    kind, message = _said(platform, response)
    assert kind == ("ValidationException" if platform is Platform.BEDROCK else "invalid_request_error")
    assert words in message


@rows(
    "fields, words",
    [
        ({"anthropic_version": None}, "anthropic_version: Field required"),
        ({"anthropic_version": 20230601}, "anthropic_version: Field required"),
        ({"model": "m"}, "model: Extra inputs are not permitted"),
        ({"model": None}, "model: Extra inputs are not permitted"),
        ({"anthropic_beta": 5}, "anthropic_beta: Input should be a valid list"),
        ({"anthropic_beta": LEGACY_BETA}, "anthropic_beta: Input should be a valid list"),
    ],
)
@rows("platform", _NAMED_IN_PATH)
def test_the_model_is_in_the_path(platform: Platform, fields: dict[str, Any], words: str) -> None:
    """There the body has a version instead."""
    with pytest.raises(Refused) as caught:
        DIALECTS[platform].request(_body(platform, **fields), {"model": "m"}, streams=True)
    assert (caught.value.status, caught.value.error_type, caught.value.message) == (400, "invalid_request_error", words)


@each_platform
def test_the_request_as_the_api_takes_it(platform: Platform | None) -> None:
    """Whatever a scenario looks at is where the Claude API has it."""
    dialect = PLAIN if platform is None else DIALECTS[platform]
    extra: dict[str, Any] = {"anthropic_beta": ["x"]} if platform in _NAMED_IN_PATH else {}
    path_parameters = {"model": REQUEST["model"]}
    asked = dialect.request(_body(platform, system="s", **extra), path_parameters, streams=True)
    assert asked == {**REQUEST, "system": "s", "stream": True}


@rows("beta", [[], ["a-2025-01-01", "claude-code-20250219"]])
def test_other_betas(client: httpx.Client, beta: list[str]) -> None:
    """The double does not know every beta, so it accepts what can be one."""
    body = _body(Platform.BEDROCK, anthropic_beta=beta)
    response = client.post(_path(Platform.BEDROCK), json=body, headers=_headers(Platform.BEDROCK))
    assert response.status_code == 200


@rows("beta", [["a"], [5, None, ["a"]], ["eager-2025"]])
def test_odd_betas(client: httpx.Client, beta: list[Any]) -> None:
    """A beta without a date does not exist, and is refused in the platform's words."""
    body = _body(Platform.BEDROCK, anthropic_beta=beta)
    response = client.post(_path(Platform.BEDROCK), json=body, headers=_headers(Platform.BEDROCK))
    assert (response.status_code, response.json()["message"]) == (400, "invalid beta flag")
    headers = {**_headers(Platform.ANTHROPIC), "anthropic-beta": str(beta[0])}
    response = client.post(_path(Platform.ANTHROPIC), json=_body(Platform.ANTHROPIC), headers=headers)
    assert response.json()["error"]["message"].startswith(f"Unexpected value(s) `{beta[0]}` for the `anthropic-beta`")


@rows("platform", list(Platform))
def test_other_paths(client: httpx.Client, server: ReplayServer, platform: Platform) -> None:
    """Nothing else is at a platform's address: no other model's provider, no request of another kind."""
    before = len(server.requests)
    for path in (
        DIALECTS[platform].root,
        _path(platform) + "/",
        _path(platform) + "x",
        DIALECTS[platform].root + "/v2",
    ):
        assert client.post(path, json=_body(platform), headers=_headers(platform)).status_code == 404
    assert client.get(_path(platform), headers=_headers(platform)).status_code == 405
    assert len(server.requests) == before


def test_addresses() -> None:
    """Each platform has its own; an unknown one, and a server that does not run, have none."""
    server = ReplayServer(_REPLY)
    known: Any = "bedrock"
    unknown: Any = "azure"
    with pytest.raises(UsageError, match="not running"):
        server.url_of(Platform.BEDROCK)
    with server:
        urls = {server.url_of(platform) for platform in Platform}
        assert len(urls) == len(Platform)
        assert all(url.startswith(server.base_url + "/") for url in urls)
        assert server.url_of(known) == server.url_of(Platform.BEDROCK)
        with pytest.raises(UsageError, match="'azure' is no platform; there are anthropic, bedrock"):
            server.url_of(unknown)


# --- eager input streaming --------------------------------------------------------------------------------------------


@contextmanager
def _serving(eager: Any) -> Iterator[httpx.Client]:
    with ReplayServer(_REPLY, eager=eager) as server, httpx.Client(base_url=server.base_url, timeout=20) as http_client:
        yield http_client


def _ask(client: httpx.Client, platform: Platform | None, way: str, model: str = REQUEST["model"]) -> httpx.Response:
    body, headers = _body(platform), _headers(platform)
    if way == "field":
        body |= _FIELD
    elif way == "header" and platform is Platform.BEDROCK:
        body["anthropic_beta"] = ["other-2025-01-01", LEGACY_BETA]
    elif way == "header":
        headers["anthropic-beta"] = f"other-2025-01-01, {LEGACY_BETA}"
    if "model" in body:
        body["model"] = model
    return client.post(_path(platform, model), json=body, headers=headers)


@pytest.mark.slow
@rows("support", ["any", "field", "header", "none"])
def test_ways_to_ask(support: EagerSupport) -> None:
    """Each way that a model does not take is refused, in the words of the platform; whoever does not ask is answered."""
    with _serving(support) as client:
        for platform in (None, *Platform):
            assert _ask(client, platform, "neither").status_code == 200
            for way in ("field", "header"):
                response = _ask(client, platform, way)
                if support in ("any", way):
                    assert response.status_code == 200
                    continue
                assert response.status_code == 400
                message = _said(platform, response)[1]
                if way == "field":
                    assert message == "tools.0.custom.eager_input_streaming: Extra inputs are not permitted"
                elif platform is Platform.BEDROCK:
                    assert message == "invalid beta flag"
                else:
                    assert message.startswith(f"Unexpected value(s) `{LEGACY_BETA}` for the `anthropic-beta` header.")


@rows("platform", [None, Platform.BEDROCK, Platform.VERTEX])  # the name in the body, and in paths
def test_ways_to_ask_by_model(platform: Platform | None) -> None:
    """Models differ; one that is not named takes any way, wherever the request has its name."""
    with _serving({"old": "header", "older": "none"}) as client:
        taken = {
            (model, way): _ask(client, platform, way, model).status_code == 200
            for model in ("old", "older", "new")
            for way in ("field", "header", "neither")
        }
    assert {asked for asked, was_taken in taken.items() if not was_taken} == {
        ("old", "field"),
        ("older", "field"),
        ("older", "header"),
    }


def test_the_header_says_nothing_to_bedrock() -> None:
    """It looks for betas in the body; and elsewhere the body says nothing."""
    with _serving("field") as client:
        body, headers = _body(Platform.BEDROCK), {**_headers(Platform.BEDROCK), "anthropic-beta": LEGACY_BETA}
        assert client.post(_path(Platform.BEDROCK), json=body, headers=headers).status_code == 200
        body = _body(Platform.VERTEX, anthropic_beta=[LEGACY_BETA])
        assert client.post(_path(Platform.VERTEX), json=body, headers=_headers(Platform.VERTEX)).status_code == 200


@rows("eager", ["", "both", True, None, {"m": "both"}, {"m": None}])
def test_ways_that_do_not_exist(eager: Any) -> None:
    """A slip would let everything pass."""
    with pytest.raises(UsageError, match="eager must be one of any, field, header, none"):
        ReplayServer(_REPLY, eager=eager)


# --- betas of tools ---------------------------------------------------------------------------------------------------

_COMPUTER = {"type": "computer_20250124", "name": "computer", "display_width_px": 800, "display_height_px": 600}
_MCP = {"type": "mcp_toolset", "mcp_server_name": "a"}


def _send(
    client: httpx.Client, platform: Platform | None, betas: list[str], tools: list[dict[str, Any]]
) -> httpx.Response:
    body, headers = _body(platform, tools=tools), _headers(platform)
    if betas and platform is Platform.BEDROCK:
        body["anthropic_beta"] = betas
    elif betas:
        headers["anthropic-beta"] = ",".join(betas)
    return client.post(_path(platform), json=body, headers=headers)


@each_platform
def test_a_tool_without_its_beta(client: httpx.Client, platform: Platform | None) -> None:
    """The API does not know the kind then. A beta of another version does not help."""
    for betas in ([], ["computer-use-2025-11-24"]):
        response = _send(client, platform, betas, [{"type": "custom", **_FIELD["tools"][0]}, _COMPUTER])
        assert response.status_code == 400
        known = ", ".join(f"'{kind}'" for kind in KINDS_WITHOUT_BETA)
        assert _said(platform, response)[1] == (
            "tools.1: Input tag 'computer_20250124' found using 'type' does not match any of the expected tags: "
            + known
        )
    assert _send(client, platform, ["other-2025-01-01", "computer-use-2025-01-24"], [_COMPUTER]).status_code == 200


_ADVISOR = {"type": "advisor_20260301", "name": "advisor", "model": "m"}
_PINNED: dict[str, Any] = {**_MCP, "tools": []}


@rows(
    "tool, betas, fault",
    [
        (_ADVISOR, [], "tools.0: Input tag 'advisor_20260301' found"),
        (_ADVISOR, ["advisor-tool-2026-03-01"], None),
        (_MCP, [], "tools.0: Input tag 'mcp_toolset' found"),
        (_MCP, ["mcp-client-2025-11-20"], None),
        (_MCP, ["mcp-client-2026-09-15"], None),
        (_PINNED, [], "tools.0: Input tag 'mcp_toolset' found"),
        (_PINNED, ["mcp-client-2026-09-15"], None),
        (_PINNED, ["mcp-client-2025-11-20"], "tools.0.mcp_toolset.tools: Extra inputs are not permitted"),
        ({"type": "bash_20250124", "name": "bash"}, [], None),
        ({"type": "hologram_20990101"}, [], None),
    ],
)
def test_betas_of_other_tools(client: httpx.Client, tool: dict[str, Any], betas: list[str], fault: str | None) -> None:
    """Each kind has its own beta, or none. That of the MCP connector has two versions, and only one pins tools.

    A kind that is not known here passes.
    """
    response = _send(client, None, betas, [tool])
    assert response.status_code == (200 if fault is None else 400)
    assert fault is None or _said(None, response)[1].startswith(fault)


@each_platform
@rows("kind", ["computer_toolset_20260801", "browser_toolset_20260801"])
def test_a_toolset_beside_the_legacy_beta(client: httpx.Client, platform: Platform | None, kind: str) -> None:
    """S2.4: the API refuses the two together, whatever the model takes."""
    assert _send(client, platform, [], [{"type": kind}]).status_code == 200
    response = _send(client, platform, [LEGACY_BETA], [{"type": kind}])
    assert response.status_code == 400
    message = _said(platform, response)[1]
    assert kind in message
    assert LEGACY_BETA in message


# --- credentials ------------------------------------------------------------------------------------------------------

_AWS = {Platform.BEDROCK: "bedrock", Platform.BEDROCK_MANTLE: "bedrock-mantle", Platform.AWS: "aws-external-anthropic"}


def _refusal(platform: Platform, headers: dict[str, str]) -> tuple[int, str] | None:
    try:
        DIALECTS[platform].check_credentials(headers)
    except Refused as refused:
        return refused.status, refused.error_type
    return None


@rows("platform", list(Platform))
@rows(
    "authorization",
    ["", "Bearer", "Bearer ", "Bearer  ", "Basic dTpw", _SECRET, _SIGNATURE, "AWS4-HMAC-SHA256 " * 10_000],
)
def test_no_credentials(platform: Platform, authorization: str) -> None:
    """What is not of the right form is refused as what is not there."""
    headers = {"authorization": authorization, "anthropic-version": "1", "anthropic-workspace-id": "w", "x-api-key": ""}
    assert _refusal(platform, headers) == (403 if platform in _AWS else 401, "authentication_error")


@rows(
    "platform, status, words",
    [
        (Platform.ANTHROPIC, 401, "x-api-key header is required"),
        (Platform.BEDROCK, 403, "Missing Authentication Token"),
        (Platform.BEDROCK_MANTLE, 403, "Missing Authentication Token"),
        (Platform.AWS, 403, "Missing Authentication Token"),
        (Platform.VERTEX, 401, "missing required authentication credential"),
        (Platform.FOUNDRY, 401, "Access denied"),
        (Platform.GOOGLE_CLOUD, 401, "missing required authentication credential"),
    ],
)
def test_the_words_for_no_credentials(client: httpx.Client, platform: Platform, status: int, words: str) -> None:
    """Each platform has its own, and the status that goes with them."""
    headers = {"anthropic-version": "2023-06-01", "anthropic-workspace-id": "w"}
    response = client.post(_path(platform), json=_body(platform), headers=headers)
    assert response.status_code == status
    assert words in response.text


@rows("platform", list(Platform))
def test_bearer_tokens(platform: Platform) -> None:
    """Are taken everywhere, in any case of the word."""
    for scheme in ("Bearer", "bearer", "BEARER"):
        headers = {"authorization": f"{scheme} x", "anthropic-version": "1", "anthropic-workspace-id": "w"}
        assert _refusal(platform, headers) is None


@rows("platform", _AWS)
def test_signatures(platform: Platform) -> None:
    """For their own service, dated, with the name of the host among what is signed."""
    signed = _SIGNATURE.format(_AWS[platform])
    headers = {"authorization": signed, "x-amz-date": "20260101T000000Z", "anthropic-workspace-id": "w"}
    refused = (403, "authentication_error")
    assert _refusal(platform, headers) is None
    assert _refusal(platform, {**headers, "authorization": signed.replace(", ", ",")}) is None
    assert _refusal(platform, {**headers, "x-amz-date": ""}) == refused
    assert _refusal(platform, {**headers, "authorization": signed.replace("host;", "")}) == refused
    assert _refusal(platform, {**headers, "authorization": signed + "0"}) == refused
    for other in set(_AWS.values()) - {_AWS[platform]}:
        assert _refusal(platform, {**headers, "authorization": _SIGNATURE.format(other)}) == refused


def test_what_else_has_to_be_there() -> None:
    """The version of the API at Anthropic's own address, the workspace at that of AWS."""
    assert _refusal(Platform.ANTHROPIC, {"x-api-key": "k"}) == (400, "invalid_request_error")
    assert _refusal(Platform.AWS, {"x-api-key": "k"}) == (400, "invalid_request_error")
    assert _refusal(Platform.FOUNDRY, {"api-key": "k"}) is None


def test_no_secret_is_remembered(client: httpx.Client, server: ReplayServer) -> None:
    """Of what a client signs in with nothing is kept, under whatever name it came; what says how it did is."""
    signed = _SIGNATURE.format("bedrock")
    for name, value in {
        "authorization": signed,
        "x-amz-security-token": f"IQoJb3JpZ2lu{_SECRET}",
        "api-key": _SECRET,
        "x-api-key": _SECRET,
        "x-goog-api-key": _SECRET,
        "ocp-apim-subscription-key": _SECRET,
        "cookie": f"session={_SECRET}",
        "proxy-authorization": f"Basic {_SECRET}",
    }.items():
        headers = {"authorization": signed, "x-amz-date": "20260101T000000Z", name: value}
        query = {"X-Amz-Signature": _SECRET, "X-Amz-Credential": "AKIAEXAMPLEEXAMPLE00", "beta": "true"}
        client.post(_path(Platform.BEDROCK), json=_body(Platform.BEDROCK), headers=headers, params=query)
        request = server.requests[-1]
        assert request.headers[name] == "[redacted]"
        assert request.headers["x-amz-date"] == "20260101T000000Z"
        shown = f"{request!r} {request.headers} {request.query}"
        assert _SECRET not in shown
        assert "AKIA" not in shown
        assert "beta=true" in request.query


# --- errors -----------------------------------------------------------------------------------------------------------


@rows("error_type", ERROR_STATUS)
@rows("platform", list(Platform))
def test_errors(platform: Platform, error_type: str) -> None:
    """Each keeps its status, its words and when to try again; the rest is the platform's own."""
    status = ERROR_STATUS[error_type]
    answer = http_error(status, error_type, "for a reason")
    answer = Recording(answer.chunks, status=status, headers={**answer.headers, "Retry-After": "7"})
    spoken = DIALECTS[platform].spoken(answer)
    assert spoken.status == status
    assert {name.lower(): value for name, value in spoken.headers.items()}["retry-after"] == "7"
    assert b"for a reason" in spoken.body
    assert DIALECTS[platform].spoken(spoken) == spoken


_ANSWERS = [
    Recording((Chunk(0.0, b"<html>"),), status=502, headers={"content-type": "text/html"}),
    Recording((Chunk(0.0, b"[" * 200_000),), status=500),
    Recording((Chunk(0.0, b'{"type":"error","error":"x"}'),), status=500),
    Recording((Chunk(0.0, b"[]"),), status=429),
    Recording((), status=401),
    Recording((Chunk(0.0, b"{}"),), headers={"content-type": "application/json"}),
]


@rows("answer", _ANSWERS)
@rows("dialect", [PLAIN, *DIALECTS.values()])
def test_other_answers_stay_as_they_are(dialect: Dialect, answer: Recording) -> None:
    """A proxy's page is a proxy's page on every platform."""
    assert dialect.spoken(answer) is answer


def test_what_is_framed_already_stays() -> None:
    """A recording of Bedrock is played as it is; one without a content type holds server-sent events."""
    bedrock = DIALECTS[Platform.BEDROCK]
    framed = bedrock.spoken(Recording(_REPLY.chunks))
    assert framed.body == in_aws_frames(_REPLY).body
    assert bedrock.spoken(framed) is framed
