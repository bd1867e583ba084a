"""One run, many watchers."""

from __future__ import annotations

import gc
import json
import threading
from functools import partial
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, strategies as st
from packages.progress.tests.made_log import add
from packages.progress.tests.observed import events_of, recorded, viewed
from packages.wire.tests.json_texts import documents
from tests.streams import cut_at, written
from tests.support import until

from eagerstream.errors import UsageError
from eagerstream_progress import Record, RunLog, WatcherDropped, _merge as merge
from eagerstream_progress._log import Batch
from eagerstream_progress._merge import MergedRecords, in_parts, merge_records
from eagerstream_progress._notifier import Notifier

FRAGMENTS = ['{"name": "po', "em.t", 'xt", "lines": ["one', '", "tw', 'o"], "n": 1', "2}"]
pytestmark = pytest.mark.anyio


def poem() -> list[Record]:
    return recorded(events_of(*FRAGMENTS))


def state(records: list[Record]) -> Any:
    """What records tell of a run, written down."""
    view = viewed(records)
    calls = [
        (call.id, call.phase, call.raw, written(call.partial), call.finished, call.fragments) for call in view.calls
    ]
    return view.status, view.text, calls


async def collect(log: RunLog, batches: list[Batch], **settings: Any) -> None:
    async with log.watch(**settings) as watcher:
        async for batch in watcher:
            batches.append(batch)


def known(batches: list[Batch]) -> list[Record]:
    """What a watcher knows after its batches."""
    records: list[Record] = []
    for batch in batches:
        records = [*([] if batch.is_snapshot else records), *batch.records]
    return records


async def test_whoever_comes_late_knows_the_same() -> None:
    """All that was missed comes as one snapshot, then the rest; in the end everybody has the same state."""
    for joins_at, min_interval_s in [*((at, 0) for at in (0, 1, 5, 8, 100)), (1, 0.05), (5, 0.001), (100, 0.05)]:
        case = (joins_at, min_interval_s)
        records = poem()
        log = RunLog("run")
        batches: list[Batch] = []
        async with anyio.create_task_group() as tasks:
            for number, record in enumerate(records):
                if number == joins_at:
                    tasks.start_soon(partial(collect, log, batches, min_interval_s=min_interval_s))
                log.append([record])
                await anyio.sleep(0.002)
            log.close()
            if joins_at >= len(records):
                tasks.start_soon(partial(collect, log, batches, min_interval_s=min_interval_s))
        assert state(known(batches)) == state(records), case
        assert [batch.is_snapshot for batch in batches] == [True] + [False] * (len(batches) - 1), case
        assert batches[-1].seq == log.seq == len(records), case
        assert json.loads(batches[0].json) == {"snapshot": True, "records": batches[0].records}, case


async def test_a_dropped_connection_misses_nothing() -> None:
    """Whoever comes again with the number of the last batch gets what came after it, and no snapshot."""
    records = poem()
    log = RunLog("run")
    log.append(records[:6])
    batches: list[Batch] = []
    for count, more in enumerate((records[6:8], records[8:], []), 1):
        async with anyio.create_task_group() as tasks:
            after = batches[-1].seq if batches else 0
            tasks.start_soon(partial(collect, log, batches, after=after, min_interval_s=0))
            await until(lambda: len(batches) == count)  # noqa: B023  # awaited in the loop
            tasks.cancel_scope.cancel()
        log.append(more)
    log.close()
    await collect(log, batches, after=batches[-1].seq, min_interval_s=0)
    assert [batch.is_snapshot for batch in batches] == [True, False, False]
    assert state(known(batches)) == state(records)


async def test_coming_again_too_late_gives_a_snapshot() -> None:
    """What is no longer kept as it was is there merged; so it is where the number is of another log."""
    records = poem()
    for after in (2, 999):
        log = RunLog("run", max_recent=3)
        log.append(records)
        log.close()
        batches: list[Batch] = []
        await collect(log, batches, after=after)
        assert [batch.is_snapshot for batch in batches] == [True]
        assert state(known(batches)) == state(records)
        assert state(log.records()) == state(records)


