"""`repair_history`: broken histories, as users have reported them, become histories that the API accepts."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from anthropic.types import TextBlock, ToolUseBlock
from packages.wire.tests.test_history import Block, Messages, assistant, user
from tests import api_rules
from tests.tables import rows

from eagerstream_wire import RepairKind, repair_history, validate_history


def text(words: str = "Hi") -> Block:
    return {"type": "text", "text": words}


def call(id: str = "toolu_1", name: str = "search", **more: Any) -> Block:
    return {"type": "tool_use", "id": id, "name": name, "input": {}, **more}


def answer(id: str = "toolu_1", content: Any = "found", **more: Any) -> Block:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def thinking() -> Block:
    return {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}


def searched(id: str = "srvtoolu_1") -> Block:
    return {"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "x"}}


def found(id: str = "srvtoolu_1", content: Any = ()) -> Block:
    return {"type": "web_search_tool_result", "tool_use_id": id, "content": list(content)}


def not_executed(id: str = "toolu_1") -> Block:
    words = "Not executed: the result of this call is missing from the conversation."
    return {"type": "tool_result", "tool_use_id": id, "content": words, "is_error": True}


def orphan(words: str = "found") -> list[Block]:
    return [text("Result of a tool call that is no longer in this conversation:"), text(words)]


ASK = user(text())
DONE = assistant(text("Done."))
START = user(text("[The beginning of this conversation is missing.]"))

# What users reported, the history as far as the report shows it, and the repaired one.
REPORTS: dict[str, tuple[Messages, Messages]] = {
    # anthropics/claude-code#1237: interrupted while the tool ran, and resumed
    "a call at the end without a result": (
        [ASK, assistant(call())],
        [ASK, assistant(call()), user(not_executed())],
    ),
    # anthropics/claude-code#5989: two of several parallel calls
    "some of the parallel calls without results": (
        [ASK, assistant(call("a"), call("b"), call("c")), user(answer("b")), DONE],
        [
            ASK,
            assistant(call("a"), call("b"), call("c")),
            user(not_executed("a"), answer("b"), not_executed("c")),
            DONE,
        ],
    ),
    # Kilo-Org/kilocode#5163: the user wrote before the tool had answered
    "a call before a text of the user": (
        [ASK, assistant(text("I look."), call()), user(text("Wait!")), DONE],
        [ASK, assistant(text("I look."), call()), user(not_executed(), text("Wait!")), DONE],
    ),
    # anthropics/claude-code#6567: a compaction was asked for in the middle of a turn
    "the result behind a text": (
        [ASK, assistant(call()), user(text("Summarize."), answer()), DONE],
        [ASK, assistant(call()), user(answer(), text("Summarize.")), DONE],
    ),
    # letta-ai/letta#2605: a summary replaced the call, and not its result
    "a summary instead of the call": (
        [user(text("Summary")), user(answer()), DONE],
        [user(text("Summary")), user(*orphan()), DONE],
    ),
    # decocms/studio#1803: the first messages were dropped
    "a result as the first block": ([user(answer()), DONE], [user(*orphan()), DONE]),
    # RooCodeInc/Roo-Code#9582: the summary is a message of the assistant
    "a summary of the assistant before a result": (
        [ASK, assistant(text("Summary")), user(answer(), text("Go on.")), DONE],
        [ASK, assistant(text("Summary")), user(*orphan(), text("Go on.")), DONE],
    ),
    # anthropics/claude-code#13460: a second result with the id of another conversation
    "a result of nothing beside a good one": (
        [ASK, assistant(call()), user(answer(), answer("toolu_9", "other")), DONE],
        [ASK, assistant(call()), user(answer(), *orphan("other")), DONE],
    ),
    # tghamm/Anthropic.SDK#184: the result came one turn too late
    "a result one turn too late": (
        [ASK, assistant(call()), DONE, user(answer(), text("And?")), DONE],
        [ASK, assistant(call()), user(answer()), DONE, user(text("And?")), DONE],
    ),
    # BerriAI/litellm#23510: the same call from two fields of a message
    "the same call twice": (
        [ASK, assistant(call(), call()), user(answer()), DONE],
        [ASK, assistant(call()), user(answer()), DONE],
    ),
    # tailcallhq/forgecode#2107: a response that was cut after its thinking
    "thinking at the end": (
        [ASK, assistant(text("So."), thinking()), ASK],
        [ASK, assistant(text("So.")), ASK],
    ),
    # NousResearch/hermes-agent#13010: a response of nothing but thinking
    "nothing but thinking": ([ASK, assistant(thinking()), ASK], [ASK, ASK]),
    # anthropics/claude-code#59812
    "an empty text": (
        [ASK, assistant(text(""), call()), user(answer()), assistant(text("  "))],
        [ASK, assistant(call()), user(answer())],
    ),
    # anthropics/claude-code#64383: the call of a server tool was dropped
    "a result of a server tool alone": (
        [ASK, assistant(found(content=[]), text("So."))],
        [ASK, assistant(text("Result of a tool call that is no longer in this conversation: []"), text("So."))],
    ),
    # BerriAI/litellm#38049: thinking from another provider
    "thinking without its text": (
        [ASK, assistant({"type": "thinking", "signature": "c2ln"}, text("So."))],
        [ASK, assistant(text("So."))],
    ),
}


def merged(messages: Sequence[Any]) -> Messages:
    """Combine messages of one role, as the API does."""
    return [
        {"role": role, "content": [block for message in group for block in _blocks(message)]}
        for role, group in groupby(messages, key=lambda message: message["role"])
    ]


def _blocks(message: Any) -> list[Block]:
    content = message["content"]
    return [text(content)] if isinstance(content, str) else list(content)


def repaired(messages: Any, tools: Any = None) -> tuple[Messages, list[str]]:
    """Return the repaired history and the kinds of repairs, after checks that hold for each history."""
    before = copy.deepcopy(messages)
    kept, repairs = repair_history(messages, tools)
    assert messages == before, "the given history was changed"
    assert validate_history(kept, tools, first_party=True) == []
    assert repair_history(kept, tools) == (kept, [])
    assert all(str(repair).startswith(f"messages.{repair.index}: ") for repair in repairs)
    return [dict(message) for message in kept], [repair.kind.value for repair in repairs]


@rows("name", REPORTS)
def test_reports(name: str) -> None:
    broken, expected = REPORTS[name]
    kept, kinds = repaired(broken)
    assert kept == expected
    assert kinds
    assert api_rules.check(merged(kept)) == []


def test_legal_histories_stay() -> None:
    messages = [ASK, assistant(thinking(), call()), user(answer()), DONE]
    kept, repairs = repair_history(messages)
    assert repairs == []
    assert all(one is other for one, other in zip(kept, messages, strict=True))


def test_messages_without_a_fault_are_the_same_objects() -> None:
    messages = [ASK, DONE, user("Hi"), assistant(call())]
    messages[2] = {"role": "user", "content": "Hi"}
    kept, _ = repair_history(messages)
    assert all(one is other for one, other in zip(kept[:4], messages, strict=True))


# HKUDS/nanobot#4356: ids of another provider
def test_illegal_ids_are_replaced_in_calls_and_results() -> None:
    kept, kinds = repaired(
        [ASK, assistant(call("a|b"), call("a.b")), user(answer("a.b", "2"), answer("a|b", "1")), DONE]
    )
    (one, two), results = kept[1]["content"], kept[2]["content"]
    assert {block["tool_use_id"]: block["content"] for block in results} == {one["id"]: "1", two["id"]: "2"}
    assert set(kinds) == {"renamed_call"}


# anomalyco/opencode#1279: each id is empty
def test_empty_ids_are_paired_in_order() -> None:
    kept, _ = repaired([ASK, assistant(call("", "one"), call("", "two")), user(answer("", "1"), answer("", "2")), DONE])
    calls, results = kept[1]["content"], kept[2]["content"]
    assert [block["tool_use_id"] for block in results] == [block["id"] for block in calls]
    assert [block["content"] for block in results] == ["1", "2"]


# anthropics/claude-code#28515, lbjlaq/Antigravity-Manager#654: a gateway that counts from 0 in each response
def test_ids_that_come_again() -> None:
    turn = [assistant(call("bash-0", input={"n": 1})), user(answer("bash-0", "1"))]
    again = [assistant(call("bash-0", input={"n": 2})), user(answer("bash-0", "2"))]
    kept, kinds = repaired([ASK, *turn, *again, DONE])
    assert kept[:3] == [ASK, *turn]
    assert kept[3]["content"][0]["id"] == kept[4]["content"][0]["tool_use_id"] != "bash-0"
    assert kept[4]["content"][0]["content"] == "2"
    assert kinds == ["renamed_call"]


def test_overlong_and_illegal_names() -> None:
    kept, kinds = repaired([ASK, assistant(call(name="x" * 300), call("b", "a b")), user(answer(), answer("b")), DONE])
    assert [block["name"] for block in kept[1]["content"]] == ["x" * 64, "a_b"]
    assert kinds == ["renamed_tool", "renamed_tool"]


@rows(
    "given, value",
    [('{"a": 1}', {"a": 1}), ("{", {"INVALID_JSON": "{"}), (None, {}), ([1], {"INVALID_JSON": "[1]"})],
)
def test_inputs_that_are_no_objects(given: Any, value: Any) -> None:
    kept, kinds = repaired([ASK, assistant(call(input=given)), user(answer())])
    assert kept[1]["content"][0]["input"] == value
    assert kinds == ["changed_block"]


def test_results_in_messages_of_their_own() -> None:
    """The form of OpenAI's API."""
    kept, _ = repaired([ASK, assistant(call()), {"role": "tool", "tool_call_id": "toolu_1", "content": "found"}])
    assert kept[2]["role"] == "user"
    assert kept[2]["content"] == [answer()]


