"""What goes wrong on the way, as our errors: by table, in the words of every platform, and in no words at all."""

from __future__ import annotations

import json
import ssl
from types import SimpleNamespace
from typing import Any

import aiohttp
import anthropic
import anyio
import httpx
import pytest
from hypothesis import given, strategies as st

from eagerstream.errors import APIError, LimitError, ProtocolError, StreamInterrupted, UsageError
from eagerstream.transports._error_responses import (
    MAX_ERROR_BYTES,
    body_error,
    event_error,
    request_id_of,
    status_error,
)
from eagerstream.transports._failures import interruption, is_resent_by_clients, raise_as, refusal
from eagerstream_wire import decode_event
from tests.support import anthropic_http_library
from tests.tables import rows

_HISTORY = (
    "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1, toolu_2. "
    "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
)


def told(body: object, headers: dict[str, str] | None = None, status: int = 400) -> APIError:
    """The error of a response."""
    return status_error(status, body, httpx.Headers(headers or {}), "otherwise")


_NO_OBJECTS: list[Any] = ["", "m", b"m", None, 5, 1.5, True, [], [[]], ["m"], [None], [5], [{}]]

# --- bodies -----------------------------------------------------------------------------------------------------------


@rows(
    "body, reason, error_type",
    [
        # the Messages API
        ({"type": "error", "error": {"type": "api_error", "message": "m"}}, "m", "api_error"),
        ({"type": "error", "error": {"type": "api_error", "message": ""}}, "otherwise", "api_error"),
        # AWS
        ({"message": "m"}, "m", None),
        ({"Message": "m"}, "m", None),
        ({"message": None, "Message": "m"}, "m", None),
        ({"message": "m", "__type": "ThrottlingException"}, "m", "ThrottlingException"),
        ({"message": "m", "__type": "throttlingException"}, "m", "ThrottlingException"),
        ({"Message": "m", "__type": "com.amazon.coral.service#AccessDeniedException"}, "m", "AccessDeniedException"),
        ({"__type": "a.b#ValidationException:http://internal.amazon.com/"}, "otherwise", "ValidationException"),
        ({"__type": "#"}, "otherwise", None),
        # Google
        ({"error": {"code": 403, "message": "m", "status": "PERMISSION_DENIED"}}, "m", "PERMISSION_DENIED"),
        ([{"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"}}], "m", "RESOURCE_EXHAUSTED"),
        ([{"error": {"code": 429, "message": "m"}}, {"error": {"message": "n"}}], "m", None),
        # Azure
        ({"error": {"code": "401", "message": "m"}}, "m", None),
        ({"error": {"code": "DeploymentNotFound", "message": "m"}}, "m", "DeploymentNotFound"),
        ({"statusCode": 429, "message": "m"}, "m", None),
        # small servers
        ({"error": "m"}, "m", None),
        ({"error": ""}, "otherwise", None),
        ({"detail": "m"}, "m", None),
        ({"detail": [{"loc": ["body"], "msg": "m"}]}, "otherwise", None),
        # nothing of the kind
        *((body, "otherwise", None) for body in _NO_OBJECTS),
        *(({"error": fault}, "otherwise", None) for fault in (*_NO_OBJECTS[3:], {})),
        ({"error": {"message": ["m"], "type": {}, "status": [], "code": 5}}, "otherwise", None),
        ({"message": {"a": "b"}, "__type": ["x"], "request_id": {}}, "otherwise", None),
        ({5: "m", None: "m", ("a",): "m"}, "otherwise", None),
        ({"error": {"message": "m", "details": {"retryDelay": "1s"}}}, "m", None),
        ({"error": {"message": "m", "details": [None, 5, [], {"retryDelay": 5}, {"retryDelay": []}]}}, "m", None),
    ],
)
def test_bodies(body: object, reason: str, error_type: str | None) -> None:
    """Whoever answered, and whatever: its words, and its name for the error, where there are any."""
    error = told(body)
    assert (error.reason, error.error_type, error.status_code) == (reason, error_type, 400)
    assert (error.retryable, error.retry_after_s) == (error_type in ("api_error", "ThrottlingException"), None)


