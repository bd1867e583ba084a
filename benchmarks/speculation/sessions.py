"""Three sessions of an agent, and both sides of each: with and without calls that are tried before the model asks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Final, TypeAlias

import anyio
from tests.virtual_time import Playing, in_virtual_time

import eagerstream
from eagerstream import Recording
from eagerstream.tools import Tool
from eagerstream_testing import Timing, reply, retime, text, tool_use

from .prototype import Report, Rule, Speculation

Call: TypeAlias = tuple[str, Mapping[str, str] | str]
_TEXT: Final = "I look at this more closely, to see which part uses the value. ".ljust(160, ".")


@dataclass(frozen=True)
class Work:
    """A tool that waits, and returns a list of so many results, or a text with the number of changes so far."""

    name: str
    parameters: tuple[str, ...]
    seconds: float
    lists: int = 0
    writes: bool = False


@dataclass(frozen=True)
class Session:
    """A session of an agent.

    Attributes:
        name: Name in tables.
        tools: The one that lists results first, then the one that is tried.
        calls: Calls of the model, one for each response: the tool, and the input or the parameter to choose.
        tried: Number of results of a list that the rule tries.
        recorded: Places in the list of the results that the model of a recorded session chose.
    """

    name: str
    tools: tuple[Work, ...]
    calls: tuple[Call, ...]
    tried: int
    answer_tokens: int
    recorded: tuple[int, ...] = ()

    def taking(self, *seconds: float) -> Session:
        """Return the same session with other durations of its first tools."""
        changed = [replace(work, seconds=s) for work, s in zip(self.tools, seconds, strict=False)]
        return replace(self, tools=(*changed, *self.tools[len(changed) :]))


_EDIT: Final = (("edit", {"path": "x.py", "old": "y" * 200, "new": "z" * 200}), ("run_tests", {"path": "tests"}))
CODE: Final = Session(
    "code search",
    tools=(
        Work("grep", ("pattern",), 0.051, lists=6),
        Work("read_file", ("path",), 0.005),
        Work("edit", ("path", "old", "new"), 0.005, writes=True),
        Work("run_tests", ("path",), 3.0, writes=True),
    ),
    calls=(
        *(("grep", {"pattern": "a"}), ("read_file", "path"), ("read_file", {"path": "other.py"})),
        *(("grep", {"pattern": "b"}), ("read_file", "path"), ("grep", {"pattern": "c"}), ("read_file", "path")),
        *_EDIT,
        ("read_file", {"path": "x.py"}),
        *_EDIT,
    ),
    tried=2,
    answer_tokens=150,
)
WEB: Final = Session(
    "web research",
    tools=(Work("search", ("query",), 1.2, lists=10), Work("fetch", ("url",), 1.5)),
    calls=(
        *(("search", {"query": "first question about the subject"}), ("fetch", "url"), ("fetch", "url")),
        *(("search", {"query": "second question"}), ("fetch", "url"), ("search", {"query": "third question"})),
        ("fetch", "url"),
    ),
    tried=1,
    answer_tokens=400,
)
SQL: Final = "SELECT region, sum(amount) FROM sales JOIN shops USING (shop_id) GROUP BY region ORDER BY 2 DESC LIMIT {}"
DATA: Final = Session(
    "data analysis",
    tools=(
        Work("list_tables", ("schema",), 0.05, lists=13),
        Work("describe_table", ("name",), 0.05),
        Work("run_query", ("sql",), 2.5),
    ),
    calls=(
        ("list_tables", {"schema": "sales"}),
        *[("describe_table", "name")] * 5,
        *[("run_query", {"sql": SQL.format(number)}) for number in range(1, 5)],
    ),
    tried=4,
    answer_tokens=400,
    recorded=(8, 7, 9, 0, 3),
)


@dataclass
class World:
    """Numbers of calls and changes of the tools of a session."""

    calls: int = 0
    changes: int = 0

    def tool(self, work: Work) -> Tool:
        """Return a tool."""

        async def run(input: dict[str, Any]) -> list[str] | str:
            self.calls += 1
            told = f"{work.name} {'-'.join(input.values())}"
            text = f"{told} after {self.changes} changes. " * 20
            await anyio.sleep(work.seconds)
            self.changes += work.writes
            return [f"{told} {number}" for number in range(work.lists)] or text

        properties = {parameter: {"type": "string"} for parameter in work.parameters}
        schema = {"type": "object", "properties": properties, "required": [*properties]}
        definition = {"name": work.name, "description": "Waits.", "input_schema": schema}
        return Tool(run, definition=definition, read_only=not work.writes)


class Model:
    """The simulated model of one session. It answers one request after the other.

    `chance` is the probability of a choice among the tried results. With `None`, it makes the recorded choices.
    """

    def __init__(self, session: Session, chance: float | None, seed: int, timing: Timing) -> None:
        self._session, self._chance, self._timing = session, chance, timing
        self._random = Random(f"{session.name} {seed}")
        self._places = iter(session.recorded)
        self._tried, self._others = list[str](), list[str]()
        self.responses: list[Recording] = []

    def __call__(self, request: Mapping[str, Any]) -> Recording:
        """Return the next response."""
        turn, content = len(self.responses), request["messages"][-1]["content"]
        if turn and (result := content[-1]["content"]).startswith("["):
            listed, tried = json.loads(result), self._session.tried
            self._tried, self._others = listed[:tried], listed[tried:]
        response = reply(text("word" * self._session.answer_tokens))
        if turn < len(self._session.calls):
            name, given = self._session.calls[turn]
            input = {given: self._choice()} if isinstance(given, str) else given
            response = reply(text(_TEXT), tool_use(name, input), message_id=f"msg_{turn}")
        self.responses.append(retime(response, self._timing))
        return self.responses[-1]

    def _choice(self) -> str:
        if self._chance is None:
            return (self._tried + self._others)[next(self._places)]
        is_right = self._random.random() < self._chance and bool(self._tried)
        pool = self._tried if is_right else self._others
        return pool.pop(self._random.randrange(len(pool)))


@dataclass(frozen=True)
class Side:
    """A run: its duration, its history, its number of calls of tools, and the report about the tried ones."""

    seconds: float
    messages: Any
    calls: int
    report: Report


async def play(session: Session, client: Any, *, speculates: bool) -> Side:
    """Run a session with a client."""
    world = World()
    tools = [world.tool(work) for work in session.tools]
    (parameter,) = session.tools[1].parameters
    rule = Rule(tools[0], tools[1], lambda found: [{parameter: each} for each in found[: session.tried]])
    request: Any = {"model": "m", "max_tokens": 4_000, "messages": [{"role": "user", "content": "Go."}]}
    start_s = anyio.current_time()
    async with Speculation(rule).started() as speculation:
        given = speculation.tools(tools) if speculates else tools
        async with eagerstream.run(client, tools=given, **request) as run:
            await run.finish()
        return Side(anyio.current_time() - start_s, run.result.messages, world.calls, speculation.report)


def both_sides(session: Session, chance: float | None, seed: int, timing: Timing) -> tuple[Side, Side, Model]:
    """Return a session without and with speculation, in virtual time, and the model of the latter."""
    models = [Model(session, chance, seed, timing) for _ in range(2)]
    clients = [Playing(*[model] * (len(session.calls) + 1)) for model in models]
    without, speculating = (
        in_virtual_time(partial(play, session, client, speculates=client is clients[1])) for client in clients
    )
    assert without.messages == speculating.messages, "the histories differ"
    assert speculating.calls - without.calls == speculating.report.wasted, "other calls than the wasted ones were added"
    return without, speculating, models[1]