def test_a_real_result_wins_against_one_that_was_added() -> None:
    kept, _ = repaired([ASK, assistant(call()), user(not_executed(), answer()), DONE])
    assert kept[2]["content"] == [answer()]


def test_a_second_result_stays_as_text_unless_it_is_the_same() -> None:
    kept, kinds = repaired([ASK, assistant(call()), user(answer(), answer(), answer(content="other")), DONE])
    assert kept[2]["content"] == [answer(), *orphan("other")]
    assert kinds == ["omitted_result", "result_as_text"]


def test_errors_with_images() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    kept, _ = repaired([ASK, assistant(call()), user(answer(content=[image], is_error=True))])
    assert kept[2]["content"] == [answer(content=[text("The tool reported an error."), image])]


def test_results_for_code_contain_only_text() -> None:
    made_by_code = call(caller={"type": "code_execution_20260521", "tool_id": "srvtoolu_1"})
    code = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {}}
    image = {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}
    kept, kinds = repaired([ASK, assistant(code, made_by_code), user(answer(content=[image]))])
    assert kept[2]["content"][0]["content"][0]["type"] == "text"
    assert "https://x/y.png" in kept[2]["content"][0]["content"][0]["text"]
    assert kinds == ["changed_block"]


def test_code_that_was_left_is_left_out() -> None:
    """The user wrote while code waited for a call: the API will not continue that code."""
    made_by_code = call(caller={"type": "code_execution_20260521", "tool_id": "srvtoolu_1"})
    code = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {}}
    kept, kinds = repaired([ASK, assistant(code, made_by_code), user(answer(), text("Stop.")), DONE])
    assert kept[1:3] == [assistant(call()), user(answer(), text("Stop."))]
    assert kinds == ["omitted_call"]


