"""Message format of anthropic-tools: its check, and its conversion to and from histories of the Messages API."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from eagerstream import Block, Message, copy_json, validate_history
from eagerstream._support.json_values import as_mapping, to_json
from eagerstream._support.terms import text_block, tool_result
from eagerstream.tools import content_of

_TOOL_USE_IDS: Final = "_tool_use_ids"
"""Key of a `tool_inputs` message for the API's ids of its calls. The format itself has no ids."""

_ROLES: Final = ("user", "assistant", "tool_inputs", "tool_outputs")

_NO_RESULT: Final = "No result was given for this call."


def check_messages(messages: object) -> None:
    """Check a conversation in the old format.

    A message is a dict with `"role"` and, by role:

    - `user`, `assistant`: `"content"`, a text.
    - `tool_inputs`: `"content"`, a text that may be empty, and `"tool_inputs"`, a non-empty list of `{"tool_name": str,
      "tool_arguments": dict}`.
    - `tool_outputs`: either `"tool_outputs"`, a list of `{"tool_name": str, "tool_result": Any}`, or `"tool_error"`, a
      text. The other one is `None` or missing.

    Further keys are always allowed. `to_history` checks that calls and results match.

    Raises:
        ValueError: The conversation has another form.
    """
    if not isinstance(messages, list) or not messages:
        raise ValueError("Messages must be a list of length > 0.")
    if not all(isinstance(message, dict) for message in messages):
        raise ValueError("All messages in messages list should be dictionaries.")
    for message in messages:
        if "role" not in message:
            raise ValueError("All messages must have a 'role' key.")
        match message["role"]:
            case "user" | "assistant":
                if "content" not in message:
                    raise ValueError("All messages with user or assistant roles must have a 'content' key.")
                if not isinstance(message["content"], str):
                    raise ValueError("For messages with role='user' or role='assistant', content must be a string.")
            case "tool_inputs":
                if not isinstance(message.get("content"), str):
                    raise ValueError("For messages with role='tool_inputs', content must be a string.")
                if "tool_inputs" not in message:
                    raise ValueError("All messages with tool_inputs roles must have a 'tool_inputs' key.")
                inputs = message["tool_inputs"]
                if not isinstance(inputs, list) or not inputs:
                    raise ValueError("For messages with role='tool_inputs', tool_inputs must be a list of length > 0.")
                if not _have(inputs, "tool_name", "tool_arguments"):
                    raise ValueError(
                        "All elements of tool_inputs must be dictionaries with keys 'tool_name' and 'tool_arguments'."
                    )
                if not all(isinstance(each["tool_arguments"], dict) for each in inputs):
                    raise ValueError("All 'tool_arguments' must be dictionaries.")
            case "tool_outputs":
                if "content" in message:
                    raise ValueError("tool_outputs should not have a 'content' key/value pair")
                outputs, error = message.get("tool_outputs"), message.get("tool_error")
                if outputs is not None and error is not None:
                    raise ValueError(
                        "Only one of tool_outputs and tool_error should be provided, the other should be None. "
                        "Both are currently not None."
                    )
                if outputs is None and error is None:
                    raise ValueError(
                        "For messages with role='tool_outputs' you must provide one of tool_outputs or tool_error."
                    )
                if error is not None and not isinstance(error, str):
                    raise ValueError("tool_error must be str or None.")
                if outputs is not None and not isinstance(outputs, list):
                    raise ValueError("tool_outputs must be list or None.")
                if not _have(outputs or (), "tool_name", "tool_result"):
                    raise ValueError(
                        "All elements of tool_outputs must be dictionaries with keys 'tool_name' and 'tool_result'."
                    )
            case role:
                raise ValueError(f"{role!s:.80} is not a valid role. Valid roles are {list(_ROLES)}")


