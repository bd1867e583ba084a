"""Decide whether a proxy passes on a request, before anything else looks at it.

Every program of every user of a machine can connect to its loopback address. So can every page that is open in a
browser there, and a page from elsewhere can give its own name our address (DNS rebinding). A request is therefore
passed on only if

- it asks for the proxy under a name that is expected, at its port,
- it comes from no page, unless the page's origin is allowed,
- its path stays below that of the upstream, whoever reads it on the way,
- its path begins with the proxy's token, if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from .._serving.access import LOOPBACK_HOSTS, Address, is_token, parse_host, same_token
from ..errors import UsageError

MAX_HEAD_BYTES: Final = 64 * 1024
"""Maximum size of the target and the headers of a request."""

_HTTP_PORT: Final = 80
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_MEDIA_TYPES: Final = frozenset({"application/json", "multipart/form-data"})
"""Types of bodies that clients of the API send: parameters, and files."""
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s,]+")
_FETCHED_BY_ITSELF: Final = frozenset({"", "none", "same-origin"})
"""Values of `sec-fetch-site` of requests that no other page has caused; programs send none."""
_SEGMENT: Final = re.compile(rb"[A-Za-z0-9._~!$&'()*+,=:@-]+")
"""A part of a path, decoded once. It has no `%`, which might be decoded again, no `;`, at which some servers cut it,
and no backslash."""


class Refused(Exception):
    """The request is not passed on.

    Attributes:
        status: Of the answer.
        error_type: In the API's words.
        message: For whoever sent the request.
    """

    def __init__(self, status: int, error_type: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = error_type
        self.message = message


class Admission:
    """The rules of one proxy.

    Args:
        host: Where the proxy listens.
        hosts: Further names under which it is asked for. One with a port is taken at that port, others at the port that
            the proxy listens on.
        origins: Origins of pages that may use it, such as `https://app.example`.
        token: The first part of every path; `None` if there is none.

    Raises:
        UsageError: One of them is malformed.
    """

    def __init__(self, *, host: str, hosts: Collection[str], origins: Collection[str], token: str | None) -> None:
        if isinstance(hosts, str) or isinstance(origins, str):
            raise UsageError("hosts and origins are lists of texts, not one text")
        own = {Address(name, None) for name in (host.lower(), *LOOPBACK_HOSTS)}
        self._hosts = own | {_address(name) for name in hosts}
        self._origins = frozenset(origin.lower() for origin in origins)
        for origin in self._origins:
            if not _ORIGIN.fullmatch(origin):
                raise UsageError(f"an origin is a scheme and a host, such as https://app.example, not {origin!r:.100}")
        if token is not None and not is_token(token):
            raise UsageError("a token has 16 to 256 characters, all of them letters, digits or any of - . _ ~")
        self._token = token

    def path_of(self, scope: Mapping[str, Any]) -> bytes:
        """Return the path to pass on, without the token.

        Raises:
            Refused: The request is not passed on.
        """
        said = _Head(scope["headers"])
        path: bytes = scope["raw_path"]
        if said.size_bytes + len(path) + len(scope["query_string"]) > MAX_HEAD_BYTES:
            raise Refused(431, "invalid_request_error", f"the headers are longer than {MAX_HEAD_BYTES} bytes")
        self._check_host(said["host"], scope["server"][1])
        self._check_origin(said)
        if scope["method"] not in _METHODS:
            raise Refused(405, "invalid_request_error", "the proxy passes on no such method")
        _check_body(said)
        if not _is_plain(path):
            what = "the proxy passes on paths without empty parts and dots as parts"
            raise Refused(400, "invalid_request_error", what)
        return path if self._token is None else self._without_token(path)

    def _check_host(self, value: str, own_port: int) -> None:
        address = parse_host(value)
        if address is not None:
            asked = Address(address.name, _HTTP_PORT if address.port is None else address.port)
            if asked in self._hosts or (asked.port == own_port and Address(asked.name, None) in self._hosts):
                return
        what = f"the proxy is not known as {value[:100]!r}: use the URL that it shows, or allow the name"
        raise Refused(421, "invalid_request_error", what)

    def _check_origin(self, said: _Head) -> None:
        origin = said["origin"]
        if origin:
            is_allowed = origin in self._origins or origin == f"http://{said['host']}"
        else:
            is_allowed = said["sec-fetch-site"] in _FETCHED_BY_ITSELF
        if not is_allowed:
            what = "the proxy is for programs: pages may use it only if their origin is allowed"
            raise Refused(403, "permission_error", what)

    def _without_token(self, path: bytes) -> bytes:
        assert self._token is not None
        _, given, *rest = path.decode("ascii").split("/", 2)
        if not same_token(given, self._token):
            what = "the proxy has the upstream's password, and is used with the whole URL that it shows"
            raise Refused(401, "authentication_error", what)
        return b"/" + "".join(rest).encode()


class _Head:
    """The headers of a request, in lower case. One that is there several times has its values joined by commas."""

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self.size_bytes = 0
        self._values: dict[str, str] = {}
        for raw_name, raw_value in headers:
            self.size_bytes += len(raw_name) + len(raw_value)
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1").strip().lower()
            self._values[name] = f"{self._values[name]}, {value}" if name in self._values else value

    def __getitem__(self, name: str) -> str:
        return self._values.get(name, "")


def _address(host: str) -> Address:
    address = parse_host(host)
    if address is None:
        raise UsageError(f"a host is a name, with or without a port, not {host!r:.100}")
    return address


def _check_body(said: _Head) -> None:
    length, coding = said["content-length"], said["transfer-encoding"]
    if length and coding:  # RFC 9112, section 6.1: a sign of request smuggling
        raise Refused(400, "invalid_request_error", "a request has a length or comes in chunks, not both")
    if (coding or length not in ("", "0")) and said["content-type"].partition(";")[0].strip() not in _MEDIA_TYPES:
        what = f"the proxy passes on bodies with the content type {' or '.join(sorted(_MEDIA_TYPES))}"
        raise Refused(415, "invalid_request_error", what)


def _is_plain(path: bytes) -> bool:
    """Return whether the path leads to a place below that of the upstream, for everybody who reads it.

    A slash at the end is allowed. So is an escaped one, which Bedrock's ids of models have: what stands around it is
    looked at as parts of their own.
    """
    root, *parts = path.split(b"/")
    if root or not parts:
        return False
    if parts[-1] == b"":
        parts.pop()
    decoded = [piece for part in parts for piece in unquote_to_bytes(part).split(b"/")]
    return all(_SEGMENT.fullmatch(part) and part.strip(b".") for part in decoded)
