"""`_block_rules`: what public 400s show. The validator finds it, the double refuses it, and the repair mends it."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any, cast, get_type_hints

from anthropic.types import TextBlock, beta
from tests.missing import anthropic_since
from tests.streams import USER, block_stop, blocks_of, input_delta, message_delta, message_start, tool_start
from tests.tables import rows

from eagerstream_wire import MessageAssembler, repair_history, validate_history
from eagerstream_wire._block_rules import FIELDS

PNG = b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 30).decode()
CALL: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
RESULT: dict[str, Any] = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}
SEARCH: dict[str, Any] = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
FOUND: dict[str, Any] = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
WORDS = {"type": "text", "text": "So."}


def image(media_type: str, data: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": [*blocks]}


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": [*blocks]}


FAULTY = [
    ([user(image("image/jpg", PNG))], "media_type", [user(image("image/png", PNG))]),
    ([user(image("image/jpeg", PNG))], "does not match the provided media type", [user(image("image/png", PNG))]),
    ([user(image("image/png", f"data:image/png;base64,{PNG}"))], "base64", [user(image("image/png", PNG))]),
    (
        [user(image("image/svg+xml", "PHN2Zz4="))],
        "media_type",
        [user({"type": "text", "text": "[Here was an image that cannot be sent.]"})],
    ),
    (
        [USER, assistant(CALL), user({**RESULT, "content": [image("image/jpg", PNG)]})],
        "messages.2.content.0.tool_result.content.0.image.source.base64.media_type",
        [USER, assistant(CALL), user({**RESULT, "content": [image("image/png", PNG)]})],
    ),
    (
        [USER, assistant({**CALL, "text": "x"}), user(RESULT)],
        "tool_use.text: Extra",
        [USER, assistant(CALL), user(RESULT)],
    ),
    (
        [USER, assistant({**CALL, "partialJson": "{"}), user(RESULT)],
        "tool_use.partialJson",
        [USER, assistant(CALL), user(RESULT)],
    ),
    (
        [USER, assistant(WORDS, {"type": "input_json_delta", "partial_json": "{}"}), USER],
        "does not match any of the expected tags",
        [USER, assistant(WORDS), USER],
    ),
    (
        [USER, assistant({"type": "text", "text": "Sure \n"})],
        "trailing whitespace",
        [USER, assistant({"type": "text", "text": "Sure"})],
    ),
    (
        [USER, assistant({"type": "thinking", "thinking": "x", "signature": ""}, WORDS), USER],
        "Invalid `signature`",
        [USER, assistant(WORDS), USER],
    ),
    (
        [USER, assistant(SEARCH, FOUND, FOUND, WORDS), USER],
        "single result",
        [USER, assistant(SEARCH, FOUND, WORDS), USER],
    ),
    ([USER, {"role": "user", "content": []}], "non-empty content", [USER]),
    (
        [USER, assistant(CALL), {"role": "user", "content": ""}, user(RESULT)],
        "non-empty content",
        [USER, assistant(CALL), user(RESULT)],
    ),
    (
        [USER, assistant({**CALL, "input": {"a": "\udc00"}}), user(RESULT)],
        "surrogate",
        [USER, assistant({**CALL, "input": {"a": "\ufffd"}}), user(RESULT)],
    ),
]


@rows("messages, words, mended", FAULTY)
def test_found_and_mended(messages: Any, words: str, mended: Any) -> None:
    """One fault each, and one repair."""
    (fault,) = validate_history(messages, first_party=True)
    assert words in fault.message
    found, repairs = repair_history(messages)
    assert found == mended
    assert repairs
    assert validate_history(found, first_party=True) == []


def test_two_messages_of_the_user_in_a_row_are_legal() -> None:
    """The API merges them."""
    assert validate_history([USER, USER], first_party=True) == []


@rows("name", ["$top", "filter[id]", "@odata.type", "a b", "x" * 65, ""])
def test_names_of_properties(name: str) -> None:
    """One of them makes the API refuse every request: the fault names the tool."""
    tool = {"name": "list", "input_schema": {"type": "object", "properties": {"ok": {}, name: {}}}}
    (fault,) = validate_history([USER], [tool])
    assert "'list'" in fault.message
    assert "Property keys should match pattern" in fault.message


@anthropic_since("2.14")
def test_fields_are_those_of_the_installed_package() -> None:
    """A field that the API adds must not be taken out of a history."""
    for kind, name in {
        "text": "BetaTextBlockParam",
        "tool_use": "BetaToolUseBlockParam",
        "tool_result": "BetaToolResultBlockParam",
        "thinking": "BetaThinkingBlockParam",
        "redacted_thinking": "BetaRedactedThinkingBlockParam",
        "server_tool_use": "BetaServerToolUseBlockParam",
        "mcp_tool_use": "BetaMCPToolUseBlockParam",
    }.items():
        assert FIELDS[kind] == set(get_type_hints(getattr(beta, name))), kind


def test_a_message_can_be_sent_back_as_it_is() -> None:
    """Half of a surrogate pair in an input is U+FFFD in the message, whose client encodes it."""
    assembler: MessageAssembler[Any] = MessageAssembler()
    for event in (
        message_start(),
        tool_start(0),
        input_delta(0, '{"a": "\\udc00"}'),
        block_stop(0),
        message_delta("tool_use"),
    ):
        assembler.feed(event)
    assert assembler.inputs[0].value == {"a": "\udc00"}
    content = blocks_of(assembler.message)
    assert content[0]["input"] == {"a": "\ufffd"}
    json.dumps(content, ensure_ascii=False).encode()


def test_objects_of_the_package_pass() -> None:
    """They have no JSON form by themselves, and clients send them."""
    block, path = TextBlock(type="text", text="found"), cast("Any", Path("a.png"))
    messages: Any = [
        USER,
        assistant(CALL),
        user({**RESULT, "content": [block]}),
        user(image("image/png", path)),
    ]
    assert validate_history(messages, first_party=True) == []
    found, repairs = repair_history(messages)
    assert repairs == []
    assert all(one is other for one, other in zip(found, messages, strict=True))


def test_a_repaired_history_is_not_repaired_again() -> None:
    """Blocks that come out of a result, and data with two prefixes."""
    orphan = {"role": "tool", "tool_call_id": "toolu_3", "content": [{"type": "text", "text": "b", "foo": 1}]}
    twice = user(image("image/png", f"data:image/png;base64,data:image/png;base64,{PNG}"))
    for messages in ([USER, orphan], [twice]):
        found, _ = repair_history(messages)
        assert validate_history(found, first_party=True) == []
        assert repair_history(found)[1] == []
