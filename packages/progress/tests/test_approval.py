"""What a person approves is what the tool gets: on the page, and for the clients of other protocols."""

from __future__ import annotations

import json
import re
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from packages.progress.tests.made_log import MadeCall, made_log
from packages.progress.tests.observed import viewed
from packages.progress.tests.page_modules import PageModules
from tests.streams import REQUEST
from tests.support import LocalAPI

import eagerstream
from eagerstream import tool
from eagerstream_progress import Hub, RunLog, load_records, save_records
from eagerstream_progress._exact import marked
from eagerstream_progress.agui import AGUIEncoder
from eagerstream_progress.vercel import UIMessageEncoder, to_messages
from eagerstream_testing import reply, tool_use

LARGE = 9007199254740993  # as a double it is 9007199254740992
ACCOUNT = '{"account": 10000000000000001, "amount": 9007199254740993}'

APPROVAL = r"""
import { RunView } from "./run.js";
import { parse } from "./records.js";
globalThis.matchMedia = () => ({ matches: false });
globalThis.document = { getElementById: () => null };
const { itemsOf } = await import("./cards.js");
const { Finder } = await import("./find.js");
const ui = { isOpen: () => false, tabStop: () => false, canAct: () => false, toggle() {}, decide() {} };
let found;
const text = (node) => typeof node === "string" ? node : node?.children ? all(node).map(text).join("") : "";
const all = ({ children }) => (typeof children[0] === "function" ? children[0]() : children).flat(Infinity);
const walk = (node) => {
  if (!node?.children) return;
  if (node.props.class === "exact") found.exact = text(node);
  if (node.props.class === "approve") found.disabled = Boolean(node.props.disabled);
  if (/question$/.test(node.props.id ?? "")) found.question = text(node);
  all(node).forEach(walk);
};
tell(given.split("\n").map((batch) => {
  const view = new RunView();
  for (const record of parse(batch).records) view.feed(record);
  const turns = itemsOf(view, new Finder(), ui).map((item) => item.draw());
  found = { exact: null, text: turns.map(text).join(""), disabled: null, question: null };
  turns.forEach(walk);
  return found;
}));
"""


def asked(text: str, *, name: str = "pay", whole: dict[str, Any] | None = None, pieces: int = 7, **log: Any) -> RunLog:
    """A run in which somebody is asked about a call with this input."""
    made = made_log(texts=0, **log)
    call = MadeCall(made, 2, name, input=whole)
    for piece in re.findall(rf"(?s).{{1,{pieces}}}", text):
        call.write(piece)
    call.stop()
    call.add("approval_start")
    return made


def cards(modules: PageModules, *logs: RunLog) -> list[dict[str, Any]]:
    """What the page shows of such runs."""
    return list(modules.run(APPROVAL, "\n".join(log.snapshot().json for log in logs)))


# --- the page ---------------------------------------------------------------------------------------------------------


def test_numbers_on_the_card(modules: PageModules) -> None:
    """Each digit that the model wrote; and what the tool gets, if that is another number."""
    exact = [
        "9007199254740993",
        "-9007199254740993",
        f"1{'0' * 400}",
        "1.0",
        "-0",
        "-0.0",
        "1E5",
        "0.10",
        "1e21",
        "12.5e-9",
    ]
    rounded = {
        "9007199254740993.0": "9007199254740992",
        "1e-400": "0",
        "0.1234567890123456789": "0.12345678901234568",
        f"0.{'1' * 500}": "0.1111111111111111",
    }
    shown = cards(modules, *(asked(f'{{"n": {number}}}') for number in [*exact, *rounded]))
    expected = [*exact, *(f"{number} /* the tool gets {got} */" for number, got in rounded.items())]
    assert [card["exact"] for card in shown] == [f'{{\n  "n": {number}\n}}' for number in expected]
    assert [float(number) for number in rounded] == [float(got) for got in rounded.values()]


def test_nothing_is_folded_away(modules: PageModules) -> None:
    """However long a text is, however many items and fields there are, and however deep something stands."""
    value: dict[str, Any] = {f"field {number}": number for number in range(100)}
    value |= {"text": "line\n" * 5_000, "items": list(range(2_000)), "10": 1, "2": 2}
    value["deep"] = [[[[[[[[["the innermost"]]]]]]]]]
    (card,) = cards(modules, asked(json.dumps(value), pieces=1_000))
    read = json.loads(re.sub(r"\\n\n *", r"\\n", card["exact"]))
    assert json.dumps(read) == json.dumps(value)  # in the same order, too
    assert card["disabled"] is False