_JUNK: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["21s", "#", "Exception"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "message", "type", "code", "status", "details", "retryDelay", "__type", "request_id"]
            )
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.slow
@given(_JUNK, st.text(max_size=9), st.sampled_from([200, 400, 429, 500]))
def test_no_body_is_an_error_of_its_own(body: object, header: str, status: int) -> None:
    """Junk in the place of an error is no reason to lose the status that came with it."""
    headers = dict.fromkeys(
        ("retry-after", "retry-after-ms", "date", "x-should-retry", "x-amzn-errortype", "request-id"), header
    )
    error = status_error(status, body, headers, "otherwise")
    assert error.reason
    assert error.status_code == (None if status == 200 else status)
    assert error.error_type is None or error.error_type
    assert error.retry_after_s is None or 0 <= error.retry_after_s < float("inf")
    assert isinstance(event_error({"type": "error", "error": body}, None), APIError)
    assert str(error)


@rows(
    "header, error_type",
    [
        ("ThrottlingException", "ThrottlingException"),
        ("ThrottlingException:http://internal.amazon.com/coral/com.amazon.bedrock/", "ThrottlingException"),
        ("com.amazon.bedrock#ThrottlingException:http://x#y", "ThrottlingException"),
        ("com.amazon.bedrock#throttlingException", "ThrottlingException"),
        (":http://internal.amazon.com/", None),
        ("", None),
    ],
)
def test_the_header_of_aws(header: str, error_type: str | None) -> None:
    """Where the body does not name the error; in any of the three forms that AWS writes."""
    assert told({"message": "m"}, {"x-amzn-ErrorType": header}).error_type == error_type
    assert told({"__type": "ValidationException"}, {"x-amzn-errortype": header}).error_type == "ValidationException"


@rows(
    "headers, request_id",
    [
        ({}, "req_body"),
        ({"request-id": "a", "x-request-id": "b", "x-amzn-requestid": "c"}, "a"),
        ({"request-id": "", "x-request-id": "b", "x-amzn-requestid": "c"}, "b"),
        ({"X-Amzn-RequestId": "c", "x-ms-request-id": "e"}, "c"),
        ({"apim-request-id": "d", "x-ms-request-id": "e"}, "d"),
        ({"x-ms-request-id": "e"}, "e"),
    ],
)
def test_request_ids(headers: dict[str, str], request_id: str) -> None:
    """Each platform has its own name for it; what the body says counts where no header does."""
    for body in ({"error": {"message": "m"}}, {"error": "m"}, {"message": "m"}):
        assert told({**body, "request_id": "req_body"}, headers).request_id == request_id
    assert request_id_of(httpx.Headers(headers)) == (request_id if headers else None)


def test_a_hint_for_a_history_that_is_refused() -> None:
    """Only where the request was at fault, and never at a cost that its length decides."""
    body = {"error": {"type": "invalid_request_error", "message": _HISTORY}}
    assert "Send a tool_result for toolu_1, toolu_2 at" in str(told(body).hint)
    assert told(body, status=500).hint is None
    assert told({"error": {"message": _HISTORY.partition("Each")[0] * 2_000}}).hint is None


def test_no_secret_and_no_flood_is_told() -> None:
    """Peers repeat what they were sent."""
    error = told({"error": {"message": "x-api-key: sk-ant-api03-hunter2 is not valid" + " no" * 10_000}})
    assert "hunter2" not in f"{error} {error.reason} {error.to_dict()}"
    assert len(error.reason) < 2_100


# --- what may pass, and when ------------------------------------------------------------------------------------------


@rows(
    "status, retryable",
    [
        *((status, False) for status in (301, 400, 401, 403, 404, 413, 422)),
        *((status, True) for status in (408, 409, 429, 500, 502, 503, 529)),
    ],
)
def test_statuses(status: int, *, retryable: bool) -> None:
    """As the clients have it; `x-should-retry` has the last word in both directions, and other words say nothing."""
    assert told(None, status=status).retryable is retryable
    for word, expected in (("true", True), ("false", False), ("True", retryable), ("1", retryable), ("", retryable)):
        assert told(None, {"x-should-retry": word}, status).retryable is expected


