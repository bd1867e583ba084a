"""What every executor keeps, wherever its tools run; what the model is told is the same word for word."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from packages.durable.tests.workers import tools
from packages.durable.tests.workers.calls import Written, a_call, answered, content, executing, lines_of
from packages.durable.tests.workers.places import PLACES, MakeExecutor, each_place
from tests.support import Heard

import eagerstream
from eagerstream import CircuitBreaker, HTTPTransport, RunStatus
from eagerstream.limits import Limits
from eagerstream.tools import CallHost, CallState, InProcessExecutor, Tool, Toolbox, ToolCall
from eagerstream_testing import ReplayServer, Scenario, Timing, reply, text, tool_use

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=each_place)
async def make(request: pytest.FixtureRequest, anyio_backend: str) -> AsyncIterator[MakeExecutor]:
    async with PLACES[request.param]() as made:
        yield made


async def test_result(make: MakeExecutor) -> None:
    """The ordinary life of a call: it waits, runs, and is answered; the tool is told which call it is."""
    written = a_call("double", n=21)
    states = [written.call.state]
    written.call.listeners = (Heard(on_start=lambda call: states.append(call.state)),)
    call = await answered(make([tools.double]), written)
    assert states == [CallState.WAITING, CallState.RUNNING]
    assert (call.state, call.ran, call.is_error, content(call)) == (CallState.ANSWERED, True, False, "42")
    assert call.response is not None
    assert call.response.data == {"output": 42}
    assert call.response.stats is not None
    assert "time_ms" in call.response.stats


async def test_injected_call(make: MakeExecutor) -> None:
    """A tool that asks for its call gets one that knows what the API said of it."""
    written = Written("about", caller={"type": "direct"})
    written.write("{ }")
    written.end()
    call = await answered(make([tools.about]), written)
    assert content(call) == f"{call.id} about 1 {{'type': 'direct'}} {{ }}"


async def test_context(make: MakeExecutor) -> None:
    """A tool gets the context of the run, and the run's id; in another process a copy, for each call another one."""
    shop, executor = tools.Shop("Ladina"), make([tools.sell])
    for number in range(1, 3):
        written = a_call("sell", thing="a hat")
        written.call.host, written.call.run_id = CallHost("r", shop), "r"
        call = await answered(executor, written)
        is_here = len(shop.name) > 6
        assert content(call) == f"a hat of Ladina{'!' * (number if is_here else 1)} r 1 {call.id}"


async def test_context_without_a_copy(make: MakeExecutor) -> None:
    """A context that pickle cannot copy is refused when the run is made, unless the tool runs in this process."""
    executor: Any = make([tools.sell])
    fault_of = getattr(executor, "fault_of_context", None)
    if fault_of is None:
        assert type(executor) is InProcessExecutor
        return
    toolbox = Toolbox([tools.sell, tools.halve])
    fault = fault_of(tools.Shop("Ladina", till=lambda: None), toolbox)
    assert re.match(r"sell: the context cannot be sent to the workers of these tools: \w+: ", fault)
    assert fault_of(tools.Shop("Ladina"), toolbox) is None


async def test_repaired_input(make: MakeExecutor) -> None:
    """It is repaired in the program, and the tool gets the object wherever it runs."""
    call = await answered(make([tools.mended]), a_call("mended", '{"n": 4,}'))
    assert (call.repaired, content(call).splitlines()[-1]) == ({"n": 4}, "8")


@pytest.mark.parametrize("used", [tools.steps, tools.thread_steps, tools.generated, tools.generated_in_thread])
async def test_progress(make: MakeExecutor, used: Tool) -> None:
    """Values of progress come in their order and before the result, from whatever kind of function."""
    written = a_call(used.name, count=5)
    call = await answered(make([used]), written)
    numbers = [int(str(value).strip("{}").split()[-1]) for value in written.progress]
    assert numbers == list(range(5))
    assert content(call) == ("value 4" if "generated" in used.name else "done")


async def test_plain_function(make: MakeExecutor) -> None:
    """A plain `def` runs, too."""
    assert content(await answered(make([tools.halve]), a_call("halve", n=5))) == "2.5"


