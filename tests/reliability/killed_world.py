"""The outside of runs that are killed: the model, and the effects of their tools in a database of their own."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any, Final

import anyio
import anyio.lowlevel

import eagerstream
from eagerstream import RunningCall, TextStream, validate_history
from eagerstream.recordings import Recording
from eagerstream.tools import Done, Tool, ToolCall, ask_elsewhere
from eagerstream_testing import Scenario, http_error, reply, text, thinking, tool_use
from tests.continuing import is_asked, rest_of

TOOLS: Final = ("look", "pay", "write", "transfer", "launch", "ship")
ONCE: Final = ("pay", "write", "transfer", "launch", "ship")
"""Tools whose effects must not happen twice."""

UNKNOWN: Final = "Nobody knows"
_NOT_RUN: Final = ("Not executed: the response ended", "The input of this call was cut off")
_BEGUN: Final = "The tool had started"
_TURNS: Final = 3


class Effects:
    """The database of the effects. Each is there before its tool returns.

    Args:
        path: The file. Only killed processes use it, so nothing has to reach the disk.
    """

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS effects (id INTEGER PRIMARY KEY, run TEXT, kind TEXT, what TEXT, more TEXT)"
        )

    def add(self, run: str, kind: str, what: str, more: str = "") -> None:
        """Note an effect."""
        self._database.execute(
            "INSERT INTO effects (run, kind, what, more) VALUES (?, ?, ?, ?)", (run, kind, what, more)
        )

    def of(self, run: str, kind: str) -> list[tuple[str, str]]:
        """The effects of a run, in order, each with more about it."""
        rows = self._database.execute(
            "SELECT what, more FROM effects WHERE run = ? AND kind = ? ORDER BY id", (run, kind)
        )
        return [(what, more) for what, more in rows]

    def count(self, run: str) -> int:
        """The number of effects of a run."""
        return int(self._database.execute("SELECT COUNT(*) FROM effects WHERE run = ?", (run,)).fetchone()[0])

    def take_errors(self, run: str) -> list[str]:
        """Remove and return the errors of a run."""
        errors = [what for what, _ in self.of(run, "error")]
        self._database.execute("DELETE FROM effects WHERE run = ? AND kind = 'error'", (run,))
        return errors

    def close(self) -> None:
        """Close the file."""
        self._database.close()


class World:
    """The tools of one run, with effects that a crash does not undo."""

    def __init__(self, run: str, effects: Effects) -> None:
        self._run = run
        self._effects = effects

    @eagerstream.tool(idempotent=True)
    async def look(self, item: str) -> str:
        """Look."""
        return await self._done("look", item)

    @eagerstream.tool
    async def pay(self, item: str, call: RunningCall) -> str:
        """Pay."""
        await call.progress(f"paying for {item}")
        return await self._done("pay", item, call)

    @eagerstream.tool
    async def write(self, item: str, body: TextStream, call: RunningCall) -> str:
        """Write."""
        self._effects.add(self._run, "write", item, call.idempotency_key)
        written = [piece async for piece in body]
        return f"write {item} done: {len(''.join(written))}"

    def _recover(self, call: ToolCall) -> Any:
        keys = {more for _, more in self._effects.of(self._run, "transfer")}
        value = call.input.value or {}
        return Done(f"transfer {value.get('item')} done") if call.idempotency_key in keys else "not done"

    def transfer(self) -> Tool:
        """A tool that can tell later if a call was done."""

        @eagerstream.tool(recover=self._recover)
        async def transfer(item: str, call: RunningCall) -> str:
            """Transfer."""
            return await self._done("transfer", item, call)

        return transfer

    @eagerstream.tool(approve=ask_elsewhere)
    async def launch(self, item: str, call: RunningCall) -> str:
        """Launch."""
        return await self._done("launch", item, call)

    def _approve(self, call: ToolCall) -> bool:
        self._effects.add(self._run, "asked", call.id)
        return True

    def ship(self) -> Tool:
        """A tool that asks in this process."""

        @eagerstream.tool(approve=self._approve)
        async def ship(item: str, call: RunningCall) -> str:
            """Ship."""
            return await self._done("ship", item, call)

        return ship

    async def _done(self, tool: str, item: str, call: RunningCall | None = None) -> str:
        await anyio.lowlevel.checkpoint()
        self._effects.add(self._run, tool, item, call.idempotency_key if call is not None else "")
        await anyio.sleep(0.001)
        return f"{tool} {item} done"

    def tools(self) -> list[Tool]:
        """All tools."""
        return [self.look, self.pay, self.write, self.transfer(), self.launch, self.ship()]


def plan_of(run: str) -> list[list[tuple[str, str]]]:
    """The calls that the model wants to make in a run, by turn: each a tool and an item."""
    random = Random(run)
    numbers = count(1)
    return [[(random.choice(TOOLS), f"i{next(numbers)}") for _ in range(random.randint(1, 4))] for _ in range(_TURNS)]


def results_of(messages: list[Any]) -> list[tuple[str, str, str]]:
    """The results in a history, in order: the tool with its item, the id and the text."""
    calls: dict[str, str] = {}
    results: list[tuple[str, str, str]] = []
    for message in messages:
        for block in message["content"] if not isinstance(message["content"], str) else ():
            if block["type"] == "tool_use":
                calls[block["id"]] = f"{block['name']} {_item_of(block['input'])}"
            elif block["type"] == "tool_result":
                results.append((calls[block["tool_use_id"]], block["tool_use_id"], _text_of(block.get("content"))))
    return results


def _item_of(value: Mapping[str, Any]) -> str:
    found = re.search(r'"item": ?"(i\d+)"|^(i\d+)$', str(value.get("INVALID_JSON") or value.get("item")))
    return (found[1] or found[2]) if found else "?"


def _text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content or ())


def was_tried(result: str) -> bool:
    """Whether the model may not make the call of a result again."""
    return _BEGUN in result or not ("INVALID_JSON" in result or any(each in result for each in _NOT_RUN))


class Model:
    """Makes the calls of each run's plan. It makes a call again if the history does not have its result.

    Each response has other ids, also to the same request. Every third one is cut off in the input of its last call.

    Attributes:
        scenario: Answers as this model.
        faults: Those of the histories that came.
    """

    def __init__(self) -> None:
        self.scenario = Scenario.of(self._answer)
        self.faults: list[str] = []
        self._numbers = count(1)
        self._lock = Lock()

    def _answer(self, request: Mapping[str, Any]) -> Recording:
        messages: list[Any] = list(request["messages"])
        if faults := validate_history(messages):
            self.faults += map(str, faults)
            return http_error(400, "invalid_request_error", str(faults[0]))
        run = str(messages[0]["content"]).removeprefix("Run ")
        with self._lock:
            number = next(self._numbers)
        if asked := is_asked(request):
            cut = messages[-2]["content"][-1]
            rest = rest_of(_input_of(cut["name"], cut["input"]["item"]), cut["input"], asked)
            return reply(tool_use("continue_input", rest), message_id=f"msg_{number}")
        tried = {call for call, _, result in results_of(messages) if was_tried(result)}
        for calls in plan_of(run):
            if missing := [(name, item) for name, item in calls if f"{name} {item}" not in tried]:
                blocks = [_call(name, item) for name, item in missing]
                opening = thinking("Hm.", signature="s") if number % 2 else text("Next.")
                if number % 3 == 0:
                    blocks[-1] = _cut_call(*missing[-1])
                    return reply(opening, *blocks, stop_reason="max_tokens", message_id=f"msg_{number}")
                return reply(opening, *blocks, text("So."), message_id=f"msg_{number}")
        return reply(text("Done."), message_id=f"msg_{number}")


def _input_of(name: str, item: str) -> dict[str, str]:
    return {"item": item, "body": " ".join(map(str, range(30)))} if name == "write" else {"item": item}


def _call(name: str, item: str) -> Any:
    return tool_use(name, _input_of(name, item), fragment_chars=8)


def _cut_call(name: str, item: str) -> Any:
    raw = json.dumps(_input_of(name, item))
    return tool_use(name, raw[: -20 if name == "write" else -1], fragment_chars=8, closed=False)


def broken_laws(run: str, effects: Effects, messages: list[Any], refused: set[str]) -> list[str]:
    """The laws that an ended run breaks.

    Args:
        run: Its id.
        effects: Those of all runs.
        messages: Its history.
        refused: The ids of the calls that were refused.
    """
    broken = [str(fault) for fault in validate_history(messages)]
    results = results_of(messages)
    done = Counter(f"{tool} {item}" for tool in TOOLS for item, _ in effects.of(run, tool))
    broken += [f"done twice: {what}" for what, times in done.items() if times > 1 and not what.startswith("look")]
    told = {call: result for call, _, result in results if was_tried(result)}
    wanted = {f"{name} {item}" for calls in plan_of(run) for name, item in calls}
    broken += [f"no result: {call}" for call in wanted - told.keys()]
    broken += [f"never done: {call}" for call, said in told.items() if f"{call} done" in said and not done[call]]
    broken += [f"not told: {call}" for call in done if call not in told]
    broken += [
        f"done and told otherwise: {call}: {told[call]}"
        for call in done
        if call in told and f"{call} done" not in told[call] and not _may_be_unsure(call, told[call])
    ]
    broken += [f"done although refused: {call}" for call, id, _ in results if id in refused and done[call]]
    return broken


def _may_be_unsure(call: str, said: str) -> bool:
    return not call.startswith(("look", "transfer")) and (UNKNOWN in said or _BEGUN in said)
