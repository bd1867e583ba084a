"""`TraceLogger`: its files, what it does when they fail, and what several threads write."""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import signal
import stat
import subprocess
import sys
import threading
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from packages.compat.tests.helloagents.tools import records

from eagerstream_compat.helloagents import ToolErrorCode, ToolResponse, TraceLogger, _trace


def test_a_session(tmp_path: Path) -> None:
    """An id and a file of their own; each event is in it at once, as a line with these keys."""
    logger = TraceLogger(output_dir=tmp_path / "memory" / "traces")
    assert re.fullmatch(r"s-\d{8}-\d{6}-[0-9a-f]{4}", logger.session_id)
    assert logger.jsonl_path == tmp_path / "memory" / "traces" / f"trace-{logger.session_id}.jsonl"
    begin = datetime.now(UTC)
    logger.log_event("session_start", {"agent_name": "小明"})
    logger.log_event("tool_call", {"tool_name": "Calculator"}, step=1)
    first, second = records(logger)
    assert list(first) == ["ts", "session_id", "step", "event", "payload"]
    moment = datetime.fromisoformat(first["ts"])
    assert moment.utcoffset() is not None
    assert begin <= moment <= datetime.now(UTC)
    assert (first["session_id"], first["step"], first["event"]) == (logger.session_id, None, "session_start")
    assert first["payload"] == {"agent_name": "小明"}
    assert (second["step"], second["event"]) == (1, "tool_call")
    assert "小明" in logger.jsonl_path.read_text("utf-8")
    logger.finalize()
    assert list(logger.output_dir.iterdir()) == [logger.jsonl_path]
    assert stat.S_IMODE(logger.jsonl_path.stat().st_mode) == 0o600  # it holds what was said


def test_sessions_of_a_second_keep_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id that is taken is not taken again, and nothing is overwritten."""
    tails = iter(["aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr(secrets, "token_hex", lambda _: next(tails))
    moment = datetime(2025, 1, 18, 14, 30, 52, tzinfo=UTC)
    monkeypatch.setattr(_trace, "datetime", type("Stopped", (), {"now": staticmethod(lambda _: moment)}))
    with TraceLogger(tmp_path) as first, TraceLogger(tmp_path) as second:
        assert first.session_id == "s-20250118-143052-aaaa"
        assert second.session_id == "s-20250118-143052-bbbb"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """That is told when the logger is made, and not in the middle of a run."""
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        TraceLogger(tmp_path / "file" / "traces")


def test_tool_responses_as_they_are(tmp_path: Path) -> None:
    """A response in a payload, or as the payload, is told of by its status, its code and its statistics."""
    response = ToolResponse.error(ToolErrorCode.NOT_FOUND, "nothing there", stats={"time_ms": 3})
    with TraceLogger(tmp_path) as logger:
        logger.log_event("tool_result", {"tool_name": "Read", "result": response})
        logger.log_event("tool_result", response.to_dict())
        one, other = (record["payload"] for record in records(logger))
    assert one["result"] == other == response.to_dict()
    assert (other["status"], other["error"]["code"], other["stats"]) == ("error", "NOT_FOUND", {"time_ms": 3})


def test_an_exception_is_logged_and_goes_on(tmp_path: Path) -> None:
    """With its stack, and before the files are closed."""
    with pytest.raises(ValueError, match="the reason"), TraceLogger(tmp_path) as logger:
        raise ValueError("the reason")
    (record,) = records(logger)
    assert record["event"] == "error"
    assert (record["payload"]["error_type"], record["payload"]["message"]) == ("ValueError", "the reason")
    assert "test_an_exception_is_logged_and_goes_on" in record["payload"]["stacktrace"]


def test_an_exception_that_cannot_be_shown(tmp_path: Path) -> None:
    """Its own code fails: it is logged all the same, and comes out as it is."""

    class Rude(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError("no")

    with pytest.raises(Rude), TraceLogger(tmp_path) as logger:
        raise Rude
    (record,) = records(logger)
    assert (record["payload"]["error_type"], record["payload"]["message"]) == ("Rude", "<Rude>")


@pytest.mark.parametrize("sanitize", [True, False])
def test_secrets(tmp_path: Path, sanitize: bool) -> None:
    """They are masked everywhere, unless somebody wants them."""
    secret = "sk-ant-api03-AbC_dEf-123"
    with TraceLogger(tmp_path, sanitize) as logger:
        logger.log_event(f"event {secret}", {"error": {"api_key": "hunter2"}})
        logger.log_soon("tool_call", {"tool_name": secret, "args": [secret]})
    told = logger.jsonl_path.read_text()
    assert ("AbC_dEf" not in told) is sanitize
    assert ("hunter2" not in told) is sanitize


def test_finalize_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A second time does nothing; what comes later is lost, which is told once, and raises nothing."""
    logger = TraceLogger(tmp_path)
    logger.log_event("session_start", {})
    logger.finalize()
    logger.finalize()
    with caplog.at_level(logging.WARNING):
        logger.log_event("late", {"text": "private"})
        logger.log_soon("later", {"text": "private"})
    assert len(records(logger)) == 1
    assert [record.getMessage() for record in caplog.records] == [
        f"{logger.jsonl_path.name} is final: events logged now are lost"
    ]


