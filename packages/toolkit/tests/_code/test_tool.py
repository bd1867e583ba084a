"""`CodeTool`: statements run while they are written, and the model learns exactly which ones ran."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from packages.toolkit.tests.cases import case
from tests.streams import MESSAGE_STOP, REQUEST, block_stop, input_delta, message_delta, message_start, tool_start
from tests.support import Gate, LocalAPI, Piece, until

import eagerstream
from eagerstream import EarlyCalls, Tool, ToolProgress, UsageError
from eagerstream._support.sessions import is_alive
from eagerstream.calls import RunStatus
from eagerstream.loop import Run
from eagerstream_testing import reply, text
from eagerstream_toolkit import CodeTool, MontySandbox, ProcessSandbox
from eagerstream_toolkit._code.sandbox import CodeValue, StatementEnd, StatementResult
from eagerstream_toolkit._code.statements import StatementSplitter

pytestmark = pytest.mark.anyio

DONE = reply(text("Done."), message_id="msg_done")


class Log:
    """Tools whose effects a test can see."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.at_once = self.most = 0
        self.hangs = False

    @eagerstream.tool
    async def note(self, text: str) -> int:
        """Note a text, and return the number of notes."""
        self.notes.append(text)
        return len(self.notes)

    @eagerstream.tool
    async def wait_for(self, count: int) -> dict[str, int]:
        """Wait until as many calls of this tool run at once."""
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await until(lambda: self.most >= count)
        self.at_once -= 1
        return {"count": count}

    @eagerstream.tool
    async def hang(self) -> None:
        """Wait for ever."""
        self.hangs = True
        try:
            await anyio.sleep_forever()
        finally:
            self.notes.append("hang ended")

    def tools(self) -> list[Tool]:
        """The tools of this log."""
        return [self.note, self.wait_for, self.hang]


@pytest.fixture
def log() -> Log:
    return Log()


def pieces(code: str) -> list[Piece]:
    """The start of a call of `run_code`, up to the end of this code."""
    written = json.dumps({"code": code})
    return [message_start(), tool_start(0, "run_code"), input_delta(0, written[: -len('"}')])]


ENDED: list[Piece] = [input_delta(0, '"}'), block_stop(0), message_delta("tool_use"), MESSAGE_STOP]


async def answered(tool: Tool, *codes: str) -> list[tuple[Any, bool]]:
    """The results of calls with these codes, each in a response of its own, and whether they are errors."""
    bodies = [[*pieces(code), *ENDED] for code in codes]
    async with run_of(tool, *bodies, [DONE]) as run:
        await run.finish()
    return [(call.text, call.is_error) for call in run.result.calls]


@asynccontextmanager
async def run_of(tool: Tool, *bodies: Any) -> AsyncIterator[Run]:
    """A run against these responses."""
    async with LocalAPI(*bodies).anthropic() as client, eagerstream.run(client, **REQUEST, tools=[tool]) as run:
        yield run


async def test_statements_run_while_the_rest_is_written(log: Log) -> None:
    """This is what the tool is for. The open statement does not run, whatever it looks like."""
    gate = Gate()
    code = "await note('a')\nif True:\n    await note('b')\nawait note('c')"
    async with CodeTool(log.tools()) as tool, run_of(tool, [*pieces(code), gate, *ENDED], [DONE]) as run:
        await until(lambda: log.notes == ["a", "b"])
        await anyio.wait_all_tasks_blocked()
        assert log.notes == ["a", "b"]
        gate.opened.set()
        await run.finish()
    assert log.notes == ["a", "b", "c"]
    assert run.result.calls[0].text == "3"


async def test_the_result_is_the_output_and_the_last_value(log: Log) -> None:
    """Both, in this order. Variables stay for the later calls of the run."""
    async with CodeTool(log.tools()) as tool:
        told = await answered(
            tool, "x = {'n': await note(text='a')}\nprint('one')\nprint('two')\nx", "x['n'] += 1\nx", "'a\\nb'"
        )
    assert told == [("one\ntwo\n{'n': 1}", False), ("{'n': 2}", False), ("a\nb", False)]


