"""The rule of all servers of this library: which requests they answer.

Every program of every user of a machine can connect to its loopback address. So can every page that is open in a
browser there. A page from another host can also give its own name our address (DNS rebinding), and would then count as
a page of this server. A request is therefore answered only if

- it names the server in one `Host` header: by a name of loopback, or by an allowed name,
- it comes from no page, from a page of the server itself, or from a page of an allowed origin,
- it brings the token, if the server has one. A server that other machines can reach has one.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from eagerstream_wire import UsageError

LOOPBACK_HOSTS: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""Host names of a server on loopback. Every server answers under them, at any port: it may be forwarded."""

_HOST: Final = re.compile(r"(?:\[([0-9a-f:.]{2,45})\]|([a-z0-9._-]{1,253}?)\.?)(?::([0-9]{1,5}))?")
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~-]{16,256}")
_ORIGIN: Final = re.compile(r"([a-z][a-z0-9+.-]{0,63})://([a-z0-9._-]{1,254}|\[[0-9a-f:.]{2,45}\])(:[0-9]{1,5})?")
_PORTS: Final = {"http": 80, "https": 443}
_FETCHED_BY_ITSELF: Final = frozenset({"", "none", "same-origin"})
"""Values of `sec-fetch-site` for requests that no other page has caused. Programs send none."""


class Address(NamedTuple):
    """The value of a `Host` header.

    Attributes:
        name: In lower case, without the dot at the end of a complete name; an IPv6 address without its brackets.
        port: `None` if the header has none.
    """

    name: str
    port: int | None


class Refused(Exception):
    """Error for a request that is not answered.

    Attributes:
        status: HTTP status of the response.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Access:
    """The rule of one server.

    Args:
        hosts: Names of the server beside those of loopback. A name without a port is accepted at any port, a name with
            a port only at that one. `None` accepts any name: the application around it checks them.
        origins: Origins of pages from elsewhere that may use the server, such as `https://app.example`.
        token: Text that clients must know; `None` if there is none.
        host: The address that the server listens on, which is one of its names.
        has_pages: Pages from elsewhere may link to the server, but not load it into a frame.

    Raises:
        UsageError: A host, an origin or the token is malformed, or `hosts` or `origins` is a string.
    """

    def __init__(
        self,
        *,
        hosts: Collection[str] | None = (),
        origins: Collection[str] = (),
        token: str | None = None,
        host: str | None = None,
        has_pages: bool = False,
    ) -> None:
        if isinstance(hosts, str) or isinstance(origins, str):
            raise UsageError("hosts and origins are lists of texts, not one text")
        own = set() if host is None else {Address(host.lower(), None)}
        self._hosts = None if hosts is None else own | {_named(name) for name in hosts}
        self._origins = frozenset(origin.lower() for origin in origins)
        for origin in self._origins:
            if not _ORIGIN.fullmatch(origin):
                raise UsageError(f"an origin is a scheme and a host, such as https://app.example, not {origin!r:.100}")
        if token is not None and not _TOKEN.fullmatch(token):
            raise UsageError("a token has 16 to 256 characters, all of them letters, digits or any of - . _ ~")
        self.token: Final = token
        self._has_pages = has_pages

    def check(self, scope: Mapping[str, Any]) -> None:
        """Check the names and the origin of a request, in its ASGI scope.

        Raises:
            Refused: The request must not be answered. The message says how to allow it.
        """
        if (path := scope["path"]) and not path.startswith("/"):
            raise Refused(421, "a request names this server in its Host header, not in its target")
        address = parse_host(header(scope, b"host"))
        if self._hosts is not None:
            if address is None:
                raise Refused(421, "a request names this server in one Host header")
            ports = _PORTS.values() if address.port is None else (address.port,)
            named = {Address(address.name, port) for port in (None, *ports)}
            if address.name not in LOOPBACK_HOSTS and self._hosts.isdisjoint(named):
                name = address.name  # without characters that mean something elsewhere
                raise Refused(
                    421,
                    f"this server is not known as {name}: use the URL that it shows, or allow the name if it is one of "
                    f'its own: hosts=["{name}"] in its program, or --allow-host {name} on its command line',
                )
        if origin := header(scope, b"origin"):
            if not _is_own(origin, address) and origin not in self._origins:
                raise _from_elsewhere(origin)
        elif header(scope, b"sec-fetch-site") not in _FETCHED_BY_ITSELF:
            # A browser shows the response to a link in its window, and no page reads it.
            is_link = (
                scope.get("method") in ("GET", "HEAD")
                and header(scope, b"sec-fetch-mode") == "navigate"
                and header(scope, b"sec-fetch-dest") == "document"
            )
            if not (self._has_pages and is_link):
                raise _from_elsewhere(origin)

    def is_allowed_elsewhere(self, origin: str) -> bool:
        """Return True for the origin of pages from elsewhere that may use the server."""
        return origin in self._origins

    def check_token(self, given: Iterable[str]) -> None:
        """Check the texts with which a request may bring the token.

        Raises:
            Refused: None of them is the token.
        """
        if self.token is not None and not any(self.is_token(text) for text in given):
            raise Refused(401, "this server has a token, which it showed at its start: the request has to bring it")

    def is_token(self, given: str) -> bool:
        """Compare a text with the token, in a time that does not depend on the number of correct characters."""
        return self.token is not None and secrets.compare_digest(given.encode(), self.token.encode())


def header(scope: Mapping[str, Any], name: bytes) -> str:
    """Return a header of a request in lower case, repeated ones joined by commas; an empty text if it is missing."""
    values = [value.decode("latin-1").strip() for key, value in scope["headers"] if key.lower() == name]
    return ", ".join(values).lower()


def parse_host(value: str) -> Address | None:
    """Return the address that a `Host` header names; `None` for anything else, such as a name with a user before it."""
    match = _HOST.fullmatch(value.lower())
    if match is None:
        return None
    return Address(match[1] or match[2], None if match[3] is None else int(match[3]))


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def new_token() -> str:
    """Return a random token of 32 bytes, as URL-safe text."""
    return secrets.token_urlsafe(32)


def token_for(host: str, token: str | None) -> str | None:
    """Return the token of a server that listens on a host: a new one if none is given and other machines reach it."""
    return new_token() if token is None and not is_loopback(host) else token


def _named(host: str) -> Address:
    address = parse_host(host)
    if address is None:
        raise UsageError(f"a host is a name, with or without a port, not {host!r:.100}")
    return address


def _is_own(origin: str, address: Address | None) -> bool:
    """Return whether an origin is that of the requested host. A proxy in front may speak HTTPS for it."""
    match = _ORIGIN.fullmatch(origin)
    if match is None or address is None or match[1] not in _PORTS:
        return False
    of_page = parse_host(origin.partition("://")[2])
    standard = _PORTS[match[1]]
    return of_page is not None and of_page.name == address.name and _port(of_page, standard) == _port(address, standard)


def _port(address: Address, standard: int) -> int:
    return standard if address.port is None else address.port


def _from_elsewhere(origin: str) -> Refused:
    what = "this server takes no requests from pages of other origins"
    if _ORIGIN.fullmatch(origin):
        what += f'. Allow it if it is yours: origins=["{origin}"] in the program, or --allow-origin on its command line'
    return Refused(403, what)
