"""Check the requests to a server on this machine: the host that they name, and a token that strangers do not know."""

from __future__ import annotations

import ipaddress
import re
import secrets
from typing import Final, NamedTuple

LOOPBACK_HOSTS: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""Host names of a server on loopback."""

_HOST: Final = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::([0-9]{1,5}))?")
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~-]{16,256}")


class Address(NamedTuple):
    """The value of a `Host` header.

    Attributes:
        name: In lower case, an IPv6 address without its brackets.
        port: `None` if the header has none.
    """

    name: str
    port: int | None


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


def is_token(text: str) -> bool:
    """Return whether a text may be a token: long enough, and with characters that every URL and cookie can have."""
    return _TOKEN.fullmatch(text) is not None


def same_token(given: str, token: str) -> bool:
    """Compare two tokens in a time that does not depend on the number of correct characters."""
    return secrets.compare_digest(given.encode(), token.encode())