def to_history(messages: Sequence[Mapping[str, Any]], *, strict: bool = False) -> list[Message]:
    """Return a conversation in the old format as a history for the Messages API.

    Each message becomes one message. Empty assistant messages are omitted, because the API would refuse them.

    Results are matched with calls by the tool's name, and in order among calls of one tool. A call without a result
    gets an error result. A `tool_error` answers all calls before it. An output may have `"is_error": True`.

    Texts, content blocks and bytes of images are sent unchanged. Other results are sent as JSON, or as their `str` if
    they have no JSON form.

    Args:
        messages: Conversation, see `check_messages`.
        strict: Whether an output without a call is an error. If not, it is omitted with a warning.

    Raises:
        ValueError: The messages have another form, calls have no results, results have no calls before them, or a
            result has no text form. Also raised if the API would refuse the history for another reason.
    """
    check_messages(messages)
    history: list[Message] = []
    used: set[str] = set()  # ids of calls: the API accepts each one only once
    waiting: list[Block] = []  # calls without results so far
    for place, message in enumerate(messages):
        role, content = message["role"], message.get("content", "")
        if (role == "tool_outputs") != bool(waiting):
            raise ValueError(
                f"messages[{place - 1}] calls tools, and no tool_outputs follow."
                if waiting
                else f"messages[{place}] has tool_outputs, and no tool_inputs before it."
            )
        match role:
            case "tool_inputs":
                waiting = _calls_of(message, place, used)
                texts = [text_block(content)] if content.strip() else []
                history.append({"role": "assistant", "content": [*texts, *waiting]})
            case "tool_outputs":
                history.append({"role": "user", "content": _results_of(message, place, waiting, strict=strict)})
                waiting = []
            case "assistant" if not content.strip():
                pass
            case _:
                history.append({"role": role, "content": content})
    if waiting:
        raise ValueError("The last message calls tools, and no tool_outputs follow.")
    if history and history[-1]["role"] == "assistant":  # the API refuses white space at the end of what it continues
        history[-1] = {**history[-1], "content": history[-1]["content"].rstrip()}
    if faults := validate_history(history):
        raise ValueError("; ".join(map(str, faults)))
    return history


