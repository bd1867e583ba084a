"""`Upstream`: the one server that a proxy passes requests on to, and how it is reached."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
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
