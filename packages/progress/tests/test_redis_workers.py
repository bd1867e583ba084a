"""Four workers of uvicorn with fifty runs, each of which somebody watches, while a worker and Redis are killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from packages.progress.tests.redis_server import RedisServer
from packages.progress.tests.worker_app import FRAGMENTS, PAUSE_S, TOKEN, words
from tests.node import need_packages
from tests.source_tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

RUNS = 50
GONE_S = float(os.environ.get("REDIS_GONE_S", "3"))
"""Seconds for which Redis is gone."""


_FACTS = ("missing", "twice", "snapshots", "lostConnections", "isLost", "end", "status")


class Workers:
    """uvicorn with four workers. Each request comes to any of them."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Ask a worker; another one if that is not there any more."""
        headers = {"authorization": f"Bearer {TOKEN}"}
        for _ in range(600):
            try:
                return httpx.request(method, self.url + path, headers=headers, timeout=30, **options)
            except httpx.TransportError:
                time.sleep(0.1)
        raise AssertionError("no worker answers")


@contextmanager
def workers(redis: RedisServer) -> Iterator[Workers]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "packages.progress.tests.worker_app:app", "--factory"]
    path = os.pathsep.join(each for each in sys.path if each)
    started = subprocess.Popen(
        [*command, "--workers", "4", "--port", str(port), "--log-level", "warning"],
        env={**os.environ, "REDIS_URL": redis.url, "PYTHONPATH": path},
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        made = Workers(port)
        pids: set[int] = set()
        while len(pids) < 4:
            pids.add(made.ask("GET", "/pid").json())
        yield made
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def test_what_watchers_see(tmp_path: Path) -> None:
    """A run whose worker is killed is shown as lost, with all that had come. All others are complete, without a gap."""
    need_packages()
    with RedisServer(tmp_path) as redis, workers(redis) as several:
        owners: dict[str, int] = {}
        while len(owners) < RUNS or len(set(owners.values())) < 4:
            begun = several.ask("POST", "/start?count=5").json()
            owners |= dict.fromkeys(begun["runs"], begun["pid"])
        begun_s = time.monotonic()
        watching = subprocess.Popen(
            ["node", "packages/progress/tests/clients/watch_many.mjs", f"{several.url}/watch", TOKEN],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert watching.stdin is not None
        assert watching.stdout is not None
        watching.stdin.write(json.dumps(list(owners)))
        watching.stdin.close()

        time.sleep(FRAGMENTS * PAUSE_S / 4)
        killed, _ = Counter(owners.values()).most_common()[0]
        os.kill(killed, signal.SIGKILL)
        killed_s = time.time()
        time.sleep(FRAGMENTS * PAUSE_S / 4)
        redis.kill()
        time.sleep(GONE_S)
        redis.start()
        lost = {run for run, pid in owners.items() if pid == killed}
        decided: dict[str, bool] = {}
        while len(decided) < len(owners) - len(lost):
            assert time.monotonic() < begun_s + 60 + 2 * FRAGMENTS * PAUSE_S, (
                f"{len(decided)} of {len(owners) - len(lost)} runs ask"
            )
            for number, run in enumerate(sorted(owners.keys() - lost - decided.keys())):
                answer = several.ask(
                    "POST", f"/watch/runs/{run}/decide", json={"block": 1, "approved": number % 3 != 0}
                )
                assert answer.status_code in (204, 409, 503), answer.text  # 409: it does not ask yet
                if answer.status_code == 204:
                    decided[run] = number % 3 != 0
            time.sleep(0.2)
        time.sleep(5)  # for the ends of the runs
        watching.terminate()
        with watching:
            output = watching.stdout.read()
    seen = {each["id"]: each for each in json.loads(output)}
    assert seen.keys() == owners.keys()
    for name, runs in (("of the killed worker", lost), ("of the others", owners.keys() - lost)):
        of_runs = [seen[run] for run in runs]
        print(f"{len(runs)} runs {name}:", {fact: sorted({each[fact] for each in of_runs}, key=str) for fact in _FACTS})
    for run in owners.keys() - lost:
        each = seen[run]
        assert (each["missing"], each["twice"]) == (0, 0)
        assert each["content"] == words()
        assert (each["end"], each["status"], each["approved"]) == ("end", "completed", decided[run])
    for run in lost:
        each = seen[run]
        assert (each["missing"], each["twice"]) == (0, 0)
        assert words().startswith(each["content"])
        assert each["content"]
        assert (each["end"], each["status"]) == (None, None)
        assert each["isLost"] is not False  # Redis has lost it, and nobody writes it again
        assert 0 < each["lostAtMs"] / 1000 - killed_s < 15