def test_what_cannot_be_seen_is_shown(modules: PageModules) -> None:
    """As its escape, in a value and in a key; written as an escape or as itself, it looks the same."""
    all_hidden = ["\u202e", "\u2066", "\u200b", "\u200d", "\ufeff", "\u2028", "\u00a0", "\u00ad", "\ufe0f", "\u3164"]
    all_hidden.append("\U000e0041")
    escapes = [json.dumps(hidden)[1:-1] for hidden in all_hidden]
    for written in (escapes, all_hidden):
        shown = cards(modules, *(asked(f'{{"k{one}": "v{one}"}}') for one in written))
        assert [card["exact"] for card in shown] == [f'{{\n  "k{escape}": "v{escape}"\n}}' for escape in escapes]


def test_each_text_in_its_own_form(modules: PageModules) -> None:
    """Two inputs that differ look different."""
    forms = {
        r'{"a": "\\u202e"}': r'"a": "\\u202e"',  # six characters, and not the one
        r'{"a": "\u0072\u006d"}': '"a": "rm"',
        r'{"a": "\ud800"}': r'"a": "\ud800"',
        r'{"a": "x\\ny"}': r'"a": "x\\ny"',
        r'{"a": "x\ny"}': '"a": "x\\n\n    y"',
        '{"a": [], "b": {} }': '"a": [],\n  "b": {}',
        '{"a": [1,2 , [3]]}': '"a": [\n    1, 2,\n    [\n      3\n    ]\n  ]',
        '{"a": 1, "a": 2}': '"a": 1,\n  "a" /* repeated key: only the last one counts */: 2',
        '{"a": {"b": 1}, "b": 2}': '"a": {\n    "b": 1\n  },\n  "b": 2',
        '{"__proto__": {"x": 1}}': '"__proto__": {\n    "x": 1\n  }',
        '{"$number": "5"}': '"$number": "5"',
    }
    shown = cards(modules, *map(asked, forms))
    assert [card["exact"] for card in shown] == [f"{{\n  {form}\n}}" for form in forms.values()]


def test_an_input_that_came_whole(modules: PageModules) -> None:
    """There are no fragments of it; its numbers are marked."""
    (card,) = cards(modules, asked("", whole={"n": LARGE, "$number": "5", "z": -0.0}))
    assert card["exact"] == f'{{\n  "n": {LARGE},\n  "$number": "5",\n  "z": -0\n}}'


def test_what_is_no_longer_kept_cannot_be_approved(modules: PageModules) -> None:
    """Nobody would see what they approve; it can be rejected."""
    (card,) = cards(modules, asked('{"a": "' + "x" * 5_000 + '"}', pieces=500, max_recent=1, max_kept_chars=1_000))
    assert card["exact"] is None
    assert card["disabled"] is True
    assert "It cannot be approved here" in card["text"]


def test_an_input_that_has_not_ended_cannot_be_approved(modules: PageModules) -> None:
    """More may come."""
    log = made_log(texts=0)
    call = MadeCall(log, 2, "pay")
    call.write('{"amount": 1')
    call.add("approval_start")
    (card,) = cards(modules, log)
    assert (card["exact"], card["disabled"]) == (None, True)
    assert "still being written" in card["text"]


def test_the_name_of_the_tool_is_whole(modules: PageModules) -> None:
    """Two tools may have names that differ at their ends only."""
    name = "x" * 127 + "y"
    assert cards(modules, asked("{}", name=name))[0]["question"] == f"May {name} run with this input?"


def test_numbers_in_fields(modules: PageModules) -> None:
    """The other views of a call do not round, either: while it is written, and when it is done."""
    log = made_log(texts=0)
    MadeCall(log, 2, "pay").write(f'{{"account": {LARGE}, "more": [{LARGE + 2}], "zero": -0.0, ')
    text = cards(modules, log)[0]["text"]
    assert all(part in text for part in (f"account{LARGE}", str(LARGE + 2), "zero-0"))


