"""The databases that a journal is tested on."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URI of a server of its own."""
    pytest.importorskip("pgserver")
    pytest.importorskip("psycopg")
    with running_server() as uri:
        yield uri


@contextmanager
def running_server() -> Iterator[str]:
    """A PostgreSQL server of its own.

    It runs as another user, so its folder is not one of pytest: other runs of pytest take the rights for these away.
    """
    pgserver: Any = import_module("pgserver")  # its types lack what it exports
    with tempfile.TemporaryDirectory(prefix="eagerstream-", ignore_cleanup_errors=True) as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # there is no XDG_RUNTIME_DIR in containers
            server = pgserver.get_server(Path(folder) / "postgres", cleanup_mode="delete")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


def empty_schema(server: str) -> str:
    """Make an empty schema on a server, and return its URI."""
    import psycopg

    name = f"journal_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as owner:
        owner.execute(f"CREATE SCHEMA {name}")
    return f"{server}&options=-csearch_path%3D{name}"


@pytest.fixture
def postgres(postgres_server: str) -> str:
    """The URI of an empty schema."""
    return empty_schema(postgres_server)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The place of a new journal: a SQLite file with the quick tests, and PostgreSQL with the slow ones."""
    return str(tmp_path / "runs.db") if request.param == "sqlite" else request.getfixturevalue("postgres")
