"""The old format is checked in the words of its library."""

from __future__ import annotations

from typing import Any

import pytest

from eagerstream.compat.anthropic_tools import check_messages
from tests.tables import rows

CALLS = [{"tool_name": "add", "tool_arguments": {"a": 1}}]
TEXT_NEEDED = "For messages with role='user' or role='assistant', content must be a string."
INPUTS_NEEDED = "For messages with role='tool_inputs', tool_inputs must be a list of length > 0."
KEYS_NEEDED = "All elements of tool_inputs must be dictionaries with keys 'tool_name' and 'tool_arguments'."
RESULTS_NEEDED = "All elements of tool_outputs must be dictionaries with keys 'tool_name' and 'tool_result'."
BOTH_GIVEN = (
    "Only one of tool_outputs and tool_error should be provided, the other should be None. Both are currently not None."
)
ONE_NEEDED = "For messages with role='tool_outputs' you must provide one of tool_outputs or tool_error."


@rows(
    "messages, told",
    [
        ([], "Messages must be a list of length > 0."),
        ("Hello", "Messages must be a list of length > 0."),
        (None, "Messages must be a list of length > 0."),
        (["Hello"], "All messages in messages list should be dictionaries."),
        ([{"content": "Hello"}], "All messages must have a 'role' key."),
        (
            [{"role": "humuseran", "content": "Hi Claude, what US states start with C?"}],
            "humuseran is not a valid role. Valid roles are ['user', 'assistant', 'tool_inputs', 'tool_outputs']",
        ),
        (
            [{"role": None}],
            "None is not a valid role. Valid roles are ['user', 'assistant', 'tool_inputs', 'tool_outputs']",
        ),
        ([{"role": "user"}], "All messages with user or assistant roles must have a 'content' key."),
        ([{"role": "assistant"}], "All messages with user or assistant roles must have a 'content' key."),
        ([{"role": "user", "content": None}], TEXT_NEEDED),
        ([{"role": "assistant", "content": [{"type": "text", "text": "x"}]}], TEXT_NEEDED),
        (
            [{"role": "tool_inputs", "tool_inputs": CALLS}],
            "For messages with role='tool_inputs', content must be a string.",
        ),
        (
            [{"role": "tool_inputs", "content": ""}],
            "All messages with tool_inputs roles must have a 'tool_inputs' key.",
        ),
        ([{"role": "tool_inputs", "content": "", "tool_inputs": []}], INPUTS_NEEDED),
        ([{"role": "tool_inputs", "content": "", "tool_inputs": {"tool_name": "add"}}], INPUTS_NEEDED),
        ([{"role": "tool_inputs", "content": "", "tool_inputs": [{"tool_name": "add"}]}], KEYS_NEEDED),
        ([{"role": "tool_inputs", "content": "", "tool_inputs": ["add"]}], KEYS_NEEDED),
        (
            [{"role": "tool_inputs", "content": "", "tool_inputs": [{"tool_name": 1, "tool_arguments": {}}]}],
            KEYS_NEEDED,
        ),
        (
            [{"role": "tool_inputs", "content": "", "tool_inputs": [{"tool_name": "add", "tool_arguments": "a"}]}],
            "All 'tool_arguments' must be dictionaries.",
        ),
        (
            [{"role": "tool_outputs", "content": "", "tool_outputs": [], "tool_error": None}],
            "tool_outputs should not have a 'content' key/value pair",
        ),
        (
            [{"role": "tool_outputs", "tool_outputs": [], "tool_error": "no"}],
            BOTH_GIVEN,
        ),
        ([{"role": "tool_outputs", "tool_outputs": None, "tool_error": None}], ONE_NEEDED),
        ([{"role": "tool_outputs"}], ONE_NEEDED),
        ([{"role": "tool_outputs", "tool_error": 7}], "tool_error must be str or None."),
        ([{"role": "tool_outputs", "tool_outputs": "7"}], "tool_outputs must be list or None."),
        ([{"role": "tool_outputs", "tool_outputs": [{"tool_name": "add"}]}], RESULTS_NEEDED),
        ([{"role": "tool_outputs", "tool_outputs": [7]}], RESULTS_NEEDED),
    ],
)
def test_what_is_wrong(messages: Any, told: str) -> None:
    """Programs may show these texts, or look for them."""
    with pytest.raises(ValueError) as caught:
        check_messages(messages)
    assert str(caught.value) == told


def test_a_message_behind_others_is_looked_at_too() -> None:
    """Not only the first one."""
    with pytest.raises(ValueError, match="must have a 'role' key"):
        check_messages([{"role": "user", "content": "Hello"}, {}])


@rows(
    "message",
    [
        {"role": "user", "content": ""},
        {"role": "tool_inputs", "content": "", "tool_inputs": CALLS, "status": "ERROR"},
        {"role": "tool_outputs", "tool_outputs": [], "tool_error": None},
        {"role": "tool_outputs", "tool_outputs": [{"tool_name": "add", "tool_result": None}]},
        {"role": "tool_outputs", "tool_error": ""},
    ],
)
def test_what_is_right(message: dict[str, Any]) -> None:
    """The format itself allows these; a key that is not there is None."""
    check_messages([message])
