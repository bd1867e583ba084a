"""`on_invalid`: after an input that is not JSON, the next one of its tool may be checked by the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream import Conversation, UsageError, tool
from eagerstream_testing import reply, text, tool_use
from tests.loop.serial import SLOWLY_S, checked
from tests.streams import MESSAGE_STOP, REQUEST, block_stop, input_delta, message_delta, message_start, tool_start
from tests.support import Broken, LocalAPI

pytestmark = pytest.mark.anyio

WRONG = [
    *(message_start(), tool_start(0, "write"), input_delta(0, '{"body": "\\q"}'), block_stop(0)),
    *(message_delta("tool_use"), MESSAGE_STOP),
]
RIGHT = reply(tool_use("write", {"body": "q"}))
DONE = reply(text("Done."))


async def writing(body: str) -> str:
    """Write."""
    return "written"


write = tool(writing, name="write")


@tool
async def look() -> str:
    """Look."""
    return "seen"


async def asked(*replies: Any, tools: Any = (write, look), **options: Any) -> list[dict[str, Any]]:
    """The field of the tools in each request, by the name of the tool."""
    api = LocalAPI(*replies)
    with anyio.fail_after(SLOWLY_S):
        checked(await eagerstream.run(api.transport(), **REQUEST, tools=tools, **options))
    return [fields_of(request) for request in (exchange.body for exchange in api.exchanges)]


def fields_of(request: Mapping[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("eager_input_streaming") for each in request["tools"]}


EAGER = {"write": True, "look": True}
CHECKED = {"write": False, "look": True}


async def test_the_next_request_and_no_other() -> None:
    """It asks for that tool without eager inputs, and then for all with them again."""
    replies = [WRONG, RIGHT, RIGHT, DONE]
    assert await asked(*replies, on_invalid="buffer_next") == [EAGER, CHECKED, EAGER, EAGER]
    assert await asked(*replies) == [EAGER] * 4
    assert await asked(WRONG, WRONG, RIGHT, DONE, on_invalid="buffer_next") == [EAGER, CHECKED, CHECKED, EAGER]


async def test_a_tool_decides_for_itself() -> None:
    """Whatever the run says; a repaired input needs nothing, and neither does a tool that is never eager."""
    replies = [WRONG, RIGHT, DONE]
    asks = tool(writing, name="write", on_invalid="buffer_next")
    assert (await asked(*replies, tools=[asks, look]))[1] == CHECKED
    reports = tool(writing, name="write", on_invalid="report")
    assert (await asked(*replies, tools=[reports, look], on_invalid="buffer_next"))[1] == EAGER
    repairs = tool(writing, name="write", repair=lambda _raw, _fault: {"body": "q"})
    assert (await asked(*replies, tools=[repairs, look], on_invalid="buffer_next"))[1] == EAGER
    silent = tool(writing, name="write", eager=None)
    assert (await asked(*replies, tools=[silent], on_invalid="buffer_next"))[1] == {"write": None}


async def test_a_request_that_is_sent_again() -> None:
    """A lost connection, or an output that was too long: it asks for the same."""
    lost = [message_start(), Broken()]
    options = {"on_invalid": "buffer_next", "restart_delay_s": 0.0}
    assert await asked(WRONG, lost, RIGHT, DONE, **options) == [EAGER, CHECKED, CHECKED, EAGER]


async def test_a_hook_and_a_summary() -> None:
    """What a hook puts in place of the tools is asked for in the same way. A summary comes first, and calls nothing."""

    def again(request: Mapping[str, Any], turn: int) -> Mapping[str, Any]:
        return {"tools": [*request["tools"]]}

    options = {"next_request": again, "on_invalid": "buffer_next"}
    assert await asked(WRONG, RIGHT, DONE, **options) == [EAGER, CHECKED, EAGER]


async def test_a_conversation() -> None:
    """Step by step, too."""
    conversation = Conversation(**REQUEST, tools=[write, look], on_invalid="buffer_next")
    seen = []
    for events in (WRONG, DONE):
        request = conversation.request()
        seen.append(fields_of(request))
        async with eagerstream.stream(LocalAPI(events).anthropic(), **request) as stream:
            await stream.finish()
        await conversation.execute(conversation.take(stream))
    assert seen == [EAGER, CHECKED]


async def test_no_such_reaction() -> None:
    with pytest.raises(UsageError, match="on_invalid must be"):
        eagerstream.run(LocalAPI(DONE).transport(), **REQUEST, on_invalid="retry")  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="on_invalid"):
        tool(writing, name="write", on_invalid="retry")  # type: ignore[call-overload]