@rows(
    "headers, wait_s",
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": " 7 "}, 7),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7),
        ({"retry-after-ms": "-1", "retry-after": "7"}, 7),
        *(({"retry-after": value}, None) for value in ("-1", "nan", "inf", "-inf", "1e999", "", "soon", "7 s", "\x00")),
        *(({"retry-after-ms": value}, None) for value in ("-1", "nan", "inf", "")),
        # A date counts from the peer's own clock, which has to be told.
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 09:28:00 +0200"}, 30),
        ({"retry-after": "Wed, 21 Oct 2026 07:27:00 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "today"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 -0000", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry-after": "Wed, 99 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry-after": "Wed, 21 Oct 99999999999 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], wait_s: float | None) -> None:
    """Seconds, milliseconds or a date; what is none of them asks for nothing."""
    assert told(None, headers, 429).retry_after_s == wait_s


_NO_DELAYS: list[Any] = ["21", "s", "-1s", "nans", "infs", "", 21, None, {}, "1m"]


@rows(
    "details, wait_s",
    [
        ([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "21s"}], 21),
        ([{"@type": "type.googleapis.com/google.rpc.ErrorInfo"}, {"retryDelay": "0.250s"}], 0.25),
        *(([{"retryDelay": value}], None) for value in _NO_DELAYS),
        ([], None),
        (None, None),
        ({}, None),
        ("21s", None),
    ],
)
def test_how_long_google_asks_to_wait(details: Any, wait_s: float | None) -> None:
    """In the body; a header that says it, too, comes first."""
    body = [{"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED", "details": details}}]
    assert told(body, status=429).retry_after_s == wait_s
    assert told(body, {"retry-after": "7"}, 429).retry_after_s == 7


# --- error events -----------------------------------------------------------------------------------------------------


@rows(
    "error_type, name, retryable",
    [
        ("overloaded_error", "overloaded_error", True),
        ("invalid_request_error", "invalid_request_error", False),
        ("internalServerException", "InternalServerException", True),
        ("modelStreamErrorException", "ModelStreamErrorException", True),
        ("modelTimeoutException", "ModelTimeoutException", True),
        ("serviceUnavailableException", "ServiceUnavailableException", True),
        ("throttlingException", "ThrottlingException", True),
        ("validationException", "ValidationException", False),
        ("error", "error", False),
    ],
)
def test_error_events(error_type: str, name: str, *, retryable: bool) -> None:
    """There is no status there: the type alone says whether it may pass."""
    event = {"type": "error", "error": {"type": error_type, "message": "m"}, "request_id": "req_body"}
    error = event_error(event, "req_header")
    assert type(error) is APIError
    assert (error.reason, error.error_type, error.status_code, error.retryable) == ("m", name, None, retryable)
    assert error.request_id == "req_header"
    assert event_error(event, None).request_id == "req_body"


@rows("event", [{}, {"type": "error"}, {"type": "error", "error": None}, {"type": "error", "error": [{}]}])
def test_error_events_without_an_error(event: dict[str, Any]) -> None:
    """That it is over is all that is known."""
    assert event_error(event, None).reason == "the API ended the stream with an error"


# --- exceptions of clients --------------------------------------------------------------------------------------------


def caused(error: Exception, cause: Exception) -> Exception:
    """`error`, raised from `cause`."""
    error.__cause__ = cause
    return error


_LIBRARY = anthropic_http_library()
_REQUEST = _LIBRARY.Request("POST", "http://local/v1/messages")


def status_of_client(status: int, body: object, headers: dict[str, str]) -> Exception:
    """What the anthropic client raises for a response."""
    response = _LIBRARY.Response(status, headers=headers, request=_REQUEST)
    return anthropic.APIStatusError("Error code", response=response, body=body)


