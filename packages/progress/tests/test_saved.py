"""Runs in files."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from packages.progress.tests.observed import events_of, recorded, viewed
from tests.support import until
from tests.tables import rows
from tests.written_files import Writer, check_links, check_pipes, check_private, posix

from eagerstream.errors import UsageError
from eagerstream_progress import Record, RunLog, _saved as saved, load_records, record_run, replay, save_records
from eagerstream_progress._merge import merge_records
from eagerstream_progress._watcher import Watcher

SECRET = "sk-ant-api03-abcdefghijklmnop"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file for a run, in a folder of its own."""
    return tmp_path / "run.jsonl"


def state(records: list[Record]) -> Any:
    view = viewed(records)
    return view.status, [(call.name, call.raw, call.partial, call.finished) for call in view.calls]


def test_a_saved_run_is_the_same_run(path: Path) -> None:
    """JSON Lines, out and in."""
    records = recorded(events_of('{"name": "po', 'em.txt", "odd": "\\ud800 é"}'))
    save_records(path, records)
    assert load_records(path) == records
    assert [json.loads(line)["seq"] for line in path.read_text().splitlines()] == list(range(1, len(records) + 1))
    assert list(path.parent.iterdir()) == [path]


def test_secrets_are_masked(path: Path) -> None:
    """Also one that came in several fragments; what is left is JSON, with patches that fit it. On request all is kept."""
    fragments = ['{"key": "sk-ant-api03-', "abcdefgh", 'ijklmnop", "password": "hun', 'ter2", "n": 1}']
    records = recorded(events_of(*fragments))
    save_records(path, records)
    text = path.read_text()
    assert not any(part in text for part in ("abcdefgh", "ijklmnop", "hun", "ter2"))
    _, ((_, raw, partial, finished),) = state(load_records(path))
    assert json.loads(raw) == partial
    assert (partial["n"], finished) == (1, ["key", "password", "n"])
    save_records(path, records, redact=False)
    assert load_records(path) == records


@rows(
    "value",
    [
        {"env": [{"name": "API_KEY", "value": "hunter2"}]},
        {"credentials": {"pw": "hunter2", "pin": 123}},
        {"headers": [["x-api-key", "hunter2"]]},
        {"body": json.dumps({"api_keys": ["hunter2"]})},
    ],
)
def test_inputs_are_masked_by_their_structure(path: Path, value: dict[str, Any]) -> None:
    """As `redact` masks the value; the input is JSON afterwards, and its patches fit it."""
    written = json.dumps(value)
    save_records(path, recorded(events_of(*(written[at : at + 5] for at in range(0, len(written), 5)))))
    _, ((_, raw, partial, _),) = state(load_records(path))
    assert "hunter2" not in raw
    assert json.loads(raw) == partial


