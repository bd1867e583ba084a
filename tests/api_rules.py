"""Rules of the Messages API for a history, taken from its documentation and from its error messages.

They share no code with `eagerstream.validate_history`: each of the two finds mistakes of the other. A fault reads like
the API's own error message, with its path in front.

Sources: the API pages on handling tool calls, on stop reasons, on server tools and on programmatic tool calling; and
error messages that users have reported. A comment names the source if a page does not say it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""The older rule. The newest one for a `tool_use` allows 200 characters, of any kind."""
_DEFINED_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")

_MAX_REQUEST_BYTES: Final = 32_000_000
_MAX_BREAKPOINTS: Final = 4
_THINKING: Final = ("thinking", "redacted_thinking")
_SERVER_CALLS: Final = ("server_tool_use", "mcp_tool_use")
_RESULT_KEYS: Final = {"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"}
_RESULT_CONTENT: Final = ("text", "image", "document", "search_result", "tool_reference", "browser_state")
_USER_BLOCKS: Final = ("text", "image", "document", "search_result", "tool_result", "container_upload")

_Block = Mapping[str, Any]


def check(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None) -> list[str]:
    """Return the faults of a history; none if the API accepts it.

    Args:
        messages: As in the API.
        tools: Definitions of the request, if known. Only names of these may be longer than 64 characters.
    """
    if not messages:
        return ["messages: at least one message is required"]
    names = None if tools is None else {str(tool.get("name")) for tool in tools}
    faults = [*_text_faults(messages), *_system_faults(messages)]
    messages = [message for message in messages if message.get("role") != "system"]
    faults += _message_faults(messages, names)
    if faults:
        return faults  # blocks may lack the fields that the other rules read
    turns = _turns(messages)
    ids = Counter(block["id"] for _, blocks in turns for block in blocks if block["type"] == "tool_use")
    faults += [f"messages: `tool_use` ids must be unique: {id}" for id, count in ids.items() if count > 1]
    faults += [*_pairing_faults(turns), *_server_faults(turns), *_cache_faults(turns)]
    return faults


def check_request(request: Mapping[str, Any]) -> list[str]:
    """Return the faults of a request body; none if the API accepts it."""
    tools = request.get("tools", [])
    names = [str(tool.get("name")) for tool in tools]
    faults = check(request["messages"], tools)
    if len(set(names)) < len(names):
        faults.append("tools: Tool names must be unique.")
    choice = request.get("tool_choice") or {}
    if choice.get("type") == "tool" and choice.get("name") not in names:
        faults.append(f"tool_choice.tool.name: Tool {choice.get('name')!r} not found in provided tools")
    for call in unresolved(request["messages"]):
        name = call["name"]
        if call["type"] == "server_tool_use" and name not in names:
            faults.append(f"messages: `{name}` tool use was found, but no `{name}` tool was provided")
    system = request.get("system") or []
    blocks = [*tools, *_blocks(system), *(block for _, blocks in _turns(request["messages"]) for block in blocks)]
    marked = sum(bool(block.get("cache_control")) for block in blocks)
    if marked > _MAX_BREAKPOINTS:
        faults.append(f"A maximum of 4 blocks with cache_control may be provided. Found {marked}.")
    if len(json.dumps(request)) > _MAX_REQUEST_BYTES:
        faults.append("request_too_large: Request exceeds the maximum size")
    return faults


def unresolved(messages: Sequence[Mapping[str, Any]]) -> list[_Block]:
    """Return the server calls of the last assistant turn that have no result yet, in order."""
    blocks = [block for role, blocks in _turns(messages)[-2:] if role == "assistant" for block in blocks]
    answered = {block.get("tool_use_id") for block in blocks}
    return [block for block in blocks if block["type"] in _SERVER_CALLS and block["id"] not in answered]


def _blocks(content: str | Sequence[_Block]) -> list[_Block]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _turns(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[_Block]]]:
    """Return role and blocks of each turn: the API combines consecutive messages of one role."""
    turns: list[tuple[str, list[_Block]]] = []
    for message in messages:
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(_blocks(message["content"]))
        else:
            turns.append((message["role"], _blocks(message["content"])))
    return turns