async def test_items_as_they_are_written(make: MakeExecutor) -> None:
    """A tool has each item before the model has begun to write the next one: the test writes it only then."""
    written = Written("read_items")
    async with executing(make([tools.read_items]), written):
        written.write('{"name": "poem", "lines": [')
        for number in range(4):
            written.write(f'"line {number}"' if not number else f', "line {number}"')
            await written.until(lambda: len(written.progress) > number)  # noqa: B023 - within the turn
            assert written.call.state is CallState.RUNNING
        written.write("]}")
        written.end()
    assert written.progress == [f"line {number}" for number in range(4)]
    assert content(written.call) == "poem: 4 lines"


async def test_text_and_later(make: MakeExecutor) -> None:
    """Pieces of a text come as they are written, and a value that the tool does not need to begin comes later."""
    written = Written("read_text")
    async with executing(make([tools.read_text]), written):
        written.write('{"text": "one')
        await written.until(lambda: "".join(written.progress) == "one")
        written.write(" two")
        await written.until(lambda: "".join(written.progress) == "one two")
        written.write('", "title": "T"}')
        written.end()
    assert content(written.call) == "T: 7"


async def test_whole_input_of_a_streaming_tool(make: MakeExecutor) -> None:
    """A streaming tool runs on an input that is whole already."""
    call = await answered(make([tools.read_items]), a_call("read_items", name="poem", lines=["a", "b"]))
    assert content(call) == "poem: 2 lines"


@pytest.mark.parametrize(
    ("rest", "whole", "told"),
    [
        (', "b"]}', True, "a"),
        (", b", True, "The tool had started with the part that had arrived, and says:\na"),
        (', "b"', False, "The input of this call was cut off"),
        (', "b"], "lines": []}', True, "was written twice"),
    ],
)
async def test_tool_that_ends_before_its_input(make: MakeExecutor, rest: str, whole: bool, told: str) -> None:
    """What a tool says that was done before its input counts where the input turns out right, and is told else."""
    written = Written("first_line")
    async with executing(make([tools.first_line]), written):
        written.write('{"lines": ["a"')
        await written.until(lambda: written.call.ran)
        written.write(rest)
        written.end(whole=whole)
    assert told in str(content(written.call))
    assert written.call.is_error is (told != "a")


async def _interrupted(make: MakeExecutor, interrupt: Callable[[Written], object]) -> str:
    """What the model is told of a tool whose input is interrupted between two fragments."""
    written = Written("told_of_interruption")
    async with executing(make([tools.told_of_interruption]), written):
        written.write('{"lines": ["a"')
        await written.until(lambda: written.progress == ["a"])
        interrupt(written)
        written.write(', "b"]}')
        written.end()
    assert written.progress == ["a"]
    assert written.call.is_error
    return str(content(written.call))


async def test_guard_interrupts(make: MakeExecutor) -> None:
    """What a guard rejects in the middle is not read any further; the model is told both words."""
    told = await _interrupted(make, lambda written: written.call.reject("not that file"))
    assert "interrupted: not that file" in told
    assert "not that file" in told.replace("interrupted: not that file", "")


async def test_a_lost_fragment_interrupts(make: MakeExecutor) -> None:
    """Nothing behind the loss reaches the tool, although the text goes on as JSON."""
    told = await _interrupted(make, Written.lose)
    assert "A part of its input was lost.\nThe tool had started" in told
    assert "Not executed" not in told
    assert "interrupted: a fragment of the input was lost" in told


async def _here_too(make: MakeExecutor, used: Tool, raw: str) -> ToolCall:
    """A call of which the model is told the same as if the tool ran in this process."""
    call = await answered(make([used]), a_call(used.name, raw))
    assert content(call) == content(await answered(InProcessExecutor([used]), a_call(used.name, raw))), raw[:100]
    return call


async def test_inputs_that_do_not_fit(make: MakeExecutor) -> None:
    """The tool does not run, and the model is told what is wrong."""
    for raw in ('{"n": Dave}', "[1]", '{"n": 1', "{}", '{"n": "1"}', '{"m": 1}'):
        assert not (await _here_too(make, tools.double, raw)).ran, raw


