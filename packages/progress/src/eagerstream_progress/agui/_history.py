"""Conversion of an AG-UI client's request for a run: its messages, and its own tools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import anyio

from eagerstream import INVALID_JSON, Block, Message
from eagerstream._support.inspecting import MAX_SCHEMA_CHARS, MAX_SCHEMA_DEPTH, TooMuchError, check_size
from eagerstream._support.plain_json import load_json
from eagerstream._support.terms import tool_result
from eagerstream.calls import add_content, drop_last_thinking
from eagerstream.errors import UsageError
from eagerstream.tools import ForeignDefinition, RunningCall, Tool

from .._held import Approval
from ._content import METADATA_KEY, to_blocks
from ._encoder import AWAITS_APPLICATION

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

_REPLY: Final = re.compile(r"(.+\.[0-9]+)\.[0-9]+(?:-[0-9]+)?")
_PATIENCE_S: Final = 86_400.0  # a call of the application waits for the others of its turn
_ABANDONED: Final = "The question was abandoned."
_UNANSWERED: Final = "Not answered: the conversation continued without a result of this call."


def messages_of(input: RunAgentInput) -> list[Any]:
    """Return the conversation of an AG-UI client in the API's form.

    Use it as `run(client, messages=messages_of(input), ...)`. It contains text, images, documents, reasoning with its
    signature, calls and their results. The messages from one response become one message again. A call without a result
    gets one that says so.

    Left out are results without a call, calls that the API ran, activities, and messages of the roles `system` and
    `developer`. Anyone who can reach the endpoint can write those. If you trust the client, use `system_of`.
    """
    wire: list[dict[str, Any]] = [message.model_dump(mode="python", by_alias=True) for message in input.messages]
    results = {message["toolCallId"]: message for message in wire if message["role"] == "tool"}
    messages: list[Message] = []
    used: set[str] = set()
    for said in _turns(wire):
        if said[0]["role"] == "user":
            add_content(messages, "user", to_blocks(said[0]["content"]))
            continue
        calls: list[str] = []
        add_content(messages, "assistant", _reply(said, calls, used))
        add_content(messages, "user", [_result(id, results.get(id)) for id in calls])
    return messages


def answers_of(input: RunAgentInput) -> list[Approval]:
    """Return the answers to interrupts in a request. A run that still waits gets them by itself.

    They are for runs that a journal keeps: `await journal.decide(each.run, each.call, each.approved)`, and resume.

    An answer is true or false, or has them as `approved`, with a `reason` if there is one. Any other, and an abandoned
    question, refuses the call.
    """
    answers = []
    for entry in input.resume or ():
        of_call, _, call = entry.interrupt_id.rpartition(".")
        run, _, block = of_call.rpartition(".")
        if not (block.isascii() and block.isdigit() and len(block) < 10):
            continue
        given = entry.payload if isinstance(entry.payload, Mapping) else {"approved": entry.payload}
        approved, reason = given.get("approved"), given.get("reason")
        if entry.status != "resolved":
            approved, reason = False, _ABANDONED
        known = reason if isinstance(reason, str) and reason else None
        answers.append(Approval(run, int(block), call, approved is True, known))
    return answers


def _turns(wire: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the messages that belong together: each message of the user alone, and those of each response together."""
    reply: list[dict[str, Any]] = []
    for message in wire:
        if message["role"] not in ("user", "assistant", "reasoning"):
            continue
        if reply:
            ours, theirs = _REPLY.fullmatch(reply[-1]["id"]), _REPLY.fullmatch(message["id"])
            # If the ids are not ours, reasoning belongs to the message after it.
            is_next = ours[1] != theirs[1] if ours and theirs else reply[-1]["role"] != "reasoning"
            if is_next or "user" in (reply[-1]["role"], message["role"]):
                yield reply
                reply = []
        reply.append(message)
    if reply:
        yield reply


