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
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from eagerstream.compat.helloagents import ToolErrorCode, ToolResponse, TraceLogger, TraceStatistics
from eagerstream.compat.helloagents._trace import logger as logger_module
from eagerstream.compat.helloagents._trace.writing import Background
from tests.tables import rows


def records(logger: TraceLogger) -> list[dict[str, Any]]:
    """The lines of a trace."""
    return [json.loads(line) for line in logger.jsonl_path.read_text("utf-8").splitlines()]


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
    assert sorted(logger.output_dir.iterdir()) == [logger.html_path, logger.jsonl_path]


def test_files_are_for_their_owner(tmp_path: Path) -> None:
    """They hold what was said."""
    with TraceLogger(tmp_path) as logger:
        assert logger.html_path is not None
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (logger.jsonl_path, logger.html_path)]
    assert modes == [0o600, 0o600]


def test_sessions_of_a_second_keep_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id that is taken is not taken again, and nothing is overwritten."""
    tails = iter(["aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr(secrets, "token_hex", lambda _: next(tails))
    moment = datetime(2025, 1, 18, 14, 30, 52, tzinfo=UTC)
    monkeypatch.setattr(logger_module, "datetime", type("Stopped", (), {"now": staticmethod(lambda _: moment)}))
    with TraceLogger(tmp_path) as first, TraceLogger(tmp_path) as second:
        assert first.session_id == "s-20250118-143052-aaaa"
        assert second.session_id == "s-20250118-143052-bbbb"


def test_a_page_by_default(tmp_path: Path) -> None:
    """HelloAgents writes one for every session; `html=False` leaves it out, also with raw responses."""
    with TraceLogger(tmp_path) as logger:
        assert logger.html_path == logger.jsonl_path.with_suffix(".html")
        assert logger.html_path.exists()
    with TraceLogger(tmp_path, html_include_raw_response=True, html=False) as bare:
        assert bare.html_path is None
        assert not bare.jsonl_path.with_suffix(".html").exists()


def test_names_that_programs_use(tmp_path: Path) -> None:
    """HelloAgents has no public names for the records and the statistics: its programs use private ones."""
    logger = TraceLogger(tmp_path)
    logger.log_event("error", {"message": "line\u2028break sk-ant-api03-AbC_dEf-123"}, step=2)
    (event,) = logger._events
    assert (event["event"], event["step"]) == ("error", 2)
    assert "AbC_dEf" not in event["payload"]["message"]
    assert logger._compute_stats() == logger.stats()
    assert not logger.is_final
    logger.finalize()
    assert logger.is_final
    assert logger._events == [event]


@rows(
    "read",
    [
        lambda logger: logger.stats()["tool_calls"],
        lambda logger: {each["payload"]["tool_name"]: 1 for each in logger._events},
    ],
)
def test_reading_waits_for_earlier_events(
    tmp_path_factory: pytest.TempPathFactory, read: Callable[[TraceLogger], Any]
) -> None:
    """An event that was to be logged soon counts, although the disk is slow."""
    answers = threading.Event()
    with TraceLogger(tmp_path_factory.mktemp("traces")) as logger:
        logger._background.submit(lambda: answers.wait(20))
        logger.log_soon("tool_call", {"tool_name": "search"}, step=1)
        drain = logger._background.drain

        def draining(timeout_s: float) -> bool:
            answers.set()
            return drain(timeout_s)

        logger._background.drain = draining  # type: ignore[method-assign]
        found = read(logger)
        answers.set()
    assert found == {"search": 1}


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """That is told when the logger is made, and not in the middle of a run."""
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        TraceLogger(tmp_path / "file" / "traces")


def test_a_page_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link in its place, say: it is not followed, and what was opened is closed."""
    monkeypatch.setattr(secrets, "token_hex", lambda _: "aaaa")
    moment = datetime(2025, 1, 18, 14, 30, 52, tzinfo=UTC)
    monkeypatch.setattr(logger_module, "datetime", type("Stopped", (), {"now": staticmethod(lambda _: moment)}))
    (tmp_path / "trace-s-20250118-143052-aaaa.html").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        TraceLogger(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_tool_responses_as_they_are(tmp_path: Path) -> None:
    """A response in a payload, or as the payload, is told of by its status, its code and its statistics."""
    response = ToolResponse.error(ToolErrorCode.NOT_FOUND, "nothing there", stats={"time_ms": 3})
    with TraceLogger(tmp_path) as logger:
        logger.log_event("tool_result", {"tool_name": "Read", "result": response})
        logger.log_event("tool_result", response.to_dict())
        one, other = (record["payload"] for record in records(logger))
    assert one["result"] == other == response.to_dict()
    assert (other["status"], other["error"]["code"], other["stats"]) == ("error", "NOT_FOUND", {"time_ms": 3})


@pytest.mark.parametrize("sanitize", [True, False])
def test_secrets(tmp_path: Path, sanitize: bool) -> None:
    """They are masked everywhere, in the page and in the statistics too, unless somebody wants them."""
    secret = "sk-ant-api03-AbC_dEf-123"
    with TraceLogger(tmp_path, sanitize) as logger:
        logger.log_event(f"event {secret}", {"error": {"api_key": "hunter2"}})
        logger.log_event("error", {"message": f"refused {secret}", "error_type": secret})
        logger.log_soon("tool_call", {"tool_name": secret, "args": [secret]})
    assert logger.html_path is not None
    for told in (logger.jsonl_path.read_text(), logger.html_path.read_text(), repr(logger.stats())):
        assert ("AbC_dEf" not in told) is sanitize
    assert ("hunter2" not in logger.jsonl_path.read_text()) is sanitize


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


def test_finalize_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A second time does nothing; what comes later is lost, which is told once, and raises nothing."""
    logger = TraceLogger(tmp_path)
    logger.log_event("session_start", {})
    logger.finalize()
    assert logger.html_path is not None
    before = logger.html_path.read_text()
    logger.finalize()
    with caplog.at_level(logging.WARNING):
        logger.log_event("late", {"text": "private"})
        logger.log_soon("later", {"text": "private"})
        assert logger.stats()["total_steps"] == 0
    assert len(records(logger)) == 1
    assert logger.html_path.read_text() == before
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
        assert logger.stats()["total_steps"] == 99
    told = [(record["payload"]["who"], record["payload"]["turn"]) for record in records(logger)]
    assert sorted(told) == [(number, turn) for number in range(4) for turn in range(100)]
    for number in range(4):  # of each, in its order: `log_event` waits for what was to be logged soon
        assert [turn for who, turn in told if who == number] == list(range(100))


class Full:
    """A disk without any room."""

    def __init__(self) -> None:
        self.tries = 0

    def write(self, text: bytes) -> None:
        self.tries += 1
        raise OSError(28, "No space left on device")

    def close(self) -> None:
        raise OSError(28, "No space left on device")


def test_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is told once, without what was to be written; statistics go on, and nothing is raised."""
    logger = TraceLogger(tmp_path)
    logger._lines._file.close()
    full: Any = Full()
    logger._lines._file = full
    with caplog.at_level(logging.WARNING):
        for step in range(3):
            logger.log_event("tool_call", {"tool_name": "private"}, step=step)
        logger.finalize()
    assert full.tries == 1
    assert logger.stats()["tool_calls"] == {"private": 3}
    assert [record.getMessage() for record in caplog.records] == [
        f"{logger.jsonl_path.name} cannot be written any more: No space left on device"
    ]


def test_a_log_that_is_traced(tmp_path: Path) -> None:
    """A handler that logs events of what is in the log: it does not wait for itself when the log tells of a trace."""
    logger = TraceLogger(tmp_path)

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logger.log_event("log", {"message": record.getMessage()})

    handler = Handler()
    logging.getLogger("eagerstream").addHandler(handler)
    try:
        logger._lines._file.close()
        full: Any = Full()
        logger._lines._file = full
        done = threading.Event()

        def work() -> None:
            logger.log_event("event", {})
            logger.finalize()
            logger.log_event("late", {})
            done.set()

        threading.Thread(target=work, daemon=True).start()
        assert done.wait(20)
    finally:
        logging.getLogger("eagerstream").removeHandler(handler)


# --- the thread that writes -------------------------------------------------------------------------------------------


def test_what_waits_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """Behind a disk that does not answer: no more than so much waits, and who submits never does."""
    answers = threading.Event()
    begun = threading.Event()
    done: list[int] = []
    background = Background(max_waiting=3)

    def stuck() -> None:
        begun.set()
        answers.wait(20)

    background.submit(stuck)
    assert begun.wait(20)
    with caplog.at_level(logging.WARNING):
        for number in range(10):
            background.submit(lambda number=number: done.append(number))  # type: ignore[misc]
    assert not background.drain(0)
    answers.set()
    assert background.drain(20)
    assert done == [0, 1, 2]
    assert len(caplog.records) == 1


def test_work_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """What comes behind it is done, and its text, which may quote a model, is not in the log."""
    done: list[bool] = []
    background = Background()

    def fail() -> None:
        background.drain(20)  # would wait for itself
        raise ValueError("private")

    background.submit(fail)
    background.submit(lambda: done.append(True))
    assert background.drain(20)
    assert done == [True]
    assert "private" not in caplog.text
    assert "ValueError" in caplog.text


def test_payloads_that_end_threads(tmp_path: Path) -> None:
    """One whose code raises `SystemExit` is lost itself, and nothing that comes behind it is."""

    class Hostile:
        def __str__(self) -> str:
            raise SystemExit(3)

    with TraceLogger(tmp_path) as logger:
        logger.log_soon("lost", {"of": Hostile()})
        logger.log_soon("next", {})
    assert [record["event"] for record in records(logger)] == ["next"]


def test_no_more_threads(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """What the system refuses does not reach who only wanted something logged."""
    background = Background()
    done: list[int] = []

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        background.submit(lambda: done.append(1))
        assert background.run(lambda: done.append(0), 20), "who waits for it does it"
    background.submit(lambda: done.append(2))
    assert background.drain(20)
    assert done == [0, 2]
    assert "dropped" in caplog.text


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
            logger.log_soon("in the child", {})
            os._exit(0 if logger._background.drain(20) else 1)
        assert os.waitpid(child, 0)[1] == 0
    logger.finalize()
    assert Counter(record["event"] for record in records(logger)) == {"before": 30, "in the child": 10}


@pytest.mark.slow
def test_the_end_of_the_program(tmp_path: Path) -> None:
    """It waits for what is still to be written, also where nobody finalizes."""
    program = (
        "import sys\n"
        "from eagerstream.compat.helloagents import TraceLogger\n"
        "logger = TraceLogger(sys.argv[1])\n"
        "for number in range(500):\n"
        "    logger.log_soon('event', {'text': 'x' * 1000}, number)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)
    (path,) = tmp_path.glob("*.jsonl")
    assert len(path.read_text("utf-8").splitlines()) == 500


def test_a_stuck_disk_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`finalize` waits for some time only, and says that the trace is not whole."""
    monkeypatch.setattr(logger_module, "_DRAIN_S", 0.01)
    logger = TraceLogger(tmp_path)
    answers, begun = threading.Event(), threading.Event()
    write = logger._lines.write

    def stuck(text: str) -> None:
        begun.set()
        answers.wait(20)
        write(text)

    monkeypatch.setattr(logger._lines, "write", stuck)
    logger.log_soon("event", {})
    assert begun.wait(20)
    logger.finalize()
    assert "stays unfinished" in caplog.text
    assert logger.stats()["model_calls"] == 0
    answers.set()
    assert logger._background.drain(20)
    logger.finalize()
    assert len(records(logger)) == 1


# --- statistics -------------------------------------------------------------------------------------------------------


def test_three_steps(tmp_path: Path) -> None:
    """What HelloAgents counts, as it counts it."""
    with TraceLogger(tmp_path) as logger:
        logger.log_event("session_start", {"agent_name": "a"})
        for step in (1, 2, 3):
            usage = {"total_tokens": 100, "cost": 0.001}
            logger.log_event("model_output", {"content": "", "tool_calls": 1, "usage": usage}, step=step)
            logger.log_event("tool_call", {"tool_name": "search" if step < 3 else "Finish"}, step=step)
        logger.log_event("error", {"error_type": "LLM_ERROR", "message": "down"}, step=3)
        logger.log_event("session_end", {"duration": 1})
        stats = logger.stats()
        start, end = (datetime.fromisoformat(records(logger)[place]["ts"]) for place in (0, -1))
    assert stats["duration_seconds"] == (end - start).total_seconds()
    assert stats["total_cost"] == pytest.approx(0.003)
    assert stats == {
        "total_steps": 3,
        "total_tokens": 300,
        "total_cost": stats["total_cost"],
        "model_calls": 3,
        "tool_calls": {"search": 2, "Finish": 1},
        "errors": [{"step": 3, "type": "LLM_ERROR", "message": "down"}],
        "duration_seconds": stats["duration_seconds"],
    }


def test_statistics_of_a_file(tmp_path: Path) -> None:
    """Counted from the lines they are the same, also those of other writers, whose times have no offset."""
    with TraceLogger(tmp_path) as logger:
        logger.log_event("session_start", {})
        logger.log_event("tool_call", {"tool_name": "search"}, step=2)
        logger.log_event("session_end", {})
    statistics = TraceStatistics()
    for record in records(logger):
        statistics.add(record)
    assert statistics.stats() == logger.stats()
    local = TraceStatistics()
    local.add({"ts": "2025-01-18T14:30:52.5", "event": "session_start"})
    local.add({"ts": "2025-01-18T14:30:54.5", "event": "session_end"})
    assert local.stats()["duration_seconds"] == 2.0


@rows(
    "record",
    [
        {},
        {"event": "model_output", "payload": None},
        {"event": "model_output", "payload": {"usage": [1]}},
        {"event": "model_output", "payload": {"usage": {"total_tokens": "7", "cost": True}}},
        {"event": "model_output", "payload": {"usage": {"total_tokens": float("inf"), "cost": float("nan")}}},
        {"event": "session_start", "ts": "yesterday", "step": "1"},
        {"event": ["tool_call"], "step": True},
    ],
)
def test_odd_records(record: Any) -> None:
    """What has another form counts as nothing: a trace may be anybody's."""
    statistics = TraceStatistics()
    statistics.add(record)
    stats = statistics.stats()
    assert (stats["total_tokens"], stats["total_cost"], stats["total_steps"], stats["duration_seconds"]) == (0, 0, 0, 0)


def test_statistics_are_bounded() -> None:
    """A model that makes up names, and a run that fails for ever: neither fills the memory."""
    statistics = TraceStatistics()
    for number in range(3000):
        statistics.add({"event": "tool_call", "payload": {"tool_name": f"made up {number} {'x' * 500}"}})
        statistics.add({"event": "error", "payload": {}})
    stats = statistics.stats()
    assert sum(stats["tool_calls"].values()) == 3000
    assert len(stats["tool_calls"]) == 1001
    assert max(map(len, stats["tool_calls"])) <= 200
    assert len(stats["errors"]) == 1000