async def test_calls_that_the_code_starts_together_run_together(log: Log) -> None:
    """By `gather`, and by tasks of earlier statements."""
    code = (
        "print(await asyncio.gather(wait_for(2), wait_for(count=2)))\n"
        "first = asyncio.create_task(wait_for(2))\n"
        "print((await wait_for(2))['count'], await first)"
    )
    async with CodeTool(log.tools()) as tool:
        assert await answered(tool, code) == [("[{'count': 2}, {'count': 2}]\n2 {'count': 2}", False)]


ENDINGS = {
    "raises": (
        "await note('a')\nfor i in range(2):\n    1 / i\nawait note('b')",
        ["ZeroDivisionError: division by zero", "line 3", "Line 1 ran, and the effects stay.", "Lines 2 to 3 began"],
        1,
    ),
    "is invalid": (
        "await note('a')\nif True:\n    pass\nx = = 1\nawait note('b')",
        ["SyntaxError: invalid syntax (line 4)", "Lines 1 to 3 ran, and the effects stay. Nothing from line 4 on ran."],
        1,
    ),
    "is invalid from the start": ("return 1", ["SyntaxError", "No statement ran to its end."], 0),
    "ends its interpreter": (
        "await note('a')\nimport os\nos._exit(3)\nawait note('b')",
        ["The interpreter is lost, with all variables: it exited with status 3.", "Lines 1 to 2 ran"],
        1,
    ),
    "calls with a wrong input": ("await note(5)", ["ToolError: Error: Invalid parameter 'text'", "Line 1 began"], 0),
    "calls too often": ("for i in range(9): await note('a')", ["the code has made the 4 calls that it may make"], 4),
    "calls no tool": ("await nothing()", ["NameError: name 'nothing' is not defined"], 0),
}


async def test_the_model_learns_what_ran(log: Log) -> None:
    """However code ends, the result says which statements ran, and nothing after the fault runs."""
    async with CodeTool(log.tools(), max_calls=4) as tool:
        results = await answered(tool, *(code for code, _, _ in ENDINGS.values()))
    for (name, (_, said, _)), (told, is_error) in zip(ENDINGS.items(), results, strict=True):
        with case(name):
            assert is_error
            assert [each for each in said if each not in told] == [], told
    assert log.notes == ["a"] * sum(notes for _, _, notes in ENDINGS.values())


async def test_code_that_takes_too_long(log: Log) -> None:
    """By itself, or in a call of a tool: the result says which statements ran."""
    computes = "await note('a')\nimport time; time.sleep(1000)\nawait note('b')"
    async with CodeTool(log.tools(), timeout_s=0.5) as tool:
        (computed, is_error), (waited, also_error) = await answered(tool, computes, "await note('c')\nawait hang()")
    assert is_error
    assert "TimeoutError: the code did not finish within 0.5 seconds." in computed
    assert "Line 1 ran" in computed
    assert "Line 2 began and did not finish" in computed
    assert also_error
    assert "TimeoutError" in waited
    assert "Line 2 began" in waited
    assert log.notes == ["a", "c", "hang ended"]


async def test_code_that_is_cut_off(log: Log) -> None:
    """The complete statements ran, and the open one did not. The model is told both."""
    gate = Gate()
    code = pieces("await note('a')\nprint('x')\nawait note('b')")
    async with (
        CodeTool(log.tools()) as tool,
        run_of(tool, [*code, gate, message_delta("max_tokens"), MESSAGE_STOP]) as run,
    ):
        async for event in run:
            if isinstance(event, ToolProgress) and event.value["output"] == "x\n":
                gate.opened.set()
    assert log.notes == ["a"]
    [call] = run.result.calls
    assert call.is_error
    assert "it ends in the statement that begins in line 3." in call.text
    assert "Lines 1 to 2 ran, and the effects stay. Nothing else ran." in call.text
    assert "\nx\n" in call.text


