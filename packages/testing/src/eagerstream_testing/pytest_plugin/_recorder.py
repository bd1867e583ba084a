"""`Recorder`: the conversation of a test with the real API, through the recording proxy."""

from __future__ import annotations

import json
import os
import shutil
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any, Final

import pytest

from eagerstream._support.terms import assistant_messages
from eagerstream.errors import UsageError
from eagerstream.recordings import Recording

from .. import ReceivedRequest
from .._received import MAX_REQUESTS
from ..capture import RecordingFolder, RecordingProxy, SavedReply
from ..capture._command import BASE_URL
from ..capture._tape import Tape
from ._conversation import Conversation
from ._recorded import Recorded, keep, new_folder
from ._script import Exchange, Script, digest_of
from ._settings import Settings

_MODEL_PATH: Final = "/v1/messages"


class _NotedFolder(RecordingFolder):
    """A folder that also notes the requests. The proxy's thread begins recordings, and the writer's thread saves them.

    Attributes:
        noted: For each request, its digest and its turn.
        exchanges: The latest requests, with their numbers.
        saved: Number of the request to its response.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, on_saved=self._note_saved)
        self.noted: list[tuple[str, int]] = []
        self.exchanges: deque[tuple[int, Exchange]] = deque(maxlen=MAX_REQUESTS)
        self.saved: dict[int, SavedReply] = {}
        self._began_s = monotonic()

    def begin(self, request: Mapping[str, Any] | bytes, **facts: Any) -> Tape:
        number = len(self.noted) + 1
        body = _parsed(request)
        self.noted.append((digest_of(body, is_masked=True), assistant_messages(body)))
        raw = len(request) if isinstance(request, bytes) else 0
        received = ReceivedRequest(f"request {number}", {}, path=_MODEL_PATH, body=body, complete=body, body_bytes=raw)
        self.exchanges.append((number, Exchange(received, monotonic() - self._began_s, "no response")))
        return super().begin(request, **facts)

    def _note_saved(self, reply: SavedReply) -> None:
        self.saved[int(reply.path.stem)] = reply


class Recorder(Conversation):
    """Passes the requests of a test on to the API, and records its responses.

    They replace earlier recordings when the conversation is closed, if the test has passed. Faults and timing of the
    marker do not apply.

    Raises:
        UsageError: The URL is malformed, or the folder cannot be created.
    """

    def __init__(self, settings: Settings, folder: Path, label: str, upstream: str) -> None:
        super().__init__(settings)
        self._target = folder
        self._label = label
        self._part = new_folder(folder)
        self._folder = _NotedFolder(self._part)
        self._proxy = RecordingProxy(upstream, self._folder)
        self._note = f"not recorded: {label}: the test has not passed"
        self._proxy.start()

    @property
    def base_url(self) -> str:
        return self._proxy.base_url

    def environment(self) -> dict[str, str]:
        keys = {
            name: value for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN") if (value := os.environ.get(name))
        }
        return {BASE_URL: self._proxy.base_url, **keys}

    def requests(self) -> list[ReceivedRequest]:
        return [exchange.request for exchange in self.exchanges()]

    def exchanges(self) -> list[Exchange]:
        self._folder.flush()
        for number, exchange in list(self._folder.exchanges):
            saved = self._folder.saved.get(number)
            if saved is not None and exchange.response is None and saved.path.exists():
                exchange.response = Recording.load(saved.path)
                exchange.reply_name = saved.path.name
                exchange.request.status = saved.status
                exchange.request.disconnected = bool(saved.cut)
                exchange.request.end()
        return [exchange for _, exchange in list(self._folder.exchanges)]

    def script(self) -> Script:
        raise UsageError("a test marked claude(recorded=True) has the recorded responses as its replies")

    def reply_problems(self) -> list[str]:
        return [] if self._folder.noted else [f"no request came to {self.base_url}: nothing is recorded"]

    def notes(self) -> list[str]:
        return [self._note]

    def close(self) -> None:
        self._proxy.close()
        try:
            if self.has_passed:
                self._keep()
        finally:
            shutil.rmtree(self._part, ignore_errors=True)

    def _keep(self) -> None:
        numbers = range(1, len(self._folder.noted) + 1)
        missing = [str(number) for number in numbers if number not in self._folder.saved]
        if missing:
            self._note = f"not recorded: {self._label}: the response to request {', '.join(missing)} is missing"
            pytest.fail(self._note, pytrace=False)
        if not numbers:
            return
        recorded = [
            Recorded(self._folder.saved[number].path.name, turn, messages)
            for number, (messages, turn) in zip(numbers, self._folder.noted, strict=True)
        ]
        keep(self._part, self._target, recorded)
        self._note = f"recorded: {self._label}: {len(recorded)} responses"


def _parsed(request: Mapping[str, Any] | bytes) -> Mapping[str, Any]:
    try:
        body = json.loads(request) if isinstance(request, bytes) else request
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, Mapping) else {}
