"""Exceptions of HTTP clients, as our errors.

They are recognized by class name, because the anthropic package uses httpx or httpx2 and both may be installed.
"""

from __future__ import annotations

import re
import ssl
from typing import Final, NoReturn
from urllib.parse import urlsplit

from ..errors import APIError, MissingExtraError, ProtocolError, StreamInterrupted, UsageError
from ._error_responses import is_retryable_status, of_page, status_error

_MISTAKES: Final = (TypeError, ValueError, RuntimeError)
"""Exceptions of clients for a request they cannot send: no credentials, no JSON form, a closed client."""

_SIGN_IN: Final = frozenset({"AzureError", "BotoCoreError", "GoogleAuthError", "WorkloadIdentityError"})
"""Exceptions of the sources of credentials: Azure, AWS, Google, the token endpoint of the API."""

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
"""Exceptions, of these sources and of their HTTP clients, for a service that could not be reached."""

_OTHER_LOOP: Final = re.compile(r"^Event loop is closed$|\bdifferent (?:event )?loop\b")
"""The text of a `RuntimeError` for an object of another event loop."""

_LOST_BY_AIOHTTP: Final = frozenset({"ClientConnectionError", "ClientPayloadError", "ClientResponseError"})
"""Exceptions of aiohttp for a lost connection, and for bytes that are not HTTP."""

_PEER_BYTES: Final = re.compile(r"""\n|\\n|\b(?:bytearray\()?b['"]""")
"""The start of a peer's bytes in the text of an exception of h11 or aiohttp."""

_EXTRAS: Final = {"boto3": "bedrock", "botocore": "bedrock", "google": "vertex"}
"""The extra of eagerstream that installs the top-level module of another platform."""

_MAX_WORDS_CHARS: Final = 2_000


def raise_as(translated: Exception, error: Exception) -> NoReturn:
    """Raise `translated` with `error` as its cause. If both are the same, raise `error` unchanged.

    A client's exception has passed dozens of its own frames, and those of the library below. None of them says more
    than the exception itself, so the innermost one is kept, and the exceptions below lose theirs.
    """
    try:
        if translated is error:
            raise error
        innermost = error.__traceback__
        while innermost is not None and innermost.tb_next is not None:
            innermost = innermost.tb_next
        below = error.__cause__ or error.__context__
        while below is not None and below.__traceback__ is not None:
            below.__traceback__ = None
            below = below.__cause__ or below.__context__
        page = of_page(str(error))
        if page is not None:
            error.args = (page,)  # the page itself is in its response
        raise translated from error.with_traceback(innermost)
    finally:
        # The traceback has this frame: the cycle would keep the run until the garbage collector comes.
        del translated, error


def refusal(error: Exception, address: str = "") -> Exception:
    """Translate an exception that an HTTP client raised while it sent the request.

    Args:
        error: The exception.
        address: The URL of the API, for an error that says that it could not be reached.

    Returns:
        Our error, or `error` itself if it is not an exception of a client.

    Raises:
        UsageError: A header is illegal. The original exception shows the key, so it is not chained.
    """
    missing = missing_extra(error)
    if missing is not None:
        return missing
    where = f" ({origin})" if (origin := _origin(address)) else ""
    names = _class_names(error)
    status = getattr(error, "status_code", None)
    if "APIStatusError" in names and isinstance(status, int):
        response = getattr(error, "response", None)
        return status_error(status, getattr(error, "body", None), getattr(response, "headers", {}), str(error))
    if names & _LOST_BY_AIOHTTP and "ClientError" in names:
        # Before the mistakes: its exception for a certificate is a ValueError.
        return APIError(f"the API could not be reached: {_words_of_loss(error)}{where}", retryable=True)
    is_lost = bool(names & {"APIConnectionError", "TransportError"})
    # A closed client raises a RuntimeError, which newer clients report as a lost connection.
    cause = error.__cause__ if is_lost and isinstance(error.__cause__, Exception) else error
    if "Illegal header" in str(cause):
        # The text contains the header, and with it the key: the error is not chained.
        raise UsageError(
            "a header contains characters that HTTP does not allow, for example a line end in a key"
        ) from None
    if isinstance(cause, RuntimeError) and _OTHER_LOOP.search(str(cause)):
        # The pool of a client that was used in another `asyncio.run` has connections of that loop. Each is dropped by
        # this error, so the next attempt gets a new one (test_a_second_event_loop).
        return APIError(f"the API could not be reached: a connection of another event loop{where}", retryable=True)
    from .._support.redaction import redact_excerpt

    mistake = UsageError(f"the client cannot send this request: {redact_excerpt(_words(cause), _MAX_WORDS_CHARS)}")
    if isinstance(cause, _MISTAKES) or "UnsupportedProtocol" in _class_names(cause):
        return mistake
    # From botocore. Other packages also have errors named `ClientError`.
    is_of_aws = "ClientError" in names and isinstance(getattr(error, "response", None), dict)
    if names & _SIGN_IN or is_of_aws:
        return _sign_in_error(error)
    if is_lost:
        return APIError(f"the API could not be reached: {_words_of_loss(cause)}{where}", retryable=True)
    if "RetryableError" in names:  # raised by middleware to request another attempt
        return APIError(_words(error), retryable=True)
    return mistake if "AnthropicError" in names else error