async def test_a_watcher_that_does_not_read_is_dropped() -> None:
    """It is told so, and can come again; nobody waits for it, and nothing is kept for it."""
    records = poem()
    log = RunLog("run", max_recent=3)
    log.append(records[:2])
    async with log.watch(min_interval_s=0) as watcher:
        first = await anext(watcher)
        for record in records[2:]:
            log.append([record])
        with pytest.raises(WatcherDropped, match="max_recent"):
            await anext(watcher)
    assert first.is_snapshot
    assert not log._notifiers


async def test_deltas_wait_for_others_and_nothing_else_does() -> None:
    """Within the interval fragments become one record; the end of an input does not wait for it."""
    records = poem()
    log = RunLog("run")
    start = anyio.current_time()
    async with log.watch(min_interval_s=30) as watcher:
        log.append(records[:4])
        await anext(watcher)
        for record in records[4:]:
            log.append([record])
        batch = await anext(watcher)
    assert anyio.current_time() - start < 10
    deltas = [cast("Any", record) for record in batch.records if record["type"] == "input_delta"]
    assert len(deltas) == 1
    assert deltas[0]["to_seq"] > deltas[0]["seq"]
    assert deltas[0]["count"] == sum(record["type"] == "input_delta" for record in records[4:])


async def test_many_deltas_do_not_wait() -> None:
    """Deltas that come to many bytes are handed on before the interval is over."""
    log = RunLog("run")
    records = recorded(events_of('{"body": "', *["x" * 1000] * 40, stops=False), ends=False)
    start = anyio.current_time()
    async with log.watch(min_interval_s=30, max_bytes=8_000) as watcher:
        log.append(records[:4])
        await anext(watcher)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anext, watcher)
            for record in records[4:]:
                log.append([record])
                await anyio.lowlevel.checkpoint()
    assert anyio.current_time() - start < 10


async def test_watchers_in_other_threads() -> None:
    """A server may run in an event loop of its own, of either kind; the records come from here."""
    log = RunLog("run")
    seen: dict[str, list[Batch]] = {"asyncio": [], "trio": []}
    threads = [
        threading.Thread(target=partial(anyio.run, partial(collect, log, batches, min_interval_s=0.001), backend=name))
        for name, batches in seen.items()
    ]
    for thread in threads:
        thread.start()
    for record in poem():
        log.append([record])
        await anyio.sleep(0.002)
    log.close()
    for thread in threads:
        await anyio.to_thread.run_sync(thread.join, 10)
    assert state(known(seen["asyncio"])) == state(known(seen["trio"])) == state(poem())


async def test_watchers_in_step_share_their_batches() -> None:
    """What many get at the same time is made once, and nothing is kept when all have left."""
    log = RunLog("run")
    log.append(poem()[:4])
    async with log.watch() as one, log.watch() as other:
        await anext(one)
        await anext(other)
        log.append(poem()[4:])
        assert await anext(one) is await anext(other)
        assert log._last_batch is not None
    assert log._last_batch is None


def long_log(**settings: Any) -> RunLog:
    """A run whose snapshot is made in a thread, and is sent in several pieces."""
    log = RunLog("run", **settings)
    log.append(recorded(events_of('{"body": "', *["x" * 50_000] * 8))[:-1])
    return log


async def test_who_comes_late_shares_a_snapshot() -> None:
    """One is enough for all who come while somebody still reads it, also when the run goes on in the meantime."""
    log = long_log()
    async with log.watch() as one, log.watch() as other, log.watch() as last:
        first = await anext(one)
        pieces = list(await one.encoded(first))
        add(log, {"type": "tool_progress", "block": 1, "value": 1})
        shared = await anext(other)
        assert shared is first
        assert all(mine is yours for mine, yours in zip(await other.encoded(shared), pieces, strict=True))
        newer = await anext(other)
        assert not newer.is_snapshot
        assert [record["seq"] for record in newer.records] == [log.seq]
        assert json.loads(b"".join(pieces)) == {"snapshot": True, "records": first.records}
        del first, shared
        assert log._first_snapshot is not None
        with anyio.fail_after(5):  # the thread that made it lets go of it in its own time
            while log._first_snapshot() is not None:
                gc.collect()
                await anyio.sleep(0.001)
        fresh = await anext(last)
        assert fresh.is_snapshot
        assert fresh.seq == log.seq