@pytest.mark.anyio
async def test_masking_does_not_hold_up_the_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes half a second for each megabyte: a thread does it."""
    threads: list[int] = []
    real = saved.redacted

    def noted(records: Any) -> Any:
        threads.append(threading.get_ident())
        return real(records)

    monkeypatch.setattr(saved, "redacted", noted)
    log = RunLog("run")
    async with anyio.create_task_group() as group:
        group.start_soon(record_run, log, path)
        await anyio.wait_all_tasks_blocked()
        log.append(recorded(events_of('{"a": 1}')))
        log.close()
    assert threads
    assert threading.get_ident() not in threads


@rows(
    "lines, said",
    [
        ([], "does not start with a run"),
        (["{"], "line 1: not a record: not JSON"),
        (["[]"], "line 1: no record of version 1 or 2"),
        (['{"v": 3}'], "line 1: no record of version 1 or 2"),
        (['{"v": 1, "seq": 1, "at_s": 0, "type": "nothing"}'], "line 1: not a record"),
        (['{"v": 1, "seq": 1, "at_s": 0, "type": "turn_start", "turn": 1}'], "does not start with a run"),
        (["", "[" * 100_000], "line 2: not a record"),
        (['{"v": 2, "x": {"$number": "1e5"}}'], "line 1: not a record: not JSON"),
        (['{"v": 1, "seq": 1, "at_s": NaN, "type": "turn_start", "turn": 1}'], "line 1: not a record: not JSON"),
        (['{"v": 1, "seq": 1, "at_s": 1e999, "type": "turn_start", "turn": 1}'], "line 1: not a record: not JSON"),
    ],
)
def test_what_is_no_saved_run(path: Path, lines: list[str], said: str) -> None:
    """Told with the number of the line."""
    path.write_text("\n".join(lines))
    with pytest.raises(UsageError, match=said):
        load_records(path)


def _delta(patch: Any = (), **fields: Any) -> dict[str, Any]:
    return {"type": "input_delta", "block": 1, "fragment": "x", "patch": [*patch], "finished": [], **fields}


def _op(path: str, value: Any = 1) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def _deep(levels: int) -> Any:
    return json.loads("[" * levels + "]" * levels)


INPUT = {"type": "input_start", "block": 1, "index": 0, "id": "a", "name": "b", "kind": "tool_use", "input": None}


@rows(
    "records, said",
    [
        ([_delta([_op("/a")])], "does not fit"),
        ([_delta([{"op": "append", "path": "", "value": "x"}])], "does not fit"),
        ([_delta([_op("", [1])])], "not an object"),
        ([_delta([_op("", {"a": _deep(600)})])], "too deep"),
        ([_delta([_op("", {}), *(_op("/a" * n, {}) for n in range(1, 600))])], "too deep"),
        ([INPUT, INPUT], "a second time"),
        ([INPUT, {"type": "text_delta", "block": 1, "text": "x"}], "another kind"),
        ([{"type": "text_delta", "block": 1, "text": "x"}, _delta()], "another kind"),
        ([_delta(omitted_chars=-1)], "out of range"),
        ([_delta(to_seq=2**60)], "out of range"),
        ([_delta(at_s=float("nan"))], "not JSON"),
        ([_delta(at_s=1e300)], "its time is out of range"),
        ([{"type": "tool_progress", "block": 1, "value": float("inf")}], "not JSON"),
    ],
)
def test_records_that_nobody_could_show(path: Path, records: list[dict[str, Any]], said: str) -> None:
    """Somebody has changed the file: told when it is read, not by whoever is fed with it."""
    start = {"type": "run_start", "run": "a", "started_at": "", "name": None, "model": None}
    lines = [{"v": 1, "seq": seq, "at_s": 0, **record} for seq, record in enumerate([start, *records], 1)]
    path.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(UsageError, match=said):
        load_records(path)


def test_what_was_left_out_can_be_read(path: Path) -> None:
    """A log that had to leave out texts, and went on: what follows does not fit what is there, and need not."""
    records = recorded(events_of('{"body": "', *["x" * 100] * 9, '"}'))
    log = RunLog("run", max_recent=5, max_kept_chars=400)
    log.append(records[:8])
    save_records(path, [*log.records(), *records[8:]])
    again = RunLog("again")
    again.append(load_records(path))
    for told in (load_records(path), again.snapshot().records, merge_records(load_records(path))):
        _, ((_, raw, partial, finished),) = state(told)
        assert (raw, partial, finished) == ("", {}, [])
        assert sum(cast("Any", record).get("omitted_chars", 0) for record in told) > 0


@pytest.mark.anyio
async def test_a_saved_run_can_be_watched_again() -> None:
    """With its timing, or so many times as fast; in the end the log has all of it."""
    records = recorded(events_of('{"a": 1}'))
    for number, record in enumerate(records):
        record["at_s"] = number / 10
    log = RunLog("again")
    start = anyio.current_time()
    await replay(records, log, speed=20)
    assert anyio.current_time() - start >= records[-1]["at_s"] / 20
    assert log.is_closed
    assert log.records() == records
    with pytest.raises(UsageError, match="speed"):
        await replay(records, RunLog("never"), speed=0)


@pytest.mark.anyio
@pytest.mark.parametrize("redact", [True, False])
async def test_a_run_is_saved_while_it_goes_on(path: Path, redact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record as it was, also of a run that is longer than what is kept of it; secrets wait for their last part."""
    records = recorded(events_of('{"key": "sk-ant-', "api03-", "abcdefgh", 'ijklmnop", "n": "', *"abcdefgh", '"}'))
    log = RunLog("run", max_recent=13)
    watchers: list[Watcher] = []
    watch = log.watch

    def watched(**options: Any) -> Watcher:
        watchers.append(watch(**options))
        return watchers[0]

    monkeypatch.setattr(log, "watch", watched)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(record_run, log, path, redact=redact))
        for number, record in enumerate(records):
            if number % 6 == 0:
                await until(lambda: watchers and watchers[0].seq == log.seq)  # however slow the disk is
                assert "ijklmnop" not in path.read_text() or not redact  # noqa: ASYNC240
            log.append([record])
        log.close()
    saved = load_records(path)
    assert [record["seq"] for record in saved] == [record["seq"] for record in records]
    assert (saved == records) is not redact
    assert ("abcdefghijklmnop" in state(saved)[1][0][1]) is not redact
    save_records(path, records, redact=redact)
    assert load_records(path) == saved


@pytest.mark.anyio
async def test_what_was_written_stays(path: Path) -> None:
    """Where the program ends early, the file has what had come until then."""
    log = RunLog("run")
    records = recorded(events_of('{"a": 1}'), ends=False)
    log.append(records)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(record_run, log, path)
        # It is there before the end: the process may be killed at any time.
        await until(lambda: path.exists() and path.stat().st_size and load_records(path) == records)
        tasks.cancel_scope.cancel()
    assert load_records(path) == records


def _grow_run(path: Path) -> None:
    log = RunLog("r")
    log.close()
    anyio.run(record_run, log, path)


@posix
@pytest.mark.parametrize("write", [partial(save_records, records=[]), _grow_run])
@pytest.mark.parametrize("check", [check_private, check_links, check_pipes])
def test_where_runs_are_saved(check: Callable[[Writer, Path], None], write: Writer, tmp_path: Path) -> None:
    """In a private file, and never through a link or over a pipe."""
    check(write, tmp_path)