def test_results_of_server_tools_that_came_too_late_or_too_early() -> None:
    late = [ASK, assistant(searched(), text("I look.")), ASK, assistant(found(), text("So."))]
    assert repaired(late)[0] == [ASK, assistant(searched(), found(), text("I look.")), ASK, assistant(text("So."))]
    early = [ASK, assistant(found(), searched(), text("So."))]
    assert repaired(early)[0] == [ASK, assistant(searched(), found(), text("So."))]


def test_a_server_call_without_its_tool() -> None:
    messages = [ASK, assistant(text("I look."), searched())]
    assert repaired(messages, None)[1] == []
    kept, kinds = repaired(messages, [])
    assert (kept, kinds) == ([ASK, assistant(text("I look."))], ["omitted_call"])


def test_calls_and_thinking_in_messages_of_the_user() -> None:
    kept, kinds = repaired([user(text(), thinking(), call(), answer()), DONE])
    assert kept == [ASK, assistant(call()), user(answer()), DONE]
    assert set(kinds) == {"omitted_block", "moved_block"}


def test_the_assistant_first() -> None:
    assert repaired([DONE, ASK]) == ([START, DONE, ASK], ["added_message"])


def test_system_messages() -> None:
    said = {"role": "system", "content": "Be brief."}
    before_results = [ASK, assistant(call()), said, user(answer()), DONE]
    assert repaired(before_results) == ([ASK, assistant(call()), user(answer()), said, DONE], ["moved_message"])
    assert repaired([said, ASK])[0] == [user(text("Be brief.")), ASK]
    assert repaired([ASK, DONE, said])[0] == [ASK, DONE, user(text("Be brief."))]
    assert repaired([ASK, {"role": "system", "content": []}, DONE])[0] == [ASK, DONE]
    directive = {"role": "system", "content": [], "output_config": {"effort": "low"}}
    assert repaired([ASK, directive, user(text(" "))])[0] == [ASK, directive]


