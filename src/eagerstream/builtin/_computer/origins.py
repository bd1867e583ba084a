"""Confinement of a browser to a few origins, by its own proxy settings. They apply to all its requests."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit

from ...errors import UsageError

_HOST: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?|[0-9a-f:]*:[0-9a-f:.]*")
_PORTS: Final = {"http": 80, "https": 443}
_MAX_HOST_CHARS: Final = 253
"""Maximum length of a DNS name (RFC 1035)."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port of a URL (RFC 6454). `file:` URLs have only the scheme."""

    scheme: str
    host: str = ""
    port: int = 0

    @classmethod
    def of(cls, url: str) -> Self:
        """Return the origin of a URL.

        Raises:
            UsageError: The URL is malformed, is not `http`, `https` or `file`, or its host is not ASCII.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError as error:
            raise UsageError(f"{url!r:.200} is not a URL") from error
        if parts.scheme == "file":
            return cls("file")
        is_host = _HOST.fullmatch(host) is not None and ("[" in parts.netloc) == (":" in host)
        if parts.scheme not in _PORTS or not is_host or not url.isprintable():
            raise UsageError(f"a page needs http://, https:// or file:/// and an ASCII host, not {url!r:.200}")
        return cls(parts.scheme, host, port or _PORTS[parts.scheme])

    def rules(self) -> list[str]:
        """Return the rules of `--proxy-bypass-list` that allow the origin and its WebSockets."""
        if self.scheme == "file":
            return []
        host = f"[{self.host}]" if ":" in self.host else self.host
        sockets = "wss" if self.scheme == "https" else "ws"
        return [f"{scheme}://{host}:{self.port}" for scheme in (self.scheme, sockets)]


def named(url: str) -> str:
    """Return a URL's origin for a sentence. It is short and contains no text that a page could write for the model."""
    try:
        origin = Origin.of(url)
    except UsageError:
        return "an address that is no website's"
    if origin.scheme == "file":
        return "a file"
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    port = "" if origin.port == _PORTS[origin.scheme] else f":{origin.port}"
    return f"{origin.scheme}://{host[:_MAX_HOST_CHARS]}{port}"


class NowhereElse:
    """The options of a Chromium that can reach only some origins.

    All other requests go to a proxy that does not respond: pages, frames, images, redirects, WebSockets, workers, new
    windows, and the browser's own requests. The filters of DevTools (`Network.setBlockedURLs`) were rejected. Each
    applies to one page only, and comes too late for the first request of a new window.

    A socket that does not listen occupies the proxy's port, so no other program can become the proxy.

    Args:
        origins: The origins to allow.
    """

    def __init__(self, origins: Iterable[Origin]) -> None:
        self._origins = tuple(origins)
        self._taken = socket.socket()
        self._taken.bind(("127.0.0.1", 0))

    def arguments(self) -> list[str]:
        """Return the options for the command line."""
        rules = [rule for origin in self._origins for rule in origin.rules()]
        hosts = sorted({origin.host for origin in self._origins if origin.host})
        unresolved = ["MAP * ~NOTFOUND", *(f"EXCLUDE {host}" for host in hosts)]
        return [
            f"--proxy-server=http://127.0.0.1:{self._taken.getsockname()[1]}",
            # Without `<-loopback>`, the browser would reach every port of this machine.
            f"--proxy-bypass-list={';'.join(['<-loopback>', *rules])}",
            # A name lookup alone already sends data to the name's server, even without a request.
            f"--host-resolver-rules={', '.join(unresolved)}",
            "--disable-quic",
            "--disable-features=HttpsUpgrades,HttpsFirstBalancedModeAutoEnable",  # they request another origin
        ]

    def preferences(self) -> dict[str, object]:
        """Return the preferences for the profile."""
        return {"webrtc.ip_handling_policy": "disable_non_proxied_udp"}  # Chromium ignores the command-line option

    def reaches(self, url: str) -> bool:
        """Return whether a page may have this address: it is of an allowed origin, or such a page made it."""
        if url == "" or url.startswith("about:"):  # a new tab starts there
            return True
        try:
            return Origin.of(url.removeprefix("blob:")) in self._origins
        except UsageError:
            return False

    def close(self) -> None:
        """Free the port. Call it after the browser has ended."""
        self._taken.close()
