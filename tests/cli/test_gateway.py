"""The command `gateway`: what it serves, and what it refuses. tests/progress/test_gateway_workers.py serves with it."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest

from eagerstream import MissingExtraError, UsageError
from eagerstream._serving.access import Access
from eagerstream.cli import _gateway
from eagerstream.cli._gateway import WorkerFactory, load_application, serve_gateway
from tests.tables import rows

PROGRAM = """
async def plain(scope, receive, send):
    raise AssertionError(scope["type"])

def make(name="app"):
    return plain

def nothing():
    return None

number = 5
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of the user's, in the folder in which the command runs."""
    (tmp_path / "served_program.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "served_program", raising=False)
    return tmp_path


def serve(target: str, **options: Any) -> None:
    settings: dict[str, Any] = {"workers": 1, "host": "127.0.0.1", "port": 0, "grace_s": 1, "redis_url": None}
    settings |= {"advertised": None, "has_metrics": False, "on_start": print, "hosts": (), "origins": ()}
    serve_gateway(target, **settings | options)


def test_an_application_and_a_function_that_makes_one(program: Path) -> None:
    """The target may be either."""
    application = load_application("served_program:plain")
    assert load_application("served_program:make") is application


@rows(
    "target, words",
    [
        ("served_program:number", "no ASGI application"),
        ("served_program:nothing", "makes no ASGI application"),
        ("served_program:missing", 'Attribute "missing" not found'),
        ("no_such_program:app", "Could not import"),
        ("served_program", "must be in format"),
    ],
)
def test_what_is_no_application(program: Path, target: str, words: str) -> None:
    """What cannot be imported, and what is something else, is told before anything starts."""
    with pytest.raises(UsageError, match=words):
        load_application(target)


@pytest.mark.skipif(sys.platform == "win32", reason="refused there before")
def test_a_url_that_redis_refuses(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same words as with its package, which takes half a CPU second to import."""
    redis: Any = ModuleType("redis.asyncio")
    redis.Redis = Mock()
    redis.Redis.from_url.side_effect = ValueError("Redis URL must specify one of the following schemes")
    monkeypatch.setitem(sys.modules, "redis", ModuleType("redis"))
    monkeypatch.setitem(sys.modules, "redis.asyncio", redis)
    with pytest.raises(UsageError, match="the URL of Redis begins with"):
        serve("served_program:plain", redis_url="http://localhost")


@pytest.mark.skipif(sys.platform == "win32", reason="refused there before")
@rows(
    "options, words",
    [
        ({"redis_url": "redis://localhost", "host": "0.0.0.0"}, "--advertise has to say"),
        ({"redis_url": "redis://localhost", "advertised": "http://here/path"}, "without a path"),
        ({"redis_url": "redis://localhost", "advertised": "ftp://here"}, "without a path"),
    ],
)
def test_machines_that_cannot_find_each_other(options: dict[str, Any], words: str) -> None:
    """Each has to say how the others reach it."""
    with pytest.raises(UsageError, match=words):
        serve("served_program:plain", **options)


def test_an_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named before anything starts."""
    monkeypatch.setattr(_gateway, "find_spec", lambda name: None if name == "prometheus_client" else find_spec(name))
    with pytest.raises(MissingExtraError) as raised:
        serve("served_program:plain")
    assert (raised.value.extra, raised.value.module) == ("gateway", "prometheus_client")


def test_a_password_is_in_no_repr() -> None:
    """A traceback of a worker may have it."""
    factory = WorkerFactory("a:b", None, "redis://:secret@here", "http://here", Access(), has_metrics=False)
    assert "secret" not in repr(factory)
