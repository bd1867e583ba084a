"""Inputs that other libraries run with arguments they guessed: here none of them runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eagerstream.calls import RunStatus
from eagerstream.limits import Limits
from eagerstream.tools import Tool, tool
from eagerstream_testing import reply, tool_use
from eagerstream_wire import Outcome
from tests.loop.serial import CUT, DONE, assistant, call, error, finished, now, result, results
from tests.streams import USER, is_json
from tests.support import LocalAPI

pytestmark = pytest.mark.anyio

PEERS = {
    # peers.md, section 1: silently the prefix
    "unescaped quote": '{"cmd":"echo "hi" && rm"}',
    "missing comma": '{"a":1 "b":2}',
    "brace too many": '{"a":1}}',
    "trailing word": '{"a":1} junk',
    "missing comma in a list": '{"a":[1 2]}',
    "unclosed": '{"a":1',
    "unclosed list": '{"a":[1,2',
    # ... the whole stream lost
    "raw line feed": '{"a":"x\ny"}',
    "bad escape": '{"a":"\\q"}',
    "bare key": "{a:1}",
    "trailing comma": '{"a":1,}',
    "bare surrogate escape": '{"a": \\ud83d}',
    # ... handed on as they are
    "array": "[1,2]",
    "string": '"str"',
    "null": "null",
    "NaN": '{"a":NaN}',
    "Infinity": '{"a":Infinity}',
    "-Infinity": '{"a":-Infinity}',
    "1e400": '{"a":1e400}',
    "-1e400": '{"a":-1e400}',
    # requirements O.1 to O.8
    "string cut off": '{"filename": "poem',
    "bare word": '{"keywords": Dave, "r":1}',
    "cut inside a string": '{"filename":"poem.txt","lines":["Roses',
    "two objects": '{"a":1}{"b":2}',
    "list of an empty string": '[""]',
    "empty list": "[]",
    "literal cut off": '{"a":tru',
    "exponent cut off": '{"a":1e',
}
MORE = {
    "words": "Oslo, please",
    "single quotes": "{'city': 'Oslo'}",
    "comment": '{"city": "Oslo" /* in Norway */}',
    "python": '{"a": True, "b": None}',
    "many nines": '{"a":' + "9" * 400 + ".0}",
    "too many digits": '{"a":' + "9" * 4301 + "}",
    "too deep": '{"a":' + "[" * 600 + "]" * 600 + "}",
    "fenced": '```json\n{"city": "Oslo"}\n```',
}


def _vectors() -> list[str]:
    """The texts of the vectors for partial JSON that are no objects, or no JSON."""
    cases = json.loads((Path(__file__).parents[2] / "packages/wire/conformance/partial_json.json").read_bytes())[
        "cases"
    ]
    raws = {"".join(step.get("feed", "") for step in case["steps"]) for case in cases}
    return sorted(raw for raw in raws if raw and len(raw) < 100 and not (is_json(raw) and raw.strip().startswith("{")))


class Counter:
    """A tool that takes anything and counts."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []

    def tool(self) -> Tool:
        schema = {"type": "object", "properties": {}}
        return tool(self._run, definition={"name": "take", "input_schema": schema})

    async def _run(self, input: dict[str, Any]) -> str:
        self.inputs.append(input)
        return "taken"


async def check(raws: Sequence[str], *, fragment_chars: int = 3, outcome: Outcome | None = None) -> None:
    """The calls in the middle of the turn do not run, and everything else goes on as if they were not there."""
    counter = Counter()
    first = reply(
        tool_use("now", {}, id="a"),
        *(tool_use("take", raw, id=f"b{n}", fragment_chars=fragment_chars) for n, raw in enumerate(raws)),
        tool_use("take", {"n": 1}, id="c"),
    )
    api = LocalAPI([first], [DONE])
    run = await finished(api.transport(), tools=[now, counter.tool()])
    assert counter.inputs == [{"n": 1}], f"one of these was run: {raws}"
    assert run.result.status is RunStatus.COMPLETED
    assert len(api.exchanges) == 2
    asked, answered = api.exchanges[1].body["messages"][1:]
    assert len(asked["content"]) == len(answered["content"]) == len(raws) + 2
    for n, raw in enumerate(raws):
        bad = run.result.calls[n + 1]
        assert bad.input.outcome is (outcome or bad.input.outcome), raw
        wrapper = json.dumps({"INVALID_JSON": raw}, ensure_ascii=False)
        told = wrapper if bad.input.outcome is Outcome.INVALID else f"{wrapper}\n{CUT}"
        assert asked["content"][n + 1] == call(f"b{n}", "take", {"INVALID_JSON": raw})
        assert answered["content"][n + 1] == error(f"b{n}", told)
    assert api.exchanges[1].body["messages"] == [
        USER,
        assistant(call("a", "now", {}), *asked["content"][1:-1], call("c", "take", {"n": 1})),
        results(result("a", "noon"), *answered["content"][1:-1], result("c", "taken")),
    ]
    assert [made.ran for made in run.result.calls] == [True, *[False] * len(raws), True]


