"""What goes wrong on the way, as our errors: exceptions of HTTP clients, error responses, `error` events.

Exceptions are told by class names: the anthropic package uses httpx or httpx2, by version, and both may be installed.
Error responses have the shape of whoever answered: the Messages API, AWS, Google, Azure, or a gateway in front of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple, NoReturn

from .._support.inspecting import TooMuchError, check_size, head
from ..errors import APIError, MissingExtraError, ProtocolError, StreamInterrupted, UsageError
from ..wire import WireEvent

_REQUEST_ID_HEADERS: Final = ("request-id", "x-request-id", "x-amzn-requestid", "apim-request-id", "x-ms-request-id")
_RETRYABLE_TYPES: Final = frozenset(
    {
        "api_error",
        "overloaded_error",
        "rate_limit_error",
        "timeout_error",
        # Of AWS, which has some of them in the middle of a stream, where no status says it.
        "InternalError",
        "InternalFailure",
        "InternalServerException",
        "ModelNotReadyException",
        "ModelStreamErrorException",
        "ModelTimeoutException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "ThrottlingException",
    }
)

_MISTAKES: Final = (TypeError, ValueError, RuntimeError)
"""What clients raise for a request that they cannot send: no credentials, no JSON form, a client that was closed."""

_SIGN_IN: Final = frozenset({"AzureError", "BotoCoreError", "GoogleAuthError", "WorkloadIdentityError"})
"""What is raised where clients get their credentials from: Azure, AWS, Google, the token endpoint of the API."""

_UNREACHED: Final = frozenset(
    {
        "ConnectionError",
        "HTTPClientError",
        "HTTPError",
        "ServiceRequestError",
        "ServiceResponseError",
        "TransportError",
    }
)
"""How they, and the HTTP clients under them, call a service that could not be reached."""

_EXTRAS: Final = {"boto3": "bedrock", "botocore": "bedrock", "google": "vertex"}
"""Top-level modules of other platforms, and our extra that brings each of them."""

_MAX_DETAILS_CHARS: Final = 8_000
_MAX_DETAILS_DEPTH: Final = 32
_MAX_WORDS_CHARS: Final = 2_000
_MAX_NAME_CHARS: Final = 200
_MAX_HINTED_CHARS: Final = 4_000  # of a reason: looking for its words takes more than linear time


def raise_as(translated: Exception, error: Exception) -> NoReturn:
    """Raise `translated` with `error` as its cause; what was not translated is raised as it is."""
    if translated is error:
        raise error
    raise translated from error


def request_id_of(headers: Mapping[str, str]) -> str | None:
    """What to quote to support, under the name that this platform gives it."""
    return next((headers[name] for name in _REQUEST_ID_HEADERS if headers.get(name)), None)


# --- exceptions of clients --------------------------------------------------------------------------------------------


def refusal(error: Exception) -> Exception:
    """What an exception of an HTTP client, raised by sending the request, is in our terms; itself if it is not one.

    Raises:
        UsageError: Instead of being returned, where the exception must not be seen.
    """
    missing = missing_extra(error)
    if missing is not None:
        return missing
    names = _class_names(error)
    status = getattr(error, "status_code", None)
    if "APIStatusError" in names and isinstance(status, int):
        response = getattr(error, "response", None)
        return status_error(status, getattr(error, "body", None), getattr(response, "headers", {}), str(error))
    is_lost = bool(names & {"APIConnectionError", "TransportError"})
    # A client that was closed raises a RuntimeError, which newer clients take for a lost connection.
    cause = error.__cause__ if is_lost and isinstance(error.__cause__, Exception) else error
    if "Illegal header" in str(cause):
        # With the header in its text, and the key in that: it is not chained.
        raise UsageError("a header holds what HTTP does not allow, the end of a line in a key for example") from None
    from .._support.redaction import redact_excerpt

    mistake = UsageError(f"the client cannot send this request: {redact_excerpt(_words(cause), _MAX_WORDS_CHARS)}")
    if isinstance(cause, _MISTAKES) or "UnsupportedProtocol" in _class_names(cause):
        return mistake
    if names & _SIGN_IN or _is_of_aws(error):
        return _sign_in_error(error)
    if is_lost:
        return APIError(f"the API could not be reached: {_words(cause)}", retryable=True)
    if "RetryableError" in names:  # of middleware, which asks for another attempt so
        return APIError(_words(error), retryable=True)
    return mistake if "AnthropicError" in names else error


def missing_extra(error: Exception) -> MissingExtraError | None:
    """What to raise where `error` says that a platform's own package is not installed; None where it does not.

    The AWS clients let the `ModuleNotFoundError` out; Vertex made a `RuntimeError` of it in 0.78, and makes a
    `MissingDependencyError` of it since then, as Google Cloud does. Each has it as its cause.
    """
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, ImportError):
            module = found.name or ""
            extra = _EXTRAS.get(module.partition(".")[0])
            if extra is not None:
                return MissingExtraError(extra, module)
        found = found.__cause__
    return None


def _is_of_aws(error: Exception) -> bool:
    """An answer of AWS, by way of botocore; other packages, too, have errors of this name."""
    return "ClientError" in _class_names(error) and isinstance(getattr(error, "response", None), dict)


def _sign_in_error(error: Exception) -> APIError:
    told = getattr(error, "response", None)
    fields = told.get("ResponseMetadata") if isinstance(told, dict) else None
    status = fields.get("HTTPStatusCode") if isinstance(fields, dict) else getattr(error, "status_code", None)
    is_unreached = bool((_class_names(error) | _class_names(error.__cause__)) & _UNREACHED)
    # Google says itself whether it may pass.
    retryable = bool(getattr(error, "retryable", False)) or is_unreached
    retryable = retryable or (isinstance(status, int) and _is_retryable_status(status))
    return APIError(
        f"the client could not sign in: {_words(error)}", error_type=type(error).__name__, retryable=retryable
    )


def is_resent_by_clients(error: Exception) -> bool:
    """A client of the anthropic package that retries has sent the request again before it raised this."""
    names = _class_names(error)
    if "APIStatusError" not in names:
        return bool(names & {"APIConnectionError", "RetryableError"})
    told = getattr(error, "response", None)
    is_asked_for = told is not None and told.headers.get("x-should-retry") == "true"
    return is_asked_for or _is_retryable_status(getattr(error, "status_code", 0))


def interruption(error: Exception, request_id: str | None) -> Exception:
    """What an exception of an HTTP client, raised while the body was read, is in our terms; itself if it is not one."""
    names = _class_names(error)
    if "DecodingError" in names:
        return ProtocolError(f"the reply cannot be decompressed: {_words(error)}")
    if names & {"TransportError", "StreamError"}:
        return StreamInterrupted(f"the connection was lost: {_words(error)}", request_id=request_id)
    return error


def _class_names(error: BaseException | None) -> set[str]:
    return {base.__name__ for base in type(error).__mro__}


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


# --- error responses and error events ---------------------------------------------------------------------------------


def status_error(status: int, body: object, headers: Mapping[str, str], otherwise: str) -> APIError:
    """The error of an HTTP status.

    Args:
        status: HTTP status; 200 for an `error` event.
        body: The decoded JSON body, or anything else.
        headers: Of the response, by lower-case name.
        otherwise: What to say if the body says nothing.
    """
    told = _read_body(body)
    error_type = told.error_type or _error_type(headers, "x-amzn-errortype")
    reason = told.message or otherwise
    # In the middle of a stream gateways and Google tell the status in the error itself.
    retryable = _is_retryable_status(told.status if status == 200 else status) or error_type in _RETRYABLE_TYPES
    # The API's own last word; its clients go by it, too.
    retryable = {"true": True, "false": False}.get(headers.get("x-should-retry", ""), retryable)
    retry_after_s = _retry_after_s(headers)
    return APIError(
        reason,
        hint=_hint(reason[:_MAX_HINTED_CHARS]) if status == 400 else None,
        status_code=None if status == 200 else status,
        error_type=error_type,
        request_id=request_id_of(headers) or told.request_id,
        retryable=retryable,
        retry_after_s=told.retry_after_s if retry_after_s is None else retry_after_s,
        details=told.details,
    )


def body_error(status: int, body: str | bytes, headers: Mapping[str, str], otherwise: str) -> APIError:
    """The error of an HTTP status and a body that may be JSON; see `status_error`."""
    try:
        decoded: object = json.loads(body)
    except (ValueError, RecursionError):
        decoded = None
    return status_error(status, decoded, headers, otherwise)


def event_error(event: WireEvent, request_id: str | None) -> APIError:
    """The error of an `error` event inside a stream."""
    error = status_error(200, event, {}, "the API ended the stream with an error")
    error.request_id = request_id or error.request_id
    return error


def _is_retryable_status(status: int) -> bool:
    return status in {408, 409, 429} or status >= 500


class _Told(NamedTuple):
    """What the body of an error says."""

    message: str | None = None
    error_type: str | None = None
    request_id: str | None = None
    retry_after_s: float | None = None
    status: int = 0
    details: Mapping[str, Any] | None = None


def _read_body(body: object) -> _Told:
    if isinstance(body, list) and body:
        body = body[0]  # Google answers streaming requests so
    if not isinstance(body, Mapping):
        return _Told()
    fault = body.get("error")
    if isinstance(fault, str):  # small servers
        return _Told(fault, request_id=_name(body, "request_id"))
    if not isinstance(fault, Mapping):  # AWS, and Azure's gateway
        return _Told(
            _text(body, "message", "Message", "detail"), _error_type(body, "__type"), _name(body, "request_id")
        )
    return _Told(
        _text(fault, "message"),
        _error_type(fault, "type", "status", "code"),
        _name(body, "request_id"),
        _retry_delay_s(fault.get("details")),
        _status(fault.get("code")),
        _details(fault.get("details")),
    )


def _details(details: object) -> Mapping[str, Any] | None:
    """The details of an error of the API, if they are few enough to be shown to people."""
    if not isinstance(details, Mapping) or not details:
        return None
    try:
        check_size(details, max_chars=_MAX_DETAILS_CHARS, max_depth=_MAX_DETAILS_DEPTH)
        json.dumps(details)
    except (TooMuchError, TypeError, ValueError):
        return None
    return details


def _status(code: object) -> int:
    """The HTTP status that a code is; 0 where it is none."""
    digits = str(code) if isinstance(code, str | int) else ""
    return int(digits) if len(digits) == 3 and digits.isascii() and digits.isdigit() else 0


def _text(fields: Mapping[Any, Any], *names: str) -> str | None:
    """The first of these that is a text, and not an empty one: a peer may send anything."""
    return next((value for name in names if isinstance(value := fields.get(name), str) and value), None)


def _name(fields: Mapping[Any, Any], *names: str) -> str | None:
    """The first of these that is a text, of which no more is kept than any name has."""
    text = _text(fields, *names)
    return text and head(text, _MAX_NAME_CHARS)


def _error_type(fields: Mapping[Any, Any], *names: str) -> str | None:
    r"""The peer's word for the error, which is `type` in the API, `status` at Google, and `code` at Azure.

    AWS begins the same word with a small letter in the middle of a stream; elsewhere a namespace may stand before it,
    and an address behind it: `com.amazon#ThrottlingException:http://internal.amazon.com/`.
    """
    word = _name(fields, *names)
    if word is None or word.isdigit():
        return None  # an HTTP status once more
    word = word.partition(":")[0].rpartition("#")[2]
    return (word[:1].upper() + word[1:] if word.endswith("Exception") else word) or None


def _hint(reason: str) -> str | None:
    """What to do about a request that the API refuses, where its words say what is wrong with the history."""
    found = re.search(r"`tool_use` ids were found without `tool_result` blocks immediately after: (.*?)\. Each", reason)
    if found is None:
        return None
    return (
        f"Send a tool_result for {found[1]} at the very start of the message after the call; "
        "eagerstream.validate_history(messages) finds such faults before anything is sent"
    )


# --- how long to wait -------------------------------------------------------------------------------------------------


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _seconds(headers.get(name, ""), unit_s)
        if seconds is not None:
            return seconds
    try:
        # By the peer's own clock: ours may be another.
        until, now = (parsedate_to_datetime(headers.get(name, "")) for name in ("retry-after", "date"))
        return max(0.0, (until - now).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


def _retry_delay_s(details: object) -> float | None:
    """`google.rpc.RetryInfo` among the details of an error, for example `{"retryDelay": "21s"}`."""
    for detail in details if isinstance(details, list) else ():
        delay = _text(detail, "retryDelay") if isinstance(detail, Mapping) else None
        if delay is not None and delay.endswith("s"):
            return _seconds(delay[:-1])
    return None


def _seconds(number: str, unit_s: float = 1.0) -> float | None:
    try:
        seconds = float(number) * unit_s
    except ValueError:
        return None  # absent, or a date
    return seconds if 0 <= seconds < float("inf") else None
