"""What is known of a conversation is what a look at all of it finds, whatever its owner does to it between requests."""

from __future__ import annotations

import copy
import json
import pickle
import random
from typing import Any

import pytest
from hypothesis import given, strategies as st
from packages.wire.tests.test_history import assistant, user
from packages.wire.tests.test_repair import ASK, answer, call, text
from packages.wire.tests.test_repair_blocks import legal, mangle

from eagerstream_wire import count_breakpoints, validate_history
from eagerstream_wire._server_tools import server_calls
from eagerstream_wire._settled_messages import KnownMessages, SettledMessages, notable, request_json

TOOLS = [{"name": "web_search", "type": "web_search_20250305"}]


def faults(settled: SettledMessages, messages: KnownMessages) -> list[str]:
    return [str(each) for each in settled.faults(messages, tools=TOOLS, system_breakpoints=1, model="claude-opus-4-7")]


def check(settled: SettledMessages, messages: list[Any]) -> None:
    followed = settled.follow(messages)
    assert list(followed) == messages
    found = validate_history(messages, TOOLS, system_breakpoints=1, model="claude-opus-4-7")
    assert faults(settled, followed) == [str(fault) for fault in found]
    assert count_breakpoints(followed.notable) == count_breakpoints(messages)
    assert server_calls(followed.notable) == server_calls(messages)
    body = {"max_tokens": 1, "messages": followed, "stream": True}
    encoded = request_json(body)
    assert encoded == request_json(body)
    assert json.dumps(json.loads(encoded)["messages"]) == json.dumps(messages)  # `==` takes True for 1


def change(messages: list[Any], choose: random.Random) -> None:
    """Change a message in place, without its owner telling anybody."""
    if not messages:
        return
    message = choose.choice(messages)
    blocks = message["content"] if isinstance(message["content"], list) else []
    match choose.randrange(4):
        case 0:
            message["content"] = f"Other {choose.random()}"
        case 1 if blocks:
            choose.choice(blocks)["cache_control"] = {"type": "ephemeral"}
        case 2 if blocks:
            choose.choice(blocks)["input"] = {"n": choose.choice([0, 1, 1.0, True, 0.0, -0.0, False, None, "1"])}
        case 3:
            message["role"] = choose.choice(["system", "user", "assistant"])
        case _:
            pass


@given(st.integers(0, 2**32))
def test_any_changes_between_requests(seed: int) -> None:
    choose = random.Random(seed)
    settled = SettledMessages()
    complete = legal(choose)
    messages: list[Any] = []
    while complete or choose.random() < 0.7:
        messages += complete[: (count := choose.randint(1, 3))]
        complete = complete[count:]
        if choose.random() < 0.3:
            choose.choice([mangle, change])(messages, choose)
        check(settled, messages)


def test_a_number_of_another_type() -> None:
    settled = SettledMessages()
    for number in (1, True, 1.0, 0, False, 0.0, -0.0, 10**5000):
        block = call("toolu_1", input={"n": [number]})
        messages = [ASK, assistant(block), user(answer("toolu_1", "ok"))]
        if number != 10**5000:  # `json` writes no such number
            check(settled, messages)
            continue
        assert faults(settled, settled.follow(messages)) == []


def test_known_messages_are_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    settled = SettledMessages()
    messages: list[Any] = [copy.deepcopy(ASK)]
    seen: list[int] = []
    dumps = json.dumps

    def counted(value: Any, **options: Any) -> str:
        written = dumps(value, **options)
        seen.append(len(written))
        return written

    monkeypatch.setattr(json, "dumps", counted)
    for number in range(60):
        messages += [assistant(call(f"toolu_{number}")), user(answer(f"toolu_{number}", "x" * 1000))]
        seen.clear()
        request_json({"max_tokens": 1, "messages": settled.follow(messages)})
        assert sum(seen) < 3_000
    # The marks of a request are in copies of its last messages, and what is before them stays known.
    marked = settled.follow(messages).copy()
    marked[-3] = {**marked[-3], "content": [{**marked[-3]["content"][0], "cache_control": {"type": "ephemeral"}}]}
    seen.clear()
    assert json.loads(request_json({"max_tokens": 1, "messages": marked}))["messages"] == marked
    assert sum(seen) < 5_000


def test_texts_that_utf8_cannot_encode() -> None:
    settled = SettledMessages()
    messages = [user(text("\ud800 alone")), assistant(text("So.")), user(text("\udc00"))]
    sent = json.loads(request_json({"max_tokens": 1, "messages": settled.follow(messages)}))["messages"]
    assert [message["content"][0]["text"] for message in sent] == ["\ufffd alone", "So.", "\ufffd"]


def test_messages_that_are_not_plain_data() -> None:
    inside: dict[str, Any] = {"type": "text", "text": "I contain myself."}
    inside["more"] = inside
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    for odd in ((1, 2), {1: "a"}, object(), deep, inside):
        settled = SettledMessages()
        messages: list[Any] = [ASK, assistant(call("toolu_1", input={"odd": odd})), user(answer("toolu_1", "ok"))]
        for _ in range(2):
            assert faults(settled, settled.follow(messages)) == []
        if type(odd) is object or odd is inside:
            with pytest.raises((TypeError, ValueError)):
                request_json({"max_tokens": 1, "messages": settled.follow(messages)})


def test_a_list_of_known_messages_is_a_list_for_others() -> None:
    followed = SettledMessages().follow([ASK])
    assert type(pickle.loads(pickle.dumps(followed))) is list
    assert notable([ASK]) == [ASK]
    assert repr(followed) == repr([ASK])
