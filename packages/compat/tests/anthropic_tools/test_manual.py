"""`execution_mode="manual"`: one request, its calls looked at, and what the program then does with them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from packages.compat.tests.anthropic_tools.support import (
    ANSWER,
    DONE,
    HELLO,
    MISSING_B,
    AdditionTool,
    AsyncTool,
    FailingTool,
    Later,
    add,
    fails,
    turn,
)
from tests.loop.serial import Serial

from eagerstream.errors import UsageError
from eagerstream.recordings import Recording
from eagerstream_compat.anthropic_tools import (
    BaseTool,
    ToolUser,
    ahandle_manual_claude_res,
    handle_manual_claude_res,
)
from eagerstream_testing import text, thinking, tool_use

pytestmark = pytest.mark.anyio
CALL = {"tool_name": "perform_addition", "tool_arguments": {"a": 8, "b": 6}}


async def ask(serial: Serial, answer: Recording, tools: list[BaseTool] | None = None, **options: Any) -> dict[str, Any]:
    async with serial.conversing(answer) as client:
        user = ToolUser(tools if tools is not None else [AdditionTool()], client=client, **options)
        return await user.ause_tools(HELLO)


async def test_a_call(serial: Serial) -> None:
    """It is the default mode, and nothing runs. The arguments are what the tool takes."""
    tool = AdditionTool()
    message = await ask(serial, turn(1, text("So:\n"), add("8", " 6 ")), [tool])
    (id,) = message.pop("_tool_use_ids")
    assert message == {"role": "tool_inputs", "content": "So:\n", "tool_inputs": [CALL]}
    assert id.startswith("toolu_")
    assert tool.used == []


@pytest.mark.parametrize(
    ("call", "told", "arguments"),
    [
        (tool_use("perform_addition", {"a": 9}), MISSING_B, {"a": 9}),
        (tool_use("nope", {"x": 1}), "No tool named <tool_name>nope</tool_name> available.", {"x": 1}),
    ],
)
async def test_a_faulty_call(serial: Serial, call: Any, told: str, arguments: dict[str, Any]) -> None:
    """The message can be read by both kinds of programs: those that look for the status, and for the role."""
    message = await ask(serial, turn(1, add(1, 2), call))
    assert (message["status"], message["error_message"]) == ("ERROR", told)
    assert message["role"] == "tool_inputs"
    assert [each["tool_arguments"] for each in message["tool_inputs"]] == [{"a": 1, "b": 2}, arguments]


async def test_arguments_that_are_no_json(serial: Serial) -> None:
    """They are handed out as the model is shown them, and the conversation can go on."""
    message = await ask(serial, turn(1, tool_use("perform_addition", '{"a": nine}')))
    assert message["tool_inputs"][0]["tool_arguments"] == {"INVALID_JSON": '{"a": nine}'}
    assert message["status"] == "ERROR"
    messages = deepcopy(HELLO)
    await ahandle_manual_claude_res(messages, message, ToolUser([AdditionTool()]))
    async with serial.conversing(DONE) as client:
        assert await ToolUser([AdditionTool()], client=client).ause_tools(messages) == ANSWER


async def test_a_call_that_was_cut(serial: Serial) -> None:
    """It is faulty, whatever has come of it."""
    cut = turn(1, tool_use("perform_addition", '{"a": 3, ', closed=False), stop_reason="max_tokens")
    message = await ask(serial, cut)
    assert message["error_message"] == "The arguments of tool perform_addition were cut off before they were complete."


@pytest.mark.parametrize(
    ("blocks", "content", "reason"),
    [
        ([text("She has 14.")], "She has 14.", None),
        ([thinking("Hm."), text("She has 14.")], "She has 14.", None),  # the format has no place for it
        ([text("She")], "She", "max_tokens"),
        ([text("No"), add(1, 2)], "", "refusal"),
        ([text("She"), add(1, 2)], "She", "model_context_window_exceeded"),
    ],
)
async def test_replies_without_calls(serial: Serial, blocks: list[Any], content: str, reason: str | None) -> None:
    """One that did not end by itself says so, and its calls do not count."""
    ended = {} if reason is None else {"stop_reason": reason}
    assert await ask(serial, turn(1, *blocks, **ended)) == {"role": "assistant", "content": content, **ended}


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_hook_and_the_observer(serial: Serial, is_async: bool) -> None:
    """Both are asked in manual mode, too; an async observer is awaited."""
    seen: list[dict[str, Any]] = []

    async def observe(message: dict[str, Any]) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(message)

    options: dict[str, Any] = {"validate": lambda *_: "Not now.", "on_message": observe if is_async else seen.append}
    message = await ask(serial, turn(1, add(8, 6)), **options)
    assert message["error_message"] == "Not now."
    assert seen == [message]


async def never(name: str, arguments: dict[str, Any]) -> str:
    return "Not now."


@pytest.mark.parametrize("validate", [never, lambda *_: True], ids=["async", "bool"])
@pytest.mark.parametrize("mode", ["manual", "automatic"])
async def test_a_hook_that_says_nothing(serial: Serial, validate: Any, mode: Any) -> None:
    """What is no answer lets nothing pass."""
    tool = AdditionTool()
    async with serial.conversing(turn(1, add(8, 6)), DONE) as client:
        user = ToolUser([tool], client=client, validate=validate)
        with pytest.raises(UsageError, match="validate must be a plain def that gives a text or None"):
            await user.ause_tools(HELLO, execution_mode=mode)
    assert tool.used == []


# --- the loop ---------------------------------------------------------------------------------------------------------


async def test_in_a_loop(serial: Serial) -> None:
    """Until it is the user's turn; the API gets its own ids back."""
    messages = deepcopy(HELLO)
    replies = [
        turn(1, text("First."), add(8, 6)),
        fails(2),
        turn(3, tool_use("shout", {"word": "hey"}), add(1, 2)),
        DONE,
    ]
    async with serial.conversing(*replies) as client:
        user = ToolUser([AdditionTool(), AsyncTool()], client=client)
        action = "auto_respond"
        while action == "auto_respond":
            done = await ahandle_manual_claude_res(messages, await user.ause_tools(messages), user)
            assert done["messages"] is messages
            action = done["next_action"]
    assert action == "user_input"
    assert messages[-1] == ANSWER
    assert [message["role"] for message in messages] == ["user", *["tool_inputs", "tool_outputs"] * 3, "assistant"]
    assert messages[2]["tool_outputs"] == [{"tool_name": "perform_addition", "tool_result": 14}]
    assert messages[4]["tool_error"] == MISSING_B
    assert [each["tool_result"] for each in messages[6]["tool_outputs"]] == ["HEY", 3]
    ids = [
        block["id"]
        for message in serial.bodies[-1]["messages"]
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "tool_use"
    ]
    assert len(ids) == 4
    assert not any("compat" in id for id in ids)


