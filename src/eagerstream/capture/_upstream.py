"""`Upstream`: the one server that a proxy passes requests on to, how it is reached, and which headers pass."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote_to_bytes, urlsplit

from .._serving.access import is_loopback
from ..errors import UsageError

if TYPE_CHECKING:
    import httpx


CONNECT_TIMEOUT_S: Final = 10.0
_MAX_IDLE_CONNECTIONS: Final = 100


@dataclass(frozen=True)
class Upstream:
    """Where requests go.

    Attributes:
        url: With the path that stands before theirs; without a slash at its end, and without credentials.
        host: For people: the host, and the port where one is named.
        authorization: Value of the header that says the name and password that stood in the URL; `None` without them.
        is_local: It is this machine.
    """

    url: str
    host: str
    is_local: bool
    authorization: bytes | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str) -> Upstream:
        """The upstream at a URL.

        Raises:
            UsageError: It is no http(s) URL, or has a query.
        """
        try:
            parts = urlsplit(url)
            port, host = parts.port, parts.hostname
        except ValueError:
            raise _not_a_url(url) from None
        if parts.scheme not in ("http", "https") or not host or port == 0 or " " in url or not url.isprintable():
            raise _not_a_url(url)
        if parts.query or parts.fragment:
            raise _not_a_url(url, " and ends with its path")
        named = f"[{host}]" if ":" in host else host
        named += f":{port}" if port is not None else ""
        authorization = None
        if parts.username is not None:
            said = unquote_to_bytes(parts.username) + b":" + unquote_to_bytes(parts.password or "")
            authorization = b"Basic " + b64encode(said)
        return cls(f"{parts.scheme}://{named}{parts.path.rstrip('/')}", named, is_loopback(host), authorization)

    def client(self) -> httpx.AsyncClient:
        """A new client for it.

        It goes through the proxies that the environment names, as the client would that is recorded: there may be no
        other way out. Nothing on this machine is behind one. It waits for replies as long as whoever asked does,
        follows no redirect (the client decides whom it trusts with its key), and keeps no cookies.
        """
        from http.cookiejar import CookieJar, DefaultCookiePolicy

        import httpx

        return httpx.AsyncClient(
            # Loading certificates takes a tenth of a second.
            verify=not (self.is_local and self.url.startswith("http:")),
            trust_env=not self.is_local,
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=_MAX_IDLE_CONNECTIONS),
            follow_redirects=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )


def _not_a_url(url: str, wanted: str = "") -> UsageError:
    from .._support.redaction import redact_text

    return UsageError(
        f"the upstream is a URL that begins with http:// or https://{wanted}, not {redact_text(url)!r:.200}"
    )


# --- which headers pass, by RFC 9110, section 7.6 ---------------------------------------------------------------------

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
