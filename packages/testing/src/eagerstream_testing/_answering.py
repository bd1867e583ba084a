"""Answers to any request: calls of its tools with generated inputs, then a text about their results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eagerstream.errors import UsageError
from eagerstream.recordings import Recording
from eagerstream.tools import ForeignDefinition, Tool

from ._made_up import LINES, made_up, made_up_input
from ._scripted import DEFAULT_MODEL, Scripted, digest, reply, text, tool_use

_MAX_CALLS: Final = 8
"""Maximum number of calls after one question. A request may have a hundred tools."""
_MAX_TURNS: Final = 10
"""Maximum number of responses with calls after one question, if `tool_choice` requires a call each time."""
_CALLS_OF_ONE_TOOL: Final = 3
"""Number of calls of a request's only tool, with different inputs, so that several calls run at the same time."""
_SHORT_CHARS: Final = 200
"""Maximum size of an input that is short. Only tools with short inputs are called several times."""
_RESULT_CHARS: Final = 80
"""Maximum number of characters that the closing text quotes of a result."""

_TAG: Final = re.compile(r"\s*<[a-z][a-z_-]*>")

_API_SCHEMAS: Final[Mapping[str, Mapping[str, Any]]] = {
    "bash": {"command": "echo Hello"},
    "memory": {"command": "view", "path": "/memories"},
    "text_editor": {"command": "view", "path": "."},
}
"""Inputs for the tools whose schema the API has, by the start of their `type`. All of them only read."""


@dataclass(frozen=True)
class _Asked:
    """The parts of a request that decide the response, from its body.

    Attributes:
        tools: Definitions in the form of the Messages API. Without those that `tool_choice` excludes.
        one_at_a_time: Parallel calls are disabled.
        must_call: `tool_choice` requires a call in each response.
        schema: Schema of a structured output, or None.
        turns: Number of responses since the user's last question.
        calls: Number of calls since then.
        results: Names of the tools called since then, and the texts of their results.
    """

    tools: Sequence[Mapping[str, Any]]
    one_at_a_time: bool
    must_call: bool
    schema: Mapping[str, Any] | None
    turns: int
    calls: int
    results: Sequence[tuple[str, str]]


