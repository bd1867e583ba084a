"""Early calls: when they start, who gets their results, and that code never notices them."""

from __future__ import annotations

import ast
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from inspect import isawaitable
from types import FunctionType
from typing import Any, Final

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, strategies as st
from tests.support import all_tasks_blocked

from eagerstream.tools import Tool, tool
from eagerstream_toolkit._code.early import MAX_EARLY, EarlyCodeCalls
from eagerstream_toolkit._code.sandbox import CodeCallError
from eagerstream_toolkit._code.statements import Statement, StatementSplitter
from eagerstream_wire import JSON

pytestmark = pytest.mark.anyio


@tool(read_only=True)
async def get(key: str) -> str:
    """Get."""
    return key


@tool(read_only=True, approve=lambda _: True)
async def ask(key: str) -> str:
    """Get what somebody approves."""
    return key


@tool
async def put(key: str, value: str = "") -> None:
    """Put."""


TOOLS: Final[Mapping[str, Tool]] = {"get": get, "ask": ask, "put": put}


class Calls:
    """Calls that end when the test says so."""

    def __init__(self) -> None:
        self._running: list[str] = []
        self.cancelled: list[str] = []
        self.started = 0
        self.failing: set[str] = set()
        self._gates: dict[str, anyio.Event] = {}

    @property
    def running(self) -> list[str]:
        """The keys of the calls that run. Trio starts tasks in any order."""
        return sorted(self._running)

    def gate(self, key: str) -> anyio.Event:
        return self._gates.setdefault(key, anyio.Event())

    async def make(self, name: str, arguments: Mapping[str, JSON]) -> JSON:
        key = str(arguments["key"])
        self.started += 1
        self._running.append(key)
        try:
            await self.gate(key).wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(key)
            raise
        finally:
            self._running.remove(key)
        if key in self.failing:
            raise CodeCallError(f"no {key}")
        return f"{name} {key} {self.started}"


class Test:
    """Early calls of code, with what the code has got. After each step, everything waits that can only wait."""

    __test__ = False

    def __init__(self, early: EarlyCodeCalls, calls: Calls, tasks: anyio.abc.TaskGroup) -> None:
        self.early = early
        self.calls = calls
        self.got: list[Any] = []
        self._tasks = tasks
        self._line = 0

    async def see(self, *sources: str) -> list[Statement]:
        statements = []
        for source in sources:
            self._line += 1
            statements.append(Statement(source, self._line, self._line))
            self.early.see(statements[-1])
        await all_tasks_blocked()
        return statements

    async def make(self, name: str, key: str) -> anyio.CancelScope:
        """Make a call as the code would, and keep its result."""
        scope = anyio.CancelScope()

        async def call() -> None:
            with scope:
                try:
                    self.got.append(await self.early.call(name, {"key": key}))
                except CodeCallError as error:
                    self.got.append(error)

        self._tasks.start_soon(call)
        await all_tasks_blocked()
        return scope

    async def end(self, key: str) -> None:
        """Let the calls with this key end."""
        self.calls.gate(key).set()
        await all_tasks_blocked()

    async def ended(self, statement: Statement) -> None:
        self.early.ended(statement)
        await all_tasks_blocked()

    async def cancel(self, scope: anyio.CancelScope) -> None:
        scope.cancel()
        await all_tasks_blocked()


@asynccontextmanager
async def coded(max_calls: int = 100, rebound: set[str] | None = None) -> AsyncIterator[Test]:
    calls = Calls()
    async with anyio.create_task_group() as tasks:
        rebound = set() if rebound is None else rebound
        early = EarlyCodeCalls(calls.make, TOOLS, tasks, rebound=rebound, max_calls=max_calls)
        with anyio.fail_after(50):
            yield Test(early, calls, tasks)
        early.stop()
        tasks.cancel_scope.cancel()


async def test_a_call_starts_with_its_statement() -> None:
    """The code gets its result, and makes no call of its own."""
    async with coded() as test:
        await test.see("await get('a')", "await ask('b')", "await put('c')")
        assert test.calls.running == ["a"]
        await test.make("get", "a")
        await test.end("a")
        assert test.got == ["get a 1"]
        assert test.early.stop() == {}


