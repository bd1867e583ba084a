"""`Upstream`: the one server that a proxy passes requests on to, its client, and the headers that pass."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote_to_bytes, urlsplit

from eagerstream._support.serving.access import is_loopback
from eagerstream.errors import UsageError

if TYPE_CHECKING:
    import httpx


CONNECT_TIMEOUT_S: Final = 10.0
_MAX_IDLE_CONNECTIONS: Final = 100


@dataclass(frozen=True)
class Upstream:
    """Server that requests are passed on to.

    Attributes:
        url: URL with the path prefix of all requests; without a slash at its end, and without credentials.
        host: Host for messages, with the port if the URL has one.
        authorization: Header value with the URL's name and password; `None` without them.
        is_local: True if the host is this machine.
    """

    url: str
    host: str
    is_local: bool
    authorization: bytes | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str) -> Upstream:
        """Parse the URL of an upstream.

        Raises:
            UsageError: It is no http(s) URL, or has a query or a fragment.
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
        """Return a new client for this upstream.

        It uses the proxies that the environment names, as the recorded client would: there may be no other way out. A
        local upstream is never behind a proxy. The client sets no read timeout, because the recorded client has its
        own. It follows no redirect (the recorded client decides whom to trust with its key), and keeps no cookies.
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
    from eagerstream._support.redaction import redact_text

    return UsageError(
        f"the upstream is a URL that begins with http:// or https://{wanted}, not {redact_text(url)!r:.200}"
    )


# --- which headers pass, by RFC 9110, section 7.6 ---------------------------------------------------------------------

Headers: TypeAlias = list[tuple[bytes, bytes]]

HOP_BY_HOP: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te"}
    | {b"trailer", b"transfer-encoding", b"upgrade"}
)
"""Headers about one connection, not about the message."""
_ABOUT_US: Final = frozenset({b"host", b"expect", b"via"})
"""Request headers for this server. The next server gets its own."""
_VIA: Final = b"1.1 eagerstream"


def end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers without those about one connection, among them those that `connection` names.

    If there is a `transfer-encoding`, the length is dropped, too: the encoding overrides it (RFC 9112, section 6.3).
    The reader of the message used the encoding, and the next one might use the length.
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
    """Return the headers of a request to pass on, without `host`.

    Args:
        headers: Headers as the client sent them.
        uncompressed: Ask for an uncompressed response.
        authorization: Added if the client sends none of its own.
    """
    passed = [(name, value) for name, value in end_to_end(headers) if name.lower() not in _ABOUT_US]
    if uncompressed:
        passed = [(name, value) for name, value in passed if name.lower() != b"accept-encoding"]
        passed.append((b"accept-encoding", b"identity"))
    if authorization is not None and not any(name.lower() == b"authorization" for name, _ in headers):
        passed.append((b"authorization", authorization))
    via = [value for name, value in headers if name.lower() == b"via"]
    return [*passed, (b"via", b", ".join([*via, _VIA]))]