async def test_a_guard_rejects_code_that_is_running(log: Log) -> None:
    """The statement that runs is cancelled, and no further one runs."""
    gate = Gate()
    body = [*pieces("await note('a')\nawait hang()\n"), gate, input_delta(0, "await evil()\\n"), *ENDED]

    def guard(partial: Any) -> str | None:
        return "no evil" if "evil" in partial.get("code", "") else None

    async with CodeTool(log.tools(), guard=guard) as tool, run_of(tool, body, [DONE]) as run:
        await until(lambda: log.hangs)
        gate.opened.set()
        await run.finish()
    assert log.notes == ["a", "hang ended"]
    assert "no evil\nThe variables are still there.\n" in run.result.calls[0].text
    assert "Line 1 ran" in run.result.calls[0].text


async def test_approval_is_for_the_complete_code(log: Log) -> None:
    """Nothing runs before it."""
    seen: list[Any] = []

    async def approve(call: eagerstream.tools.ToolCall) -> bool:
        seen.append((call.input.value, list(log.notes)))
        return len(seen) > 1

    async with CodeTool(log.tools(), approve=approve) as tool:
        told = await answered(tool, "await note('a')", "await note('b')")
    assert seen == [({"code": "await note('a')"}, []), ({"code": "await note('b')"}, [])]
    assert [is_error for _, is_error in told] == [True, False]
    assert log.notes == ["b"]


async def test_the_rules_of_the_tools_hold() -> None:
    """A guard and an approval of a tool are asked for each call of the code."""

    @eagerstream.tool(guard=lambda partial: "not this one" if partial.get("path") == "/etc" else None)
    async def read(path: str) -> str:
        """Read."""
        return path

    @eagerstream.tool(approve=lambda call: call.input.value == {"amount": 1})
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    code = """
for attempt in (read('/etc'), read('/tmp'), pay(1), pay(2)):
    try:
        print(await attempt)
    except ToolError as error:
        print(error)
"""
    async with CodeTool([read, pay]) as tool:
        [(told, _)] = await answered(tool, code)
    assert told.splitlines() == ["not this one", "/tmp", "paid 1", "Not executed: the call was not approved."]


async def test_sessions(log: Log) -> None:
    """Two runs share no variables. Those of a run can be discarded by its code, and by the program."""
    async with CodeTool(log.tools()) as tool:
        told = await answered(tool, "x = 1", "reset_session()\nx = 2", "x", "reset_session()", "x")
        assert [text for text, _ in told[:4]] == ["", "", "2", ""]
        assert "NameError" in told[4][0]
        async with run_of(tool, [*pieces("x"), *ENDED], [DONE]) as run:
            await run.finish()
        assert "NameError" in run.result.calls[0].text
        async with EarlyCalls([tool], run_id="mine") as calls:
            assert [each.text for each in await fed(calls, "y = 1")] == [""]
            tool.reset("mine")
            assert "NameError" in (await fed(calls, "y"))[0].text
        async with EarlyCalls([tool], run_id="mine") as calls:
            await fed(calls, "y = 1")
        async with EarlyCalls([tool], run_id="mine") as calls:
            assert [each.text for each in await fed(calls, "y")] == ["1"]


async def fed(calls: EarlyCalls, code: str) -> Any:
    """Feed a response with a call, and return its calls."""
    for event in (*pieces(code), *ENDED):
        calls.feed(event)
    return await calls.finish()


async def test_no_process_outlives_its_run(log: Log) -> None:
    """The interpreter of a run ends with it."""
    tool = CodeTool(log.tools())
    [(pid, _)] = await answered(tool, "import os\nos.getpid()")
    await until(lambda: not is_alive(int(pid)))


