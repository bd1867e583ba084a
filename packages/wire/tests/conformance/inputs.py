"""The cases of `packages/wire/conformance/inputs.json`: which calls may start, at which byte."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from .building import fed
from .reading_inputs import effects_of
from .response import (
    PING,
    STOP,
    Frame,
    block_start,
    block_stop,
    call,
    delta,
    ended,
    error,
    fragment,
    framed,
    message_delta,
    message_start,
    said,
    searched,
    thought,
    tool_start,
)

Case = tuple[str, str, Sequence[Frame]]
_CITY = ('{"city": "Par', 'is"}')


def cases() -> list[dict[str, Any]]:
    """Return all cases, in order."""
    families = (
        _start,
        _empty,
        _cut,
        _unclosed,
        _beats,
        _invalid,
        _valid,
        _order,
        _kinds,
        _given,
        _anew,
        _lost,
        _unknown,
        _endings,
    )
    found = [_case(*case) for family in families for case in family()]
    return [*found, *_cuttings()]


def _case(
    id: str, why: str, frames: Iterable[Frame], *, every: int = 0, ascii: bool = True, line_end: str = "\n"
) -> dict[str, Any]:
    """Return a case whose decisive bytes are steps of their own.

    Args:
        id: Family and name.
        why: The rule, in a sentence.
        frames: The events of the body, without the start of the message, which is added.
        every: If not 0, the body is also cut after every so many bytes.
        ascii: Write other characters as escapes.
        line_end: Between the lines of the body.
    """
    frames = [*frames]
    if not (frames and isinstance(frames[0], dict) and frames[0]["type"] == "message_start"):
        frames = [message_start(), *frames]
    events = [frame for frame in frames if isinstance(frame, dict)]
    message, effects = effects_of(events)
    body = b""
    decisive: dict[int, tuple[list[str], list[dict[str, str]]]] = {}  # by the offset behind the byte
    of_events = iter(effects)
    for frame in frames:
        body += framed(frame, ascii=ascii, line_end=line_end)
        effect = next(of_events) if isinstance(frame, dict) else ([], [])
        if effect[1]:
            decisive[len(body) - (line_end == "\r\n")] = effect  # the blank line ends with its CR
    cuts = {0, len(body), *decisive, *(end - 1 for end in decisive), *(range(0, len(body), every) if every else ())}
    ends = sorted(cuts)
    steps: list[dict[str, Any]] = []
    for begin, end in pairwise(ends):
        may_start, settled = decisive.get(end, ([], []))
        steps.append({**fed(body[begin:end]), "may_start": may_start, "settled": settled})
    steps.append({"end": True, "may_start": effects[-1][0], "settled": effects[-1][1]})
    inputs = [*message.inputs()]
    starts = sorted(call for step in steps for call in step["may_start"])
    expect = {"inputs": inputs, "starts": starts, "stop_reason": message.stop_reason}
    case: dict[str, Any] = {"id": f"inputs/{id}", "why": why, "steps": steps}
    if "\\ud8" in str(body):
        case["needs"] = ["lone_surrogates"]
    elif "[" * 60 in str(body):
        case["needs"] = ["deep"]
    elif any(input["type"] != "tool_use" for input in inputs):
        case["needs"] = ["server_calls"]
    return {**case, "expect": expect}


def _start() -> Iterator[Case]:
    why = "A valid call may start at the last byte of its own content_block_stop."
    end = ended("tool_use")
    yield "start/at_block_end", why, [*call(0, *_CITY), *end]
    yield "start/one_fragment", why, [*call(0, '{"city": "Paris"}'), *end]
    yield "start/each_character", why, [*call(0, *'{"a":[1,"x",null]}'), *end]
    yield "start/after_text", why, [*said(0), *call(1, *_CITY), *end]
    yield "start/after_thinking", why, [*thought(0), *said(1), *call(2, *_CITY), *end]
    yield "start/two_calls", why, [*call(0, *_CITY), *call(1, '{"city": "Oslo"}'), *end]
    yield "start/three_calls", why, [*call(0, "{}"), *call(1, '{"a": 1}'), *said(2), *call(3, '{"b": 2}'), *end]
    yield "start/empty_object_written", "An object without keys is complete, if its text is.", [*call(0, "{}"), *end]
    yield "start/empty_fragment_first", "An empty fragment changes nothing.", [*call(0, "", *_CITY), *end]
    yield "start/empty_fragment_last", "An empty fragment changes nothing.", [*call(0, *_CITY, ""), *end]
    why = "The object is complete, but more text may follow before the end of its block."
    yield "start/not_at_the_brace", why, [tool_start(0), fragment(0, '{"a": 1}'), PING, block_stop(0), *end]
    yield "start/space_after_the_brace", why, [*call(0, '{"a": 1}', " \n"), *end]
    yield "start/text_after_the_brace", why, [*call(0, '{"a": 1}', "}"), *end]


def _empty() -> Iterator[Case]:
    why = "An input without a text may have been cut: its block's end proves nothing, and the next event decides."
    for reason in ("tool_use", "end_turn", "pause_turn"):
        yield f"empty/then_{reason}", f"{why} The model ended by itself.", [*call(0), *ended(reason)]
        yield f"empty/fragment_then_{reason}", f"{why} The model ended by itself.", [*call(0, ""), *ended(reason)]
    for other in ("max_tokens", "refusal", "stop_sequence", "model_context_window_exceeded", "later_reason", None):
        yield f"empty/then_{str(other).lower()}", f"{why} This reason does not.", [*call(0), *ended(other)]
    why = "The response went on after an input without a text, so nothing of it was cut."
    yield "empty/then_call", why, [*call(0), *call(1, *_CITY), *ended("tool_use")]
    yield "empty/then_text", why, [*call(0), *said(1), *ended("max_tokens")]
    yield "empty/then_thinking", why, [*call(0), *thought(1), *ended("max_tokens")]
    yield "empty/twice", why, [*call(0), *call(1), *ended("tool_use")]
    yield "empty/twice_then_max_tokens", why, [*call(0), *call(1), *ended("max_tokens")]
    yield "empty/then_open_call", why, [*call(0), tool_start(1), *ended("max_tokens")]
    yield "empty/then_fragment", why, [tool_start(1), *call(0), fragment(1, "{}"), block_stop(1), *ended("tool_use")]
    why = "A ping does not belong to the message, so it proves nothing."
    yield "empty/then_ping", why, [*call(0), PING, *ended("max_tokens")]
    why = "White space is a text, but no object."
    yield "empty/white_space", why, [*call(0, " \n"), *ended("tool_use")]
    yield "empty/then_lost", "The connection was lost before anything proved that the input is empty.", [*call(0)]
    yield "empty/then_error", "An error event proves nothing about the input before it.", [*call(0), error()]
    yield "empty/then_stop_only", "Without a stop reason, the end proves nothing.", [*call(0), STOP]
    yield "empty/after_reason", "The stop reason came before the block's end.", [
        tool_start(0), message_delta("tool_use"), block_stop(0), STOP]  # fmt: skip


def _cut() -> Iterator[Case]:
    whole = [tool_start(0), *(fragment(0, text) for text in ('{"a": "b', '"', "}")), block_stop(0)]
    for reason in ("max_tokens", "stop_sequence", "refusal", "tool_use", "end_turn", None):
        name = str(reason).lower()
        why = "A text that stops inside its object is incomplete, whatever the stop reason says."
        yield f"cut/{name}_in_text", why, [tool_start(0), fragment(0, '{"a": "b'), block_stop(0), *ended(reason)]
        yield f"cut/{name}_after_value", why, [*call(0, '{"a": "b"'), *ended(reason)]
        why = "Of a block that never closed, only a complete object is valid, if the model itself ended the message."
        yield f"cut/{name}_without_block_stop", why, [tool_start(0), fragment(0, '{"a": "b'), *ended(reason)]
        yield f"cut/{name}_complete_but_open", why, [*whole[:-1], *ended(reason)]
        yield f"cut/{name}_empty_and_open", why, [tool_start(0), *ended(reason)]
        why = "A call that was complete before the cut may run."
        yield f"cut/{name}_after_a_call", why, [*call(0, *_CITY), tool_start(1), fragment(1, '{"c'), *ended(reason)]
    for count in range(len(whole) + 1):
        why = "The connection is lost after some of the events: only a closed block with a complete object is valid."
        yield f"cut/lost_after_{count}_events", why, whole[:count]
        yield f"cut/error_after_{count}_events", f"An error event ends the response. {why}", [*whole[:count], error()]
    yield "cut/lost_in_second", "The first of two calls was complete.", [*call(0, *_CITY), *whole[:3]]
    yield "cut/lost_in_text_after", "The call was complete.", [*call(0, *_CITY), *said(1)[:2]]
    why = "The event that closes the block is itself cut, so it does not count."
    stop = framed(block_stop(0))
    yield "cut/lost_in_block_stop", why, [*whole[:-1], stop[:-2]]
    yield "cut/lost_before_last_byte", why, [*whole[:-1], stop[:-1]]
    yield "cut/nothing_after_error", "Nothing counts after an error event.", [error(), *whole, *ended("tool_use")]
    yield "cut/call_then_error_then_call", "Nothing counts after an error event.", [
        *call(0, "{}"), error("api_error"), *call(1, "{}"), *ended("tool_use")]  # fmt: skip


def _unclosed() -> Iterator[Case]:
    why = "Some gateways never close a block. Its object is complete, and the model has ended the message."
    whole = [tool_start(0), *(fragment(0, text) for text in _CITY)]
    for reason in ("tool_use", "end_turn", "pause_turn", "tool_calls", "stop", "STOP"):
        name = {"STOP": "gemini_stop"}.get(reason, reason)
        yield f"unclosed/{name}", f"{why} The stop reason says so.", [*whole, *ended(reason)]
        yield f"unclosed/{name}_without_message_stop", why, [*whole, message_delta(reason)]
    for reason in ("max_tokens", "length", "refusal", "content_filter", "stop_sequence"):
        yield f"unclosed/{reason}_cut", "The message was cut.", [*whole, *ended(reason)]
    yield (
        "unclosed/unknown_reason",
        "The end of the message says so, whatever its reason is.",
        [*whole, *ended("later")],
    )
    yield "unclosed/stop_only", "The end of the message says so.", [*whole, STOP]
    yield "unclosed/body_ends", "Nothing says that the message has ended.", whole
    yield (
        "unclosed/error_after_reason",
        "The model had ended the message.",
        [*whole, message_delta("tool_use"), error()],
    )
    yield "unclosed/closed_late", "The stop reason came first, and says as much.", [
        *whole, message_delta("tool_use"), block_stop(0), STOP]  # fmt: skip
    yield "unclosed/rest_after_reason", "Without its last brace, the object is not complete at the stop reason.", [
        *whole[:-1], message_delta("tool_use"), *whole[-1:], STOP]  # fmt: skip
    why = "The blocks are open at the same time, and each fragment belongs to its index."
    both = [tool_start(0), tool_start(1), *(fragment(at, text) for text in _CITY for at in (0, 1))]
    yield "unclosed/interleaved", why, [*both, *ended("tool_use")]
    yield "unclosed/interleaved_first_open", why, [*both, block_stop(1), *ended("tool_use")]
    yield "unclosed/interleaved_closed_backwards", why, [*both, block_stop(1), block_stop(0), *ended("tool_use")]
    why = "A new block at the index of an open one closes it."
    yield "unclosed/index_again", why, [*whole, *call(0, '{"city": "Oslo"}', id="toolu_b"), *ended("tool_use")]
    yield "unclosed/index_again_text", why, [*whole, *said(0), *ended("max_tokens")]
    yield "unclosed/index_again_partial", "Its object is not complete.", [*whole[:2], *said(0), *ended("tool_use")]
    yield "unclosed/message_again", "The message starts anew: nothing of the first attempt is to run.", [
        *whole, message_start(id="msg_2"), *said(0), *ended("end_turn")]  # fmt: skip
    yield "unclosed/message_again_with_its_id", "The index shows that the message starts anew.", [
        *whole, message_start(), *said(0), *ended("end_turn")]  # fmt: skip
    why = "A start with the same id begins no other message."
    yield "unclosed/message_start_repeated", why, [
        message_start(), message_start(), *whole[:2], message_start(), *whole[2:], block_stop(0), message_start(),
        *call(1, "{}", id="toolu_b"), *ended("tool_use")]  # fmt: skip
    why = "An input without a text is complete if the model itself has ended the message."
    yield "unclosed/empty", why, [tool_start(0), *ended("tool_use")]
    yield "unclosed/empty_stop_only", "Without a stop reason, the end proves nothing.", [tool_start(0), STOP]
    yield "unclosed/empty_without_message_stop", why, [tool_start(0), message_delta("tool_use")]
    yield "unclosed/empty_index_again", "The response went on.", [tool_start(0), *said(0), *ended("max_tokens")]
    yield "unclosed/empty_before_call", why, [tool_start(0), tool_start(1), fragment(1, "{}"), *ended("tool_use")]
    yield "unclosed/lacks_a_fragment", "A fragment was lost.", [*whole, fragment(0, None), *ended("tool_use")]
    yield "unclosed/list", "A list is no input.", [tool_start(0), fragment(0, "[1]"), *ended("tool_use")]
    yield "unclosed/number", "A number is no input.", [tool_start(0), fragment(0, "12"), *ended("tool_use")]
    yield "unclosed/text_after_the_brace", "It is not JSON.", [*whole, fragment(0, "x"), *ended("tool_use")]
    yield "unclosed/space_after_the_brace", "It is complete.", [*whole, fragment(0, " "), *ended("tool_use")]
    yield "unclosed/server_call", "A call that the API runs is settled in the same way.", [
        tool_start(0, type="server_tool_use"), fragment(0, '{"query": "x"}'), *ended("end_turn")]  # fmt: skip


def _beats() -> Iterator[Case]:
    why = "A heartbeat of a gateway says nothing about the message, whatever its data is."
    whole = [tool_start(0), *(fragment(0, text) for text in _CITY), block_stop(0)]
    for name, beat in {
        "time": "event: ping\ndata: 2026-02-20 08:40:33.556053\n\n",
        "words": "event: ping\ndata: pong\n\n",
        "number": "event: ping\ndata: 17\n\n",
        "no_type": "event: ping\ndata: {}\n\n",
        "other_name": "event: heartbeat\ndata: 1700000000.5 s\n\n",
        "other_type": 'event: keepalive\ndata: {"type": "keepalive", "sequence_number": 3}\n\n',
    }.items():
        frames: list[Frame] = [message_start(), beat.encode()]
        for frame in (*whole, *ended("tool_use")):
            frames += [frame, beat.encode()]
        yield f"beats/{name}", why, frames


_INVALID = {
    "array": "[1, 2]", "string": '"x"', "number": "12", "null": "null", "true": "true", "letters": "hello",
    "open_array": "[1", "open_string": '"x', "bare_key": "{a: 1}", "single_quotes": "{'a': 1}", "no_colon": '{"a" 1}',
    "no_value": '{"a": }', "trailing_comma": '{"a": 1,}', "leading_comma": '{,"a": 1}', "two_commas": '{"a": 1,, "b": 2}',
    "missing_comma": '{"a": 1 "b": 2}', "number_key": "{1: 2}", "trailing_text": '{"a": 1} ok', "trailing_brace": "{}}",
    "two_objects": "{}{}", "unescaped_quote": '{"cmd": "echo "hi" && rm"}', "line_end_in_string": '{"a": "x\ny"}',
    "tab_in_string": '{"a": "x\ty"}', "nul_in_string": '{"a": "x\0y"}', "nan": '{"a": NaN}', "infinity": '{"a": Infinity}',
    "minus_infinity": '{"a": -Infinity}', "capital_true": '{"a": True}', "none": '{"a": None}', "undefined": '{"a": undefined}',
    "leading_zero": '{"a": 01}', "plus": '{"a": +1}', "bare_dot": '{"a": .5}', "dot_at_end": '{"a": 1.}', "hex": '{"a": 0x1}',
    "minus": '{"a": -}', "exponent": '{"a": 1e}', "bad_escape": '{"a": "\\x41"}', "short_escape": '{"a": "\\u12"}',
    "comment": '{"a": 1 /* one */}', "line_comment": '{// a\n"a": 1}', "markdown": '```json\n{"a": 1}\n```',
    "wrong_bracket": '{"a": [1}', "wrong_brace": '{"a": {"b": 1]}', "form_feed": '\f{"a": 1}', "no_break_space": '{"a":\u00a01}',
    "byte_order_mark": '\ufeff{"a": 1}', "truncated_literal": '{"a": tru}', "semicolon": '{"a": 1;}', "xml": "<a>1</a>",
    "too_large_number": '{"a": 1e400}', "too_large_in_list": '{"a": [1, -1e999]}',
    "keys_that_become_one": '{"\\ud800": 1, "\\ud801": 2}',
}  # fmt: skip


def _invalid() -> Iterator[Case]:
    for name, text in _INVALID.items():
        why = "Only one JSON object, by strict rules, is an input. Anything else must not run."
        if name.startswith(("too_large", "keys_")):
            why = "The API would refuse this value in a history, or a tool would get another one: it must not run."
        half = len(text) // 2
        yield f"invalid/{name}", why, [*call(0, text[:half], text[half:]), *ended("tool_use")]
    why = "A text that was wrong before it was cut could not have become right."
    yield "invalid/wrong_then_max_tokens", why, [*call(0, '{"a": b'), *ended("max_tokens")]
    yield "invalid/wrong_then_lost", why, [tool_start(0), fragment(0, '{"a": b')]
    yield "invalid/wrong_and_open", why, [tool_start(0), fragment(0, '{"a": b'), *ended("end_turn")]
    yield "invalid/then_valid", "An invalid call does not affect the next one.", [
        *call(0, '{"a": b}'), *call(1, *_CITY), *ended("tool_use")]  # fmt: skip
    yield "invalid/array_then_cut", "No object starts with a bracket.", [tool_start(0), fragment(0, " [")]


def _valid() -> Iterator[Case]:
    texts = {
        "spaces": ' \t\r\n{ "a" : [ 1 , 2 ] } \n', "nested": '{"a": {"b": [{"c": null}]}}', "numbers": '{"a": -0.5e+3, "b": 0, "c": 10}',
        "escapes": '{"a": "\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9"}', "pair": '{"a": "\\ud83d\\ude00"}', "text": '{"a": "Zürich 東京 😀"}',
        "repeated_key": '{"a": 1, "a": 2}', "repeated_key_in_object": '{"a": {"b": 1, "b": {"c": 3}}}', "empty_key": '{"": {"": []}}',
        "braces_in_string": '{"a": "}{]["}', "json_in_string": '{"a": "{\\"b\\": 1}"}', "line_separators": '{"a": "\u2028\u2029\x7f"}',
        "small_number": '{"a": 1e-400}', "long_string": '{"a": "' + "lorem ipsum " * 120 + '"}', "deep": '{"a": ' + "[" * 90 + "]" * 90 + "}",
        "half_pair": '{"a": "\\ud83d"}',
    }  # fmt: skip
    for name, text in texts.items():
        why = "This is a JSON object, so the call may start."
        if name.startswith("repeated"):
            why = "If a key is repeated, its last value counts, as in most readers of JSON."
        third = max(len(text) // 3, 1)
        yield f"valid/{name}", why, [
            *call(0, *(text[at : at + third] for at in range(0, len(text), third))), *ended("tool_use")]  # fmt: skip


def _order() -> Iterator[Case]:
    why = "A fragment belongs to the block of its index, whatever comes between."
    a, b = [tool_start(0), fragment(0, '{"a": ')], [tool_start(1), fragment(1, '{"b": ')]
    end = ended("tool_use")
    yield "order/interleaved", why, [*a, *b, fragment(0, "1}"), fragment(1, "2}"), block_stop(0), block_stop(1), *end]
    yield (
        "order/second_ends_first",
        why,
        [*a, *b, fragment(1, "2}"), block_stop(1), fragment(0, "1}"), block_stop(0), *end],
    )
    yield "order/one_is_cut", why, [*a, *b, fragment(1, "2}"), block_stop(1), *end]
    yield "order/text_between", why, [*a, *said(1), fragment(0, "1}"), block_stop(0), *end]
    yield "order/ping_between", why, [a[0], PING, a[1], PING, fragment(0, "1}"), PING, block_stop(0), *end]
    why = "Indexes are names: gaps do not matter."
    yield "order/gap", why, [*call(3, *_CITY), *call(7, "{}"), *end]
    yield "order/backwards", "Inputs are told by index, and calls may start as they end.", [
        *call(5, *_CITY), *call(2, "{}"), *end]  # fmt: skip


def _kinds() -> Iterator[Case]:
    end = ended("end_turn")
    for kind in ("server_tool_use", "mcp_tool_use"):
        why = "The API runs this call itself, so the client never starts it."
        yield f"kinds/{kind}", why, [*call(0, *_CITY, type=kind), *end]
        yield f"kinds/{kind}_empty", why, [*call(0, type=kind), *said(1), *end]
        yield f"kinds/{kind}_invalid", why, [*call(0, "{", "]", type=kind), *end]
        yield f"kinds/{kind}_cut", why, [tool_start(0, type=kind), fragment(0, '{"q'), *ended("max_tokens")]
        yield f"kinds/{kind}_beside_a_call", why, [*call(0, "{}", type=kind), *call(1, *_CITY), *ended("tool_use")]
    yield "kinds/search", "A search and its result are the API's own.", [*searched(0, "srvtoolu_1"), *said(2), *end]
    why = "Only blocks that call something have an input."
    for kind in ("text", "thinking", "redacted_thinking", "web_search_tool_result", "fallback", "hologram"):
        yield (
            f"kinds/{kind}_has_none",
            why,
            [block_start(0, type=kind), block_stop(0), *call(1, "{}"), *ended("tool_use")],
        )
    why = "A call before a fallback block was complete, so it may have started."
    fallback = [block_start(1, type="fallback", **{"from": {"model": "a"}, "to": {"model": "b"}}), block_stop(1)]
    yield "kinds/call_before_fallback", why, [*call(0, *_CITY), *fallback, *call(2, "{}"), *ended("tool_use")]
    why = "The block after it proves that an input without a text is empty."
    yield "kinds/empty_call_before_fallback", why, [*call(0), *fallback, *said(2), *end]


def _given() -> Iterator[Case]:
    end = ended("tool_use")
    why = "A non-empty input in content_block_start is the input if no fragments follow."
    yield "given/object", why, [*call(0, input={"city": "Paris"}), *end]
    yield "given/nested", why, [*call(0, input={"a": {"b": [1, None]}}), *end]
    yield "given/max_tokens", why, [*call(0, input={"city": "Paris"}), *ended("max_tokens")]
    yield (
        "given/open",
        "Its block never closed, but the model ended the message.",
        [tool_start(0, input={"city": "Paris"}), *ended("tool_use")],
    )
    why = "The fragments are the model's own words, so they win."
    yield "given/and_fragments", why, [*call(0, *_CITY, input={"city": "Oslo"}), *end]
    yield "given/and_cut_fragments", why, [*call(0, '{"city": "', input={"city": "Oslo"}), *end]
    yield "given/null", "A null input is a placeholder, as an empty object is.", [*call(0, *_CITY, input=None), *end]
    yield "given/null_and_no_text", "A null input is a placeholder.", [*call(0, input=None), *ended("max_tokens")]
    for name, value in {
        "list": [1],
        "text": "{}",
        "number": 1,
        "empty_list": [],
        "empty_text": "",
        "false": False,
    }.items():
        yield f"given/{name}", "An input must be an object.", [*call(0, input=value), *end]
        why = "An empty value may be a placeholder; any other than an object shows that the peer is wrong."
        yield f"given/{name}_and_fragments", why, [*call(0, *_CITY, input=value), *end]
    block = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}
    why = "A call that is complete in message_start may start there: code that the API runs makes such calls."
    yield "given/in_message_start", why, [message_start(block, stop_reason="tool_use"), STOP]
    yield "given/in_message_start_without_stop", why, [message_start(block, stop_reason="tool_use")]
    yield "given/two_in_message_start", why, [message_start(block, {**block, "id": "toolu_2"}), *end]
    empty = {**block, "input": {}}
    why = "A stop reason in message_start proves an empty input in it, too."
    yield "given/empty_in_message_start", why, [message_start(empty, stop_reason="tool_use"), STOP]
    yield "given/empty_in_message_start_cut", "Nothing proves it.", [message_start(empty)]
    yield "given/empty_in_message_start_then_call", "The next block proves it.", [
        message_start(empty, block | {"id": "toolu_2"}), *ended("max_tokens")]  # fmt: skip
    why = "A stop reason in message_start, before the blocks, does not tell how the message ends."
    yield "given/early_reason_then_cut", why, [message_start(stop_reason="tool_use"), *call(0)]
    yield "given/early_reason_then_end", why, [message_start(stop_reason="tool_use"), *call(0), *ended("max_tokens")]


def _anew() -> Iterator[Case]:
    again = message_start(id="msg_2")
    end = ended("tool_use")
    why = "A second message_start begins a new message: what was open is cut off, and only the new inputs count."
    yield "anew/in_input", why, [tool_start(0), fragment(0, '{"a'), again, *call(0, *_CITY, id="toolu_9"), *end]
    yield "anew/in_complete_input", why, [tool_start(0), fragment(0, "{}"), again, *call(0, "{}", id="toolu_9"), *end]
    yield "anew/in_empty_input", why, [*call(0), again, *call(0, "{}", id="toolu_9"), *end]
    yield "anew/after_call", why, [*call(0, *_CITY), again, *said(0), *ended("end_turn")]
    yield "anew/after_reason", why, [*call(0), message_delta("tool_use"), again, *said(0)]
    yield "anew/reason_is_forgotten", why, [message_delta("tool_use"), again, *call(0)]
    yield "anew/after_stop", "A message after a complete one is another one.", [
        *call(0, "{}"), *end, again, *call(0, *_CITY, id="toolu_9"), *end]  # fmt: skip
    yield "anew/fragment_of_the_first", "A fragment of the first message does not belong to the second.", [
        tool_start(0), again, fragment(0, "{}"), *call(0, *_CITY, id="toolu_9"), *end]  # fmt: skip


def _lost() -> Iterator[Case]:
    end = ended("tool_use")
    why = "A fragment is known to be lost. What is left may look complete, so the call must not run."
    for name, text in {"number": 1, "null": None, "object": {"a": 1}, "list": ["{}"]}.items():
        yield (
            f"lost/fragment_is_{name}",
            why,
            [tool_start(0), fragment(0, text), fragment(0, "{}"), block_stop(0), *end],
        )
    broken = {"type": "content_block_delta", "index": 0}
    yield "lost/no_delta", why, [tool_start(0), broken, fragment(0, "{}"), block_stop(0), *end]
    yield (
        "lost/no_text",
        why,
        [tool_start(0), delta(0, type="input_json_delta"), fragment(0, "{}"), block_stop(0), *end],
    )
    yield "lost/in_empty_input", why, [tool_start(0), fragment(0, None), block_stop(0), *end]
    yield "lost/after_text", why, [tool_start(0), fragment(0, "{}"), fragment(0, 5), block_stop(0), *end]
    yield (
        "lost/other_call_runs",
        why,
        [*call(0, "{}"), tool_start(1), fragment(1, 5), block_stop(1), *call(2, "{}"), *end],
    )
    without_index = {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "x"}}
    two = [tool_start(0), fragment(0, "{}"), tool_start(1), fragment(1, "{}")]
    stops = [block_stop(0), block_stop(1)]
    yield "lost/no_index", "It may belong to any open call.", [*two, without_index, *stops, *end]
    yield "lost/index_is_text", "It may belong to any open call.", [*two, fragment("0", "x"), *stops, *end]
    yield "lost/index_is_null", "It may belong to any open call.", [*two, fragment(None, "x"), *stops, *end]
    yield "lost/no_index_after_the_end", "No call was open.", [*call(0, "{}"), without_index, *call(1, "{}"), *end]
    yield "lost/before_its_start", "The fragments came before the start of their call.", [
        fragment(0, '{"a": 1}'), *call(0, "{}"), *end]  # fmt: skip
    yield "lost/before_its_start_empty", "An empty fragment loses nothing.", [fragment(0, ""), *call(0, "{}"), *end]
    why = "The index was never opened: an open call without a text may lack it."
    yield "lost/wrong_index", why, [tool_start(0), fragment(4, "{}"), block_stop(0), *end]
    yield "lost/wrong_index_beside_text", "The open call has its own text.", [
        tool_start(0), fragment(0, "{"), fragment(4, "x"), fragment(0, "}"), block_stop(0), *end]  # fmt: skip
    yield "lost/wrong_index_after_empty", why, [*call(0), fragment(4, "{}"), *end]
    why = "A fragment after the end of its block changes nothing."
    yield "lost/after_its_end", why, [*call(0, '{"a": 1}'), fragment(0, "x"), *end]
    yield "lost/after_empty_end", "The input had no text, and its text came after its end.", [
        *call(0), fragment(0, '{"a": 1}'), *end]  # fmt: skip
    yield "lost/of_a_text_block", "A fragment of a block without an input changes nothing.", [
        *said(0)[:1], fragment(0, "x"), *said(0)[1:], *call(1, "{}"), *end]  # fmt: skip
    yield "lost/repeated_stop", "A repeated end changes nothing.", [*call(0, *_CITY), block_stop(0), *end]
    yield "lost/stop_of_nothing", "An end of no block changes nothing.", [block_stop(5), *call(0, *_CITY), *end]
    why = "An index that is used again names a new call, and the texts do not mix."
    yield "lost/index_again", why, [*call(0, "{}"), *call(0, *_CITY, id="toolu_9"), *end]
    yield "lost/index_again_while_open", why, [tool_start(0), fragment(0, '{"a"'), *call(0, *_CITY, id="toolu_9"), *end]
    yield "lost/other_delta", "A delta of another kind is no part of the input.", [
        tool_start(0), delta(0, type="text_delta", text="x"), fragment(0, "{}"), block_stop(0), *end]  # fmt: skip


def _unknown() -> Iterator[Case]:
    end = ended("tool_use")
    why = "The API adds kinds of events, blocks and deltas; a client ignores those that it does not know."
    yield "unknown/event", why, [{"type": "later", "index": 0}, *call(0, *_CITY), *end]
    yield "unknown/event_in_input", why, [tool_start(0), {"type": "later"}, fragment(0, "{}"), block_stop(0), *end]
    yield "unknown/event_after_empty", why, [*call(0), {"type": "later"}, *ended("max_tokens")]
    yield (
        "unknown/delta",
        why,
        [tool_start(0), delta(0, type="later_delta", x=1), fragment(0, "{}"), block_stop(0), *end],
    )
    yield "unknown/block", why, [block_start(0, type="later_block", x=[1]), block_stop(0), *call(1, *_CITY), *end]
    yield "unknown/block_with_input", why, [block_start(0, type="later_tool_use", input={}), block_stop(0), *end]
    yield "unknown/fields", why, [tool_start(0, later=1), {**fragment(0, "{}"), "later": 2}, block_stop(0), *end]
    yield "unknown/comment", "A comment is no event.", [b": keep-alive\n\n", *call(0, *_CITY), b":\n", *end]
    yield "unknown/empty_event", "Blank lines are no events.", [b"\n\n", *call(0, *_CITY), b"\n", *end]
    yield "unknown/caller", "A call may say who made it.", [*call(0, *_CITY, caller={"type": "direct"}), *end]


def _endings() -> Iterator[Case]:
    calls = [*call(0, *_CITY), *call(1)]
    reasons = ("tool_use", "end_turn", "max_tokens", "stop_sequence", "pause_turn", "refusal", "later_reason")
    for reason in reasons:
        why = "A complete call may have started before the stop reason comes; an empty one waits for it."
        yield f"endings/{reason}", why, [*calls, *ended(reason)]
        yield f"endings/{reason}_without_message_stop", why, [*calls, message_delta(reason)]
        yield f"endings/{reason}_text_only", "There is no call.", [*said(0), *ended(reason)]
    yield "endings/two_message_deltas", "The first reason settles an empty input.", [
        *call(0), message_delta("end_turn"), message_delta("max_tokens"), STOP]  # fmt: skip
    yield "endings/null_then_reason", "A null is no reason.", [*call(0), message_delta(None), *ended("tool_use")]
    yield "endings/nothing", "An empty message has no inputs.", [*ended("end_turn")]


def _cuttings() -> Iterator[dict[str, Any]]:
    """Yield the same responses in other bytes."""
    text = ('{"city": "Zür', 'ich", "to": "東京 😀"}')
    frames = [*said(0, "Grüß Gott 😀"), *call(1, *text), *call(2), *ended("tool_use")]
    for every in (1, 2, 3, 7, 64):
        why = "Chunks may end anywhere, also inside a character."
        yield _case(f"bytes/every_{every}_utf8", why, frames, every=every, ascii=False)
    yield _case("bytes/crlf", "Lines may end with CRLF.", frames, line_end="\r\n", ascii=False)
    yield _case("bytes/crlf_every_5", "A CRLF may be cut.", frames, line_end="\r\n", every=5)
    yield _case("bytes/cr", "Lines may end with CR.", frames, line_end="\r", ascii=False)
    yield _case("bytes/escapes", "Characters may be escaped in the event and in the input.", frames)
    pair = [*call(0, '{"a": "\\ud83d', '\\ude00"}'), *ended("tool_use")]
    yield _case("bytes/pair_in_two_fragments", "Fragments may cut a pair of escapes.", pair)
    cut = [*call(0, *'{"a": "\\u00e9", "b": [1.5e3, true]}'), *ended("tool_use")]
    yield _case("bytes/fragments_of_one_character", "Fragments may end anywhere.", cut)
