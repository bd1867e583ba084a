"""The types of messages: those of the installed anthropic package, and its objects made from our messages."""

from __future__ import annotations

import json
from typing import Any, NotRequired, get_args, get_origin, get_type_hints

from anthropic.types import Message
from anthropic.types.beta import BetaCacheCreation, BetaMessage, BetaServerToolUsage, BetaStopReason, BetaUsage
from pydantic import BaseModel

from eagerstream import MessageAssembler, SSEDecoder
from eagerstream.testing import reply, text, tool_use
from eagerstream.wire import AssistantMessage, StopReason, Usage, text_of, total_tokens, typed_message
from eagerstream.wire._assistant_message import CacheCreation, ServerToolCounts
from tests.tables import rows


@rows(
    "ours, theirs",
    [
        (AssistantMessage, BetaMessage),
        (Usage, BetaUsage),
        (CacheCreation, BetaCacheCreation),
        (ServerToolCounts, BetaServerToolUsage),
    ],
)
def test_fields_are_those_of_the_installed_package(ours: Any, theirs: type[BaseModel]) -> None:
    """A field that the API has, and a type checker does not know, would be an error in a correct program."""
    assert ours.__annotations__.keys() - {"uncounted_output_tokens"} == theirs.model_fields.keys()
    hints = get_type_hints(ours, include_extras=True)
    required = {name for name, hint in hints.items() if get_origin(hint) is not NotRequired}
    assert not ours.__total__ or required == {
        name for name, field in theirs.model_fields.items() if field.is_required()
    }


def test_stop_reasons_are_those_of_the_installed_package() -> None:
    """In a `match`, a type checker rejects a reason that cannot come."""
    assert set(get_args(StopReason)) == set(get_args(BetaStopReason))


def _message() -> AssistantMessage:
    assembler = MessageAssembler()
    for event in SSEDecoder().feed(reply(text("Hello."), tool_use("get_weather", {"city": "Oslo"})).body):
        assembler.feed(json.loads(event.data))
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
    message["content"].append({"type": "new_kind", "field": 3})
    block: Any = typed_message(message).content[2]
    assert (block.type, block.field) == ("new_kind", 3)


def test_text_of() -> None:
    """Results may have a text alone as their content, and other libraries send what they like."""
    assert text_of([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]) == "ab"
    assert text_of("ab") == "ab"
    assert text_of([{"type": "text"}, {"type": "text", "text": 3}, "x"]) == text_of(None) == ""


def test_total_tokens() -> None:
    """Tokens from the cache are not part of `input_tokens`. Anything that is no count is left out."""
    usage = {"input_tokens": 3, "cache_read_input_tokens": 100, "output_tokens": 7, "service_tier": "standard"}
    assert total_tokens(usage) == 110
    assert total_tokens({"input_tokens": None, "output_tokens": True}) == total_tokens(None) == 0
