"""The types of messages: those of the installed anthropic package, and its objects made from our messages."""

from __future__ import annotations

from typing import Any, NotRequired, get_args, get_origin, get_type_hints

from anthropic.types.beta import BetaCacheCreation, BetaMessage, BetaServerToolUsage, BetaStopReason, BetaUsage
from pydantic import BaseModel
from tests.tables import rows

from eagerstream_wire import AssistantMessage, StopReason, Usage, text_of, total_tokens
from eagerstream_wire._assistant_message import CacheCreation, ServerToolCounts


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
