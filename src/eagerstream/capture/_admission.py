"""Check of a request before the proxy passes it on or reads anything else of it.

Every program of every user of a machine can connect to its loopback address. So can every page that is open in a
browser there. A page from another host can also give its own name our address (DNS rebinding). A request is therefore
passed on only if

- its host is an expected name, at the proxy's port,
- it comes from no page, unless the page's origin is allowed,
- its path stays below that of the upstream, for every server that reads it on the way,
- its path starts with the proxy's token, if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from .._serving.access import LOOPBACK_HOSTS, Address, is_token, parse_host, same_token
from ..errors import UsageError

MAX_HEAD_BYTES: Final = 64 * 1024
"""Maximum total size of the target and the headers of a request."""

_HTTP_PORT: Final = 80
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_MEDIA_TYPES: Final = frozenset({"application/json", "multipart/form-data"})
"""Media types of the bodies that API clients send: parameters, and files."""
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s,]+")
_FETCHED_BY_ITSELF: Final = frozenset({"", "none", "same-origin"})
"""Values of `sec-fetch-site` for requests that no other page has caused. Programs send none."""
_SEGMENT: Final = re.compile(rb"[A-Za-z0-9._~!$&'()*+,=:@-]+")
"""Pattern of a path segment, decoded once. It has no `%`, which might be decoded again. It has no `;`, at which some
servers cut a path, and no backslash."""


class Refused(Exception):
    """Error for a request that is not passed on.

    Attributes:
        status: HTTP status of the response.
        error_type: Error type as the API names it.
        message: Text for the sender of the request.
    """

    def __init__(self, status: int, error_type: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = error_type
        self.message = message


class Admission:
    """Admission rules of one proxy.

    Args:
        host: Address that the proxy listens on.
        hosts: Further names of the proxy. A name with a port is accepted at that port, others at the port that the
            proxy listens on.
        origins: Origins of pages that may use the proxy, such as `https://app.example`.
        token: First segment of every path; `None` if there is none.

    Raises:
        UsageError: A host, an origin or the token is malformed, or `hosts` or `origins` is a string.
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
            Refused: The request must not be passed on.
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
    """Headers of a request, in lower case. The values of a repeated header are joined by commas."""

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
    """Return True if every reader of the path finds a place below that of the upstream.

    A slash at the end is allowed. So is an escaped slash, as in Bedrock's model ids: the text on each side of it is
    checked as its own segment.
    """
    root, *parts = path.split(b"/")
    if root or not parts:
        return False
    if parts[-1] == b"":
        parts.pop()
    decoded = [piece for part in parts for piece in unquote_to_bytes(part).split(b"/")]
    return all(_SEGMENT.fullmatch(part) and part.strip(b".") for part in decoded)