async def test_invalid_input_that_is_accepted(make: MakeExecutor) -> None:
    """A tool that says so gets an input that is not JSON, verbatim."""
    call = await answered(make([tools.anything]), a_call("anything", '{"n": Dave}'))
    assert (content(call), call.is_error) == ("""0 '{"n": Dave}'""", False)


async def test_invalid_input_beyond_the_limit(make: MakeExecutor) -> None:
    """An input over the limit is invalid wherever it is read."""
    written = Written("anything", limits=Limits(max_input_chars=8))
    written.write('{"n": 123456}')
    written.end()
    call = await answered(make([tools.anything]), written)
    assert content(call) == """0 '{"n": 12'"""


async def test_unknown_tool(make: MakeExecutor) -> None:
    """The model is told which tools there are."""
    call = await answered(make([tools.double, tools.halve]), a_call("treble", n=1))
    assert content(call) == "Error: Tool 'treble' not found. Available tools: double, halve"


async def _both(make: MakeExecutor, used: Tool, kind: str) -> tuple[ToolCall, ToolCall]:
    """The same call in this process and there. The model is told the same of both."""
    expected = await answered(InProcessExecutor([used]), a_call(used.name, kind=kind))
    call = await answered(make([used]), a_call(used.name, kind=kind))
    assert (content(call), call.is_error) == (content(expected), expected.is_error), kind
    return expected, call


@pytest.mark.slow
@pytest.mark.parametrize("used", [tools.fails, tools.fails_in_thread])
async def test_errors(make: MakeExecutor, used: Tool, anyio_backend_name: str) -> None:
    """What a tool raises is told as it is in this process, whether it can be pickled or not; its code is the same."""
    others = ("needs two", "lock", "local", "group", "becomes text", "exits", "cancelled")  # none of Python's builtins
    for kind in tools.ERRORS:
        if kind == "cancelled" and anyio_backend_name == "trio":
            continue  # it is an exception of asyncio's
        expected, call = await _both(make, used, kind)
        assert call.is_error, kind
        assert call.response is not None, kind
        assert expected.response is not None, kind
        assert call.response.code == expected.response.code, kind
        assert isinstance(call.error, BaseException), kind
        assert kind in others or type(call.error) is type(expected.error), kind
        assert str(call.error) in (str(expected.error), content(expected)), kind


@pytest.mark.slow
@pytest.mark.parametrize("used", [tools.returns, tools.returns_data])
async def test_responses(make: MakeExecutor, used: Tool) -> None:
    """What a tool returns is told, and kept, as it is in this process."""
    for kind in tools.RESPONSES:
        expected, call = await _both(make, used, kind)
        assert call.response is not None, kind
        assert expected.response is not None, kind
        assert (call.response.status, call.response.reason) == (expected.response.status, expected.response.reason)
        if kind not in ("lock in data", "no json"):
            assert call.response.data == expected.response.data, kind
            assert call.response.context == expected.response.context, kind


async def test_progress_that_cannot_be_pickled(make: MakeExecutor) -> None:
    """A value of progress that no other process can be given comes in another form, and harms nothing."""
    written = a_call("odd_progress")
    assert content(await answered(make([tools.odd_progress]), written)) == "done"
    assert [str(value) for value in written.progress] == ["a lock"]


async def test_group(make: MakeExecutor, tmp_path: Path) -> None:
    """Tools of a group run one at a time, in call order, and none after one that failed."""
    log = tmp_path / "log"
    groups: dict[str, ToolCall] = {}
    calls = [a_call("in_order", groups=groups, log=str(log), name=name) for name in ("first", "bad", "third")]
    async with executing(make([tools.in_order]), *calls):
        pass
    assert log.read_text().splitlines() == ["first begins", "first ends", "bad begins", "bad ends"]
    assert content(calls[1].call) == "a failure"
    assert "Not executed" in content(calls[2].call)