async def test_many_who_come_at_once_make_one_snapshot() -> None:
    """Together they take one thread, and hold one text."""
    log = long_log()
    seen: list[Batch] = []
    pieces: list[bytes] = []

    async def join() -> None:
        async with log.watch() as watcher:
            batch = await anext(watcher)
            seen.append(batch)
            pieces.extend(await watcher.encoded(batch))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(join)
    assert len({id(batch) for batch in seen}) == 1
    assert len(pieces) == 20 * len({id(piece) for piece in pieces}) > 20


async def test_a_snapshot_that_leads_nowhere_is_given_up() -> None:
    """Its reader is dropped at the next piece, so that there are never two snapshots for readers that are slow."""
    log = long_log(max_recent=3)
    async with log.watch() as slow, log.watch() as other:
        first = await anext(slow)
        pieces = await slow.encoded(first)
        next(pieces)
        add(log, *[{"type": "tool_progress", "block": 1, "value": 1}] * 4)
        second = await anext(other)
        assert second is not first
        with pytest.raises(WatcherDropped, match="max_recent"):
            next(pieces)
        assert json.loads(b"".join(await other.encoded(second)))["snapshot"] is True


@pytest.mark.parametrize("merges", [True, False])
async def test_who_is_far_behind_gets_a_part_at_a_time(merges: bool) -> None:
    """Somebody who reads no further holds one part, and not all that is kept for those who are behind."""
    records = recorded(events_of('{"body": "', *["x" * 100_000] * 30, '"}'))
    log = RunLog("run")
    log.append(records)
    log.close()
    batches: list[Batch] = []
    await collect(log, batches, after=1, merges=merges)
    assert [sum(map(merge.size, batch.records)) < 1.5 * 2**20 for batch in batches] == [True] * len(batches)
    assert len(batches) > 4
    assert [batch.seq for batch in batches] == sorted({batch.seq for batch in batches})
    assert batches[-1].seq == log.seq
    assert state([records[0], *known(batches)]) == state(records)


async def test_the_event_loop_goes_on_while_a_snapshot_is_made() -> None:
    """Of a long run it is made in a thread."""
    log = long_log()
    threads: set[int] = set()
    merged = log._merged.records

    def records() -> list[Record]:
        threads.add(threading.get_ident())
        return merged()

    log._merged.records = records  # type: ignore[method-assign]
    async with log.watch() as watcher:
        await anext(watcher)
    assert threads
    assert threading.get_ident() not in threads


async def test_cancelling_a_watcher_loses_nothing() -> None:
    """It goes on where it was."""
    log = RunLog("run")
    log.append(poem()[:4])
    async with log.watch(min_interval_s=0) as watcher:
        await anext(watcher)
        for _ in range(3):
            with anyio.move_on_after(0.001):
                await anext(watcher)
        log.append(poem()[4:5])
        assert [record["seq"] for record in (await anext(watcher)).records] == [5]
        assert watcher.seq == 5


async def test_a_watcher_that_leaves_keeps_no_other_from_waking() -> None:
    """Those who wait share one event, also while some of them give up."""
    notifier = Notifier()
    first, second = notifier.listen(), notifier.listen()
    notifier.ignore(first)
    notifier.notify()
    await second.wait()
    third = notifier.listen()
    notifier.ignore(second)  # it was woken, and counts no more
    assert not third.is_set()
    notifier.notify()
    await third.wait()


async def test_settings_out_of_range() -> None:
    """Told at once."""
    settings: list[dict[str, Any]] = [{"after": -1}, {"min_interval_s": -1}, {"min_interval_s": 1e9}, {"max_bytes": 0}]
    for setting in settings:
        with pytest.raises(UsageError, match="a watcher needs"):
            RunLog("run").watch(**setting)


async def test_merged_records_are_watched_again() -> None:
    """A long run is saved merged: a text may reach beyond what comes after it, and nothing of that is lost."""
    records: list[Any] = [
        {"type": "run_start", "run": "a", "started_at": "", "name": None, "model": None},
        {"type": "text_delta", "block": 1, "text": "all of it", "to_seq": 9, "to_s": 9.0, "count": 3},
        {"type": "tool_start", "block": 2},
        {"type": "turn_stop", "turn": 1, "error": None},
    ]
    log = RunLog("run")
    seen: list[str] = []

    async def watch() -> None:
        async with log.watch(min_interval_s=0) as watcher:
            async for batch in watcher:
                seen.extend(record["type"] for record in batch.records)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        for seq, record in enumerate(records, 1):
            await anyio.sleep(0.01)
            log.append([cast("Record", {"v": 1, "seq": seq, "at_s": 0.0, **record})])
        log.close()
    assert seen == [record["type"] for record in records]


