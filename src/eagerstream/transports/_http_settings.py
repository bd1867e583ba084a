"""The settings of every client that an `HTTPTransport` makes, whichever library it is of."""

from __future__ import annotations

import os
from base64 import b64encode
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from ..errors import UsageError

if TYPE_CHECKING:
    import ssl

CONNECT_TIMEOUT_S: Final = 10.0
# `Limits.idle_timeout_s` bounds reading, not the client. Responses last for minutes, so a long wait for a pooled
# connection does not indicate a fault, and has no bound of its own.

# The same numbers as the anthropic package's own clients.
MAX_CONNECTIONS: Final = 1_000
MAX_IDLE_CONNECTIONS: Final = 100
IDLE_CONNECTION_S: Final = 5.0
"""Seconds for which an unused connection stays open."""


def tls_context() -> ssl.SSLContext:
    """Return the context of the process: with `SSL_CERT_FILE` or `SSL_CERT_DIR`, else the certificates of certifi.

    It blocks for up to 0.1 s.

    Raises:
        UsageError: `SSL_CERT_FILE` has no certificates.
    """
    import ssl

    # Each library has another default: certifi, the system's store, or either by platform.
    if file := os.environ.get("SSL_CERT_FILE"):
        try:
            return ssl.create_default_context(cafile=file)
        except OSError as error:  # also that of TLS
            raise UsageError(f"SSL_CERT_FILE names {file}, which cannot be used: {error.strerror or error}") from error
    if folder := os.environ.get("SSL_CERT_DIR"):
        return ssl.create_default_context(capath=folder)
    import certifi

    return ssl.create_default_context(cafile=certifi.where())


def proxy_for(url: str) -> str | None:
    """Return the URL of the proxy for requests to `url`; None if they go straight to it.

    The environment decides (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`, in either case), or the settings of
    macOS and Windows.

    Raises:
        UsageError: It names something that is no URL.
    """
    from urllib.request import getproxies, proxy_bypass  # 20 ms, and not needed before the first request

    # Once for each client. aiohttp's own `trust_env` asks in a thread for each request, ignores `ALL_PROXY`, and sends
    # the passwords of a `.netrc`.
    address = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(address.scheme) or proxies.get("all")
    host = address.hostname or ""
    if not proxy or proxy_bypass(address.netloc) or proxy_bypass(host):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    try:
        parts = urlsplit(proxy)
        if not parts.hostname or parts.port == 0:  # reading the port validates it
            raise ValueError
    except ValueError:  # the URL may have a password: it is not shown
        raise UsageError("the proxy that the environment names is no URL") from None
    return parts.scheme + proxy[len(parts.scheme) :]


def without_password(url: str) -> tuple[str, str | None]:
    """Return the URL without user and password, and the value of the header that carries them, if there are any.

    HTTP clients write URLs as they are into logs and exceptions.
    """
    parts = urlsplit(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    user, _, password = userinfo.partition(":")
    credentials = b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    return parts._replace(netloc=host).geturl(), f"Basic {credentials}"