@pytest.mark.parametrize("sandbox", ["process", "monty"])
async def test_cancelling_runs_finally_blocks(log: Log, sandbox: str) -> None:
    """Of the statement that runs, and of the tools that it waits for. They can no longer call tools."""
    if sandbox == "monty":
        pytest.importorskip("pydantic_monty")
    code = """\
try:
    await hang()
finally:
    try:
        await note('a')
    except ToolError as error:
        print(error)
    print('cleaned')
"""
    place = MontySandbox() if sandbox == "monty" else ProcessSandbox()
    async with CodeTool(log.tools(), sandbox=place) as tool, run_of(tool, [*pieces(code + "1\n"), Gate()]) as run:
        async for event in run:
            if isinstance(event, ToolProgress) and event.value["calls"] == ["hang"]:
                await until(lambda: log.hangs)
                run.cancel()
    assert run.result.status is RunStatus.CANCELLED
    assert log.notes == ["hang ended"]
    assert "\nthe call was refused: the code is being cancelled\ncleaned\n" in run.result.calls[0].text


async def test_progress_says_which_lines_run(log: Log) -> None:
    """Each report is complete by itself."""
    code = "await note('a')\nif 1:\n    print('x')\n"
    seen: list[Any] = []
    async with CodeTool(log.tools()) as tool, run_of(tool, [*pieces(code), *ENDED], [DONE]) as run:
        async for event in run:
            if isinstance(event, ToolProgress):
                seen.append(event.value)
    assert {(each["line"], each["end_line"], each["state"]) for each in seen} >= {(2, 3, "done")}
    assert seen[-1] == {
        "parameter": "code",
        "statement": 2,
        "line": 2,
        "end_line": 3,
        "state": "done",
        "calls": [],
        "output": "x\n",
    }


async def test_called_by_hand(log: Log) -> None:
    """Without a run, each call has variables of its own."""
    tool = CodeTool(log.tools())
    response = await tool.call({"code": "x = await note('a')\nprint('hi')\nx"})
    assert (response.text, response.data["calls"]) == ("hi\n1", 1)
    with pytest.raises(eagerstream.ToolError, match="NameError"):
        await tool.call({"code": "x"})


def test_wrong_settings(log: Log) -> None:
    """They are found where the tool is made."""

    @eagerstream.tool(name="print")
    async def printing() -> None:
        """Print."""

    wrong: list[tuple[Any, dict[str, Any]]] = [
        ([], {}),
        ([printing], {}),
        ([{"type": "web_search_20250305", "name": "web_search"}], {}),
        (log.tools(), {"timeout_s": 0}),
        (log.tools(), {"max_calls": 0}),
    ]
    for tools, settings in wrong:
        with pytest.raises(UsageError):
            CodeTool(tools, **settings)


def test_the_description_has_the_tools(log: Log) -> None:
    """The model sees one tool, and the others as functions."""
    definition = CodeTool(log.tools()).to_dict()
    assert definition["name"] == "run_code"
    assert definition["input_schema"]["required"] == ["code"]
    assert "async def note(" in definition["description"]
    assert "Note a text, and return the number of notes." in definition["description"]


UNUSABLE = {"no JSON": '"} so', "cut": '"', "unknown": '", "more": 1}'}


async def test_input_that_is_unusable_after_its_code(log: Log) -> None:
    """All of the code ran before that showed, and the model is told so."""
    code = pieces("await note('a')\nprint('x')\nawait note('b')")
    gates = [Gate() for _ in UNUSABLE]
    bodies = [
        [*code, gate, input_delta(0, end), *ENDED[1:]] for gate, end in zip(gates, UNUSABLE.values(), strict=True)
    ]
    async with CodeTool(log.tools()) as tool, run_of(tool, *bodies, [DONE]) as run, anyio.create_task_group() as tasks:
        tasks.start_soon(run.finish)
        for number, gate in enumerate(gates):
            await until(lambda number=number: len(log.notes) > 2 * number)  # type: ignore[misc]  # bound in the loop
            gate.opened.set()
    for name, call in zip(UNUSABLE, run.result.calls, strict=True):
        with case(name):
            assert call.is_error
            assert "\nx\n" in call.text
            assert "Lines 1 to 3 ran, and the effects stay." in call.text
    assert log.notes == ["a", "b"] * len(UNUSABLE)