async def test_nothing_is_guessed() -> None:
    """None runs, each is echoed and answered as what the model wrote, the other calls run, the run goes on."""
    for name, raw in [*PEERS.items(), *MORE.items()]:
        assert not is_json(raw) or not raw.startswith("{") or len(raw) > 300 or "e400" in raw, name
    await check([*PEERS.values()])
    await check([*MORE.values()])
    await check(_vectors(), fragment_chars=40)


async def test_however_it_is_cut_up() -> None:
    """The sizes of the fragments decide nothing."""
    raws = ['{"a":1} junk', '{"a":1}}', '{"a":1}{"b":2}', "[1]", '{"a":"x\ny"}', '{"a":NaN}']
    for fragment_chars in (1, 2, 7, 10_000):
        await check(raws, fragment_chars=fragment_chars, outcome=Outcome.INVALID)


async def test_cut_at_every_byte_and_then_closed() -> None:
    """A peer that closes a block in the middle of its input does not make it an input."""
    raw = '{"s": "a\\u00e9\\n\U0001f600", "n": [1, -2.5e3, true, null], "o": {}}'
    await check([raw[:end] for end in range(1, len(raw))], outcome=Outcome.INCOMPLETE)


async def test_an_input_over_its_limit() -> None:
    """What is longer than the limit is not kept, and not run."""
    counter = Counter()
    raw = json.dumps({"a": "x" * 500})
    api = LocalAPI([reply(tool_use("take", raw, id="a"))], [DONE])
    run = await finished(api.transport(), tools=[counter.tool()], limits=Limits(max_input_chars=100))
    assert counter.inputs == []
    kept = {"INVALID_JSON": raw[:100]}
    assert run.result.messages[1:3] == [assistant(call("a", "take", kept)), results(error("a", json.dumps(kept)))]


async def test_an_input_over_64_KiB() -> None:
    """Its echo is whole; its result leaves out the middle."""
    raw = '{"a": "' + "x" * 200_000 + '" oops}'
    api = LocalAPI([reply(tool_use("now", raw, id="a", fragment_chars=5000))], [DONE])
    run = await finished(api.transport(), tools=[now])
    assert run.result.messages[1]["content"][0]["input"] == {"INVALID_JSON": raw}
    answer = run.result.messages[2]["content"][0]["content"]
    assert 64 * 1024 < len(answer) < 66 * 1024
    shown = json.loads(answer.split("\n")[0])["INVALID_JSON"]
    assert shown.startswith('{"a": "xxx')
    assert shown.endswith('" oops}')


async def test_a_tool_that_asks_for_them() -> None:
    """`accepts_invalid_input`: it gets what is not JSON, wrapped; what was cut off it does not get."""
    seen: list[Any] = []

    async def mend(input: dict[str, Any]) -> str:
        seen.append(input)
        return "mended"

    definition = {"name": "mend", "input_schema": {"type": "object"}}
    first = reply(tool_use("mend", "[1]", id="a"), tool_use("mend", '{"a":', id="b"), tool_use("mend", {}, id="c"))
    api = LocalAPI([first], [DONE])
    run = await finished(api.transport(), tools=[tool(mend, definition=definition, accepts_invalid_input=True)])
    assert sorted(map(str, seen)) == sorted(map(str, [{"INVALID_JSON": "[1]"}, {}]))
    assert [made.ran for made in run.result.calls] == [True, False, True]
    assert run.result.messages[1]["content"][0]["input"] == {"INVALID_JSON": "[1]"}