class ScriptedModel:
    """Turn of a `Scenario` that answers any request. It has no state: the request decides.

    Args:
        seed: Different seeds give different inputs and ids.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def __call__(self, request: Mapping[str, Any]) -> Recording:
        """Return the response to a request of the Messages API."""
        asked = _read(request)
        model = str(request.get("model") or DEFAULT_MODEL)
        message_id = f"msg_{digest([self._seed, request.get('messages')])}"
        return reply(*self._blocks(asked), model=model, message_id=message_id)

    def _blocks(self, asked: _Asked) -> Iterator[Scripted]:
        alone = len(asked.tools) == 1
        inputs = {str(tool.get("name")): self._inputs(tool, alone=alone) for tool in asked.tools}
        # A tool that no input fits is left out.
        planned = [(name, input) for name, made in inputs.items() for input in made][:_MAX_CALLS]
        left = planned[asked.calls :]
        if not left and asked.must_call and asked.turns < _MAX_TURNS:
            left = planned[-1:]
        if asked.one_at_a_time:
            left = left[:1]
        if not left:
            yield text(self._closing(asked))
            return
        if not asked.must_call:  # the API writes no text before a call that is required
            names = " and ".join(dict.fromkeys(name for name, _ in left))
            yield text(f"I will call {names}.")
        for name, input in left:
            yield tool_use(name, input)

    def _inputs(self, tool: Mapping[str, Any], *, alone: bool) -> list[Mapping[str, Any]]:
        for kind, input in _API_SCHEMAS.items():
            if str(tool.get("type", "")).startswith(f"{kind}_"):
                return [input]
        if not isinstance(tool.get("input_schema"), Mapping):
            return []
        known = ("name", "description", "input_schema", "input_examples")
        made: list[Mapping[str, Any]] = []
        try:
            checked = Tool(_nothing, definition=ForeignDefinition({name: tool[name] for name in known if name in tool}))
        except UsageError:  # larger than tools of this library may be: the API takes it, and so does its loop
            try:
                unchecked = made_up(tool["input_schema"], self._seed, sparse=True)
            except (AttributeError, KeyError, RecursionError, TypeError, ValueError, ArithmeticError):
                return []  # it is no schema
            return [unchecked] if isinstance(unchecked, dict) else []
        try:
            for number in range(_CALLS_OF_ONE_TOOL if alone else 1):
                input = made_up_input(checked, self._seed + number)
                is_short = len(json.dumps(input)) <= _SHORT_CHARS
                if not made or (is_short and input not in made):
                    made.append(input)
        except UsageError:
            pass  # no input fits
        return made

    def _closing(self, asked: _Asked) -> str:
        if asked.schema is not None:
            return json.dumps(made_up(asked.schema, self._seed), ensure_ascii=False)
        if asked.results:
            told = "Done."
            for name, result in asked.results:
                line = " ".join(result.split()).rstrip(".") or "nothing"
                told += f" {name} returned: {line[:_RESULT_CHARS]}{' ...' if len(line) > _RESULT_CHARS else ''}."
            return told
        own = [tool for tool in asked.tools if isinstance(tool.get("input_schema"), Mapping)]
        uncalled = [tool.get("name") for tool in own if not self._inputs(tool, alone=False)]
        if uncalled and not asked.calls:
            names = " and ".join(map(str, uncalled))
            return f"I cannot call {names}: no input could be made up that the schema allows."
        return "\n".join(LINES)


async def _nothing(_: Mapping[str, Any]) -> None:
    """Function of the tools that are made only to check inputs."""


# --- the request ------------------------------------------------------------------------------------------------------


def _read(request: Mapping[str, Any]) -> _Asked:
    choice = request.get("tool_choice")
    options: Mapping[str, Any] = choice if isinstance(choice, Mapping) else {}
    kind = options.get("type")
    # A deferred tool must be found by a search before it can be called.
    tools = [tool for tool in _mappings(request.get("tools")) if not tool.get("defer_loading")]
    if kind == "none":
        tools = []
    if kind == "tool":
        tools = [tool for tool in tools if tool.get("name") == options.get("name")]
    messages = _mappings(request.get("messages"))
    places = range(len(messages), 0, -1)
    messages = messages[next((place for place in places if _is_question(messages[place - 1])), 0) :]
    calls = {str(call.get("id")): name for message in messages for call, name in _calls(message)}
    results = ((str(id), result) for message in messages for id, result in _results(message))
    match request.get("output_config"):
        case {"format": {"type": "json_schema", "schema": {} as given}}:
            schema: Mapping[str, Any] | None = given
        case _:
            schema = None
    return _Asked(
        tools=tools,
        one_at_a_time=bool(options.get("disable_parallel_tool_use")),
        must_call=kind in ("any", "tool"),
        schema=schema,
        turns=sum(message.get("role") == "assistant" for message in messages),
        calls=len(calls),
        results=[(calls.get(id, "A tool"), result) for id, result in results],
    )


def _is_question(message: Mapping[str, Any]) -> bool:
    """Return True for a message of the user that has no results, and is not only a note of the program in tags.

    Claude Code reports in `<system-reminder>` that a command in the background has ended. If that were a question, it
    would start the next command, and so on without end.
    """
    if message.get("role") != "user" or any(True for _ in _results(message)):
        return False
    content = message.get("content")
    texts = [content] if isinstance(content, str) else [str(block.get("text", "")) for block in _mappings(content)]
    return not texts or not all(_TAG.match(text) for text in texts)


def _calls(message: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    if message.get("role") != "assistant":
        return
    for block in _mappings(message.get("content")):
        if block.get("type") == "tool_use":
            yield block, str(block.get("name"))


def _results(message: Mapping[str, Any]) -> Iterator[tuple[object, str]]:
    for block in _mappings(message.get("content")):
        if block.get("type") == "tool_result":
            yield block.get("tool_use_id"), _text_of(block.get("content"))


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    return " ".join(str(block.get("text", f"[{block.get('type')}]")) for block in _mappings(content))


def _mappings(values: object) -> list[Mapping[str, Any]]:
    return [value for value in values if isinstance(value, Mapping)] if isinstance(values, list) else []