async def test_nothing_comes_after_the_end() -> None:
    """Whoever has watched to the end has seen all of it."""
    log = RunLog("run")
    log.append(poem())
    log.close()
    add(log, {"type": "turn_stop", "turn": 1, "error": None})
    assert log.records() == log.records()[: len(poem())]


async def test_a_text_that_was_left_out_goes_on() -> None:
    """What still comes of it cannot be told; a watcher who came late knows that, and how much it is."""
    records = recorded(events_of('{"body": "', *["x" * 100] * 30, '"}'))
    log = RunLog("run", max_kept_chars=2_000)
    log.append(records[:20])
    batches: list[Batch] = []
    async with log.watch(min_interval_s=0) as watcher:
        batches.append(await anext(watcher))
        log.append(records[20:])
        log.close()
        batches += [batch async for batch in watcher]
    assert state(known(batches)) == state(log.snapshot().records)
    view = viewed(known(batches))
    assert (view.calls[0].partial, view.calls[0].raw, view.calls[0].omitted_chars) == ({}, "", 3012)


async def test_memory_is_bounded() -> None:
    """Texts over the bound are left out, the oldest first, and what is left says so."""
    log = RunLog("run", max_recent=10, max_kept_chars=20_000)
    records = recorded(events_of('{"body": "', *["x" * 100] * 500, '"}'))
    for record in records:
        log.append([record])
    (delta,) = (cast("Any", record) for record in log.snapshot().records if record["type"] == "input_delta")
    assert delta["fragment"] == ""
    assert delta["omitted_chars"] == 50_012
    assert delta["count"] == 502
    assert sum(len(record.get("fragment", "")) for record in cast("Any", log._recent)) < 2_000
    view = viewed(log.records())
    assert (view.calls[0].phase.value, view.calls[0].bytes) == ("waiting", 50_012)


async def test_empty_containers_take_room() -> None:
    """A peer that sends a great many of them meets the same bound as one that sends texts."""
    log = RunLog("run", max_recent=1, max_kept_chars=20_000)
    add(log, {"type": "unknown", "event": {"lists": [[]] * 10_000}}, {"type": "tool_start", "block": 1})
    unknown, _ = log.records()
    assert unknown == {
        "v": 1,
        "seq": 1,
        "at_s": 0.0,
        "type": "unknown",
        "event": {"type": None, "omitted_chars": 80_021},
    }


def test_parts_of_records() -> None:
    """They say the same, and none is much longer than it may be; an input stays whole, with its patch."""
    records = [*poem()[:-1], *recorded(events_of('{"body": "' + "x" * 5_000))]
    texts: list[Any] = [
        {"v": 1, "seq": 100, "at_s": 0, "type": "text_delta", "block": 9, "text": "é" * 5_000},
        {"v": 1, "seq": 101, "at_s": 0, "type": "thinking_delta", "block": 10, "thinking": "x" * 900},
    ]
    parts = list(in_parts([*records, *texts], 1_000))
    flat: list[Any] = [record for part in parts for record in part]
    assert "".join(record["text"] for record in flat if record["type"] == "text_delta") == "é" * 5_000
    assert [record for record in flat if record["type"] != "text_delta"] == [*records, texts[1]]
    assert all(sum(map(merge.size, part[:-1])) < 1_000 for part in parts)


@pytest.mark.slow
@given(documents, st.lists(st.integers(0, 100), max_size=9), st.lists(st.integers(1, 4), min_size=1))
def test_merging_changes_nothing(text: str, places: list[int], sizes: list[int]) -> None:
    """However records are batched, and merged once or twice, they tell the same of a run."""
    records = recorded(events_of(*(piece for piece in cut_at(text, places) if piece)))
    whole = MergedRecords(10**9)
    batched: list[Record] = []
    rest = records
    for size in [*sizes, len(records)]:
        batch, rest = rest[:size], rest[size:]
        merged = merge_records(batch)
        batched += merged
        for record in merged:
            whole.add(record)
    assert state(batched) == state(records) == state(whole.records()) == state(merge_records(records))