def from_history(history: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a history of the Messages API as a conversation in the old format. The two share no objects.

    The old format cannot express thinking, server tool calls, and the position of text between calls. These are lost.
    Error results have `"is_error": True`. If all results are the same error, it becomes the `tool_error`. A separate
    key keeps the ids of calls if they differ from the ids that `to_history` generates.

    Raises:
        ValueError: A user message has other content than text and results, a result does not match a call, or a message
            has another form.
    """
    messages: list[dict[str, Any]] = []
    names: dict[object, str] = {}
    for message in history:
        content = message.get("content")
        blocks: list[Any] = [text_block(content)] if isinstance(content, str) else [*map(as_mapping, content or ())]
        if not all(map(is_block, blocks)):
            raise ValueError("A message has content that is not a block of the API.")
        match message.get("role"):
            case "assistant":
                messages.append(inputs_message(blocks, len(messages)))
                names |= {block["id"]: block["name"] for block in blocks if block["type"] == "tool_use"}
            case "user":
                results = [block for block in blocks if block["type"] == "tool_result"]
                texts = [block["text"] for block in blocks if block["type"] == "text"]
                if len(results) + len(texts) < len(blocks):
                    raise ValueError("A user's message has content that is neither text nor the result of a tool.")
                if results:
                    messages.append(_outputs_message(results, names))
                if texts or not results:
                    messages.append({"role": "user", "content": "\n\n".join(texts)})
            case role:
                raise ValueError(f"The format has no messages of the role {role!r:.80}.")
    return messages


def inputs_message(blocks: Sequence[Block], place: int) -> dict[str, Any]:
    """Return the `tool_inputs` message of a response with calls, or the `assistant` message of one without calls.

    `place` is the index of the message in its conversation.
    """
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    calls = [block for block in blocks if block["type"] == "tool_use"]
    if not calls:
        return {"role": "assistant", "content": text}
    inputs = [{"tool_name": call["name"], "tool_arguments": copy_json(dict(call["input"]))} for call in calls]
    ids = [call["id"] for call in calls]
    made_up = [_id_of(place, number) for number in range(len(calls))]
    kept = {} if ids == made_up else {_TOOL_USE_IDS: ids}
    return {"role": "tool_inputs", "content": text, "tool_inputs": inputs, **kept}


def _outputs_message(results: Sequence[Block], names: Mapping[object, str]) -> dict[str, Any]:
    """Return the `tool_outputs` message of results. `names` has the tool of each call, by call id."""
    if any(block.get("tool_use_id") not in names for block in results):
        raise ValueError("A result belongs to no call before it.")
    contents = [_value_of(block) for block in results if block.get("is_error")]
    errors = {
        content if isinstance(content, str) else "\n".join(str(block.get("text")) for block in content)
        for content in contents
    }
    if len(errors) == 1 and all(block.get("is_error") for block in results):
        return {"role": "tool_outputs", "tool_outputs": None, "tool_error": errors.pop()}
    outputs: list[dict[str, Any]] = []
    for block in results:
        marked = {"is_error": True} if block.get("is_error") else {}
        outputs.append({"tool_name": names[block["tool_use_id"]], "tool_result": _value_of(block), **marked})
    return {"role": "tool_outputs", "tool_outputs": outputs, "tool_error": None}


def result_content(result: Any) -> str | list[Block]:
    """Return the value of a tool as the content of a result: JSON, or the `str` of an object that defines one.

    Raises:
        TypeError: The value has neither. A `repr` with an address in it would not help the model.
        Exception: Any error of the value's `str`.
    """
    if isinstance(result, list | tuple) and not result:
        return "[]"  # for example no rows: the core treats it as a list without blocks
    try:
        return content_of(result)
    except TypeError:
        defined: object = type(result).__str__
        if defined is object.__str__:
            raise
        return str(result)


def _id_of(place: int, number: int) -> str:
    return f"toolu_compat_{place}_{number}"


def _calls_of(message: Mapping[str, Any], place: int, used: set[str]) -> list[Block]:
    inputs, kept = message["tool_inputs"], message.get(_TOOL_USE_IDS)
    if not isinstance(kept, list) or len(kept) != len(inputs):
        kept = [None] * len(inputs)
    calls: list[Block] = []
    for number, (each, id) in enumerate(zip(inputs, kept, strict=True)):
        try:
            arguments = to_json(each["tool_arguments"])
        except TypeError as error:
            raise ValueError(f"messages[{place}]: the arguments of call {number} have no JSON form.") from error
        id = id if isinstance(id, str) and id and id not in used else _id_of(place, number)
        while id in used:
            id += "_"
        used.add(id)
        calls.append({"type": "tool_use", "id": id, "name": each["tool_name"], "input": arguments})
    return calls


def _results_of(message: Mapping[str, Any], place: int, calls: Sequence[Block], *, strict: bool) -> list[Block]:
    if (error := message.get("tool_error")) is not None:
        return [tool_result(call["id"], error if error.strip() else "Error", is_error=True) for call in calls]
    if not message["tool_outputs"]:
        raise ValueError(f"messages[{place}] has no tool_outputs, and {len(calls)} calls wait for them.")
    waiting: dict[str, list[str]] = {}
    for call in reversed(calls):
        waiting.setdefault(call["name"], []).append(call["id"])
    results: list[Block] = []
    for output in message["tool_outputs"]:
        ids = waiting.get(output["tool_name"])
        if ids:
            is_error = output.get("is_error") is True
            try:
                content = result_content(output["tool_result"])
            except Exception as error:
                raise ValueError(f"messages[{place}]: a result of {output['tool_name']:.80} cannot be sent.") from error
            results.append(tool_result(ids.pop(), content or ("Error" if is_error else ""), is_error=is_error))
            continue
        told = f"messages[{place}] has an output of {output['tool_name']!r:.80} that no call asked for."
        if strict:
            raise ValueError(told)
        warnings.warn(f"{told} It is left out.", stacklevel=3)
    left = {id for ids in waiting.values() for id in ids}
    return [*results, *(tool_result(call["id"], _NO_RESULT, is_error=True) for call in calls if call["id"] in left)]


def is_block(block: object) -> bool:
    """Return whether a block has the fields of its type: a text, or the id, name and input of a call."""
    if not isinstance(block, Mapping):
        return False
    match block.get("type"):
        case "text":
            return isinstance(block.get("text"), str)
        case "tool_use":
            named = all(isinstance(block.get(name), str) and block[name] for name in ("id", "name"))
            return named and isinstance(block.get("input"), Mapping)
        case kind:
            return isinstance(kind, str)


def _value_of(result: Block) -> Any:
    """Return a copy of a result's content: its text or its blocks."""
    return copy_json(result.get("content") or "")


def _have(elements: Sequence[object], name: str, value: str) -> bool:
    """Return whether all elements are dicts with these two keys, and the first one is a non-empty text."""
    return all(
        isinstance(each, dict) and isinstance(each.get(name), str) and each[name] and value in each for each in elements
    )
