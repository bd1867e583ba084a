"""The old format is checked in the words of its library."""

from __future__ import annotations

from typing import Any

import pytest
from tests.tables import rows

from eagerstream_compat.anthropic_tools import check_messages

CALLS: list[dict[str, Any]] = [{"tool_name": "add", "tool_arguments": {"a": 1}}]
TEXT_NEEDED = "For messages with role='user' or role='assistant', content must be a string."
INPUTS_NEEDED = "For messages with role='tool_inputs', tool_inputs must be a list of length > 0."
KEYS_NEEDED = "All elements of tool_inputs must be dictionaries with keys 'tool_name' and 'tool_arguments'."
RESULTS_NEEDED = "All elements of tool_outputs must be dictionaries with keys 'tool_name' and 'tool_result'."
BOTH_GIVEN = (
    "Only one of tool_outputs and tool_error should be provided, the other should be None. Both are currently not None."
)
ONE_NEEDED = "For messages with role='tool_outputs' you must provide one of tool_outputs or tool_error."


INPUTS: dict[str, Any] = {"role": "tool_inputs", "content": ""}
OUTPUTS: dict[str, Any] = {"role": "tool_outputs"}
CONTENT_NEEDED = "All messages with user or assistant roles must have a 'content' key."
LIST_NEEDED = "Messages must be a list of length > 0."
ROLES = "is not a valid role. Valid roles are ['user', 'assistant', 'tool_inputs', 'tool_outputs']"


@rows(
    "messages, told",
    [
        ([], LIST_NEEDED),
        ("Hello", LIST_NEEDED),
        (None, LIST_NEEDED),
        (["Hello"], "All messages in messages list should be dictionaries."),
        ([{"content": "Hello"}], "All messages must have a 'role' key."),
        ([{"role": "user", "content": "Hello"}, {}], "All messages must have a 'role' key."),  # behind others
        ([{"role": "humuseran", "content": "Hi Claude, what US states start with C?"}], f"humuseran {ROLES}"),
        ([{"role": None}], f"None {ROLES}"),
        ([{"role": "user"}], CONTENT_NEEDED),
        ([{"role": "assistant"}], CONTENT_NEEDED),
        ([{"role": "user", "content": None}], TEXT_NEEDED),
        ([{"role": "assistant", "content": [{"type": "text", "text": "x"}]}], TEXT_NEEDED),
        ([{**INPUTS, "content": None}], "For messages with role='tool_inputs', content must be a string."),
        (
            [{"role": "tool_inputs", "tool_inputs": CALLS}],
            "For messages with role='tool_inputs', content must be a string.",
        ),
        ([INPUTS], "All messages with tool_inputs roles must have a 'tool_inputs' key."),
        ([{**INPUTS, "tool_inputs": []}], INPUTS_NEEDED),
        ([{**INPUTS, "tool_inputs": {"tool_name": "add"}}], INPUTS_NEEDED),
        ([{**INPUTS, "tool_inputs": [{"tool_name": "add"}]}], KEYS_NEEDED),
        ([{**INPUTS, "tool_inputs": ["add"]}], KEYS_NEEDED),
        ([{**INPUTS, "tool_inputs": [{"tool_name": 1, "tool_arguments": {}}]}], KEYS_NEEDED),
        (
            [{**INPUTS, "tool_inputs": [{**CALLS[0], "tool_arguments": "a"}]}],
            "All 'tool_arguments' must be dictionaries.",
        ),
        ([{**OUTPUTS, "content": "", "tool_outputs": []}], "tool_outputs should not have a 'content' key/value pair"),
        ([{**OUTPUTS, "tool_outputs": [], "tool_error": "no"}], BOTH_GIVEN),
        ([{**OUTPUTS, "tool_outputs": None, "tool_error": None}], ONE_NEEDED),
        ([OUTPUTS], ONE_NEEDED),
        ([{**OUTPUTS, "tool_error": 7}], "tool_error must be str or None."),
        ([{**OUTPUTS, "tool_outputs": "7"}], "tool_outputs must be list or None."),
        ([{**OUTPUTS, "tool_outputs": [{"tool_name": "add"}]}], RESULTS_NEEDED),
        ([{**OUTPUTS, "tool_outputs": [7]}], RESULTS_NEEDED),
    ],
)
def test_what_is_wrong(messages: Any, told: str) -> None:
    """Programs may show these texts, or look for them."""
    with pytest.raises(ValueError) as caught:
        check_messages(messages)
    assert str(caught.value) == told


@rows(
    "message",
    [
        {"role": "user", "content": ""},
        {**INPUTS, "tool_inputs": CALLS, "status": "ERROR"},
        {"role": "tool_outputs", "tool_outputs": [], "tool_error": None},
        {"role": "tool_outputs", "tool_outputs": [{"tool_name": "add", "tool_result": None}]},
        {"role": "tool_outputs", "tool_error": ""},
    ],
)
def test_what_is_right(message: dict[str, Any]) -> None:
    """The format itself allows these; a key that is not there is None."""
    check_messages([message])