def _text_faults(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    try:
        json.dumps(messages, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        yield "The request body is not valid JSON: no low surrogate in string"
    except (TypeError, ValueError) as error:
        yield f"The request body is not valid JSON: {error}"


# --- one message ------------------------------------------------------------------------------------------------------


def _system_faults(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    # The page on mid-conversation system messages: behind a user turn, or an assistant turn that ends in the result of
    # a server tool; before an assistant turn, or at the end. One that only has `output_config` may stand anywhere.
    for number, message in enumerate(messages):
        content = message.get("content")
        if message.get("role") != "system" or (not content and message.get("output_config")):
            continue
        before = [each for each in messages[:number] if each.get("role") != "system"]
        after = [each.get("role") for each in messages[number:] if each.get("role") != "system"]
        is_behind_result = bool(before) and _last_kind(before[-1]).endswith("_tool_result")
        if not before or (before[-1]["role"] != "user" and not is_behind_result) or after[:1] == ["user"]:
            yield f"messages.{number}: role 'system' must follow a 'user' message, and precede an 'assistant' message"
        if not content:
            yield f"messages.{number}: system content must contain at least one block"
        for block in _blocks(content or []):
            tool = block.get("tool") or {}
            kinds = {"tool_addition": ("tool_reference", "tool_definition"), "tool_removal": ("tool_reference",)}
            if block["type"] in _THINKING or (block["type"] in kinds and tool.get("type") not in kinds[block["type"]]):
                yield f"messages.{number}: Input tag does not match any of the expected tags of a system message"


def _last_kind(message: Mapping[str, Any]) -> str:
    blocks = _blocks(message.get("content") or [])
    return str(blocks[-1].get("type")) if message["role"] == "assistant" and blocks else ""


def _message_faults(messages: Sequence[Mapping[str, Any]], names: set[str] | None) -> Iterator[str]:
    # The page on compaction: a signed summary comes first, in a message of either role, and there is one.
    kinds = [[block.get("type") for block in _blocks(message.get("content") or [])] for message in messages]
    begins_with_summary = bool(messages) and kinds[0][:1] == ["compaction"]
    if begins_with_summary and sum(kind.count("compaction") for kind in kinds) > 1:
        yield "messages: the request carries more than one compaction block"
    if not messages or (messages[0].get("role") != "user" and not begins_with_summary):
        yield "messages: first message must use the user role"
    for number, message in enumerate(messages):
        at = f"messages.{number}"
        if set(message) != {"role", "content"}:
            yield f"{at}: Extra inputs are not permitted: {sorted(message)}"
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant"):
            yield f"{at}.role: Input should be 'user' or 'assistant'"
            continue
        if not isinstance(content, str | list):
            yield f"{at}.content: Input should be a valid list"
            continue
        if not content:
            yield f"{at}: all messages must have non-empty content except for the optional final assistant message"
            continue
        for place, block in enumerate(_blocks(content)):
            if not isinstance(block.get("type"), str):
                yield f"{at}.content.{place}: Input should have a type"
                return
            yield from _block_faults(f"{at}.content.{place}.{block['type']}", role, block, names)
        yield from _blank_faults(at, _blocks(content))
        if role == "assistant" and _blocks(content)[-1]["type"] in _THINKING:
            yield f"{at}: The final block in an assistant message cannot be `thinking`."
    last = _blocks(messages[-1]["content"])[-1] if messages and messages[-1].get("content") else {}
    if (
        messages
        and messages[-1].get("role") == "assistant"
        and str(last.get("text", "")).strip() != str(last.get("text", "")).lstrip()
    ):
        yield "messages: final assistant content cannot end with trailing whitespace"


def _blank_faults(at: str, blocks: Sequence[_Block]) -> Iterator[str]:
    texts = [block.get("text") for block in blocks if block["type"] == "text"]
    if not all(isinstance(text, str) for text in texts):
        yield f"{at}: text: Input should be a valid string"
    elif "" in texts:
        yield f"{at}: text content blocks must be non-empty"
    elif texts and not any(str(text).strip() for text in texts):
        # Reported by users who tried it: white space beside other text is accepted.
        yield f"{at}: text content blocks must contain non-whitespace text"


def _block_faults(at: str, role: str, block: _Block, names: set[str] | None) -> Iterator[str]:
    type = block["type"]
    if role == "user" and type not in _USER_BLOCKS:
        yield f"{at}: Input tag does not match any of the expected tags of a user message"
    if role == "assistant" and type in _USER_BLOCKS and type != "text":  # new kinds come from the API itself
        yield f"{at}: Input tag does not match any of the expected tags of an assistant message"
    if type == "thinking" and not (isinstance(block.get("thinking"), str) and block.get("signature")):
        yield f"{at}.signature: Field required"
    if type in ("tool_use", *_SERVER_CALLS):
        if not _matches(_ID, block.get("id")):  # of a server call, the API also wants the prefix that it gives itself
            yield f"{at}.id: String should match pattern: {block.get('id')!r:.80}"
        name = block.get("name")
        if type == "mcp_tool_use":  # named by the server: any text
            is_legal = isinstance(name, str) and name != ""
        else:
            is_legal = _matches(_DEFINED_NAME if names is None else _NAME, name) or name in (names or ())
        if not is_legal:
            yield f"{at}.name: String should have at least 1 and at most 64 legal characters: {name!r:.80}"
        if not isinstance(block.get("input"), dict):
            yield f"{at}.input: Input should be a valid dictionary"
    if type == "tool_result":
        yield from _result_faults(at, block)


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _answers_server_call(block: _Block) -> bool:
    return str(block["type"]).endswith("_tool_result")


def _result_faults(at: str, block: _Block) -> Iterator[str]:
    if extra := set(block) - _RESULT_KEYS:
        yield f"{at}: Extra inputs are not permitted: {sorted(extra)}"
    if not _matches(_ID, block.get("tool_use_id")):
        yield f"{at}.tool_use_id: String should match pattern: {block.get('tool_use_id')!r:.80}"
    is_error, content = block.get("is_error", False), block.get("content", "")
    if not isinstance(is_error, bool):
        yield f"{at}.is_error: Input should be a valid boolean"
    if not isinstance(content, str | list):
        yield f"{at}.content: Input should be a valid list"
        return
    inner = _blocks(content) if content else []
    if is_error and not inner:
        yield f"{at}: content cannot be empty if `is_error` is true"
    if is_error and any(part["type"] != "text" for part in inner):
        yield f"{at}: all content must be type `text` if `is_error` is true"
    for part in inner:
        if part["type"] not in _RESULT_CONTENT:
            yield f"{at}.content: Input tag {part['type']!r} does not match any of the expected tags"
    yield from _blank_faults(at, inner)


# --- between messages -------------------------------------------------------------------------------------------------


def _pairing_faults(turns: Sequence[tuple[str, list[_Block]]]) -> Iterator[str]:
    calls: list[_Block] = []  # of the turn before
    for number, (role, blocks) in enumerate(turns):
        results = [block for block in blocks if block["type"] == "tool_result"]
        if role == "user":
            yield from _answer_faults(f"turn {number}", calls, results)
            if any(block["type"] == "tool_result" for block in blocks[len(results) :]):
                yield f"turn {number}: `tool_result` blocks must come first in the content of a message"
            if any(_is_from_code(call) for call in calls):
                yield from _programmatic_faults(f"turn {number}", blocks)
        calls = [block for block in blocks if block["type"] == "tool_use"]
    if calls:
        yield _without_results(f"turn {len(turns) - 1}", {call["id"] for call in calls})


def _answer_faults(at: str, calls: Sequence[_Block], results: Sequence[_Block]) -> Iterator[str]:
    ids = {call["id"] for call in calls}
    answers = Counter(result["tool_use_id"] for result in results)
    if missing := ids - answers.keys():
        yield _without_results(at, missing)
    if unexpected := answers.keys() - ids:
        yield f"{at}: unexpected `tool_use_id` found in `tool_result` blocks: {sorted(unexpected)}"
    for id, count in answers.items():
        if count > 1:
            yield f"{at}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"


def _without_results(at: str, ids: set[str]) -> str:
    return f"{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {sorted(ids)}"


def _is_from_code(call: _Block) -> bool:
    return (call.get("caller") or {"type": "direct"}).get("type") != "direct"


def _programmatic_faults(at: str, blocks: Sequence[_Block]) -> Iterator[str]:
    for block in blocks:
        content = _blocks(block.get("content") or [])
        if block["type"] != "tool_result" or any(part["type"] != "text" for part in content):
            yield f"{at}: the answer to a programmatic call must consist of `tool_result` blocks with text"


def _server_faults(turns: Sequence[tuple[str, list[_Block]]]) -> Iterator[str]:
    """Yield server results without their call, and server calls without their result.

    A call may wait for its result at the end of the history (`pause_turn`). It may also wait while the client answers
    calls with results only: code may call several tools, one after the other.
    """
    waiting: dict[str, str] = {}  # server calls so far that have no result, and their names
    for number, (role, blocks) in enumerate(turns):
        at = f"turn {number}"
        if role == "user":
            for id, name in waiting.items():
                if any(block["type"] != "tool_result" for block in blocks):
                    yield f"{at}: `{name}` tool use with id `{id}` was found without a corresponding result block"
            continue
        for block in blocks:
            if block["type"] != "tool_use" and block["type"].endswith(
                "_tool_use"
            ):  # new kinds come from the API itself
                waiting[str(block.get("id"))] = str(block.get("name"))
            elif _answers_server_call(block) and waiting.pop(str(block.get("tool_use_id")), None) is None:
                yield (
                    f"{at}: unexpected `tool_use_id` found in `{block['type']}` blocks: {block.get('tool_use_id')}. "
                    "Each must have a corresponding `server_tool_use` block before it."
                )


def _cache_faults(turns: Sequence[tuple[str, list[_Block]]]) -> Iterator[str]:
    for number, (_, blocks) in enumerate(turns):
        if any(block["type"] in _THINKING and block.get("cache_control") for block in blocks):
            yield f"turn {number}: cache_control cannot be set for thinking blocks"