def _origin(address: str) -> str:
    """Return scheme, host and port of a URL, without a user, a path and a query, which may be secret."""
    try:
        url = urlsplit(address)
        port = f":{url.port}" if url.port is not None else ""
    except ValueError:
        return ""
    return f"{url.scheme}://{url.hostname}{port}" if url.hostname else ""


def missing_extra(error: Exception) -> MissingExtraError | None:
    """Return the error to raise if `error` means that a platform's own package is missing; None otherwise.

    The AWS clients pass the `ModuleNotFoundError` through. Vertex converted it to a `RuntimeError` in 0.78. Since then,
    Vertex and Google Cloud convert it to a `MissingDependencyError`. Each keeps it as the cause.
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


def _sign_in_error(error: Exception) -> APIError:
    told = getattr(error, "response", None)
    fields = told.get("ResponseMetadata") if isinstance(told, dict) else None
    status = fields.get("HTTPStatusCode") if isinstance(fields, dict) else getattr(error, "status_code", None)
    is_unreached = bool((_class_names(error) | _class_names(error.__cause__)) & _UNREACHED)
    # Google's exceptions have their own `retryable`.
    retryable = bool(getattr(error, "retryable", False)) or is_unreached
    retryable = retryable or (isinstance(status, int) and is_retryable_status(status))
    return APIError(
        f"the client could not sign in: {_words(error)}", error_type=type(error).__name__, retryable=retryable
    )


def is_resent_by_clients(error: Exception) -> bool:
    """Return True if a client of the anthropic package, with retries on, sent the request again before this error."""
    names = _class_names(error)
    if "APIStatusError" not in names:
        return bool(names & {"APIConnectionError", "RetryableError"})
    told = getattr(error, "response", None)
    is_asked_for = told is not None and told.headers.get("x-should-retry") == "true"
    return is_asked_for or is_retryable_status(getattr(error, "status_code", 0))


def interruption(error: Exception, request_id: str | None) -> Exception:
    """Translate an exception that an HTTP client raised while it read the body; return other exceptions unchanged."""
    names = _class_names(error)
    if "DecodingError" in names:
        return ProtocolError(f"the response cannot be decompressed: {_words(error)}")
    # aiohttp raises it for a body that it forgot when its chunked coding broke.
    is_forgotten = type(error) is RuntimeError and str(error) == "Connection closed."
    if is_forgotten or names & {"TransportError", "StreamError", *_LOST_BY_AIOHTTP}:
        return StreamInterrupted(f"the connection was lost: {_words_of_loss(error)}", request_id=request_id)
    return error


def _class_names(error: BaseException | None) -> set[str]:
    return {base.__name__ for base in type(error).__mro__}


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _words_of_loss(error: Exception) -> str:
    """Return a client's words about a lost connection, without the bytes of the peer: they may be a model's text."""
    if isinstance(status := getattr(error, "status", None), int) and "ClientHttpProxyError" in _class_names(error):
        return f"the proxy answered with HTTP {status}"
    # The message of aiohttp; its text has the address besides.
    told = getattr(error, "message", None)
    if told is not None and not isinstance(told, str):  # a head that was cut, with all of its headers
        return f"{type(error).__name__} in the head of the response"
    # On trio, an error of httpx has no text if the certificate is refused; the error of TLS below it has one. Any other
    # error below is left out, because it may be one that the program was handling.
    below: BaseException | None = error
    while below is not None and not str(below):
        below = below.__cause__ or below.__context__
    words = told or _words(below if isinstance(below, ssl.SSLError) else error)
    return _PEER_BYTES.split(words, maxsplit=1)[0].rstrip(" :,(") or type(error).__name__
