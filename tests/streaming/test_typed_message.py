"""`typed_message`: messages as objects of the anthropic package."""

from __future__ import annotations

from typing import Any

from anthropic.types import Message

from eagerstream.streaming import typed_message
from eagerstream_wire import AssistantMessage, MessageAssembler
from tests.streams import (
    MESSAGE_STOP,
    block_start,
    block_stop,
    blocks_of,
    input_delta,
    message_delta,
    message_start,
    text_delta,
    tool_start,
)


def _message() -> AssistantMessage:
    assembler = MessageAssembler()
    for event in (
        message_start(),
        *(block_start(0, "text", text=""), text_delta(0, "Hello."), block_stop(0)),
        *(tool_start(1, "get_weather"), input_delta(1, '{"city": "Oslo"}'), block_stop(1)),
        *(message_delta("tool_use", output_tokens=9), MESSAGE_STOP),
    ):
        assembler.feed(event)
    return assembler.message


def test_a_message_of_the_anthropic_package() -> None:
    """Its blocks are objects, too."""
    message = _message()
    typed = typed_message(message)
    assert isinstance(typed, Message)
    assert [block.type for block in typed.content] == ["text", "tool_use"]
    assert typed.content[1].to_dict()["input"] == {"city": "Oslo"}
    assert typed.usage.output_tokens == message["usage"]["output_tokens"]
    assert typed.to_dict() == message


def test_a_block_that_the_package_does_not_know() -> None:
    """It keeps its fields, as in the package's own client."""
    message = _message()
    blocks_of(message).append({"type": "new_kind", "field": 3})
    block: Any = typed_message(message).content[2]
    assert (block.type, block.field) == ("new_kind", 3)
