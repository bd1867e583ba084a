"""Platforms that offer the Messages API, and the dialect of each: paths, credentials, errors, framing.

Credentials are checked for mistakes that a client can make: they must be present and well formed. They are never
verified.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, Final, TypeAlias

from eagerstream import EagerSupport
from eagerstream._support.terms import betas_in
from eagerstream.recordings import Chunk, Recording

from ._framing import AWS_EVENT_STREAM, AWS_EXCEPTIONS, SSE, Framing, in_aws_frames
from ._refusals import beta_faults, eager_faults, parameter_faults, request_faults, unknown_betas
from ._token_count import count_faults


class Platform(StrEnum):
    """A platform that offers the API. Each member names the client of the anthropic package that uses it."""

    ANTHROPIC = "anthropic"
    """`AsyncAnthropic`: the Claude API."""
    BEDROCK = "bedrock"
    """`AsyncAnthropicBedrock`: Amazon Bedrock, InvokeModelWithResponseStream."""
    BEDROCK_MANTLE = "bedrock-mantle"
    """`AsyncAnthropicBedrockMantle`: the Messages API of Amazon Bedrock."""
    AWS = "aws"
    """`AsyncAnthropicAWS`: the Claude API through AWS."""
    VERTEX = "vertex"
    """`AsyncAnthropicVertex`: Google Vertex AI."""
    FOUNDRY = "foundry"
    """`AsyncAnthropicFoundry`: Microsoft Foundry."""
    GOOGLE_CLOUD = "google-cloud"
    """`AsyncAnthropicGoogleCloud`: the Claude API through Google Cloud."""


class Refused(Exception):
    """Raised for a request that a platform would refuse. It becomes the response, and is no error of this library."""

    def __init__(self, status: int, error_type: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.details = details
        self.status = status
        self.error_type = error_type
        self.message = message


Headers: TypeAlias = Mapping[str, str]
Body: TypeAlias = dict[str, Any]
_Error: TypeAlias = tuple[Any, dict[str, str]]


@dataclass(frozen=True)
class Dialect:
    """The dialect of a platform.

    Attributes:
        root: Base URL for clients, after the address of the server.
        path: Path of requests, below `root`. It contains the model if the body does not.
        whole_path: Path of requests that are not streamed, if it is another one.
        count_path: Path of requests for a count of tokens; `None` if there is none.
        check_credentials: Raises `Refused` if credentials are missing or malformed.
        names_model_in_path: The path names the model. The body has `anthropic_version` instead, and no `stream`.
        framing: Encodes the events of a response.
        error: Returns the body and the headers of an error, from its HTTP status, the API's type and a text. `None`
            keeps the words of the Claude API.
        request_id_header: Name of the response header with the request id.
        has_threads: It keeps message threads.
        unknown_beta: Error text for a beta that the platform does not know, with `{}` for its name.
    """

    root: str
    path: str = "/v1/messages"
    whole_path: str | None = None
    count_path: str | None = "/v1/messages/count_tokens"
    check_credentials: Callable[[Headers], None] = lambda _: None
    names_model_in_path: bool = False
    framing: Framing = SSE
    error: Callable[[int, str, str], _Error | None] = lambda *_: None
    request_id_header: str = "request-id"
    has_threads: bool = True
    unknown_beta: str = (
        "Unexpected value(s) `{}` for the `anthropic-beta` header. "
        "Please consult our documentation at docs.anthropic.com or try again without the header."
    )

    def request(self, sent: Body, path_parameters: Mapping[str, Any], *, streams: bool | None) -> Body:
        """Return the body in the form of the Claude API.

        Args:
            sent: The body as it was sent.
            path_parameters: The parts of the path that vary.
            streams: The path decides whether the response is streamed; `None` if the body does.

        Raises:
            Refused: The body names the model although the path does, or `anthropic_version` or `anthropic_beta` is
                wrong.
        """
        if not self.names_model_in_path:
            return sent
        if not isinstance(sent.get("anthropic_version"), str):
            raise Refused(400, "invalid_request_error", "anthropic_version: Field required")
        if "model" in sent:
            raise Refused(400, "invalid_request_error", "model: Extra inputs are not permitted")
        if not isinstance(sent.get("anthropic_beta"), list | None):
            raise Refused(400, "invalid_request_error", "anthropic_beta: Input should be a valid list")
        return {**self.counted(sent), "model": path_parameters["model"], "stream": streams}

    def counted(self, sent: Body) -> Body:
        """Return the body of a request for a count in the form of the Claude API."""
        if not self.names_model_in_path:
            return sent
        return {name: value for name, value in sent.items() if name not in ("anthropic_version", "anthropic_beta")}

    def faults(self, body: Body, betas: Sequence[str], eager: EagerSupport) -> Iterator[str]:
        """Yield the faults that the API would report for a request, in its words."""
        yield from request_faults(body)
        yield from parameter_faults(body, betas)
        yield from beta_faults(body, betas)
        yield from unknown_betas(betas, self.unknown_beta)
        yield from eager_faults(body, betas, eager, self.unknown_beta)

    def count_faults(self, body: Body, betas: Sequence[str]) -> Iterator[str]:
        """Yield the faults that the API would report for a request for a count, in its words."""
        yield from request_faults(body, required=("model", "messages"))
        yield from count_faults(body)
        yield from parameter_faults(body, betas)
        yield from beta_faults(body, betas)
        yield from unknown_betas(betas, self.unknown_beta)

    def betas(self, headers: Headers, sent: Body) -> list[str]:
        """Return the betas that a request asks for."""
        if self.framing is AWS_EVENT_STREAM:  # Bedrock ignores the API's headers
            return [str(beta) for beta in sent.get("anthropic_beta") or ()]
        return betas_in(headers)

    def spoken(self, answer: Recording) -> Recording:
        """Return an answer of the Claude API in this dialect. An answer that is already in it stays unchanged."""
        if answer.status == 200:
            is_other = self.framing is not SSE and answer.media_type in ("", SSE.media_type)
            return in_aws_frames(answer) if is_other else answer
        error = api_error(answer)
        said = error and self.error(answer.status, str(error.get("type")), str(error.get("message")))
        if not said:
            return answer
        body, headers = said
        kept = {name: value for name, value in answer.headers.items() if name.lower() == "retry-after"}
        chunks = (Chunk(answer.duration_s, json.dumps(body).encode()),)
        return replace(answer, chunks=chunks, headers={"content-type": "application/json", **kept, **headers})


def api_error(answer: Recording) -> Mapping[str, Any] | None:
    """Return the `error` object of an error of the Claude API; `None` for another answer."""
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError):
        return None
    error = body.get("error") if isinstance(body, dict) and body.get("type") == "error" else None
    return error if isinstance(error, dict) else None


# --- credentials ------------------------------------------------------------------------------------------------------

_SIGV4: Final = re.compile(
    r"AWS4-HMAC-SHA256 Credential=[^/, ]+/\d{8}/[a-z0-9-]+/(?P<service>[a-z0-9-]+)/aws4_request, ?"
    r"SignedHeaders=(?P<signed>[a-z0-9;-]+), ?Signature=[0-9a-f]{64}"
)


def _has_bearer(headers: Headers) -> bool:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and bool(token.strip())


def _check_key(headers: Headers) -> None:
    if not headers.get("anthropic-version"):
        raise Refused(400, "invalid_request_error", "anthropic-version: header is required")
    if not (headers.get("x-api-key") or _has_bearer(headers)):
        raise Refused(401, "authentication_error", "x-api-key header is required")


def _check_foundry(headers: Headers) -> None:
    if not (headers.get("x-api-key") or headers.get("api-key") or _has_bearer(headers)):
        what = "Access denied due to invalid subscription key or wrong API endpoint."
        raise Refused(401, "authentication_error", what)


def _check_bearer(headers: Headers) -> None:
    if not _has_bearer(headers):
        what = "Request is missing required authentication credential. Expected OAuth 2 access token."
        raise Refused(401, "authentication_error", what)


def _check_signature(headers: Headers, service: str) -> None:
    """Check for a bearer token, or a version 4 signature for this service. The signature is not verified."""
    if _has_bearer(headers):
        return
    authorization = headers.get("authorization", "")
    if not authorization:
        raise Refused(403, "authentication_error", "Missing Authentication Token")
    signature = _SIGV4.fullmatch(authorization)
    if signature is None or not headers.get("x-amz-date") or "host" not in signature["signed"].split(";"):
        raise Refused(403, "authentication_error", "Authorization header is not a complete AWS signature")
    if signature["service"] != service:
        what = f"Credential should be scoped to correct service: '{service}'."
        raise Refused(403, "authentication_error", what)


def _check_aws(headers: Headers) -> None:
    if not headers.get("anthropic-workspace-id"):
        raise Refused(400, "invalid_request_error", "anthropic-workspace-id: header is required")
    if not headers.get("x-api-key"):
        _check_signature(headers, "aws-external-anthropic")


# --- errors -----------------------------------------------------------------------------------------------------------

# Statuses that Google answers itself, before a request reaches the model. All others have the Messages API's words.
_GOOGLE_STATUSES: Final = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


def _aws_error(_status: int, error_type: str, message: str) -> _Error:
    name = AWS_EXCEPTIONS.get(error_type, "InternalServerException")
    return {"message": message}, {"x-amzn-errortype": f"{name}:http://internal.amazon.com/coral/com.amazon.bedrock/"}


def _google_error(status: int, _error_type: str, message: str) -> _Error | None:
    if status not in _GOOGLE_STATUSES:
        return None
    error = {"error": {"code": status, "message": message, "status": _GOOGLE_STATUSES[status]}}
    return [error] if status == 429 else error, {}


def _azure_error(status: int, _error_type: str, message: str) -> _Error | None:
    return ({"error": {"code": str(status), "message": message}}, {}) if status in (401, 429) else None


# --- dialects ---------------------------------------------------------------------------------------------------------

PLAIN: Final = Dialect("")
"""The Claude API without a check of credentials, as a gateway or a local server offers it."""

UNVERSIONED: Final = Dialect("", "/messages", count_path="/messages/count_tokens")
"""As `PLAIN`. The provider of the `ai` package adds no `/v1` to the address in `ANTHROPIC_BASE_URL`."""

DIALECTS: Final[Mapping[Platform, Dialect]] = {
    Platform.ANTHROPIC: Dialect("/anthropic", check_credentials=_check_key),
    Platform.BEDROCK: Dialect(
        "/bedrock",
        "/model/{model:path}/invoke-with-response-stream",
        whole_path="/model/{model:path}/invoke",
        count_path=None,
        check_credentials=partial(_check_signature, service="bedrock"),
        names_model_in_path=True,
        framing=AWS_EVENT_STREAM,
        error=_aws_error,
        request_id_header="x-amzn-requestid",
        has_threads=False,
        unknown_beta="invalid beta flag",
    ),
    Platform.BEDROCK_MANTLE: Dialect(
        "/bedrock-mantle/anthropic",
        has_threads=False,
        check_credentials=partial(_check_signature, service="bedrock-mantle"),
    ),
    Platform.AWS: Dialect("/aws", check_credentials=_check_aws),
    Platform.VERTEX: Dialect(
        "/vertex/v1",
        "/projects/{project}/locations/{region}/publishers/anthropic/models/{model}:streamRawPredict",
        whole_path="/projects/{project}/locations/{region}/publishers/anthropic/models/{model}:rawPredict",
        count_path="/projects/{project}/locations/{region}/publishers/anthropic/models/count-tokens:rawPredict",
        has_threads=False,
        check_credentials=_check_bearer,
        names_model_in_path=True,
        error=_google_error,
    ),
    Platform.FOUNDRY: Dialect(
        "/foundry/anthropic",
        check_credentials=_check_foundry,
        error=_azure_error,
    ),
    Platform.GOOGLE_CLOUD: Dialect(
        "/google-cloud/v1/projects/local/locations/global/workspaces/local/invoke",
        check_credentials=_check_bearer,
        error=_google_error,
    ),
}