async def test_order_of_admission(make: MakeExecutor, tmp_path: Path) -> None:
    """Where one runs at a time, calls run in the order in which they were admitted."""
    log = tmp_path / "log"
    calls = [a_call("logs", log=str(log), name=str(number)) for number in range(5)]
    async with executing(make([tools.logs], max_concurrency=1), *calls):
        pass
    assert log.read_text().split() == [str(number) for number in range(5)]


async def test_beside_one_another(make: MakeExecutor, tmp_path: Path) -> None:
    """Calls run at the same time: each of these waits until all have begun."""
    log = tmp_path / "log"
    written = [a_call("waits_for", log=str(log), name=str(number), others=4) for number in range(4)]
    async with executing(make([tools.waits_for]), *written):
        pass
    assert [content(each.call) for each in written] == ["0", "1", "2", "3"]


async def test_approval(make: MakeExecutor) -> None:
    """Approval is asked for here, with the whole call, and a call that is not approved does not run."""
    asked: list[Any] = []

    def approve(call: ToolCall) -> object:
        asked.append(call.input.value)
        return call.input.value == {"n": 1} or "No."

    used = tools.double.__wrapped__
    guarded = Tool(used, approve=approve)
    executor = make([guarded])
    first, second = a_call("double", n=1), a_call("double", n=2)
    assert content(await answered(executor, first)) == "2"
    assert (content(await answered(executor, second)), second.call.ran) == ("No.", False)
    assert asked == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("used", [tools.sleeper, tools.busy])
async def test_time_limit(make: MakeExecutor, used: Tool, tmp_path: Path) -> None:
    """A tool that takes too long is given up, and the model is told so; the next call runs."""
    executor = make([used, tools.double])
    call = await answered(executor, a_call(used.name, end=str(tmp_path / "end")))
    (tmp_path / "end").touch()  # its thread in this process, which nothing else ends
    assert content(call) == "TimeoutError: the tool did not finish within 0.1 seconds"
    assert call.response is not None
    assert call.response.code == "TIMEOUT"
    assert content(await answered(executor, a_call("double", n=1))) == "2"


async def _cancelled(
    make: MakeExecutor, used: Tool, log: Path, *, then: Callable[[], object] = lambda: None, **arguments: str
) -> ToolCall:
    """A call that was cancelled while its tool ran, after which `then` was called at once."""
    written = a_call(used.name, log=str(log), **arguments)
    async with executing(make([used]), written) as tasks:
        await lines_of(log, 1)
        await written.until(lambda: written.call.ran)
        tasks.cancel_scope.cancel()
        then()
    return written.call


async def test_cancellation(make: MakeExecutor, tmp_path: Path) -> None:
    """A tool whose call is left is cancelled; its cleanup is over before the call is."""
    log = tmp_path / "log"
    call = await _cancelled(make, tools.cleans_up, log)
    assert log.read_text().splitlines() == ["begun", "cleaned"]
    assert call.result is None


async def test_cancellation_while_the_input_grows(make: MakeExecutor) -> None:
    """A call can be left at every place of its input."""
    for written_before in ("", '{"name": "poem", "li', '{"name": "poem", "lines": ["a", "b'):
        written = Written("read_items")
        async with executing(make([tools.read_items]), written) as tasks:
            written.write(written_before)
            if '"a"' in written_before:
                await written.until(lambda: written.progress)  # noqa: B023 - within the turn
            else:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert written.call.result is None
        written.end(whole=False)


async def test_finishing_in_spite_of_cancellation(make: MakeExecutor, tmp_path: Path) -> None:
    """A tool that is to finish is waited for when its run is cancelled, and its result is kept."""
    log, gate = tmp_path / "log", tmp_path / "gate"
    call = await _cancelled(make, tools.finishes, log, then=gate.touch, gate=str(gate))
    assert log.read_text().splitlines() == ["begun", "ended"]
    assert content(call) == "finished"