def _reply(turn: Sequence[Mapping[str, Any]], calls: list[str], used: set[str]) -> list[Block]:
    blocks: list[Block] = []
    for message in turn:
        metadata = _metadata(message)
        if message["role"] == "reasoning":
            value = message.get("encryptedValue")
            if value and metadata.get("type") == "redacted_thinking":
                blocks.append({"type": "redacted_thinking", "data": value})
            elif value:  # the API refuses thinking that it has not signed
                blocks.append({"type": "thinking", "thinking": message["content"], "signature": value})
            continue
        blocks += to_blocks(message.get("content") or "")
        for call in message.get("toolCalls") or ():
            if "kind" in _metadata(call) or call["id"] in used:  # run by the API, or sent twice
                continue
            used.add(call["id"])
            calls.append(call["id"])
            function = call["function"]
            block = {"type": "tool_use", "id": _api_id(call["id"]), "name": function["name"], "input": _input(function)}
            blocks.append(block)
    drop_last_thinking(blocks)
    return blocks


def _input(function: Mapping[str, Any]) -> dict[str, Any]:
    try:
        value = load_json(function["arguments"] or "{}")
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {INVALID_JSON: function["arguments"]}


def _result(id: str, message: Mapping[str, Any] | None) -> Block:
    if message is None:
        return tool_result(_api_id(id), _UNANSWERED, is_error=True)
    blocks = to_blocks(message["content"])
    if message.get("error") or _metadata(message).get("isError"):
        texts = [block for block in blocks if block["type"] == "text"]  # an error takes only text
        texts = texts or [{"type": "text", "text": str(message.get("error") or "Error")}]
        return tool_result(_api_id(id), texts, is_error=True)
    return tool_result(_api_id(id), blocks)


def _api_id(id: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", id) or "_"


def _metadata(item: Mapping[str, Any]) -> Mapping[str, Any]:
    found = (item.get("metadata") or {}).get(METADATA_KEY)
    return found if isinstance(found, Mapping) else {}


def system_of(input: RunAgentInput) -> str:
    """Return the client's `system` and `developer` messages, joined. Use it only if you trust the client."""
    said = [str(message.content) for message in input.messages if message.role in ("system", "developer")]
    return "\n\n".join(said)


def frontend_tools(input: RunAgentInput) -> list[Tool]:
    """Return the tools that the client brings and runs, for `run(client, tools=[*mine, *frontend_tools(input)], ...)`.

    Their calls get no result in this run. When the other calls of the turn are done, the endpoint ends the run. The
    client has the arguments of the calls, and sends their results with the messages of its next run.

    Raises:
        UsageError: The API does not accept the client's definitions, or their schemas are too large.
    """
    check_tools(input)
    return [
        Tool(_await_application, definition=_definition(tool), start="message", timeout_s=_PATIENCE_S)
        for tool in input.tools or ()
    ]


def check_tools(input: RunAgentInput) -> None:
    """Check the size of the schemas of the client's tools, before any other code reads them.

    Raises:
        UsageError: They have more than 100,000 characters together, or one is too deep. The message names its tool.
    """
    left = MAX_SCHEMA_CHARS
    for tool in input.tools or ():
        try:
            left -= check_size(tool.parameters, max_chars=left, max_depth=MAX_SCHEMA_DEPTH)
        except TooMuchError as error:
            earlier = "" if left == MAX_SCHEMA_CHARS else f", of {MAX_SCHEMA_CHARS:,} for all tools"
            raise UsageError(f"the schema of the tool {tool.name!r:.80} is too large: {error}{earlier}") from error


def _definition(tool: Any) -> ForeignDefinition:
    schema = tool.parameters if isinstance(tool.parameters, Mapping) else {}
    return ForeignDefinition(name=tool.name, description=tool.description, input_schema={"type": "object", **schema})


async def _await_application(_: dict[str, Any], call: RunningCall) -> None:
    await call.progress(AWAITS_APPLICATION)
    await anyio.sleep_forever()  # the run is cancelled