def inputs(*calls: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"role": "tool_inputs", "content": "", "tool_inputs": list(calls), **keys}


@pytest.fixture(params=[False, True])
def handle(request: pytest.FixtureRequest) -> Any:
    """Both forms."""

    async def plain(*arguments: Any) -> dict[str, Any]:
        return await anyio.to_thread.run_sync(handle_manual_claude_res, *arguments)

    return ahandle_manual_claude_res if request.param else plain


async def test_an_answer_is_appended(handle: Any) -> None:
    """And it is the user's turn."""
    assert await handle([*HELLO], ANSWER, ToolUser([])) == {"next_action": "user_input", "messages": [*HELLO, ANSWER]}


async def test_results_are_appended(handle: Any) -> None:
    """In the order of the calls."""
    asked = inputs(CALL, CALL)
    done = await handle([*HELLO], asked, ToolUser([AdditionTool()]))
    outputs = [{"tool_name": "perform_addition", "tool_result": 14}] * 2
    answer = {"role": "tool_outputs", "tool_outputs": outputs, "tool_error": None}
    assert done == {"next_action": "auto_respond", "messages": [*HELLO, asked, answer]}


async def test_arguments_that_a_tool_changes(handle: Any) -> None:
    """They stay in the conversation as the model wrote them."""

    class Append(BaseTool):
        def use_tool(self, words: list[str]) -> int:
            words.append("tool")
            return len(words)

    asked = inputs({"tool_name": "append", "tool_arguments": {"words": ["x"]}})
    tool = Append("append", "x", [{"name": "words", "type": "list", "description": "x"}])
    done = await handle([*HELLO], asked, ToolUser([tool]))
    assert done["messages"][-1]["tool_outputs"][0]["tool_result"] == 2
    assert asked["tool_inputs"][0]["tool_arguments"] == {"words": ["x"]}


