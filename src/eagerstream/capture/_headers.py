"""Which headers pass through a proxy, by RFC 9110, section 7.6."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

Headers: TypeAlias = list[tuple[bytes, bytes]]

HOP_BY_HOP: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te"}
    | {b"trailer", b"transfer-encoding", b"upgrade"}
)
"""About one connection, and not about what is said over it."""
_ABOUT_US: Final = frozenset({b"host", b"expect", b"via"})
"""Of a request: what was said to this server, and is said to the next in its own words."""
_VIA: Final = b"1.1 eagerstream"


def end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Headers without those that are about one connection, among them those that `connection` names.

    Nor with a length beside a `transfer-encoding`, which overrides it (RFC 9112, section 6.3): whoever read the message
    went by that, and the next one might not.
    """
    headers = list(headers)
    named = {
        token.strip().lower() for name, value in headers if name.lower() == b"connection" for token in value.split(b",")
    }
    if any(name.lower() == b"transfer-encoding" for name, _ in headers):
        named.add(b"content-length")
    return [(name, value) for name, value in headers if name.lower() not in HOP_BY_HOP | named]


def request_headers(
    headers: Sequence[tuple[bytes, bytes]], *, uncompressed: bool, authorization: bytes | None = None
) -> Headers:
    """The headers of a request as it is passed on, without `host`.

    Args:
        headers: As the client sent them.
        uncompressed: Ask for a reply that is not compressed.
        authorization: Added if the client does not send one of its own, which would be lost otherwise.
    """
    passed = [(name, value) for name, value in end_to_end(headers) if name.lower() not in _ABOUT_US]
    if uncompressed:
        passed = [(name, value) for name, value in passed if name.lower() != b"accept-encoding"]
        passed.append((b"accept-encoding", b"identity"))
    if authorization is not None and not any(name.lower() == b"authorization" for name, _ in headers):
        passed.append((b"authorization", authorization))
    via = [value for name, value in headers if name.lower() == b"via"]
    return [*passed, (b"via", b", ".join([*via, _VIA]))]
