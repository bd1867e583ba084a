"""The traceback of an error that a run raises: short, with the user's line, and with the cause."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anthropic import AsyncAnthropic

import eagerstream
from eagerstream.errors import APIError, EagerStreamError, UsageError
from eagerstream.recordings import Chunk, Recording
from eagerstream_testing import ReplayServer, Scenario, http_error
from tests.streams import REQUEST
from tests.tables import rows

_HTML = "<!DOCTYPE html>\n<html>\n<head>\n<title>502 Bad\n Gateway</title>" + "<p>hunter2</p>\n" * 200 + "</html>"
_OURS = str(Path(eagerstream.__file__).parent)

Opening = Callable[..., Any]


async def _asked(opening: Opening, base_url: str, **client: Any) -> None:
    async with AsyncAnthropic(**{"base_url": base_url, "api_key": "k", "max_retries": 0, **client}) as api:
        async with opening(api, **REQUEST) as held:
            await held.finish()  # the user's line


async def _iterated(opening: Opening, base_url: str, **client: Any) -> None:
    async with AsyncAnthropic(**{"base_url": base_url, "api_key": "k", "max_retries": 0, **client}) as api:
        async with opening(api, **REQUEST) as held:
            async for _ in held:  # the user's line
                pass


def _run(api: Any, **request: Any) -> Any:
    return eagerstream.run(api, max_restarts=0, **request)


def _traceback_of(program: Any) -> tuple[EagerStreamError, list[str]]:
    with pytest.raises(EagerStreamError) as raised:
        asyncio.run(program)
    return raised.value, "".join(traceback.format_exception(raised.value)).splitlines()


def _own_frames(lines: list[str]) -> int:
    return sum(line.startswith(f'  File "{_OURS}') for line in lines)


@rows("opening", [_run, eagerstream.stream])
@rows("ask", [_asked, _iterated])
def test_a_refused_request(ask: Any, opening: Opening) -> None:
    """A 404: with the client's own exception as its cause."""
    with ReplayServer(Scenario(http_error(404, "not_found_error", "model: claude-x"))) as server:
        error, lines = _traceback_of(ask(opening, server.base_url))
    assert isinstance(error, APIError)
    assert len(lines) <= 40
    assert _own_frames(lines) <= 3
    assert any("# the user's line" in line for line in lines)
    assert any(line.startswith("anthropic.NotFoundError: Error code: 404") for line in lines)
    assert lines[-1].startswith("eagerstream.errors.APIError: model: claude-x (HTTP 404, not_found_error, request ")


@rows("opening", [_run, eagerstream.stream])
def test_a_server_that_is_not_there(opening: Opening) -> None:
    """It is named, without what may be secret in its URL."""
    error, lines = _traceback_of(_asked(opening, "http://user:hunter2@127.0.0.1:9/hunter2"))
    assert isinstance(error, APIError)
    assert len(lines) <= 40
    assert _own_frames(lines) <= 3
    assert any("# the user's line" in line for line in lines)
    assert lines[-1].endswith("(http://127.0.0.1:9)")
    assert "hunter2" not in str(error)


@rows("opening", [_run, eagerstream.stream])
def test_without_a_key(opening: Opening) -> None:
    """Told where the run is entered, with what to do; the request's own headers, or credentials, are a key as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ANTHROPIC_API_KEY", raising=False)
        patch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
        error, lines = _traceback_of(_asked(opening, "http://127.0.0.1:9", api_key=None))
        assert isinstance(error, UsageError)
        assert len(lines) <= 40
        assert "ANTHROPIC_API_KEY" in lines[-1]
        assert "eagerstream serve --script" in lines[-1]
        headers = {"Authorization": "Bearer t"}
        for client in ({"default_headers": headers}, {"auth_token": "t"}):
            error, _ = _traceback_of(_asked(opening, "http://127.0.0.1:9", api_key=None, **client))
            assert "could not be reached" in str(error)

        def with_header(api: Any, **request: Any) -> Any:
            return opening(api, extra_headers=headers, **request)

        error, _ = _traceback_of(_asked(with_header, "http://127.0.0.1:9", api_key=None))
        assert "no key" not in str(error)


@rows("opening", [_run, eagerstream.stream])
def test_a_page_of_html(opening: Opening) -> None:
    """One line of it."""
    page = Recording((Chunk(0.0, _HTML.encode()),), 502, {"content-type": "text/html"})
    with ReplayServer(Scenario(page)) as server:
        error, lines = _traceback_of(_asked(opening, server.base_url))
    assert len(lines) <= 40
    assert str(error).startswith("a page of HTML: 502 Bad Gateway (HTTP 502")
    assert "hunter2" not in "\n".join(lines)


def test_an_error_of_the_user_s_code() -> None:
    """It keeps all of its places: an exception that `next_request` raises, even one of ours."""

    def look(request: Any, turn: int) -> None:
        raise UsageError("not today")

    def opening(api: Any, **request: Any) -> Any:
        return eagerstream.run(api, next_request=look, **request)

    _, lines = _traceback_of(_asked(opening, "http://127.0.0.1:9"))
    assert any(line.endswith("in look") for line in lines)