async def test_a_start_serves_one_call() -> None:
    """The second of two equal calls starts when the first has ended."""
    async with coded() as test:
        test.calls.gate("a").set()
        await test.see("await get('a'); await get('a')")
        await all_tasks_blocked()
        assert test.calls.started == 1
        await test.make("get", "a")
        assert (test.got, test.calls.started) == (["get a 1"], 2)
        await test.make("get", "a")
        await test.make("get", "a")
        assert sorted(test.got) == ["get a 1", "get a 2", "get a 3"]


async def test_failures() -> None:
    """The code gets the error of a call that it reaches. One that it does not reach is only counted."""
    async with coded() as test:
        test.calls.failing = {"a", "b"}
        test.calls.gate("a").set()
        test.calls.gate("b").set()
        await test.see("await get('a')", "await get('b')")
        await test.make("get", "a")
        assert [str(error) for error in test.got] == ["no a"]
        assert test.early.stop() == {"get": 1}


async def test_calls_that_are_never_reached() -> None:
    """They are cancelled and counted, by name, also those that a write has cancelled."""
    async with coded() as test:
        test.calls.gate("done").set()
        test.calls.gate("w").set()
        await test.see("if x: await get('old')")
        await test.make("put", "w")
        assert test.calls.cancelled == ["old"]
        await test.see("await get('a'); await get('b'); await get('done')")
        await test.make("get", "a")
        assert test.early.stop() == {"get": 3}
        await all_tasks_blocked()
        assert (test.calls.running, test.calls.cancelled) == (["a"], ["old", "b"])
        await test.see("await get('c')")
        assert test.calls.running == ["a"]


async def test_a_write_makes_results_stale() -> None:
    """Whether the call has ended or not, the code's own call runs again, after the write."""
    async with coded() as test:
        await test.see("await get('a'); await get('b')")
        await test.end("a")
        await test.make("put", "w")
        assert test.calls.cancelled == ["b"]
        assert test.calls.running == ["w"]
        test.calls.gate("w").set()
        test.calls.gate("b").set()
        await test.make("get", "a")
        await test.make("get", "b")
        assert sorted(test.got[1:]) == ["get a 4", "get b 5"]
        assert test.early.stop() == {}


async def test_a_reached_call_is_not_stale() -> None:
    """A write that the code makes beside it does not cancel it: it is a call of the code by then."""
    async with coded() as test:
        await test.see("await get('a')")
        await test.make("get", "a")
        await test.make("put", "w")
        await test.end("a")
        assert test.got == ["get a 2"]


async def test_nothing_starts_during_a_write() -> None:
    """It starts when the write has ended, even if another statement runs."""
    async with coded() as test:
        await test.make("put", "w")
        await test.see("await get('a')")
        assert test.calls.running == ["w"]
        await test.end("w")
        assert test.calls.running == ["a"]


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_write_that_does_not_succeed(is_cancelled: bool) -> None:
    """It may still have an effect, in a thread for example. Nothing starts early any more."""
    async with coded() as test:
        test.calls.failing = {"w"}
        scope = await test.make("put", "w")
        if is_cancelled:
            scope.cancel()
        await test.end("w")
        await test.see("await get('a')")
        assert test.calls.running == []
        await test.make("get", "a")
        assert test.calls.running == ["a"]


async def test_a_statement_that_may_write() -> None:
    """Later calls wait for its end: otherwise they would be cancelled when it writes."""
    async with coded() as test:
        first, second, _ = await test.see("await get('a')", "if x: await put('w', await get('b'))", "await get('c')")
        assert test.calls.running == ["a", "b"]
        await test.ended(first)
        assert test.calls.running == ["a", "b"]
        await test.ended(second)
        assert test.calls.running == ["a", "b", "c"]


async def test_a_call_that_is_reached_while_it_waits() -> None:
    """It is the code's own, and does not start a second time."""
    async with coded() as test:
        first, _ = await test.see("if x: await put('w')", "await get('a')")
        await test.make("get", "a")
        await test.end("a")
        await test.ended(first)
        assert test.calls.started == 1


async def test_a_call_that_is_cancelled_before_it_starts() -> None:
    """A call that the end of the code overtakes makes no call of the tool."""
    async with coded() as test:
        test.early.see(Statement("await get('a')", 1, 1))
        assert test.early.stop() == {"get": 1}
        await all_tasks_blocked()
        assert test.calls.started == 0


