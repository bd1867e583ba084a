"""`picture`: a conversation as text, for the report of a failed test.

    request 1 at 0.02 s: claude-opus-4-7, streamed, tools get_weather
      -> user         Weather in Paris?
      <- HTTP 200, reply 1
      <- text         Let me look.
      <- tool_use     get_weather {"city": "Paris"}
      <- end          tool_use
    request 2 at 0.05 s: claude-opus-4-7, streamed, tools get_weather
      -> assistant    as answered
      -> tool_result  get_weather: Paris: 15 degrees
      <- HTTP 200, reply 2, fault: Fault(FaultKind.RESET, after_bytes=700)
      ...

A request shows only the messages that no earlier request had. Texts are bounded, secrets are masked, and nothing acts
on the terminal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from eagerstream import FragmentDecoder, MessageAssembler
from eagerstream._support.redaction import printable, redact, redact_excerpt
from eagerstream.recordings import Recording

from .. import ReceivedRequest
from .._faults import INSTEAD
from ._script import Exchange

_MAX_TEXT_CHARS: Final = 300
_MAX_INPUT_CHARS: Final = 2_000
"""Maximum size of a value before its secrets are masked; a longer one is masked as text."""
_MAX_LINES: Final = 12
"""Maximum number of messages or blocks shown of one request or response."""
_FIRST: Final = 5
_LAST: Final = 20
_KIND_CHARS: Final = 12

Blocks = Sequence[Mapping[str, Any]]


def picture(
    exchanges: Sequence[Exchange], problems: Sequence[str], faults_of: Callable[[ReceivedRequest], list[str]]
) -> str:
    """Return the conversation as text, at most about 100,000 characters, with the problems at its end."""
    lines: list[str] = [] if exchanges else ["no request"]
    for index, exchange in enumerate(exchanges):
        if _FIRST <= index < len(exchanges) - _LAST:
            if index == _FIRST:
                lines.append(f"... {len(exchanges) - _FIRST - _LAST} requests left out ...")
            continue
        lines.append(_head(index + 1, exchange))
        lines += _bounded([f"  -> {line}" for line in _sent(exchange, exchanges[:index])])
        lines += _bounded([f"  <- {line}" for line in _received(exchange)])
        lines += _bounded([f"  !! {_shown(fault)}" for fault in faults_of(exchange.request)])
    lines += _bounded([f"!! {_shown(problem)}" for problem in problems])
    return "\n".join(lines)


def _bounded(lines: list[str]) -> list[str]:
    if len(lines) <= _MAX_LINES:
        return lines
    half = _MAX_LINES // 2
    return [*lines[:half], f"     ... {len(lines) - 2 * half} left out ...", *lines[-half:]]


def _head(number: int, exchange: Exchange) -> str:
    body = _mapping(exchange.request.complete)
    told = [str(body.get("model") or "no model"), "streamed" if body.get("stream") is True else "not streamed"]
    tools = body.get("tools")
    names = [str(_mapping(tool).get("name")) for tool in tools] if isinstance(tools, list) else []
    if names:
        told.append(f"tools {' '.join(names)}")
    return f"request {number} at {exchange.at_s:.2f} s: {_shown(', '.join(told))}"


# --- the request ------------------------------------------------------------------------------------------------------


def _sent(exchange: Exchange, earlier: Sequence[Exchange]) -> Iterator[str]:
    """Yield a line for each block of the messages that no earlier request had."""
    messages = _messages(exchange)
    known, before = 0, None
    for other in reversed(earlier[-_LAST:]):
        theirs = _messages(other)
        if len(theirs) > known and messages[: len(theirs)] == theirs:
            known, before = len(theirs), other
    names = {
        block["id"]: str(block.get("name"))
        for message in messages
        for block in _blocks(message)
        if isinstance(block.get("id"), str)
    }
    if known and known == len(messages):
        yield "the same messages again"
    for index, message in enumerate(messages[known:], known):
        role = str(_mapping(message).get("role"))
        if role == "assistant" and index == known and before is not None:
            answered = _blocks(message_of(before.response))
            if [*map(_identity, answered)] == [*map(_identity, _blocks(message))]:
                yield _line("assistant", "as answered")
                continue
        for block in _blocks(message):
            yield _block(block, role, names)


def _messages(exchange: Exchange) -> list[Any]:
    messages = _mapping(exchange.request.complete).get("messages")
    return messages if isinstance(messages, list) else []


def _identity(block: Mapping[str, Any]) -> list[Any]:
    return [block.get(name) for name in ("type", "text", "thinking", "id", "name", "input")]


# --- the response -----------------------------------------------------------------------------------------------------


def _received(exchange: Exchange) -> Iterator[str]:
    request, response = exchange.request, exchange.response
    told = ["no HTTP status" if request.status is None else f"HTTP {request.status}"]
    told.append(exchange.reply_name or ("a count of tokens" if request.status == 200 else "refused by the double"))
    if response is not None and response.duration_s > 0:
        told.append(f"{response.duration_s:.2f} s")
    if request.fault is not None:
        told.append(f"fault: {request.fault!r}")
    elif not request.ended:
        told.append("not complete yet")
    elif request.disconnected:
        told.append("the client left before its end")
    yield _shown(", ".join(told))
    if response is None or (request.fault is not None and request.fault.kind in INSTEAD):
        return
    if request.fault is not None:
        yield "the fault is in this response:"
    message = message_of(response)
    for block in _blocks(message):
        yield _block(block, "assistant", {})
    if error := _mapping(message.get("error")):
        yield _line("error", f"{error.get('type')}: {error.get('message')}")
    elif response.status == 200:
        yield _line("end", str(message.get("stop_reason")))


def message_of(response: Recording | None) -> Mapping[str, Any]:
    """Return the message of a response as far as it can be read, or the body of an error."""
    if response is None:
        return {}
    if response.media_type == "application/json":
        try:
            return _mapping(json.loads(response.body))
        except (ValueError, RecursionError):
            return {}
    decoder, assembler = FragmentDecoder(), MessageAssembler()
    error: dict[str, Any] = {}
    try:
        for chunk in response.chunks:
            for event in decoder.feed(chunk.data):
                if isinstance(event, dict) and event["type"] == "error":
                    error = {"error": event["error"]}
                else:
                    assembler.feed(event)
    except Exception:  # a test may reply with anything
        pass
    try:
        return {**assembler.message, **error}
    except Exception:  # it did not start
        return error


# --- a block ----------------------------------------------------------------------------------------------------------


def _block(block: Mapping[str, Any], role: str, names: Mapping[str, str]) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return _line(role if role != "assistant" else "text", text)
        case {"type": "thinking", "thinking": str(text)}:
            return _line("thinking", text)
        case {"type": str(kind), "name": str(name), "input": input}:
            return _line(kind, f"{name} {_json(input)}")
        case {"type": str(kind), "tool_use_id": id, **rest}:
            failed = " (is_error)" if rest.get("is_error") else ""
            return _line(kind, f"{names.get(str(id), id)}{failed}: {_result(rest.get('content'))}")
        case _:
            return _line(str(block.get("type")), _json(block))


def _result(content: Any) -> str:
    if isinstance(content, list) and all(_mapping(part).get("type") == "text" for part in content):
        return " ".join(str(part.get("text")) for part in content)
    return content if isinstance(content, str) else _json(content)


def _json(value: Any) -> str:
    """Return a value as JSON without secrets. Its start decides about the size, since only an excerpt is shown."""
    written = json.dumps(value, ensure_ascii=False, default=str)
    return json.dumps(redact(value), ensure_ascii=False, default=str) if len(written) <= _MAX_INPUT_CHARS else written


def _line(kind: str, text: str) -> str:
    return f"{_shown(kind):<{_KIND_CHARS}} {_shown(text)}"


def _shown(text: str) -> str:
    """Return an excerpt of a text on one line."""
    return printable(redact_excerpt(text, _MAX_TEXT_CHARS)).replace("\n", "\\n").replace("\t", " ")


def _blocks(message: Any) -> Blocks:
    content = _mapping(message).get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