def test_statuses_of_clients() -> None:
    """With all that the response said."""
    body = {"error": {"type": "rate_limit_error", "message": "m"}}
    error = refusal(status_of_client(429, body, {"request-id": "r", "Retry-After": "7"}))
    assert isinstance(error, APIError)
    assert (error.reason, error.status_code, error.error_type) == ("m", 429, "rate_limit_error")
    assert (error.request_id, error.retry_after_s, error.retryable) == ("r", 7, True)
    assert str(refusal(status_of_client(503, "<html>", {}))) == "Error code (HTTP 503)"
    bare = status_of_client(503, None, {})
    vars(bare)["response"] = None
    assert str(refusal(bare)) == "Error code (HTTP 503)"


@rows(
    "error",
    [
        anthropic.APIConnectionError(request=_REQUEST),
        anthropic.APITimeoutError(request=_REQUEST),
        caused(anthropic.APIConnectionError(request=_REQUEST), _LIBRARY.ConnectError("refused")),
        caused(anthropic.APIConnectionError(request=_REQUEST), OSError("unreachable")),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        caused(httpx.RemoteProtocolError("odd"), KeyError("x")),
    ],
)
def test_lost_connections(error: Exception) -> None:
    """The API was not reached, which may pass; told in the words of the cause."""
    lost = refusal(error)
    assert type(lost) is APIError
    assert lost.reason == f"the API could not be reached: {error.__cause__ or error}"
    assert (lost.retryable, lost.status_code, lost.error_type) == (True, None, None)
    assert is_resent_by_clients(error) is isinstance(error, anthropic.APIConnectionError)


@rows(
    "error, words",
    [
        (TypeError("not JSON serializable"), "not JSON serializable"),
        (ValueError("api_key: sk-ant-api03-hunter2"), "api_key: [redacted]"),
        (RuntimeError(), "RuntimeError"),
        (anthropic.AnthropicError("no auth"), "no auth"),
        (caused(anthropic.APIConnectionError(request=_REQUEST), RuntimeError("client is closed")), "client is closed"),
        (httpx.UnsupportedProtocol("Request URL is missing a protocol"), "Request URL is missing a protocol"),
        (
            caused(anthropic.APIConnectionError(request=_REQUEST), _LIBRARY.UnsupportedProtocol("no protocol")),
            "no protocol",
        ),
    ],
)
def test_mistakes(error: Exception, words: str) -> None:
    """What was never sent is for the caller to mend."""
    mistake = refusal(error)
    assert isinstance(mistake, UsageError)
    assert str(mistake) == f"the client cannot send this request: {words}"


@pytest.mark.parametrize("name", ["CredentialsError", "IdentityTokenFileError"])
def test_the_client_s_own_credentials(name: str) -> None:
    """Files that are not there are for the user to mend."""
    kind = getattr(anthropic, name, None)
    if kind is None:
        pytest.skip("this version of anthropic has no such error")
    assert str(refusal(kind("not found"))) == "the client cannot send this request: not found"


def test_errors_of_middleware_that_ask_for_another_attempt() -> None:
    """The client has made its attempts before it raises one."""
    kind = getattr(anthropic, "RetryableError", None)
    if kind is None:
        pytest.skip("this version of anthropic has no such error")
    error = refusal(kind("try again"))
    assert isinstance(error, APIError)
    assert (error.reason, error.retryable) == ("try again", True)
    assert is_resent_by_clients(kind("try again"))


def _exchange(status: int | None, cause: Exception | None = None) -> Exception:
    credentials = pytest.importorskip("anthropic.lib.credentials._workload")
    error: Exception = credentials.WorkloadIdentityError("Token exchange failed", status_code=status)
    return error if cause is None else caused(error, cause)