async def test_at_most_sixteen_at_a_time() -> None:
    """The next one starts when one has ended, unless its statement is over by then."""
    async with coded() as test:
        first, _ = await test.see(
            *(f"await asyncio.gather({', '.join(f'get({n!r})' for n in ns)})" for ns in ("abcdefghijklmnopqr", "xyz"))
        )
        await all_tasks_blocked()
        assert test.calls.running == [*"abcdefghijklmnop"]
        assert len(test.calls.running) == MAX_EARLY
        await test.end("a")
        assert test.calls.running == [*"bcdefghijklmnopq"]
        test.early.ended(first)
        await test.end("b")
        assert test.calls.running == [*"cdefghijklmnopqx"]


async def test_the_number_of_calls_is_bounded() -> None:
    """Code gets no more early calls than it may make calls."""
    async with coded(max_calls=2) as test:
        for key in "abc":
            test.calls.gate(key).set()
            await test.see(f"await get({key!r})")
        assert test.calls.started == 2


async def test_no_start_beside_an_equal_call() -> None:
    """The code never gets an older answer than it already has to the same question."""
    async with coded() as test:
        await test.make("get", "a")
        await test.see("await get('a')")
        assert test.calls.started == 1
        await test.end("a")
        assert test.calls.started == 2


async def test_names_that_the_code_has_bound() -> None:
    """They are kept for later calls of the session."""
    rebound = {"ask"}
    async with coded(rebound=rebound) as test:
        await test.see("get = str", "await get('a')")
        assert test.calls.started == 0
    assert rebound == {"ask", "get"}


async def test_cancelling_the_code_cancels_its_call() -> None:
    """An early call that the code awaits ends with the code."""
    async with coded() as test:
        await test.see("await get('a')")
        scope = await test.make("get", "a")
        await test.cancel(scope)
        assert test.calls.cancelled == ["a"]
        assert test.early.stop() == {}


@pytest.mark.parametrize("is_outer", [False, True])
async def test_cancelling_everything(is_outer: bool) -> None:
    """Nothing starts in a group that is being cancelled, or around which all is, and nothing is left running."""
    calls = Calls()
    with anyio.CancelScope() as outer:
        async with anyio.create_task_group() as tasks:
            early = EarlyCodeCalls(calls.make, TOOLS, tasks, rebound=set(), max_calls=100)
            early.see(Statement(f"gather({', '.join(f'get({str(n)!r})' for n in range(30))})", 1, 1))
            await all_tasks_blocked()
            (outer if is_outer else tasks.cancel_scope).cancel()
            await anyio.sleep_forever()
    assert (calls.running, calls.started, len(calls.cancelled)) == ([], MAX_EARLY, MAX_EARLY)


# --- any program ------------------------------------------------------------------------------------------------------

KEYS: Final = st.sampled_from("abc")
READ: Final = KEYS.map("await get({!r})".format)
WRITE: Final = st.tuples(st.sampled_from(["put", "save"]), KEYS).map(
    lambda call: f"await {call[0]}({call[1]!r}, new())"
)
"""`save` is a function of the code, which hides that it writes."""
MODIFY: Final = st.tuples(KEYS, KEYS).map(lambda keys: f"await put({keys[0]!r}, await get({keys[1]!r}))")
BOTH: Final = KEYS.map(lambda key: f"await gather(get({key!r}), get('a'), get({key!r}))")
FAILING: Final = st.just("await get('missing')")
SIMPLE: Final = st.one_of(READ.map("got.append({})".format), BOTH.map("got.extend({})".format), WRITE, MODIFY, FAILING)
INDENTED: Final = st.lists(SIMPLE, min_size=1, max_size=3).map(lambda lines: "".join(f"\n    {line}" for line in lines))
BLOCKS: Final = st.one_of(
    st.tuples(READ, INDENTED, INDENTED).map(lambda parts: f"if {parts[0]} in ('0', '2'):{parts[1]}\nelse:{parts[2]}"),
    INDENTED.map("for each in range(2):{}".format),
    INDENTED.map("try:{0}\nexcept Error:{0}".format),
    INDENTED.map("async def later():{}\nawait later()".format),
    READ.map(lambda call: f"task = start({call.removeprefix('await ')})\nawait pause()\ngot.append(await task)"),
    st.just("get = get"),
)
PROGRAMS: Final = st.lists(st.one_of(SIMPLE, BLOCKS, st.just("await pause()")), max_size=8).map("\n".join)


