"""Old conversations become histories that the API takes, and come back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.tables import rows

from eagerstream import validate_history
from eagerstream_compat.anthropic_tools import from_history, to_history

STATES = {"role": "user", "content": "Hi Claude, what US states start with C?"}
THREE = {
    "role": "assistant",
    "content": "California, Colorado, and Connecticut are the US states that start with the letter C.",
}
MAGGIE = {
    "role": "user",
    "content": "If Maggie has 3 apples and eats 1, how many apples does maggie have left?",
}
THINK = "Let's think this through. Maggie had 3 apples, she ate one so:"
SUBTRACT = {
    "role": "tool_inputs",
    "content": THINK,
    "tool_inputs": [{"tool_name": "perform_subtraction", "tool_arguments": {"a": 3, "b": 1}}],
}
TWO_LEFT = {
    "role": "tool_outputs",
    "tool_outputs": [{"tool_name": "perform_subtraction", "tool_result": 2}],
    "tool_error": None,
}
MISSING = 'Missing required parameter "b" in tool perform_subtraction.'
FAILED = {"role": "tool_outputs", "tool_outputs": None, "tool_error": MISSING}


def inputs(*names: str, content: str = "", **keys: Any) -> dict[str, Any]:
    calls = [{"tool_name": name, "tool_arguments": {"n": number}} for number, name in enumerate(names)]
    return {"role": "tool_inputs", "content": content, "tool_inputs": calls, **keys}


def outputs(*results: tuple[str, Any]) -> dict[str, Any]:
    made = [{"tool_name": name, "tool_result": result} for name, result in results]
    return {"role": "tool_outputs", "tool_outputs": made, "tool_error": None}


def results_of(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    history = to_history([STATES, *messages])
    blocks: list[dict[str, Any]] = history[-1]["content"]
    return blocks


# --- the conversations of the document --------------------------------------------------------------------------------


@rows("messages", [[STATES], [STATES, THREE]])
def test_messages_without_tools(messages: list[dict[str, Any]]) -> None:
    """They stay as they are."""
    assert to_history(messages) == messages


def test_a_call_and_its_result() -> None:
    """The content stands before the call, as it was rendered."""
    call = {"type": "tool_use", "id": "toolu_compat_1_0", "name": "perform_subtraction", "input": {"a": 3, "b": 1}}
    assert to_history([MAGGIE, SUBTRACT, TWO_LEFT]) == [
        MAGGIE,
        {"role": "assistant", "content": [{"type": "text", "text": THINK}, call]},
        {"role": "user", "content": [result(0, "2")]},
    ]


# --- calls and results ------------------------------------------------------------------------------------------------


def result(number: int, content: Any, **more: Any) -> dict[str, Any]:
    """A result of the call of this number in the second message."""
    return {"type": "tool_result", "tool_use_id": f"toolu_compat_1_{number}", "content": content, **more}


@rows(
    "asked, answer, results",
    [
        # An error answers all calls: the API needs a result for each, and none of them ran.
        (inputs("a", "b"), FAILED, [result(0, MISSING, is_error=True), result(1, MISSING, is_error=True)]),
        # Results are matched by name and order. The recommended order is not required.
        (
            inputs("a", "b", "a"),
            outputs(("b", "1"), ("a", "2"), ("a", "3")),
            [result(1, "1"), result(0, "2"), result(2, "3")],
        ),
        # A call without a result gets one, because the API would refuse the history.
        (
            inputs("a", "b"),
            outputs(("b", "1")),
            [result(1, "1"), result(0, "No result was given for this call.", is_error=True)],
        ),
    ],
)
def test_results(asked: dict[str, Any], answer: dict[str, Any], results: list[dict[str, Any]]) -> None:
    """Each call has one."""
    assert results_of(asked, answer) == results


def test_a_result_without_a_call() -> None:
    """The API takes none: it is left out, and whoever gave it is told."""
    messages = [STATES, inputs("a"), outputs(("a", "1"), ("b", "2"))]
    with pytest.warns(UserWarning, match="an output of 'b' that no call asked for"):
        history = to_history(messages)
    assert len(history[-1]["content"]) == 1
    with pytest.raises(ValueError, match="an output of 'b' that no call asked for"):
        to_history(messages, strict=True)


@rows(
    "messages, told",
    [
        ([STATES, inputs("a"), outputs()], "has no tool_outputs, and 1 calls wait for them"),
        ([STATES, inputs("a")], "The last message calls tools"),
        ([STATES, inputs("a"), STATES], r"messages\[1\] calls tools, and no tool_outputs follow"),
        ([STATES, inputs("a"), inputs("a")], r"messages\[1\] calls tools, and no tool_outputs follow"),
        ([STATES, outputs(("a", 1))], r"messages\[1\] has tool_outputs, and no tool_inputs before it"),
        ([THREE], 'first message must use the "user" role'),
        ([{"role": "user", "content": ""}], "non-empty content"),
    ],
)
def test_what_the_api_would_refuse(messages: list[dict[str, Any]], told: str) -> None:
    """Told before anything is sent."""
    with pytest.raises(ValueError, match=told):
        to_history(messages)


class Odd:
    def __str__(self) -> str:
        return "odd"


@rows(
    "result, content",
    [
        ("text", "text"),
        (2, "2"),
        ({"a": True}, '{"a": true}'),
        ([1, 2], "[1, 2]"),
        ([], "[]"),
        (None, None),
        (Odd(), "odd"),
        (
            [{"type": "text", "text": "x"}, {"type": "image", "source": {}}],
            [{"type": "text", "text": "x"}, {"type": "image", "source": {}}],
        ),
    ],
)
def test_results_of_any_kind(result: Any, content: Any) -> None:
    """Text as it is, what has a JSON form as that, blocks as blocks, anything else as its text."""
    (block,) = results_of(inputs("a"), outputs(("a", result)))
    assert block.get("content") == content


class Hostile:
    def __str__(self) -> str:
        raise KeyError("no words")


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


class Bare:
    """An object with nothing to say but its address."""


@rows("result", [Hostile(), deep(200_000), 10**5000, Bare(), {"a": Bare()}])
def test_a_result_that_has_no_form(result: Any) -> None:
    """It is told which one it is."""
    with pytest.raises(ValueError, match=r"^messages\[2\]: a result of a cannot be sent\.$"):
        to_history([STATES, inputs("a"), outputs(("a", result))])


def test_deep_arguments() -> None:
    """What a model wrote can be sent back, and shares nothing with what was given."""
    arguments = {"x": deep(510)}
    message = inputs("a")
    message["tool_inputs"][0]["tool_arguments"] = arguments
    history = to_history([STATES, message, outputs(("a", 1))])
    assert history[1]["content"][0]["input"] == arguments
    (_, back, _) = from_history(history)
    assert back["tool_inputs"][0]["tool_arguments"] == arguments
    assert back["tool_inputs"][0]["tool_arguments"]["x"] is not history[1]["content"][0]["input"]["x"]


def test_arguments_without_a_json_form() -> None:
    """They cannot be sent."""
    message = inputs("a")
    message["tool_inputs"][0]["tool_arguments"] = {"x": Odd()}
    with pytest.raises(ValueError, match="the arguments of call 0 have no JSON form"):
        to_history([STATES, message, outputs(("a", 1))])


def test_an_assistant_without_a_word_is_left_out() -> None:
    """A refused reply leaves such a message, which the API would not take."""
    assert to_history([STATES, {"role": "assistant", "content": " "}, STATES]) == [STATES, STATES]


# --- ids --------------------------------------------------------------------------------------------------------------


def test_kept_ids() -> None:
    """The ids that the API gave are sent back to it."""
    history = to_history([STATES, inputs("a", _tool_use_ids=["toolu_1"]), outputs(("a", "1"))])
    assert history[1]["content"][0]["id"] == history[2]["content"][0]["tool_use_id"] == "toolu_1"


@rows("kept", [["toolu_1", "toolu_1"], ["toolu_1"], [1, ""], "toolu_1", ["toolu_compat_1_1", "x"]])
def test_ids_are_never_used_twice(kept: object) -> None:
    """A program may copy messages, or take calls out of them."""
    twice = [inputs("a", "b", _tool_use_ids=kept), outputs(("a", "1"), ("b", "2"))] * 2
    history = to_history([STATES, *twice])
    ids = [block["id"] for message in history[1::2] for block in message["content"]]
    assert len(set(ids)) == 4
    assert validate_history(history) == []


# --- back -------------------------------------------------------------------------------------------------------------


def test_back_from_a_history() -> None:
    """Text that was said among calls stands before them, and thinking has no place."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "a", "input": {"x": 1}}
    other = {**call, "id": "toolu_2", "name": "b"}
    history: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "", "signature": ""},
                call,
                {"type": "text", "text": "So"},
                other,
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "no", "is_error": True},
                {"type": "text", "text": "Go"},
                {"type": "text", "text": "on"},
            ],
        },
        {"role": "assistant", "content": "Done"},
    ]
    messages = from_history(history)
    assert messages == [
        {"role": "user", "content": "Hello"},
        {
            "role": "tool_inputs",
            "content": "So",
            "tool_inputs": [
                {"tool_name": "a", "tool_arguments": {"x": 1}},
                {"tool_name": "b", "tool_arguments": {"x": 1}},
            ],
            "_tool_use_ids": ["toolu_1", "toolu_2"],
        },
        {
            "role": "tool_outputs",
            "tool_outputs": [
                {"tool_name": "a", "tool_result": "1"},
                {"tool_name": "b", "tool_result": "no", "is_error": True},
            ],
            "tool_error": None,
        },
        {"role": "user", "content": "Go\n\non"},
        {"role": "assistant", "content": "Done"},
    ]
    assert from_history(to_history(messages)) == messages