@rows(
    "status, cause, retryable",
    [
        (401, None, False),
        (429, None, True),
        (503, None, True),
        (None, None, False),
        (None, _LIBRARY.ConnectError("refused"), True),
        (None, KeyError("x"), False),
    ],
)
def test_the_token_endpoint(status: int | None, cause: Exception | None, *, retryable: bool) -> None:
    """Where an identity is exchanged for a token, what may pass may pass, as everywhere."""
    error = _exchange(status, cause)
    refused = refusal(error)
    assert isinstance(refused, APIError)
    assert refused.reason == "the client could not sign in: Token exchange failed"
    assert (refused.error_type, refused.status_code, refused.retryable) == ("WorkloadIdentityError", None, retryable)
    assert not is_resent_by_clients(error)


def _of_google() -> list[tuple[Exception, bool]]:
    exceptions = pytest.importorskip("google.auth.exceptions")
    return [
        (exceptions.RefreshError("expired"), False),
        (exceptions.RefreshError("unavailable", retryable=True), True),
        (exceptions.DefaultCredentialsError("none found"), False),
        (exceptions.TransportError("unreachable"), True),
        (caused(exceptions.TransportError("unreachable"), OSError("no route")), True),
        (caused(exceptions.RefreshError("unreachable"), exceptions.TransportError("no route")), True),
        (exceptions.ReauthFailError("again"), False),
    ]


def _of_aws() -> list[tuple[Exception, bool]]:
    exceptions = pytest.importorskip("botocore.exceptions")
    assumed = [
        exceptions.ClientError(
            {"Error": {"Code": "X", "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": status}}, "AssumeRole"
        )
        for status in (403, 503)
    ]
    return [
        (exceptions.NoCredentialsError(), False),
        (exceptions.PartialCredentialsError(provider="env", cred_var="x"), False),
        (exceptions.ProfileNotFound(profile="p"), False),
        (exceptions.CredentialRetrievalError(provider="sso", error_msg="m"), False),
        (exceptions.TokenRetrievalError(provider="sso", error_msg="expired"), False),
        (exceptions.EndpointConnectionError(endpoint_url="https://sts.example", error="x"), True),
        (exceptions.ConnectTimeoutError(endpoint_url="https://sts.example"), True),
        (exceptions.ReadTimeoutError(endpoint_url="https://sts.example"), True),
        (exceptions.ConnectionClosedError(endpoint_url="https://sts.example"), True),
        (exceptions.HTTPClientError(error="x"), True),
        (assumed[0], False),
        (assumed[1], True),
        (exceptions.ClientError({}, "AssumeRole"), False),
    ]


@rows("errors", [_of_google, _of_aws])
def test_platforms_to_sign_in_at(errors: Any) -> None:
    """What a platform's own package raises is told as its words, and whether it may pass."""
    for error, retryable in errors():
        refused = refusal(error)
        assert isinstance(refused, APIError)
        assert refused.reason == f"the client could not sign in: {error}"
        assert (refused.error_type, refused.retryable) == (type(error).__name__, retryable), repr(error)
        assert not is_resent_by_clients(error)


def test_errors_that_are_not_of_clients() -> None:
    """They come out as they are; as do our own."""

    class ClientError(Exception):  # as aiohttp has one
        response = "x"

    for error in (
        KeyError("x"),
        OSError("x"),
        ClientError("x"),
        LimitError("a", 1, "x"),
        UsageError("x"),
        ProtocolError("x"),
    ):
        assert refusal(error) is error
        assert interruption(error, "r") is error
        with pytest.raises(type(error)) as caught:
            raise_as(error, error)
        assert caught.value.__cause__ is None


@rows("error", [ValueError("Illegal header value b'k\\n'"), httpx.LocalProtocolError("Illegal header value b'k\\n'")])
def test_headers_that_cannot_be_sent(error: Exception) -> None:
    """The key is in the text of such an exception, and nowhere in ours."""
    for raised in (error, caused(anthropic.APIConnectionError(request=_REQUEST), error)):
        try:
            refusal(raised)
        except UsageError as mistake:
            assert "a header contains characters that HTTP does not allow" in str(mistake)
            assert mistake.__suppress_context__
        else:
            pytest.fail("it has to be raised, without its cause")