async def test_circuit_breaker(make: MakeExecutor) -> None:
    """A tool that fails again and again is left alone; what was wrong with an input does not count."""
    executor = make([tools.fails], circuit_breaker=CircuitBreaker(failure_threshold=2))
    for _ in range(3):
        assert "TypeError" not in str(content(await answered(executor, a_call("fails", "{}"))))
    for _ in range(2):
        assert content(await answered(executor, a_call("fails", kind="plain"))) == "ValueError: not that"
    call = await answered(executor, a_call("fails", kind="plain"))
    assert not call.ran
    assert call.response is not None
    assert call.response.code == "CIRCUIT_OPEN"


@pytest.mark.slow
async def test_large_input_and_result(make: MakeExecutor) -> None:
    """Ten megabytes go in, and come out."""
    size = 10_000_000
    executor = make([tools.length, tools.long_result, tools.big_progress])
    assert content(await answered(executor, a_call("length", text="ä" * size))) == str(size)
    call = await answered(executor, a_call("long_result", size=size))
    assert call.response is not None
    assert call.response.data == {"long": "y" * size}
    written = a_call("big_progress", size=size)
    await answered(executor, written)
    assert written.progress == ["z" * size]


async def test_large_input_that_does_not_fit(make: MakeExecutor) -> None:
    """What is wrong with a large input is told in the same words."""
    assert not (await _here_too(make, tools.length, json.dumps({"text": ["x" * 400_000]}))).ran


async def test_objects_and_foreign_tools(make: MakeExecutor) -> None:
    """Methods of objects, tools of other libraries, and functions under other names."""
    counter, other = tools.Counter(41), tools.Foreign(3)
    known = [counter.count_up, eagerstream.tools.as_tool(other), tools.other_name]
    executor = make([each for each in known if each is not None])
    assert content(await answered(executor, a_call("count_up"))) == "42"
    assert content(await answered(executor, a_call("foreign", n=5))) == "15"
    assert content(await answered(executor, a_call("add_one", n=5))) == "6"


async def test_answered_before_its_turn(make: MakeExecutor) -> None:
    """A call that has an answer by then is left alone."""
    written = a_call("double", n=1)
    written.call.refuse("not any more")
    assert content(await answered(make([tools.double]), written)) == "not any more"
    assert not written.call.ran


# --- whole runs -------------------------------------------------------------------------------------------------------


_LINES = [f"line {number}" for number in range(6)]


async def _run(url: str, make: MakeExecutor) -> eagerstream.RunResult:
    known: list[eagerstream.Tool] = [tools.double, tools.fails, tools.read_items]
    request: dict[str, Any] = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "Go."}]}
    executor = make(known)
    async with (
        HTTPTransport(base_url=url) as transport,
        eagerstream.run(transport, tools=known, executor=executor, **request) as run,
    ):
        await run.finish()
    return run.result


async def test_runs_share_it(make: MakeExecutor) -> None:
    """Several whole runs at once over real sockets: every call has its own result, in its place."""
    first = reply(
        text("Go."),
        tool_use("read_items", {"name": "poem", "lines": _LINES}, id="toolu_r", fragment_chars=8),
        tool_use("double", {"n": 4}, id="toolu_d"),
        tool_use("fails", {"kind": "plain"}, id="toolu_f"),
        tool_use("double", {"n": "4"}, id="toolu_b"),
    )

    scenario = Scenario(first, reply(text("Done.")), timing=Timing(tokens_per_second=400))
    results: list[eagerstream.RunResult] = []

    async def run(url: str) -> None:
        results.append(await _run(url, make))

    async with ReplayServer(scenario) as server:
        with anyio.fail_after(50):
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(run, server.base_url)
    for result in results:
        assert result.status is RunStatus.COMPLETED
        told = {block["tool_use_id"]: block for block in result.messages[2]["content"]}
        assert told["toolu_r"]["content"] == "poem: 6 lines"
        assert told["toolu_d"]["content"] == "8"
        assert told["toolu_f"] == {
            "type": "tool_result",
            "tool_use_id": "toolu_f",
            "content": "ValueError: not that",
            "is_error": True,
        }
        assert "Invalid parameter 'n'" in told["toolu_b"]["content"]
    assert len(results) == 3