@rows(
    "message",
    [
        {"role": "user", "content": [{"type": "image", "source": {}}]},
        {"role": "user", "content": [result(0, "1")]},
        {"role": "user", "content": [result(0, "1", is_error=True)]},
        {"role": "system", "content": "Be kind"},
        {"role": "user", "content": ["Hello"]},
        {"role": "user", "content": [{"text": "Hello"}]},
        {"role": "user", "content": [{"type": "text"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "name": "a", "input": {}}]},
    ],
)
def test_what_the_format_has_no_place_for(message: dict[str, Any]) -> None:
    """Nothing that a user said is dropped in silence."""
    with pytest.raises(ValueError):
        from_history([message])


def test_an_error_of_several_texts() -> None:
    """An error may come in blocks; the format has one text for it."""
    said = [{"type": "text", "text": "no"}, {"type": "text", "text": "route"}]
    history = to_history([STATES, inputs("a"), FAILED])
    history[2]["content"][0]["content"] = said
    assert from_history(history)[2] == {"role": "tool_outputs", "tool_outputs": None, "tool_error": "no\nroute"}


NAMES = st.sampled_from(["add", "subtract", "no such tool"])
WORDS = st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(st.text(st.characters(codec="utf-8")), JSON_VALUES, max_size=3)


@st.composite
def exchanges(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A call, or several, and how they were answered."""
    names = draw(st.lists(NAMES, min_size=1, max_size=4))
    calls = [{"tool_name": name, "tool_arguments": draw(ARGUMENTS)} for name in names]
    asked = {"role": "tool_inputs", "content": draw(st.just("") | WORDS), "tool_inputs": calls}
    if draw(st.booleans()):
        return [asked, {"role": "tool_outputs", "tool_outputs": None, "tool_error": draw(WORDS)}]
    given_order = draw(st.permutations(names))
    return [asked, outputs(*((name, draw(st.just("") | WORDS)) for name in given_order))]


@given(
    st.lists(
        exchanges()
        | WORDS.map(lambda words: [{"role": "user", "content": words}])
        | WORDS.map(lambda words: [{"role": "assistant", "content": words.rstrip()}]),
        max_size=6,
    )
)
def test_every_conversation_can_be_sent_and_comes_back(parts: list[list[dict[str, Any]]]) -> None:
    """Whatever is said, in the format: the API takes it, and nothing is lost."""
    messages = [STATES, *(message for part in parts for message in part)]
    history = to_history(messages)
    assert validate_history(history) == []
    assert from_history(history) == messages
    assert to_history(from_history(history)) == history