@rows("library", [httpx, _LIBRARY])
def test_interruptions(library: Any) -> None:
    """A body that breaks off, is closed under its reader, or cannot be decompressed."""
    for error in (
        library.ReadError("gone"),
        library.RemoteProtocolError("gone"),
        library.ReadTimeout("gone"),
        library.StreamClosed(),
    ):
        lost = interruption(error, "r")
        assert isinstance(lost, StreamInterrupted)
        assert lost.reason == f"the connection was lost: {error}"
        assert (lost.request_id, lost.retryable) == ("r", True)
    broken = interruption(library.DecodingError("no gzip"), "r")
    assert isinstance(broken, ProtocolError)
    assert str(broken) == "the response cannot be decompressed: no gzip"


def test_a_certificate_that_is_refused_on_trio() -> None:
    """There, httpx raises an error without a text for it: only the cause says why. No other error below one is told."""

    def without_text(below: Exception) -> Exception:
        unreached = httpx.ConnectError("")
        unreached.__context__ = caused(anyio.BrokenResourceError(), below)
        return caused(httpx.ConnectError(""), unreached)

    refused = ssl.SSLCertVerificationError(1, "certificate verify failed")
    assert str(refusal(without_text(refused))) == "the API could not be reached: certificate verify failed"
    assert str(interruption(without_text(refused), None)) == "the connection was lost: certificate verify failed"
    assert str(refusal(without_text(KeyError("mine")))) == "the API could not be reached: ConnectError"


@rows(
    "status, header, resent",
    [(429, "", True), (400, "", False), (400, "true", True), (200, "true", True), (500, "", True)],
)
def test_what_clients_send_again(status: int, header: str, *, resent: bool) -> None:
    """By the status, or because the API asked for it."""
    assert is_resent_by_clients(status_of_client(status, None, {"x-should-retry": header})) is resent


def test_odd_exceptions() -> None:
    """Attributes of the right name and the wrong type are no reason to fail."""

    class APIStatusError(Exception):
        pass

    for attributes in ({}, {"status_code": None}, {"status_code": "400"}, {"status_code": 400}, {"response": None}):
        error = APIStatusError("x")
        error.__dict__.update(attributes)
        assert isinstance(refusal(error), APIError) is (attributes.get("status_code") == 400)
    odd = APIStatusError("x")
    odd.__dict__.update(status_code=500, response=SimpleNamespace(headers={}), body=json)
    assert str(refusal(odd)) == "x (HTTP 500)"


class AzureError(Exception):
    """The root of the errors of azure-core, by name: that is how they are told."""


class ServiceRequestError(AzureError):
    """Of the same: the token service could not be reached."""


@rows("error, retryable", [(AzureError("denied"), False), (ServiceRequestError("no way"), True)])
def test_errors_of_azure(error: Exception, *, retryable: bool) -> None:
    """What the token provider of a Foundry client raises."""
    refused = refusal(error)
    assert isinstance(refused, APIError)
    assert (refused.error_type, refused.retryable) == (type(error).__name__, retryable)
    assert "could not sign in" in refused.reason


