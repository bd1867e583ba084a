"""Cache breakpoints that move along with a conversation (`cache="auto"`).

The API caches a prefix of the request up to each block that carries a `cache_control`, and takes at most four of them.
Source: the API's guide to prompt caching.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from eagerstream_wire._block_rules import THINKING
from eagerstream_wire._history import MAX_BREAKPOINTS, count_breakpoints
from eagerstream_wire._settled_messages import notable
from eagerstream_wire._values import as_mapping

from ..streaming._message_stream import SentDefinition

_EPHEMERAL: Final = {"type": "ephemeral"}


def with_breakpoints(request: Mapping[str, Any], *, most: int = MAX_BREAKPOINTS) -> dict[str, Any]:
    """Return the request with breakpoints behind the parts that later requests repeat. The user's own stay and count.

    They are placed in this order, up to `most`: on the last user message, which the next request repeats; on
    the one before, whose cache this request reads, however many blocks have come since; on the system prompt, or on the
    tools if there is none. `request` is not changed.
    """
    # The user's own come first: the API refuses a fifth, and he knows his prompts. They are counted as the history's
    # check counts them, typed blocks of the anthropic package included (test_those_of_typed_blocks_count).
    marked = dict(request)
    messages = request["messages"].copy()
    free = most - sum(map(count_breakpoints, (request.get("tools"), request.get("system"), notable(messages))))
    if request.get("cache_control") is not None:
        free -= 1  # the API places one itself
    # Only user messages: an assistant message must go back as it came, and may end in thinking, which takes no mark.
    of_users = (index for index in range(len(messages) - 1, -1, -1) if messages[index].get("role") == "user")
    for index in islice(of_users, 2):
        if free > 0 and (content := _marked(messages[index]["content"])) is not None:
            messages[index] = {**messages[index], "content": content}
            free -= 1
    marked["messages"] = messages
    # The API's order is tools, system, messages, so a mark on the system prompt covers the tools. Hence one of the two.
    for part in ("system", "tools"):
        if free > 0 and request.get(part):
            if (content := _marked(request[part])) is not None:
                marked[part] = content
            break
    return marked


def _marked(content: str | Sequence[Any]) -> list[Any] | None:
    """Return the content with a breakpoint on its last block; None if it takes none, or has one there already."""
    blocks: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    for index in range(len(blocks) - 1, -1, -1):
        block = as_mapping(blocks[index])
        if not isinstance(block, Mapping) or block.get("cache_control") is not None:
            return None
        if block.get("type") not in THINKING and not block.get("defer_loading"):
            # Of the same type. Step by step, `stream` gets this request, and would add to a plain dict the eager field
            # that `eager=False` of the conversation has left out.
            marked: Any = SentDefinition(block) if isinstance(block, SentDefinition) else dict(block)
            marked["cache_control"] = _EPHEMERAL
            blocks[index] = marked
            return blocks
    return None
