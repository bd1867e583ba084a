"""The records of a run that a second process continues."""

from __future__ import annotations

import io
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from packages.progress.tests.observed import events_of, recorded, tool_call_of
from packages.progress.tests.page_modules import PageModules
from rich.console import Console
from tests.loop.durable import World, client_of, left_at, scenario
from tests.loop.journals import MemoryJournal
from tests.streams import REQUEST
from tests.tables import rows

import eagerstream
from eagerstream.errors import UsageError
from eagerstream.loop import ToolStart, resume
from eagerstream.tools import ask_elsewhere
from eagerstream_progress import Hub, Record, RunView, join_records, latency_of, load_records, save_records
from eagerstream_progress._fold import CallPhase
from eagerstream_progress._joined import joined_runs
from eagerstream_progress._plain_lines import PlainLines
from eagerstream_progress.terminal import terminal_progress
from eagerstream_testing import Scenario, reply, text, tool_use

pytestmark = pytest.mark.anyio


async def test_a_resumed_run_continues_under_its_id() -> None:
    """Its turns continue to count, and the first record says after how many."""
    world = World()
    journal = await left_at("request", world, world.tools())
    hub = Hub()
    async with client_of(scenario()) as client:
        with hub.observing():
            async with resume(client, journal, "r", tools=world.tools()) as run:
                await run.finish()
    assert (run.id, run.has_journal) == ("r", True)
    records = hub.log("r").records()
    assert records[0]["type"] == "run_start"
    assert (records[0]["run"], records[0].get("resumed_after")) == ("r", run.resumed_after)
    turns = [record["turn"] for record in records if record["type"] == "turn_start"]
    assert (run.resumed_after, turns) == (1, [2, 3])


async def test_a_new_run() -> None:
    """It has no such field. If it is observed twice, another name is needed: it is not resumed."""
    hub = Hub()
    async with client_of(scenario()) as client:
        async with eagerstream.run(client, **REQUEST, tools=World().tools(), run_id="r") as run:
            assert hub.observe(run).id == "r"
            assert hub.observe(run).id != "r"
            await run.finish()
    assert (run.resumed_after, run.has_journal) == (None, False)
    assert "resumed_after" not in hub.log("r").records()[0]


def parts(gap_s: float = 200.0) -> tuple[list[Record], list[Record]]:
    """The records of a process that was killed while a tool ran, and of the next one."""
    events = events_of('{"city": "Oslo"}')
    call = tool_call_of(events)
    first = recorded([*events, ToolStart(call)], ends=False, id="r")
    second = recorded(events_of('{"city": "Rome"}'), id="r", resumed_after=0)
    ended_at = datetime.fromisoformat(fields(first[0])["started_at"]) + timedelta(seconds=first[-1]["at_s"] + gap_s)
    fields(second[0])["started_at"] = ended_at.isoformat()
    return first, second


def fields(record: Record) -> dict[str, Any]:
    return cast("dict[str, Any]", record)


def shown(records: list[Record]) -> tuple[RunView, list[str]]:
    """The view of records, and the plain lines about them, without their times."""
    view, lines = RunView(), list[str]()
    plain = PlainLines(lambda line: lines.append(line[10:].strip()))
    for record in records:
        plain.feed(record, view, view.feed(record))
    return view, lines


def test_two_parts_of_a_run_are_one_run(tmp_path: Path) -> None:
    """In any order, as two files and as one; the gap is a line, and counts in no time."""
    first, second = parts()
    for part, name in ((first, "first"), (second, "second")):
        save_records(tmp_path / name, part)
    (tmp_path / "both").write_bytes(b"".join((tmp_path / name).read_bytes() for name in ("first", "second")))
    joined = join_records(load_records(tmp_path / "second"), load_records(tmp_path / "first"))
    assert load_records(tmp_path / "both") == joined
    assert [record["seq"] for record in joined] == list(range(1, len(joined) + 1))
    view, lines = shown(joined)
    assert (view.id, view.status) == ("r", "completed")
    assert [(call.phase, call.partial["city"]) for call in view.calls] == [
        (CallPhase.CUT, "Oslo"),
        (CallPhase.WAITING, "Rome"),
    ]
    place = lines.index("continued from its journal after 3 min 20 s")
    assert (lines[0], lines[place + 1]) == ("turn 1", "turn 1")
    assert view.at_s == pytest.approx(first[-1]["at_s"] + second[-1]["at_s"])
    save_records(tmp_path / "joined", joined)
    assert load_records(tmp_path / "joined") == joined


@rows("wrong", ["clock", "zone", "text"])
def test_clocks_that_contradict(wrong: str) -> None:
    """A gap has no length then, and no negative one."""
    first, second = parts(gap_s=-60.0)
    if wrong != "clock":
        fields(second[0])["started_at"] = {"zone": "2000-01-01T00:00:00", "text": "yesterday"}[wrong]
    joined = join_records(first, second)
    assert shown(joined)[0].gaps == ["continued from its journal"]
    assert [record["at_s"] for record in joined] == sorted(record["at_s"] for record in joined)