@rows(
    "body, reason, error_type, retryable",
    [
        ({"error": {"message": "slow down", "type": "None", "code": "429"}}, "slow down", "None", True),
        ({"error": {"code": 503, "message": "later", "status": "UNAVAILABLE"}}, "later", "UNAVAILABLE", True),
        ({"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}, "no", "INVALID_ARGUMENT", False),
        ({"error": "broken"}, "broken", None, False),
    ],
)
def test_errors_of_gateways_inside_a_stream(
    body: dict[str, Any], reason: str, error_type: str | None, *, retryable: bool
) -> None:
    """They have no type of an event, and their status is in them."""
    error = event_error(decode_event(json.dumps(body)), "req_1")
    assert (error.reason, error.error_type, error.retryable) == (reason, error_type, retryable)
    assert (error.status_code, error.request_id) == (None, "req_1")


def test_details_of_an_error() -> None:
    """The cause that the API names reaches the user, without secrets and within bounds."""
    details = {"error_code": "image_dimensions_too_large", "max_side_length_pixels": 8000, "api_key": "hunter2"}
    error = told({"error": {"type": "invalid_request_error", "message": "m", "details": details}})
    assert error.error_code == "image_dimensions_too_large"
    assert error.details is not None
    assert error.details["max_side_length_pixels"] == 8000
    assert "hunter2" not in json.dumps(error.to_dict())
    assert error.to_dict()["error_code"] == "image_dimensions_too_large"
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    odds: list[Any] = [None, [], {}, "x", {"error_code": "x" * 8_000}, {"error_code": deep}, {"error_code": {1}}]
    for odd in odds:
        unknown = told({"error": {"message": "m", "details": odd}})
        assert (unknown.details, unknown.error_code) == (None, None)
    assert told({"error": {"message": "m", "details": {"error_code": 5}}}).error_code is None


def test_a_body_that_aiohttp_forgot() -> None:
    """It raises no exception of its own for a body whose chunked coding broke; another mistake stays one."""
    lost = interruption(RuntimeError("Connection closed."), "req_1")
    assert isinstance(lost, StreamInterrupted)
    assert str(lost.reason) == "the connection was lost: Connection closed."
    mistake = RuntimeError("mine")
    assert interruption(mistake, None) is mistake


@rows(
    "told, words",
    [
        ("illegal chunk header: bytearray(b'hunter2')", "illegal chunk header"),
        ('Invalid character in chunk size:\n\n  b"hunter2"\n    ^', "Invalid character in chunk size"),
        ("Got more than 8190 bytes when reading: b'hunter2", "Got more than 8190 bytes when reading"),
        ("<TransferEncodingError: 400, message='a:\\n  hunter2'>", "<TransferEncodingError: 400, message='a"),
        ("b'hunter2'", "ClientPayloadError"),
    ],
)
def test_the_bytes_of_a_peer_are_not_told(told: str, words: str) -> None:
    """They may be a model's text."""
    error = interruption(aiohttp.ClientPayloadError(told), None)
    assert isinstance(error, StreamInterrupted)
    assert error.reason == f"the connection was lost: {words}"


_LARGE = {
    "lists": b'{"type":"error","error":{"type":"x","message":"m","details":[' + b"[]," * 1_600_000 + b"1]}}",
    "keys": b'{"type":"error","error":{"type":"x","message":"m","details":{'
    + b",".join(b'"k%d":1' % number for number in range(400_000))
    + b"}}}",
    "brackets": b"[" * 5_000_000,
    "text": b"password=abc " * 400_000,
}


@rows("name", list(_LARGE))
def test_only_the_start_of_a_large_body_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """5 MB of values took 0.9 s to parse, to write again and to search, in one step."""
    sizes: list[int] = []

    def noted(text: Any, *_: Any, **__: Any) -> Any:
        sizes.append(len(text))
        return json.JSONDecoder().decode(text)

    monkeypatch.setattr("eagerstream.transports._error_responses.json.loads", noted)
    error = body_error(400, _LARGE[name], {}, "told: " + _LARGE[name].decode())
    assert sizes
    assert max(sizes) <= MAX_ERROR_BYTES
    assert error.reason == "m" if name in ("lists", "keys") else error.reason.startswith("told: ")
    assert len(error.body) < 10_000


@rows("details", [[[]] * 1_000_000, {f"k{number}": [] for number in range(300_000)}, [{"retryDelay": "5s"}] * 300_000])
def test_a_decoded_body_that_is_large_is_not_written(details: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client has decoded it, or it is an `error` event."""
    written: list[int] = []

    def noted(value: Any, **options: Any) -> str:
        text = json.JSONEncoder(**options).encode(value)
        written.append(len(text))
        return text

    monkeypatch.setattr("eagerstream.transports._error_responses.json.dumps", noted)
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "m", "details": details}}
    error = event_error(body, "req_1")
    assert (error.reason, error.error_type, error.details, error.retryable) == ("m", "overloaded_error", None, True)
    assert max(written, default=0) <= MAX_ERROR_BYTES
