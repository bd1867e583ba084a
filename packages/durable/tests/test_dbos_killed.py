"""Processes with a workflow of DBOS are killed at any moment, and DBOS recovers the run."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from packages.durable.tests.journal.conftest import postgres_server  # noqa: F401 - a fixture
from tests import sampling
from tests.reliability.killed_world import UNKNOWN, Effects, broken_laws, results_of
from tests.reliability.killing_runs import model_server
from tests.source_tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_MOST_KILLS = 8


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new database of DBOS."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'dbos.db'}"
    import psycopg

    server: str = request.getfixturevalue("postgres_server")
    name = f"dbos_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as owner:
        owner.execute(f"CREATE DATABASE {name}")
    return server.replace("/postgres?", f"/{name}?")


def _decide(database: str, run: str, is_over: threading.Event) -> None:
    """Approve each call that waits, as another process does."""
    from dbos import DBOSClient

    client = DBOSClient(system_database_url=database)
    decided: set[str] = set()
    while not is_over.wait(0.1):
        try:
            facts = client.get_event(run, "eagerstream", timeout_seconds=0)
        except Exception:
            continue  # its tables are not there yet
        for asked in (facts or {}).get("approvals", []):
            if asked["call"] not in decided:
                decided.add(asked["call"])
                message = {"kind": "decision", "call": asked["call"], "decision": True}
                client.send(run, message, "eagerstream", idempotency_key=asked["call"])
    client.destroy()


def test_killed_anywhere(tmp_path: Path, database: str) -> None:
    """Each effect at most once, each result once in the history, and the workflow ends."""
    from dbos import DBOSClient

    run, random = "dbos", Random(sampling.SEED)
    path = tmp_path / "effects.db"
    effects = Effects(path)
    is_over = threading.Event()
    kills = 0
    with model_server() as (server, model):
        decider = threading.Thread(target=_decide, args=(database, run, is_over))
        decider.start()
        try:
            while True:
                arguments = [database, str(path), server.base_url, run]
                command = [sys.executable, "-m", "packages.durable.tests.dbos_child", *arguments]
                with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
                    assert child.stdout is not None
                    child.stdout.readline()
                    try:
                        _, said = child.communicate(timeout=random.random() if kills < _MOST_KILLS else 120)
                    except subprocess.TimeoutExpired:
                        child.kill()
                        child.communicate()
                        kills += 1
                        continue
                    assert child.returncode == 0, said.decode()
                    break
        finally:
            is_over.set()
            decider.join()
        client = DBOSClient(system_database_url=database)
        messages: Any = client.retrieve_workflow(run).get_result()
        steps = [step["function_name"] for step in client.list_workflow_steps(run)]
        client.destroy()
    assert kills
    assert model.faults == []
    assert broken_laws(run, effects, messages, set()) == []
    assert len({id for _, id, _ in results_of(messages)}) == len(results_of(messages))
    assert steps.count("eagerstream: begin") == 1
    assert effects.of(run, "later")[-1][0] == "Done."
    told = [text for _, _, text in results_of(messages)]
    print(f"{kills} kills, {len(told)} results, {sum(UNKNOWN in text for text in told)} unknown, {len(steps)} steps")
    effects.close()
