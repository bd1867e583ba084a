"""How a browser is kept at a few origins: by its own proxy settings, which hold for all that it does."""

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
"""Of a name that could be looked up (RFC 1035)."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port of a URL (RFC 6454); of `file:`, the scheme alone."""

    scheme: str
    host: str = ""
    port: int = 0

    @classmethod
    def of(cls, url: str) -> Self:
        """The origin that a URL belongs to.

        Raises:
            UsageError: It is none of `http`, `https` or `file`, or its host is not written in ASCII.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError as error:
            raise UsageError(f"{url!r:.200} is no URL") from error
        if parts.scheme == "file":
            return cls("file")
        is_host = _HOST.fullmatch(host) is not None and ("[" in parts.netloc) == (":" in host)
        if parts.scheme not in _PORTS or not is_host or not url.isprintable():
            raise UsageError(f"a page is at http://, https:// or file:///, with its host in ASCII, not at {url!r:.200}")
        return cls(parts.scheme, host, port or _PORTS[parts.scheme])

    def rules(self) -> list[str]:
        """The rules of `--proxy-bypass-list` by which it is reached without the proxy; its WebSockets, too."""
        if self.scheme == "file":
            return []
        host = f"[{self.host}]" if ":" in self.host else self.host
        sockets = "wss" if self.scheme == "https" else "ws"
        return [f"{scheme}://{host}:{self.port}" for scheme in (self.scheme, sockets)]


def named(url: str) -> str:
    """The origin of any URL for a sentence: short, with nothing in it that a page could have put there to be read."""
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
    """The options of a Chromium that reaches some origins, and nothing else.

    Whatever is not for one of them goes to a proxy that does not answer: pages, frames, images, redirects, WebSockets,
    workers, new windows, and what the browser does of its own. The filters of DevTools (`Network.setBlockedURLs`) would
    hold for one page each, and come too late for the first request of a new window.

    The proxy's port is taken by a socket that does not listen, so that no other program can be the proxy.

    Args:
        origins: What is reached.
    """

    def __init__(self, origins: Iterable[Origin]) -> None:
        self._origins = tuple(origins)
        self._taken = socket.socket()
        self._taken.bind(("127.0.0.1", 0))

    def arguments(self) -> list[str]:
        """For the command line."""
        rules = [rule for origin in self._origins for rule in origin.rules()]
        hosts = sorted({origin.host for origin in self._origins if origin.host})
        unresolved = ["MAP * ~NOTFOUND", *(f"EXCLUDE {host}" for host in hosts)]
        return [
            f"--proxy-server=http://127.0.0.1:{self._taken.getsockname()[1]}",
            # Without `<-loopback>`, every port of this machine would be reached.
            f"--proxy-bypass-list={';'.join(['<-loopback>', *rules])}",
            # Names can be looked up without a request to follow, and tell whoever answers for them.
            f"--host-resolver-rules={', '.join(unresolved)}",
            "--disable-quic",
            "--disable-features=HttpsUpgrades,HttpsFirstBalancedModeAutoEnable",  # to an origin that was not asked for
        ]

    def preferences(self) -> dict[str, object]:
        """For the profile."""
        return {"webrtc.ip_handling_policy": "disable_non_proxied_udp"}  # as an option, it is not heeded

    def reaches(self, url: str) -> bool:
        """A page with this address can be there: it is of one of the origins, or made by one of their pages."""
        if url == "" or url.startswith("about:"):  # a new tab, at first
            return True
        try:
            return Origin.of(url.removeprefix("blob:")) in self._origins
        except UsageError:
            return False

    def close(self) -> None:
        """Let the port go, once the browser has ended."""
        self._taken.close()
