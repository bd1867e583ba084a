"""Any async client of the anthropic package as a transport: first-party, Bedrock, Vertex and the others.

The clients share no base class, so their attributes decide. The client sends the request. The bytes of the response are
decoded here, including Bedrock's binary frames.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

from eagerstream_wire._values import encodable

from .._support.terms import BETA_HEADER, betas_of_header
from .._support.tracing import trace_headers
from .._support.unpacking import ACCEPT_ENCODING
from ..errors import APIError, UsageError
from ..limits import Limits
from ._base import Reply, RequestBody, Transport, streamed
from ._error_bodies import bounded_error_bodies
from ._failures import is_resent_by_clients, raise_as, refusal
from ._opening import Opening

_ENCODING_HEADER: Final = "accept-encoding"
_LOOKED_AT: Final = frozenset({BETA_HEADER, _ENCODING_HEADER})

_known_parameters: WeakKeyDictionary[object, Collection[str]] = WeakKeyDictionary()


class AnthropicTransport(Transport):
    """Sends requests through `client.messages`, or through `client.beta.messages` if the request has `betas`.

    The client handles retries, time-outs, redirects and the key. Its owner closes it. Its HTTP client gets a hook that
    bounds the bodies of error responses to requests sent from here.

    Raises:
        UsageError: `client` is neither an async client of the anthropic package nor similar to one.
    """

    def __init__(self, client: Any) -> None:
        if any(base.__name__ == "SyncAPIClient" for base in type(client).__mro__):
            name = type(client).__name__
            raise UsageError(f"{name} is a synchronous client; eagerstream needs an async one: Async{name}")
        if not hasattr(getattr(client, "messages", None), "with_streaming_response"):
            raise UsageError(
                "the client must be an async client of the anthropic package, an HTTPTransport, a Recording or a body, "
                f"not {type(client).__name__}"
            )
        self._client = client
        self._headers: dict[str, object] | None = None
        self._untraced: Any = None

    def opening_timeout_s(self, limits: Limits) -> float:
        """See `Transport.opening_timeout_s`. Includes the client's retries, each after a pause the peer may ask for."""
        retry_s = limits.idle_timeout_s + limits.max_retry_after_s
        return super().opening_timeout_s(limits) + self._retries * retry_s

    @property
    def _retries(self) -> int:
        retries = getattr(self._client, "max_retries", 0)
        return retries if type(retries) is int and retries > 0 else 0

    @property
    def default_betas(self) -> Sequence[str]:
        """See `Transport.default_betas`."""
        return betas_of_header(self._default_headers.get(BETA_HEADER))

    @property
    def _default_headers(self) -> Mapping[str, object]:
        """The headers of `_LOOKED_AT` that the client sends with every request, by lower-case name."""
        # Kept, because the client puts them together each time. Not all of them: one is the key.
        if self._headers is None:
            headers = getattr(self._client, "default_headers", None)
            named = headers.items() if isinstance(headers, Mapping) else ()
            self._headers = {low: value for name, value in named if (low := name.lower()) in _LOOKED_AT}
        return self._headers

    def open(self, request: RequestBody, limits: Limits) -> AbstractAsyncContextManager[Reply]:
        """See `Transport.open`.

        Raises:
            MissingExtraError: The client belongs to another platform, and the packages that it needs are missing.
        """
        return Opening(partial(self._enter, request, limits))

    async def _enter(self, request: RequestBody, limits: Limits, opening: Opening) -> Reply:
        try:
            response = await self._send(request)
        except UnicodeEncodeError:
            # A history may contain lone surrogates from a model. Looking for them in every request would cost more than
            # this second attempt. The first attempt sent nothing.
            try:
                response = await self._send(encodable(request))
            except UnicodeEncodeError:
                # A setting of the client caused it, perhaps the key. The exception shows the text: do not chain it.
                raise UsageError("a setting of the client, or the name of a header, cannot be encoded") from None
        opening.response = response
        return await opening.enter(await streamed(response.http_response, limits))

    async def _send(self, request: RequestBody) -> Any:
        trace = trace_headers.get()
        client = self._client if trace is None else self._without_spans()
        messages = client.beta.messages if "betas" in request else client.messages
        create = messages.with_streaming_response.create
        try:
            # The clients offer no other access to their HTTP client.
            with bounded_error_bodies(getattr(self._client, "_client", None)):
                arguments = self._arguments(messages.create, request)
                if trace:
                    arguments["extra_headers"] = {**trace, **(arguments.get("extra_headers") or {})}
                return await create(**arguments, stream=True).__aenter__()
        except UnicodeEncodeError:
            raise  # see `open`
        except Exception as error:
            refused = refusal(error, str(getattr(self._client, "base_url", "")))
            if isinstance(refused, APIError):
                refused.retried = self._retries > 0 and refused.retryable and is_resent_by_clients(error)
            raise_as(refused, error)

    def _without_spans(self) -> Any:
        """Return the client as it is, but without spans of its own. It shares the HTTP client."""
        if self._untraced is None:
            self._untraced = self._client
            if isinstance(options := getattr(self._client, "open_telemetry", None), Mapping):
                self._untraced = self._client.with_options(open_telemetry={**options, "traces": False})
        return self._untraced

    def _arguments(self, create: Any, request: RequestBody) -> dict[str, Any]:
        """Return the arguments of `create`. Fields that this version of the client does not know go to `extra_body`."""
        # Found out once for each function, not for each request: `signature` takes as long as the parsing of 60
        # fragments.
        function = getattr(create, "__func__", create)
        try:
            known = _known_parameters.get(function)
            if known is None:
                known = _known_parameters[function] = frozenset(inspect.signature(create).parameters)
        except TypeError:  # it has no hash or no weak references
            known = inspect.signature(create).parameters
        arguments = {name: value for name, value in request.items() if name in known}
        unknown = {name: value for name, value in request.items() if name not in known}
        if unknown:
            arguments["extra_body"] = {**(arguments.get("extra_body") or {}), **unknown}
        headers = arguments.get("extra_headers") or {}
        if _ENCODING_HEADER not in self._default_headers and all(name.lower() != _ENCODING_HEADER for name in headers):
            arguments["extra_headers"] = {**headers, _ENCODING_HEADER: ACCEPT_ENCODING}
        return arguments
