"""Requests to an ASGI application in the test's own event loop."""

from __future__ import annotations

from typing import Any

import httpx


def scope_of(path: str = "/", method: str = "POST", **headers: str) -> dict[str, Any]:
    """A request with a JSON body; for tests that decide when its body comes, and when its client leaves."""
    given = {"content-type": "application/json", "host": "localhost"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    return {
        "type": "http",
        "method": method,
        "path": path,
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }


def client_of(app: Any, base_url: str = "http://localhost", **headers: str) -> httpx.AsyncClient:
    """A client of the application, without cookies."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base_url, headers=headers)
