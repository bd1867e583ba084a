"""Errors of responses: error bodies, bodies that are no stream, and `error` events, as our errors.

Their shape depends on the sender: the Messages API, AWS, Google, Azure, or a gateway before them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from html import unescape
from typing import Any, Final, NamedTuple

from eagerstream_wire import PartialJSON, WireEvent
from eagerstream_wire._tool_kind import EAGER_FIELD, LEGACY_BETA

from .._support.inspecting import TooMuchError, check_size, head
from ..errors import APIError, ProtocolError

_REQUEST_ID_HEADERS: Final = ("request-id", "x-request-id", "x-amzn-requestid", "apim-request-id", "x-ms-request-id")
_RETRYABLE_TYPES: Final = frozenset(
    {
        "api_error",
        "overloaded_error",
        "rate_limit_error",
        "timeout_error",
        # AWS sends some of these in the middle of a stream, without a status.
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

MAX_ERROR_BYTES: Final = 64 * 1024
"""Maximum size of an error body to look at, in bytes or characters. Each may take a microsecond."""

_MAX_DETAILS: Final = 100
_MAX_PAGE_CHARS: Final = 20_000
_MAX_BODY_DEPTH: Final = 512
_MAX_DETAILS_CHARS: Final = 8_000
_MAX_DETAILS_DEPTH: Final = 32
_MAX_NAME_CHARS: Final = 200
_MAX_QUOTED_CHARS: Final = 300
_MAX_HINTED_CHARS: Final = 4_000  # of a reason: the search for a hint takes more than linear time


_PAGE: Final = re.compile(r"\s*<(?:!doctype html|html|head|body)\b", re.IGNORECASE)
_TITLE: Final = re.compile(r"<(title|h1)\b[^<>]*>([^<]*)", re.IGNORECASE)


def of_page(text: str) -> str | None:
    """Return one line about a page of HTML, as gateways send it with an error; None for any other text."""
    start = head(text, _MAX_PAGE_CHARS)
    if _PAGE.match(start) is None:
        return None
    title = _TITLE.search(start)
    if title is None:
        return "a page of HTML"
    from .._support.redaction import redact_text

    return f"a page of HTML: {redact_text(' '.join(unescape(title[2]).split())[:_MAX_NAME_CHARS])}"


def request_id_of(headers: Mapping[str, str]) -> str | None:
    """Return the id to quote to support, from the first known header with a value; None if there is none."""
    return next((headers[name] for name in _REQUEST_ID_HEADERS if headers.get(name)), None)


# --- exceptions of clients --------------------------------------------------------------------------------------------


def status_error(status: int, body: object, headers: Mapping[str, str], otherwise: str, *, raw: str = "") -> APIError:
    """Return the error for an HTTP status.

    Args:
        status: HTTP status; 200 for an `error` event.
        body: The decoded JSON body, or anything else.
        headers: Headers of the response, by lower-case name.
        otherwise: The text of the error if the body has none.
        raw: The body as a text, if it is known.
    """
    otherwise = head(otherwise, MAX_ERROR_BYTES)
    told = _read_body(body)
    error_type = told.error_type or _error_type(headers, "x-amzn-errortype")
    reason = told.message or of_page(otherwise) or otherwise
    # In the middle of a stream, gateways and Google put the status into the error itself.
    retryable = is_retryable_status(told.status if status == 200 else status) or error_type in _RETRYABLE_TYPES
    # The API's own decision. Its clients obey it too.
    retryable = {"true": True, "false": False}.get(headers.get("x-should-retry", ""), retryable)
    retry_after_s = _retry_after_s(headers)
    raw = raw or _text_of(body, otherwise)
    error = APIError(
        reason,
        hint=_hint(reason[:_MAX_HINTED_CHARS]) if status == 400 else None,
        status_code=None if status == 200 else status,
        error_type=error_type,
        request_id=request_id_of(headers) or told.request_id,
        retryable=retryable,
        retry_after_s=told.retry_after_s if retry_after_s is None else retry_after_s,
        details=told.details,
        body=raw,
    )
    # Before secrets are masked and most is cut off: a name may stand anywhere in it.
    error.names_of_eager = frozenset(found.lower() for found in EAGER_NAMES.findall(f"{otherwise} {raw}"))
    return error


def body_error(status: int, body: str | bytes, headers: Mapping[str, str], otherwise: str) -> APIError:
    """Return the error for an HTTP status and a body that may be JSON. See `status_error`."""
    body = body[:MAX_ERROR_BYTES]
    text = body if isinstance(body, str) else body.decode("utf-8", "replace")
    try:
        decoded: object = json.loads(text)
    except (ValueError, RecursionError):
        decoded = _error_in(text)
    return status_error(status, decoded, headers, otherwise, raw=text)


EAGER_NAMES: Final = re.compile(
    rf"{EAGER_FIELD}|{LEGACY_BETA}|invalid beta flag|anthropic[-_]beta",  # Bedrock does not name the beta
    re.IGNORECASE,
)
"""The names that a refusal of eager input streaming has."""

NO_STREAM: Final = "the response is not a stream of events"
_LINE_OF_EVENTS: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:(?:data|event|id|retry)?:|(?:data|event|id|retry)[\r\n]|(?:data|event|id|retry)?\Z)"
)
_NO_DATA: Final = re.compile(r"(?m)^(?::.*|(?:event|id|retry):.*|data: ?\[DONE\]\s*)$")
_DATA: Final = re.compile(r"(?m)^data: ?")
_JSON_LINE: Final = re.compile(r"(?m)^[{\[]")


def may_be_events(body: bytes) -> bool:
    """Return True if a body without an event may be a stream of events that was cut before the first."""
    return _LINE_OF_EVENTS.match(body) is not None


def no_stream_error(body: bytes, headers: Mapping[str, str], content_type: str = "") -> APIError | ProtocolError:
    """Return the error for a response of status 200 whose body is no stream of events.

    Gateways send errors that way: as JSON, or as a text, under any content type. An error of the API is what its event
    would be. Of anything else, the error quotes the start, unless it is a message that was not streamed.

    Args:
        body: The start of the body.
        headers: Headers of the response.
        content_type: In words; empty if it is that of a stream of events.
    """
    text = body.decode("utf-8-sig", "replace").strip()
    decoded = _error_in(text)
    where = f"{NO_STREAM} but {content_type}" if content_type else NO_STREAM
    if isinstance(decoded, Mapping) and decoded.get("type") == "message":
        return ProtocolError(f"{where}: a message that was not streamed", excerpt=text)
    told = _read_body(decoded)
    if told.message or told.error_type:
        return status_error(200, decoded, headers, "the API sent an error")
    from .._support.redaction import redact_excerpt

    quoted = of_page(text) or repr(redact_excerpt(text, _MAX_QUOTED_CHARS))
    return ProtocolError(f"{where}: {quoted}" if text else where, excerpt=text)


def _error_in(text: str) -> object:
    """Return the JSON value in a text; None if there is none.

    The text may have the lines of server-sent events around it, or be the start of a longer one.
    """
    data = _DATA.sub("", _NO_DATA.sub("", text)).strip()
    start = _JSON_LINE.search(data)
    if start is None:
        return None
    data = data[start.start() :]
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        parser = PartialJSON()
        parser.feed(data)
        value = parser.value
        return value if isinstance(value, dict) and "error" in value else None


def event_error(event: WireEvent, request_id: str | None) -> APIError:
    """Return the error for an `error` event inside a stream."""
    error = status_error(200, event, {}, "the API ended the stream with an error")
    error.request_id = request_id or error.request_id
    return error


def is_retryable_status(status: int) -> bool:
    return status in {408, 409, 429} or status >= 500


class _Told(NamedTuple):
    """The facts in the body of an error."""

    message: str | None = None
    error_type: str | None = None
    request_id: str | None = None
    retry_after_s: float | None = None
    status: int = 0
    details: Mapping[str, Any] | None = None


def _read_body(body: object) -> _Told:
    if isinstance(body, list) and body:
        body = body[0]  # Google's format for streaming requests
    if not isinstance(body, Mapping):
        return _Told()
    fault = body.get("error")
    if fault is None and isinstance(several := body.get("errors"), list) and several:
        fault = several[0]
    if isinstance(fault, str):  # small servers
        return _Told(fault, request_id=_name(body, "request_id"))
    if not isinstance(fault, Mapping):  # AWS, and Azure's gateway
        return _Told(
            _text(body, "message", "Message", "detail"), _error_type(body, "__type"), _name(body, "request_id")
        )
    return _Told(
        _text(fault, "message", "msg", "detail"),
        _error_type(fault, "type", "status", "code"),
        _name(body, "request_id"),
        _retry_delay_s(fault.get("details")),
        _status(fault.get("code")),
        _details(fault.get("details")),
    )


def _text_of(body: object, otherwise: str) -> str:
    """Return the text of a decoded body; `otherwise` if it is long."""
    if isinstance(body, str) or body is None:
        return head(body or "", MAX_ERROR_BYTES)
    try:
        check_size(body, max_chars=MAX_ERROR_BYTES, max_depth=_MAX_BODY_DEPTH)
        return json.dumps(body, ensure_ascii=False)
    except TooMuchError:
        return otherwise
    except (TypeError, ValueError, RecursionError):
        return ""


def _details(details: object) -> Mapping[str, Any] | None:
    """Return the details of an API error if they are short enough for people; None otherwise."""
    if not isinstance(details, Mapping) or not details:
        return None
    try:
        check_size(details, max_chars=_MAX_DETAILS_CHARS, max_depth=_MAX_DETAILS_DEPTH)
        json.dumps(details)
    except (TooMuchError, TypeError, ValueError):
        return None
    return details


def _status(code: object) -> int:
    """Convert a code to an HTTP status; return 0 if it is none."""
    digits = str(code) if isinstance(code, str | int) else ""
    return int(digits) if len(digits) == 3 and digits.isascii() and digits.isdigit() else 0


def _text(fields: Mapping[Any, Any], *names: str) -> str | None:
    """Return the first of these fields that is a non-empty text, because a peer may send anything."""
    return next((value for name in names if isinstance(value := fields.get(name), str) and value), None)


def _name(fields: Mapping[Any, Any], *names: str) -> str | None:
    """Return the first of these fields that is a text, cut to the longest plausible length of a name."""
    text = _text(fields, *names)
    return text and head(text, _MAX_NAME_CHARS)


def _error_type(fields: Mapping[Any, Any], *names: str) -> str | None:
    r"""Return the peer's name of the error: `type` in the API, `status` at Google, `code` at Azure.

    In the middle of a stream, AWS writes the same name with a small first letter. Elsewhere it may have a namespace in
    front and an address behind: `com.amazon#ThrottlingException:http://internal.amazon.com/`.
    """
    word = _name(fields, *names)
    if word is None or word.isdigit():
        return None  # an HTTP status again
    word = word.partition(":")[0].rpartition("#")[2]
    return (word[:1].upper() + word[1:] if word.endswith("Exception") else word) or None


def _hint(reason: str) -> str | None:
    """Return advice for a refused request if its text names a fault of the history; None otherwise."""
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
        # By the peer's clock, which may differ from ours.
        until, now = (parsedate_to_datetime(headers.get(name, "")) for name in ("retry-after", "date"))
        return max(0.0, (until - now).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


def _retry_delay_s(details: object) -> float | None:
    """Return the seconds of `google.rpc.RetryInfo` in an error's details, for example `{"retryDelay": "21s"}`."""
    for detail in details[:_MAX_DETAILS] if isinstance(details, list) else ():
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
