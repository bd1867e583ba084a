"""The classes of events: a `repr` tells kinds and sizes, and keeps the content to itself."""

from __future__ import annotations

from typing import Any

from packages.wire.tests.inputs import ended
from tests.tables import rows

from eagerstream_wire import (
    AssistantMessage,
    BlockStart,
    BlockStop,
    CitationDelta,
    InputDelta,
    MessageStart,
    MessageStop,
    ServerToolResult,
    TextDelta,
    ThinkingDelta,
    UnknownEvent,
)
from eagerstream_wire._assistant_message import empty_message

_BLOCK: Any = {"type": "text", "text": "secret"}
_MESSAGE: AssistantMessage = {**empty_message(), "content": [_BLOCK]}
_RESULT = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"title": "secret"}]}


@rows(
    "event, shown",
    [
        (MessageStart(_MESSAGE), "MessageStart(restarted=False)"),
        (MessageStart(_MESSAGE, voided=_MESSAGE), "MessageStart(restarted=True)"),
        (BlockStart(0, _BLOCK), "BlockStart(index=0, type='text')"),
        (TextDelta(0, "Hello\n"), "TextDelta(index=0, text='Hello\\n')"),
        (TextDelta(0, "x" * 61), f"TextDelta(index=0, text='{'x' * 60}'...)"),
        (ThinkingDelta(0, "secret"), "ThinkingDelta(index=0, 6 chars)"),
        (
            CitationDelta(0, {"type": "char_location", "cited_text": "secret"}),
            "CitationDelta(index=0, type='char_location')",
        ),
        (BlockStop(0, _BLOCK), "BlockStop(index=0, type='text')"),
        (
            ServerToolResult(1, _RESULT, None),
            "ServerToolResult(index=1, type='web_search_tool_result', is_error=False)",
        ),
        (InputDelta(ended('{"a": "secret"}'), "secret"), "InputDelta(<ToolInput 0 'tool' valid, 15 chars>, 6 chars)"),
        (MessageStop(_MESSAGE, "end_turn"), "MessageStop(stop_reason='end_turn')"),
        (UnknownEvent({"type": "new", "text": "secret"}), "UnknownEvent(type='new')"),
    ],
)
def test_a_repr_keeps_the_content_to_itself(event: Any, shown: str) -> None:
    """What a model writes does not belong in a log."""
    assert repr(event) == shown


@rows("tool_use_id", [None, 5, ["srvtoolu_1"]])
def test_a_result_without_an_id(tool_use_id: object) -> None:
    """Programs that look up calls by their id get a text, whatever the peer sent."""
    assert ServerToolResult(1, _RESULT, None).tool_use_id == "srvtoolu_1"
    assert ServerToolResult(1, {**_RESULT, "tool_use_id": tool_use_id}, None).tool_use_id == ""
