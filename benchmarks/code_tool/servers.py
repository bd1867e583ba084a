"""The servers of the sides: the one that plays the model, and the one that `fetch` asks."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from eagerstream import Recording
from eagerstream_testing import ReplayServer, Scenario, Timing, reply, text, tool_use

from ..streams import padded
from .tasks import CITIES, Call, Task, report

FRAGMENT_CHARS: Final = 8
ANSWER: Final = "Done."


def code_turns(code: str) -> list[Recording]:
    """Return the responses of a model that writes code: one call, then the answer."""
    return [
        padded(reply(tool_use("run_code", {"code": code}, fragment_chars=FRAGMENT_CHARS))),
        padded(reply(text(ANSWER))),
    ]


def call_turns(task: Task, *, together: bool) -> list[Recording]:
    """Return the responses of a model that calls tools.

    Args:
        task: The task.
        together: True for the calls that do not depend on each other in one response, False for one call in each.
    """
    turns: Sequence[Sequence[Call]] = task.turns if together else [[call] for turn in task.turns for call in turn]
    calls = [[tool_use(*call, fragment_chars=FRAGMENT_CHARS) for call in turn] for turn in turns]
    replies = [*(reply(*turn, message_id=f"msg_{number}") for number, turn in enumerate(calls)), reply(text(ANSWER))]
    return [padded(one) for one in replies]


@contextmanager
def model(turns: Sequence[Recording], timing: Timing) -> Iterator[str]:
    """Run a server with these responses. Yield its address."""
    # All sides read the same bytes at the same times.
    with ReplayServer(Scenario(*turns, timing=timing), buffer_inputs=False) as server:
        yield server.base_url


def timing(task: Task) -> Timing:
    """Return the speed of the model for a task."""
    return Timing(tokens_per_second=task.tokens_per_second, first_byte_s=task.first_byte_s)


class _Weather(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        city = self.path.removeprefix("/")
        time.sleep(CITIES[city])
        body = json.dumps(report(city)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Write no lines to stderr."""


@contextmanager
def weather() -> Iterator[str]:
    """Run a server that answers slowly, as other people's servers do. Yield its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Weather) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