@pytest.mark.slow
def test_many_threads(tmp_path: Path) -> None:
    """Every line is whole, and none is lost."""
    with TraceLogger(tmp_path) as logger:

        def work(number: int) -> None:
            for turn in range(100):
                (logger.log_event if turn % 2 else logger.log_soon)("event", {"who": number, "turn": turn}, step=turn)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    told = [(record["payload"]["who"], record["payload"]["turn"]) for record in records(logger)]
    assert sorted(told) == [(number, turn) for number in range(4) for turn in range(100)]
    for number in range(4):  # of each, in its order: `log_event` waits for what was to be logged soon
        assert [turn for who, turn in told if who == number] == list(range(100))


class Disk:
    """A file on a disk that is full, or that does not answer."""

    def __init__(self, answers: threading.Event | None = None) -> None:
        self.closed = False
        self.begun = threading.Event()
        self.lines: list[bytes] = []
        self._answers = answers

    def write(self, text: memoryview) -> int:
        self.begun.set()
        if self._answers is None:
            self.lines.append(bytes(text))
            raise OSError(28, "No space left on device")
        assert self._answers.wait(20)
        self.lines.append(bytes(text[:7]))  # a system may write a part
        return len(text[:7])

    def close(self) -> None:
        self.closed = True


def on_disk(logger: TraceLogger, disk: Disk) -> None:
    logger._file.close()
    logger._file = disk  # type: ignore[assignment]


def test_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is told once, without what was to be written; nothing is raised, and nothing is tried again."""
    logger, disk = TraceLogger(tmp_path), Disk()
    on_disk(logger, disk)
    for step in range(3):
        logger.log_event("tool_call", {"tool_name": "private"}, step=step)
    logger.finalize()
    assert len(disk.lines) == 1
    assert [record.getMessage() for record in caplog.records] == [
        f"{logger.jsonl_path.name} cannot be written any more: No space left on device"
    ]


# --- the thread that writes -------------------------------------------------------------------------------------------


def test_a_disk_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Only so many events wait for it, and their caller waits for some time only. Then the file has whole lines."""
    monkeypatch.setattr(_trace, "_WAIT_S", 0.01)
    monkeypatch.setattr(_trace, "MAX_WAITING", 4)
    answers = threading.Event()
    logger, disk = TraceLogger(tmp_path), Disk(answers)
    on_disk(logger, disk)
    logger.log_event("event", {}, step=0)
    assert disk.begun.wait(20)
    for step in range(1, 3):
        logger.log_soon("event", {}, step=step)
    logger.finalize()
    logger.log_soon("event", {}, step=9)
    assert [record.getMessage().removeprefix(logger.jsonl_path.name) for record in caplog.records] == [
        " stays unfinished: it cannot be written",
        " is final: events logged now are lost",
    ]
    answers.set()
    logger._writer.shutdown(wait=True)
    assert [json.loads(line)["step"] for line in b"".join(disk.lines).splitlines()] == [0, 1, 2]
    assert disk.closed


def test_too_many_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Behind a disk that does not answer, further events are dropped. That is told once."""
    monkeypatch.setattr(_trace, "MAX_WAITING", 2)
    answers = threading.Event()
    logger, disk = TraceLogger(tmp_path), Disk(answers)
    on_disk(logger, disk)
    for step in range(9):
        logger.log_soon("event", {}, step=step)
    answers.set()
    logger._writer.shutdown(wait=True)
    assert len(b"".join(disk.lines).splitlines()) == 2
    assert [record.getMessage() for record in caplog.records] == [
        "a trace is written too slowly: some of its events are dropped"
    ]


def test_no_more_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the system refuses one, the caller writes the event, once."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    logger = TraceLogger(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        logger.log_event("first", {})
    logger.log_event("second", {})
    logger.finalize()
    assert [record["event"] for record in records(logger)] == ["first", "second"]


def test_payloads_that_end_threads(tmp_path: Path) -> None:
    """One whose code raises `SystemExit` does not end the thread."""

    class Hostile:
        def __str__(self) -> str:
            raise SystemExit(3)

    with TraceLogger(tmp_path) as logger:
        logger.log_soon("event", {"of": Hostile()})
        logger.log_soon("next", {})
    assert [record["payload"] for record in records(logger)] == [{"of": "<Hostile>"}, {}]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of threads that do not go on: what this is about
def test_a_forked_process(tmp_path: Path) -> None:
    """It has no thread that writes, maybe the locks that this held: it goes on, and nothing is written twice."""
    logger = TraceLogger(tmp_path)
    for _ in range(10):
        for _ in range(3):
            logger.log_soon("before", {})
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # nobody else ends it
            logger.log_event("in the child", {})
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    logger.finalize()
    assert Counter(record["event"] for record in records(logger)) == {"before": 30, "in the child": 10}


@pytest.mark.slow
def test_the_end_of_the_program(tmp_path: Path) -> None:
    """It waits for what is still to be written, also where nobody finalizes. Even later, events are written at once."""
    program = (
        "import atexit, sys\n"
        "from eagerstream_compat.helloagents import TraceLogger\n"
        "logger = TraceLogger(sys.argv[1])\n"
        "for number in range(500):\n"
        "    logger.log_soon('event', {'text': 'x' * 1000}, number)\n"
        "atexit.register(logger.log_event, 'event', {})\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)
    (path,) = tmp_path.glob("*.jsonl")
    assert len(path.read_text("utf-8").splitlines()) == 501