def test_records_of_different_runs(tmp_path: Path) -> None:
    """They are refused, and so is a run that starts twice."""
    first, second = parts()
    for wrong in ([], [first, first], [first, []], [first, recorded(events_of("{}"), id="other", resumed_after=1)]):
        with pytest.raises(UsageError):
            join_records(*wrong)
    save_records(tmp_path / "twice", first)
    (tmp_path / "twice").write_bytes((tmp_path / "twice").read_bytes() * 2)
    with pytest.raises(UsageError, match="must rise"):
        load_records(tmp_path / "twice")
    runs = joined_runs([second, first, first, second])
    assert [len(run) for run in runs] == [len(first) + len(second), len(first), len(second)]


async def test_a_hub_that_has_the_first_part() -> None:
    """The run continues there, also for those who watch, and a call of the second part can be approved."""
    hub = Hub()

    @eagerstream.tool(approve=ask_elsewhere)
    async def launch() -> str:
        """Launch."""
        return "launched"

    journal = MemoryJournal()
    lines = io.StringIO()
    async with client_of(Scenario(reply(tool_use("launch", {})), reply(text("Done.")))) as client:
        async with terminal_progress(hub, console=Console(file=lines)):
            with hub.observing():
                async with eagerstream.run(client, **REQUEST, tools=[launch], journal=journal, run_id="r") as run:
                    await run.finish()
                [asked] = journal.statuses["r"][1]["approvals"]
                journal.left["r"] = [{"kind": "decision", "call": asked["call"], "decision": True}]
                assert hub.log("r").is_closed
                async with resume(client, journal, "r", tools=[launch]) as run:
                    await run.finish()
    assert [log.id for log in hub.logs] == ["r"]
    log = hub.log("r")
    for records in (log.records(), log.snapshot().records):
        view, _ = shown(records)
        assert (view.status, len(view.gaps), view.text.strip()) == ("completed", 1, "Done.")
        blocks = [fields(record)["block"] for record in records if record["type"] == "input_start"]
        assert len(blocks) == len(set(blocks)) == 2
    assert [record["type"] for record in log.snapshot().records].count("run_stop") == 1
    assert lines.getvalue().count("launch  ") >= 2
    assert lines.getvalue().count("continued from its journal") == 1


def test_a_gap_on_the_page(modules: PageModules) -> None:
    """Before the turn that comes again; what was under way is cut there, and its times end."""
    first, second = parts()
    records = join_records(first, second)
    script = """
    import { RunReader, phaseOf } from "./records.js";
    import { gapText } from "./format.js";
    const run = new RunReader();
    for (const record of JSON.parse(given)) run.feed(record);
    tell([run.status, run.turns.map(({ turn }) => turn), run.gaps.map(({ before, gapS }) => [before, gapText({ gapS })]),
      run.calls.map((call) => phaseOf(call, run)), run.calls[0].cutS === run.gaps[0].atS]);
    """
    told = modules.run(script, json.dumps(records))
    gaps = [[1, "continued from its journal after 3 min 20 s"]]
    assert told == ["completed", [1, 1], gaps, ["cut", "unrun"], True]


@rows("is_restored", [False, True])
def test_latency_of_both_parts(*, is_restored: bool) -> None:
    """The requests of both count, of a response that was restored its own times; the gap is in no time."""
    first, second = parts()
    if not is_restored:
        [start] = [fields(record) for record in second if record["type"] == "message_start"]
        start["id"] = "msg_of_the_second_request"
    one, other, both = latency_of(first), latency_of(second), latency_of(join_records(first, second))
    assert [(request.turn, request.discarded) for request in both.requests] == [
        (1, not is_restored),
        (1, is_restored),
    ]
    assert both.duration_s is not None
    assert both.duration_s < 60
    assert both.chars == (one if is_restored else other).chars == len('{"city": "Rome"}')
    assert one.calls[0].tool_start_s is not None
    [resumed_s] = both.to_dict()["resumed_s"]
    assert resumed_s == pytest.approx(first[-1]["at_s"] + second[0]["at_s"] - first[1]["at_s"], abs=1e-5)
    assert "continued from its journal" in both._repr_html_()


async def test_latency_of_a_run_is_that_of_its_records() -> None:
    """The same code makes both: each figure is the same but for the time between an event and its record."""
    hub = Hub()
    async with client_of(scenario()) as client:
        with hub.observing():
            async with eagerstream.run(client, **REQUEST, tools=World().tools()) as run:
                await run.finish()
    own, told = run.latency, latency_of(hub.logs[0].records())
    assert (told.model, told.status, told.fragments, told.chars) == (own.model, own.status, own.fragments, own.chars)
    assert [[call.name for call in each.calls] for each in told.requests] == [
        [call.name for call in each.calls] for each in own.requests
    ]
    assert [call.tool_s is None for call in told.calls] == [call.tool_s is None for call in own.calls]
    assert [len(call.fields()) for call in told.calls] == [len(call.fields()) for call in own.calls]
    assert told.tool_s == pytest.approx(own.tool_s, abs=0.5)
