"""The databases that a journal is tested on."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of a server of its own."""
    pgserver = pytest.importorskip("pgserver")
    pytest.importorskip("psycopg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there is no XDG_RUNTIME_DIR in containers
        server = pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="delete")
        uri = server.get_uri()
    try:
        yield uri
    finally:
        server.cleanup()


@pytest.fixture
def postgres(postgres_server: str) -> Iterator[str]:
    """The URI of an empty database."""
    import psycopg

    name = f"journal_{uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True) as owner:
        owner.execute(f"CREATE DATABASE {name}")
    yield postgres_server.replace("/postgres?", f"/{name}?")
    with psycopg.connect(postgres_server, autocommit=True) as owner:
        owner.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The place of a new journal: a SQLite file with the quick tests, and PostgreSQL with the slow ones."""
    return str(tmp_path / "runs.db") if request.param == "sqlite" else request.getfixturevalue("postgres")