def test_results_in_system_messages_are_not_lost() -> None:
    """A real result wins against the role of its message."""
    messages = [ASK, assistant(call()), {"role": "system", "content": [answer(), text()]}, DONE]
    assert repaired(messages)[0] == [ASK, assistant(call()), user(answer(), text()), DONE]
    alone = [ASK, DONE, {"role": "system", "content": [answer()]}, DONE]
    assert repaired(alone)[0] == [ASK, DONE, user(*orphan()), DONE]


def test_thinking_in_system_messages() -> None:
    """It is omitted, and the rest of the message stays the system's."""
    messages = [ASK, {"role": "system", "content": [thinking(), text()]}, DONE]
    assert repaired(messages)[0] == [ASK, {"role": "system", "content": [text()]}, DONE]
    assert repaired([ASK, {"role": "system", "content": [thinking()]}, DONE])[0] == [ASK, DONE]


def test_code_whose_result_is_moved_waits_for_no_call() -> None:
    """The result stands before the calls of that code then, and the user may write beside their results."""
    made_by_code = call(caller={"type": "code_execution_20260521", "tool_id": "srvtoolu_1"})
    code = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {}}
    ended = {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {"stdout": "4"}}
    kept, kinds = repaired([ASK, assistant(code, made_by_code), user(answer(), text("And?")), assistant(ended, text())])
    assert kept == [ASK, assistant(code, ended, call()), user(answer(), text("And?")), assistant(text())]
    assert api_rules.check(merged(kept)) == []
    assert kinds == ["moved_result"]


def test_breakpoints() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    messages = [user({**text(str(n)), **mark}) for n in range(5)]
    tool = {"name": "search", "input_schema": {"type": "object"}, **mark}
    kept, kinds = repaired(messages, [tool])
    assert kept == [*[user(text(str(n))) for n in range(2)], *messages[2:]]
    assert kinds == ["omitted_breakpoint"] * 2


def test_what_is_no_message_and_no_block() -> None:
    kept, kinds = repaired(
        [5, ASK, {"role": "assistant", "content": ["So.", {"text": "Yes."}, None]}, {"content": "Hi"}]
    )
    assert kept == [ASK, assistant(text("So."), text("Yes.")), user(text("Hi"))]
    assert set(kinds) == {"omitted_message", "changed_block", "omitted_block", "changed_role"}


def test_objects_of_the_anthropic_package() -> None:
    said = TextBlock(type="text", text="Hi", citations=None)
    made = ToolUseBlock(type="tool_use", id="toolu_1", name="search", input={})
    kept, kinds = repaired([ASK, {"role": "assistant", "content": [said, made]}])
    assert kept[1]["content"] == [said, made]
    assert kept[2] == user(not_executed())
    assert kinds == [RepairKind.ADDED_RESULT]


def test_no_messages() -> None:
    assert repair_history([]) == ([], [])


def test_faults_of_tools_stay() -> None:
    messages = [ASK]
    assert repair_history(messages, [{"name": "a b"}]) == (messages, [])