class Store:
    """A small store, whose tools take a random number of steps, and a record of what happened when."""

    def __init__(self, seed: int) -> None:
        self.values = dict(zip("abc", "012", strict=True))
        self.now = 0
        self.read: dict[int, int] = {}
        """The times at which reading calls started, by their number."""
        self.written: list[tuple[int, int]] = []
        """The times at which writing calls started and ended."""
        self._random = random.Random(seed)

    async def pause(self) -> None:
        for _ in range(self._random.randrange(4)):
            await anyio.lowlevel.checkpoint()

    def time(self) -> int:
        self.now += 1
        return self.now

    async def make(self, name: str, arguments: Mapping[str, JSON]) -> JSON:
        key, started = str(arguments["key"]), self.time()
        if name == "put":
            self.written.append((started, 1 << 30))
            place = len(self.written) - 1
            await self.pause()
            self.values[key] = str(arguments["value"])
            await self.pause()
            self.written[place] = (started, self.time())
            return None
        number = len(self.read)
        self.read[number] = started
        await self.pause()
        value = self.values.get(key)
        await self.pause()
        if value is None:
            raise CodeCallError("missing")
        return [value, number]


async def _run(source: str, seed: int, *, early: bool) -> tuple[list[Any], dict[str, str], list[int]]:
    """Run a program, statement by statement, while the rest is being seen.

    Returns:
        What it got, what it left, and the numbers of the calls that had started early.
    """
    store = Store(seed)
    got: list[Any] = []
    served: list[int] = []
    numbers = iter(range(100, 1000))
    splitter = StatementSplitter()
    statements = splitter.feed(source) + splitter.close()
    async with anyio.create_task_group() as tasks:
        calls = EarlyCodeCalls(store.make, TOOLS, tasks, rebound=set(), max_calls=100)
        call = calls.call if early else store.make

        async def get(key: str) -> Any:
            asked = store.time()
            result: Any = await call("get", {"key": key})
            since = store.read[result[1]]
            if since < asked:  # nothing was changing the store in between
                served.append(result[1])
                assert not any(start < asked and end > since for start, end in store.written)
            return result[0]

        async def put(key: str, value: str) -> None:
            await call("put", {"key": key, "value": value})

        async def gather(*awaited: Any) -> list[Any]:
            results: dict[int, Any] = {}

            async def one(number: int, each: Any) -> None:
                results[number] = await each

            async with anyio.create_task_group() as group:
                for number, each in enumerate(awaited):
                    group.start_soon(one, number, each)
            return [results[number] for number in range(len(awaited))]

        names: dict[str, Any] = {
            "get": get, "put": put, "save": put, "gather": gather, "got": got, "Error": CodeCallError,
            "new": lambda: str(next(numbers)), "start": lambda each: each, "pause": store.pause,
        }  # fmt: skip
        seen = 0
        for place, statement in enumerate(statements):
            ahead = random.Random(seed + place).randrange(len(statements) + 1)
            for each in statements[seen : max(seen, place + 1, ahead)]:
                calls.see(each)
                seen += 1
            await store.pause()
            code = compile(statement.source, "code", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            try:
                result = FunctionType(code, names)()
                if isawaitable(result):
                    await result
            except CodeCallError as error:
                got.append(str(error))
                break
            calls.ended(statement)
        calls.stop()
    return got, store.values, served


@given(PROGRAMS, st.integers(0, 1000))
def test_code_does_not_notice(source: str, seed: int) -> None:
    """Any program gets the same results with and without early calls, and leaves the same behind."""
    (got, left, _), (got_early, left_early, _) = (
        anyio.run(partial(_run, source, seed, early=each)) for each in (False, True)
    )
    assert (got_early, left_early) == (got, left)


def test_the_programs_are_served_early() -> None:
    """The property above is not an empty one."""
    program = (
        "await pause()\ngot.append(await get('a'))\nawait put('a', new())\ngot.append(await get('a'))\nawait get('b')"
    )
    runs = [anyio.run(partial(_run, program, seed, early=True)) for seed in range(20)]
    assert {tuple(got) for got, _, _ in runs} == {("0", "100")}
    assert {len(served) for _, _, served in runs} >= {1, 2}
