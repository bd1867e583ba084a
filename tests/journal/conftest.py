"""The databases that a journal is tested on."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URI of a server of its own.

    It runs as another user, so its folder is not one of pytest: other runs of pytest take the rights for these away.
    """
    pgserver = pytest.importorskip("pgserver")
    pytest.importorskip("psycopg")
    with tempfile.TemporaryDirectory(prefix="eagerstream-", ignore_cleanup_errors=True) as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # there is no XDG_RUNTIME_DIR in containers
            server = pgserver.get_server(Path(folder) / "postgres", cleanup_mode="delete")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


@pytest.fixture
def postgres(postgres_server: str) -> str:
    """The URI of an empty schema."""
    import psycopg

    name = f"journal_{uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True) as owner:
        owner.execute(f"CREATE SCHEMA {name}")
    return f"{postgres_server}&options=-csearch_path%3D{name}"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The place of a new journal: a SQLite file with the quick tests, and PostgreSQL with the slow ones."""
    return str(tmp_path / "runs.db") if request.param == "sqlite" else request.getfixturevalue("postgres")