# --- the tool ---------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_the_tool_gets_what_was_shown(modules: PageModules) -> None:
    """The input that the server has, and no copy of it that went to a client and came back."""
    got: list[tuple[int, int]] = []
    hub = Hub()

    @tool(approve=hub.approve)
    async def pay(account: int, amount: int) -> str:
        """Pay."""
        got.append((account, amount))
        return "paid"

    input = json.loads(ACCOUNT)
    shown: list[int] = []
    client = LocalAPI(reply(tool_use("pay", input))).anthropic()
    async with eagerstream.run(client, **REQUEST, tools=[pay], max_turns=1) as run:
        log = hub.observe(run)

        async def approve() -> None:
            async with aclosing(hub.changes()) as changes:
                async for _ in changes:
                    if hub.questions:
                        break
            (card,) = await anyio.to_thread.run_sync(cards, modules, log)
            shown.extend(int(digits) for digits in re.findall(r"\d+", card["exact"]))
            hub.decide(*hub.questions[0], approved=True)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(approve)
            await run.finish()
    assert got == [(10000000000000001, LARGE)] == [tuple(shown)]


# --- other readers ----------------------------------------------------------------------------------------------------


def test_a_saved_run_has_the_same_numbers(tmp_path: Path) -> None:
    """In the file they are marked; whoever reads it in Python has numbers again, and data that looks like a mark."""
    value = {"n": LARGE, "list": [-LARGE, 5], "$number": "5", "$$number": {"$number": 1}}
    log = asked(json.dumps(value))
    path = tmp_path / "run.jsonl"
    save_records(path, log.records(), redact=False)
    assert '{"$number":"9007199254740993"}' in path.read_text()
    assert json.dumps(viewed(load_records(path)).calls[0].partial) == json.dumps(value)
    save_records(tmp_path / "again.jsonl", load_records(path), redact=False)
    assert load_records(tmp_path / "again.jsonl") == load_records(path)


def test_ui_messages_have_all_digits() -> None:
    """A page of somebody else's shows the input of a call with all digits, and the history has the number again."""
    log = asked(ACCOUNT)
    encoder = UIMessageEncoder()
    chunks = encoder.encode(log.records()) + encoder.close()
    (input,) = (chunk["input"] for chunk in chunks if chunk["type"] == "tool-input-available")
    assert input == {"account": {"$number": "10000000000000001"}, "amount": {"$number": "9007199254740993"}}
    part = {"type": "tool-pay", "toolCallId": "toolu_1", "state": "output-available", "input": input, "output": "ok"}
    messages = to_messages([{"role": "assistant", "parts": [part]}])
    assert messages[0]["content"][0]["input"] == json.loads(ACCOUNT)


def test_a_ui_message_with_data_that_looks_like_a_mark() -> None:
    """It comes back as it was; what is no mark of ours at all is left as the client sent it."""
    for value, sent in [
        ({"$number": "5"}, marked({"$number": "5"})),
        ({"a": {"$number": "five"}}, {"a": {"$number": "five"}}),
    ]:
        part = {"type": "tool-pay", "toolCallId": "toolu_1", "state": "output-available", "input": sent, "output": "ok"}
        assert to_messages([{"role": "assistant", "parts": [part]}])[0]["content"][0]["input"] == value


def test_the_state_of_ag_ui_has_all_digits() -> None:
    """So does what its client is told of the arguments, which are text."""
    log = asked(json.dumps({"n": LARGE, "$number": "growing", "list": [{"$number": LARGE}]}))
    encoder = AGUIEncoder()
    state: Any = None
    events = [event for record in log.records() for event in encoder.encode([record])]
    for event in events:
        if event["type"] == "STATE_SNAPSHOT":
            state = event["snapshot"]
        for operation in event.get("delta", ()) if event["type"] == "STATE_DELTA" else ():
            *steps, last = operation["path"].split("/")[1:]
            parent = state
            for step in steps:
                parent = parent[int(step) if isinstance(parent, list) else step]
            if isinstance(parent, list):
                parent.append(operation["value"])
            else:
                parent[last] = operation["value"]
    large = {"$number": str(LARGE)}
    (call,) = state["toolCalls"].values()
    assert call["input"] == {"n": large, "$$number": "growing", "list": [{"$$number": large}]}
    text = "".join(event["delta"] for event in events if event["type"] == "TOOL_CALL_ARGS")
    assert str(LARGE) in text