@pytest.mark.parametrize("unknown_first", [False, True])
async def test_an_unknown_tool(handle: Any, unknown_first: bool) -> None:
    """Nothing runs, wherever it stands."""
    tool = AdditionTool()
    calls = [CALL, {"tool_name": "nope", "tool_arguments": {}}]
    done = await handle([*HELLO], inputs(*calls[:: -1 if unknown_first else 1]), ToolUser([tool]))
    told = "No tool named <tool_name>nope</tool_name> available."
    assert done["messages"][-1] == {"role": "tool_outputs", "tool_outputs": None, "tool_error": told}
    assert done["next_action"] == "auto_respond"
    assert tool.used == []


async def test_what_a_tool_raises(handle: Any) -> None:
    """The model is told; on request it is raised."""
    asked = inputs({"tool_name": "fail", "tool_arguments": {}})
    done = await handle([*HELLO], asked, ToolUser([FailingTool()]))
    assert done["messages"][-1]["tool_error"] == "ConnectionError: no route"
    with pytest.raises(ConnectionError):
        await handle([*HELLO], asked, ToolUser([FailingTool()], raise_tool_exceptions=True))


async def test_a_faulty_reply(handle: Any) -> None:
    """What `use_tools` found is passed on."""
    tool = AdditionTool()
    done = await handle([*HELLO], inputs(CALL, status="ERROR", error_message=MISSING_B), ToolUser([tool]))
    assert done["messages"][-1]["tool_error"] == MISSING_B
    assert tool.used == []


@pytest.mark.parametrize("role", ["user", "tool_outputs", None])
async def test_another_role(handle: Any, role: str | None) -> None:
    """Told, and nothing is appended."""
    messages = [*HELLO]
    with pytest.raises(ValueError) as caught:
        await handle(messages, {"role": role}, ToolUser([]))
    assert str(caught.value) == f"Provided role should be assistant or tool_inputs, got {role}"
    assert messages == HELLO


async def test_the_plain_forms_in_a_loop() -> None:
    """They would block the loop: the program is told what does not, and nothing is appended."""
    with pytest.raises(UsageError, match=r"use_tools would block the .* event loop: use await ause_tools\(\.\.\.\)"):
        ToolUser([]).use_tools(HELLO)
    messages = [*HELLO]
    with pytest.raises(UsageError, match="use await ahandle_manual_claude_res"):
        handle_manual_claude_res(messages, inputs(CALL), ToolUser([AdditionTool()]))
    assert messages == HELLO


async def test_an_awaitable(handle: Any) -> None:
    """What a plain function gives to be awaited is awaited."""
    user = ToolUser([Later("later", "x", [{"name": "word", "type": "str", "description": "x"}])])
    done = await handle([*HELLO], inputs({"tool_name": "later", "tool_arguments": {"word": "x"}}), user)
    assert done["messages"][-1]["tool_outputs"] == [{"tool_name": "later", "tool_result": {"word": "x"}}]