@pytest.mark.slow
async def test_tasks_that_do_not_end(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter is killed. The model learns it, and that its statements ran."""
    code = """
async def stay():
    while True:
        try:
            await asyncio.sleep(60)
        except BaseException:
            pass
task = asyncio.create_task(stay())
await note('a')
"""
    monkeypatch.setattr("eagerstream_toolkit._code.execution._FINISH_S", 0.3)
    async with CodeTool(log.tools(), timeout_s=1, sandbox=ProcessSandbox(grace_s=0.1)) as tool:
        [(told, is_error), (later, _)] = await answered(tool, code, "log")
    assert is_error
    assert "tasks that the code had started did not end" in told
    assert "All variables are gone.\nLines 2 to 9 ran, and the effects stay." in told
    assert "The variables of earlier calls were gone" in later


@pytest.mark.slow
async def test_a_value_whose_text_takes_too_long(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables are still there, and the model learns it."""
    monkeypatch.setattr("eagerstream_toolkit._code.execution._FINISH_S", 0.3)
    code = "x = 5\nclass A:\n    def __repr__(self):\n        while True: y = 1\nA()"
    async with CodeTool(log.tools(), timeout_s=0.5) as tool:
        [(told, is_error), later] = await answered(tool, code, "x")
    assert is_error
    assert "the text of its value took too long. The variables are still there.\nLines 1 to 5 ran" in told
    assert later == ("5", False)


async def test_values_and_errors_are_bounded_as_the_output(log: Log) -> None:
    """The start and the end are kept."""
    async with CodeTool(log.tools(), max_output_chars=100) as tool:
        [(value, _), (error, _)] = await answered(tool, "'x' * 9_000", "raise ValueError('y' * 1_900)")
    assert value == "x" * 50 + "\n... Output truncated (1 total lines) ...\n" + "x" * 50
    assert error.startswith("Traceback:\n  line 1\n")
    assert len(error) < 400


class _Idle:
    """A sandbox and a session in it, whose statements end at once and do nothing."""

    has_ended = False

    async def open(self, _functions: object) -> _Idle:
        return self

    @asynccontextmanager
    async def serve(self, _host: object) -> AsyncIterator[None]:
        yield

    async def run(self, _statement: object) -> StatementResult:
        return StatementResult(StatementEnd.DONE)

    async def finish(self) -> CodeValue:
        return CodeValue()

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("code", ["x = 1\n" * 5_000, "x = [" + "[], " * 20_000 + "]"], ids=["statements", "a line"])
async def test_code_that_comes_at_once_lets_others_run(log: Log, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of statements, or one long line, took a second in one step."""
    at_once = most = 0
    steps = StatementSplitter.steps
    last_steps = StatementSplitter.last_steps

    def counted(found: Iterator[Any]) -> Iterator[Any]:
        nonlocal at_once, most
        for each in found:
            at_once += 1
            most = max(most, at_once)
            yield each

    async def watch() -> None:
        nonlocal at_once
        while True:
            at_once = 0
            await anyio.lowlevel.checkpoint()

    monkeypatch.setattr(StatementSplitter, "steps", lambda self, text: counted(steps(self, text)))
    monkeypatch.setattr(StatementSplitter, "last_steps", lambda self: counted(last_steps(self)))
    async with CodeTool(log.tools(), sandbox=_Idle()) as tool, anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        [(_, is_error)] = await answered(tool, code)
        tasks.cancel_scope.cancel()
    assert not is_error
    assert 1 <= most <= 3
