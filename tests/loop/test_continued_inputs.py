"""`on_truncated="continue_input"`: a call whose input was cut off goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream import (
    APIError,
    Conversation,
    ItemStream,
    Later,
    Limits,
    Outcome,
    Ping,
    StreamInterrupted,
    TextStream,
    ToolStop,
    tool,
    validate_history,
)
from eagerstream.calls import RunStatus
from eagerstream.loop import RunResult
from eagerstream_testing import http_error, reply, text, tool_use
from tests.continuing import CutModel, called, is_asked
from tests.loop.durable import answers, kept, taken_up
from tests.loop.journals import MemoryJournal, plain
from tests.sampling import drawn
from tests.streams import (
    MESSAGE_STOP,
    REQUEST,
    block_delta,
    block_start,
    block_stop,
    input_delta,
    message_delta,
    message_start,
    tool_start,
)
from tests.support import Broken, Exchange, Gate, LocalAPI, Piece, all_tasks_blocked

pytestmark = pytest.mark.anyio

POEM = 'Roses are "red",\n\\violets\\ are blue,\n\u00e9\U0001f600 sugar is sweet,\nand so are you.\n'
FILE = {"path": "a/b.txt", "body": POEM, "mode": 7, "last": True}
ITEMS = {"path": "x", "edits": [{"old": "a", "new": POEM}, {"new": "b", "old": "c"}, {"old": "d", "new": ""}], "n": 12}


class Desk:
    """The tools, and what has reached them."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    @tool
    async def write(self, path: str, body: TextStream, mode: Later[int], last: Later[bool]) -> str:
        """Write."""
        text = "".join([piece async for piece in body])
        self.seen.append({"path": path, "body": text, "mode": await mode, "last": await last})
        return f"wrote {len(text)}"

    @tool
    async def edit(self, path: str, edits: ItemStream[dict[str, str]], n: Later[int]) -> str:
        """Edit."""
        items = [item async for item in edits]
        self.seen.append({"path": path, "edits": items, "n": await n})
        return f"edited {len(items)}"

    @tool
    async def save(self, path: str, body: str, mode: int = 0, last: bool = False) -> str:
        """Save."""
        self.seen.append({"path": path, "body": body})
        return f"saved {len(body)}"

    def tools(self) -> list[Any]:
        """All of them."""
        return [self.write, self.edit, self.save]


async def told(model: CutModel, **options: Any) -> tuple[RunResult, Desk]:
    """A run to its end, and what its tools have got."""
    desk = Desk()
    given = {**REQUEST, "on_truncated": "continue_input", "restart_delay_s": 0.0, "max_restarts": 9, **options}
    result = await eagerstream.run(model.transport(), **given, tools=desk.tools())
    assert result.status is RunStatus.COMPLETED, result.error
    return result, desk


CALLS: dict[str, dict[str, Any]] = {"write": FILE, "edit": ITEMS, "save": FILE}


async def check_cuts(name: str, most: int, *, is_lost: bool, ascii: bool) -> None:
    """The tool gets the input, and the history has the call, as if it had never been cut."""

    def dumps(value: Any) -> str:
        return json.dumps(value, ensure_ascii=ascii)

    input = CALLS[name]
    whole, desk = await told(CutModel(input, name=name, dumps=dumps))
    for at in drawn(range(1, len(dumps(input))), most):
        model = CutModel(input, (at, is_lost), name=name, dumps=dumps)
        result, cut_desk = await told(model)
        assert len(model.asked) == 1, (at, dumps(input)[:at])
        assert result.messages == whole.messages, at
        assert cut_desk.seen == desk.seen, at


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("is_lost", [False, True])
async def test_some_cuts(name: str, is_lost: bool) -> None:
    """By the limit of tokens, or a lost connection."""
    await check_cuts(name, 3, is_lost=is_lost, ascii=is_lost)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("ascii", [False, True])
async def test_all_cuts(name: str, is_lost: bool, ascii: bool) -> None:
    """At each character."""
    await check_cuts(name, 1_000, is_lost=is_lost, ascii=ascii)


LONG: dict[str, Any] = {**FILE, "body": "".join(f"Line {number} of the file.\n" for number in range(60))}
CUTS = [(40, False), (200, True), (220, False), (340, True)]


async def test_cut_again_and_again() -> None:
    """Any number of times within the bound, for either reason. Beyond it, the call is answered as cut off."""
    model = CutModel(LONG, *CUTS)
    result, desk = await told(model)
    assert len(model.asked) == 4
    assert desk.seen == [LONG]
    assert result.usage["input_tokens"] == 6 * 100
    model = CutModel(LONG, *CUTS)
    result, desk = await told(model, max_continuations=3)
    assert desk.seen == []
    assert [call.input.outcome for call in result.calls] == [Outcome.INCOMPLETE]
    assert validate_history(result.messages) == []


REPEATED: dict[str, Any] = {**FILE, "body": "-" * 3_000}
MISBEHAVING: dict[str, Any] = {
    "it repeats more than it was asked to": lambda answer: {**answer, "text": LONG["body"][100:]},
    "it starts again": lambda answer: {**answer, "text": LONG["body"]},
    "it leaves out what is empty": lambda answer: (
        {"text": answer["text"], "rest": []} if not answer["rest"][0] else answer
    ),
}
WRONG: dict[str, Any] = {
    "it goes on without the last characters": lambda answer: {
        **answer,
        "text": answer["text"][len("\\violets\\ ar") + 60 :],
    },
    "it skips": lambda answer: {**answer, "text": POEM[-20:]},
    "it writes something else": lambda answer: {**answer, "text": "No. " * 100},
    "it writes nothing": lambda answer: {**answer, "text": ""},
    "it writes a list for an object": lambda answer: {**answer, "rest": [[]]},
    "it writes too many": lambda answer: {**answer, "rest": [{}, {}]},
    "no text": lambda answer: {"rest": answer["rest"]},
    "no rest": lambda answer: {"text": answer["text"]},
    "a field again": lambda answer: {**answer, "rest": [{"body": ".", **answer["rest"][0]}]},
    "text is a list": lambda answer: {**answer, "text": [answer["text"]]},
    "rest is a text": lambda answer: {**answer, "rest": "{}"},
    "the rest first": lambda answer: {"rest": answer["rest"], "text": answer["text"]},
    "a list": lambda answer: [answer],
}
CUT_AT = 75


@pytest.mark.parametrize("how", MISBEHAVING)
async def test_an_overlap_is_found(how: str) -> None:
    model = CutModel(LONG, (700, False), misbehaves=MISBEHAVING[how])
    result, desk = await told(model)
    assert (len(model.asked), desk.seen) == (1, [LONG])
    assert validate_history(result.messages) == []


@pytest.mark.parametrize("how", WRONG)
async def test_no_seam(how: str) -> None:
    """The call is answered as cut off, as if nobody had asked. Nothing is doubled, and no tool has got anything wrong."""
    model = CutModel(FILE, (CUT_AT, False), misbehaves=WRONG[how])
    result, desk = await told(model)
    (call,) = result.calls
    assert (len(model.asked), desk.seen, call.input.outcome) == (1, [], Outcome.INCOMPLETE)
    assert json.dumps(FILE).startswith(call.input.raw)
    assert "cut off" in str(answers(result)[0])
    assert validate_history(result.messages) == []


async def test_nonsense_behind_the_rest() -> None:
    """A streaming tool has got all that it waits for, but the input is not taken for complete."""
    model = CutModel(FILE, (CUT_AT, False), misbehaves=lambda answer: {**answer, "more": "x"})
    result, desk = await told(model)
    assert (desk.seen, result.calls[0].input.outcome) == ([FILE], Outcome.INCOMPLETE)
    model = CutModel(FILE, (CUT_AT, False), name="save", misbehaves=lambda answer: {**answer, "more": "x"})
    result, desk = await told(model)
    assert (desk.seen, result.calls[0].input.outcome) == ([], Outcome.INCOMPLETE)


async def test_an_item_again() -> None:
    """Between two items, nothing but the next one proves the place: it must be none that has come before."""
    whole, at = json.dumps(ITEMS), json.dumps(ITEMS).index("}, {") + 1
    again: Any = {"misbehaves": lambda answer: {**answer, "rest": [ITEMS["edits"], *answer["rest"][1:]]}}
    for cut in (at, at + 1):  # before and behind the comma
        assert whole[:cut].count("{") == 2
        result, desk = await told(CutModel(ITEMS, (cut, False), name="edit", **again))
        assert (desk.seen, result.calls[0].input.outcome) == ([], Outcome.INCOMPLETE)
        _, desk = await told(CutModel(ITEMS, (cut, False), name="edit"))
        assert desk.seen == [ITEMS]


async def test_a_text_whose_end_occurs_twice() -> None:
    """Nothing could prove the seam, so nobody is asked."""
    model = CutModel(REPEATED, (2_900, False))
    result, desk = await told(model)
    assert (model.asked, desk.seen, len(result.calls)) == ([], [], 1)


class Refusing(CutModel):
    """Answers the request for the rest otherwise."""

    def __init__(self, *answers: Any, cut: tuple[int, bool] = (CUT_AT, False)) -> None:
        super().__init__(FILE, cut)
        self.answers = list(answers)

    def body_for(self, exchange: Exchange) -> Any:
        body = super().body_for(exchange)
        return self.answers.pop(0) if self.asked and self.answers else body


async def test_another_answer() -> None:
    """A text, another call, a refusal by the API: the call stays cut off."""
    for answer in (
        reply(text("Why?")),
        reply(tool_use("save", {"path": "b", "body": "c"})),
        reply(tool_use("continue_input", {"text": 7, "rest": []})),
        http_error(400, "invalid_request_error", "no"),
        reply(text("I"), stop_reason="max_tokens"),
    ):
        model = Refusing(answer)
        result, desk = await told(model)
        assert (desk.seen, [call.input.outcome for call in result.calls]) == ([], [Outcome.INCOMPLETE])
        assert validate_history(result.messages) == []


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}


@pytest.mark.parametrize(
    "end",
    [[Broken()], [], [OVERLOADED], [message_delta("max_tokens"), MESSAGE_STOP]],
    ids=["lost", "closed", "error", "max_tokens"],
)
@pytest.mark.sample(2)
async def test_a_loss_behind_the_input(end: list[Any]) -> None:
    """Nothing is missing but the end of its block: the call runs, and nothing is asked for."""
    whole = [message_start(), tool_start(0, "save", id="toolu_1"), input_delta(0, json.dumps(FILE)), *end]
    desk = Desk()
    api = LocalAPI(whole, reply(text("Done.")))
    given = {**REQUEST, "on_truncated": "continue_input", "restart_delay_s": 0.0}
    result = await eagerstream.run(api.transport(), **given, tools=desk.tools())
    assert (len(api.exchanges), len(desk.seen)) == (2, 1)
    assert [call.input.outcome for call in result.calls] == [Outcome.VALID]


async def test_a_loss_is_tried_again() -> None:
    """As often as the run starts again otherwise. Its own fault ends the response if none of that helps."""
    lost = [message_start(), Broken()]
    overloaded = http_error(529, "overloaded_error", "busy")
    model = Refusing(lost, overloaded)
    _, desk = await told(model)
    assert (len(model.asked), desk.seen) == (3, [FILE])
    model = Refusing(*[overloaded] * 3, cut=(CUT_AT, True))
    with pytest.raises(APIError, match="gone"):
        await told(model, max_restarts=2, on_interrupt="raise")
    assert model.asked == []


async def test_losses_count_together() -> None:
    """A peer that loses each response is asked as often as without the option."""
    lost = [message_start(), Broken()]
    model = Refusing(lost, lost, lost, cut=(CUT_AT, True))
    with pytest.raises(StreamInterrupted):
        await told(model, max_restarts=2)
    assert len(model.exchanges) == 3
    # The loss of the response itself counts once, although its rest was asked for.
    model = Refusing(reply(text("Why?")), cut=(CUT_AT, True))
    assert (await told(model, max_restarts=1))[0].status is RunStatus.COMPLETED


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_foreign_cancellation() -> None:
    """A client that awaits a cancelled task of its own has lost the connection, in either response."""
    foreign = Broken(asyncio.CancelledError())
    for model in (Ended(foreign), Refusing([message_start(), foreign])):
        assert (await told(model))[1].seen == [FILE]


async def test_other_blocks() -> None:
    """The request for the rest has them, and another call runs meanwhile. A call behind the rest is left to the model."""
    before = [
        *(block_start(0, "thinking", thinking="", signature=""), block_delta(0, "thinking_delta", thinking="hm")),
        *(block_delta(0, "signature_delta", signature="s"), block_stop(0)),
        *called("save", {"path": "c", "body": "d"}, 1),
    ]
    model = CutModel(FILE, (CUT_AT, False), before=before)
    result, desk = await told(model)
    sent = model.exchanges[1].body
    assert [block["type"] for block in sent["messages"][1]["content"]] == ["thinking", "tool_use", "tool_use"]
    assert sent["messages"][2]["content"][0]["content"] == "This call is running. Its result follows later."
    assert desk.seen == [{"path": "c", "body": "d"}, FILE]
    assert answers(result) == ["saved 1", f"wrote {len(POEM)}"]
    assert validate_history(result.messages) == []


async def test_an_early_call_runs_on_time() -> None:
    """The end of a complete call is not held back until the response ends."""
    gate = Gate()
    events = [
        message_start(),
        *called("save", {"path": "c", "body": "d"}),
        gate,
        message_delta("tool_use"),
        MESSAGE_STOP,
    ]
    desk = Desk()
    api = LocalAPI(events, reply(text("Done.")))
    async with eagerstream.run(api.transport(), **REQUEST, on_truncated="continue_input", tools=desk.tools()) as run:
        async for event in run:
            if isinstance(event, ToolStop):
                gate.opened.set()
    assert run.result.status is RunStatus.COMPLETED


async def test_a_budget() -> None:
    """A run that has used it asks for nothing more."""
    model = CutModel(FILE, (CUT_AT, False))
    desk = Desk()
    options: dict[str, Any] = {"on_truncated": "continue_input", "max_total_tokens": 110}
    result = await eagerstream.run(model.transport(), **REQUEST, **options, tools=desk.tools())
    assert (result.status, result.limit, model.asked) == (RunStatus.LIMIT, "max_total_tokens", [])


async def test_the_requests() -> None:
    """The tool for the rest is in each of them, so the prompt cache stays. A forced choice is not repeated."""
    model = CutModel(FILE, (CUT_AT, False))
    await told(model, tool_choice={"type": "tool", "name": "write"})
    tools = [exchange.body["tools"] for exchange in model.exchanges]
    assert tools[0] == tools[1] == tools[2]
    assert tools[0][-1]["name"] == "continue_input"
    assert [exchange.body.get("tool_choice") for exchange in model.exchanges] == [
        {"type": "tool", "name": "write"},
        None,
        {"type": "auto"},
    ]


async def test_a_tool_of_that_name() -> None:
    """Its run continues no inputs."""

    @tool
    async def continue_input(path: str, body: str) -> str:
        """Continue."""
        return body

    model = CutModel({"path": "a", "body": "b" * 40}, (40, False), name="continue_input")
    result = await eagerstream.run(model.transport(), **REQUEST, on_truncated="continue_input", tools=[continue_input])
    assert model.asked == []
    assert result.status is RunStatus.COMPLETED


class Files:
    """A tool of each kind, whose effects a crash does not undo."""

    def __init__(self, effects: Sequence[str] = ()) -> None:
        self.effects = list(effects)

    @tool(idempotent=True)
    async def write(self, path: str, body: TextStream, mode: Later[int], last: Later[bool]) -> str:
        """Write."""
        return await self._write(body)

    @tool
    async def append(self, path: str, body: TextStream, mode: Later[int], last: Later[bool]) -> str:
        """Append."""
        return await self._write(body)

    async def _write(self, body: TextStream) -> str:
        text = "".join([piece async for piece in body])
        self.effects.append(text)
        return f"wrote {len(text)}"

    @tool
    async def save(self, path: str, body: str, mode: int, last: bool) -> str:
        """Save."""
        self.effects.append(body)
        return f"saved {len(body)}"


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", ["write", "append", "save"])
@pytest.mark.parametrize("cuts", [[(CUT_AT, False)], [(CUT_AT, True)], CUTS])
async def test_killed_at_any_write(name: str, cuts: Any) -> None:
    """The next process asks for the rest of what the last one has kept. A call that must not run twice is answered as unknown."""
    options = {"on_truncated": "continue_input", "restart_delay_s": 0.0, "max_restarts": 9}
    states: list[tuple[Any, list[str]]] = []
    journal, files = MemoryJournal(), Files()
    journal.on_write = lambda: states.append((plain(journal.runs), list(files.effects)))
    model = CutModel(LONG, *cuts, name=name)
    whole = await kept(model.transport(), journal, [getattr(files, name)], **options)
    kinds = [entries["r"][-1]["kind"] for entries, _ in states]
    assert kinds.count("response") >= len(cuts)
    continued = 0
    for entries, effects in states:
        files = Files(effects)
        model = CutModel(LONG, *cuts[1:], name=name)
        resumed = await taken_up(model.transport(), MemoryJournal(entries), [getattr(files, name)])
        result = resumed.result
        assert result.status is RunStatus.COMPLETED, (entries["r"][-1], result.error)
        assert (validate_history(result.messages), [*resumed.violations]) == ([], [])
        had_begun = any(entry["kind"] == "start" for entry in entries["r"])
        if name == "write" or not had_begun:
            assert [block_of(message) for message in result.messages] == [
                block_of(message) for message in whole.result.messages
            ]
            assert files.effects[-1] == LONG["body"]
        else:
            assert len(files.effects) <= 1
        is_cut = entries["r"][-1].get("is_cut", False)
        assert not is_cut or model.asked or name == "append"
        continued += is_cut
    assert continued >= len(cuts)


def block_of(message: Any) -> Any:
    """A message without the id of its call, which another response has brought."""
    blocks = message["content"]
    return [
        {name: value for name, value in block.items() if name not in ("id", "tool_use_id")}
        if isinstance(block, dict)
        else block
        for block in blocks
    ]


async def test_a_conversation_reports() -> None:
    """It sends nothing itself, so the next request tells of the cut call."""
    desk, model = Desk(), CutModel(FILE, (CUT_AT, False), name="save")
    conversation = Conversation(**REQUEST, tools=desk.tools(), on_truncated="continue_input")
    async with eagerstream.stream(model.transport(), **conversation.request()) as stream:
        await stream.finish()
    await conversation.execute(conversation.take(stream))
    sent = conversation.request()
    assert "cut off" in str(sent["messages"][-1]["content"][0]["content"])
    assert desk.seen == []


class WithContainer(CutModel):
    """Its first response names a container at its end."""

    def body_for(self, exchange: Exchange) -> Any:
        body: Any = super().body_for(exchange)
        if not self.exchanges:
            end = next(event for event in body if type(event) is dict and event["type"] == "message_delta")
            end["delta"]["container"] = {"id": "container_1", "expires_at": "2026-12-01T00:00:00Z"}
        return body


async def test_the_end_of_the_first_response() -> None:
    """Its container stays, and its counts are those of complete responses."""
    result, desk = await told(model := WithContainer(FILE, (CUT_AT, False)))
    assert desk.seen == [FILE]
    assert model.exchanges[-1].body["container"] == "container_1"
    assert "uncounted_output_tokens" not in result.usage


THOUGHTS: list[Any] = [
    block_start(0, "thinking", thinking="", signature=""),
    *[block_delta(0, "thinking_delta", thinking="hmm hmm " * 10)] * 50,
]
"""They take 1,000 tokens."""


@pytest.mark.parametrize("is_lost", [False, True])
async def test_what_a_lost_answer_has_used(is_lost: bool) -> None:
    """It counts, whatever becomes of the response."""
    lost = [message_start(usage={"input_tokens": 100, "output_tokens": 1}), *THOUGHTS, Broken()]
    desk = Desk()
    run = eagerstream.run(
        Refusing(lost, cut=(CUT_AT, is_lost)).transport(),
        **REQUEST,
        on_truncated="continue_input",
        max_restarts=int(is_lost),
        restart_delay_s=0.0,
        tools=desk.tools(),
    )
    with suppress(StreamInterrupted):
        async with run:
            await run.finish()
    assert run.result.usage["input_tokens"] == (200 if is_lost else 300)
    assert 999 <= run.result.usage["uncounted_output_tokens"] < 1_100


async def test_a_budget_within_an_answer() -> None:
    """It is given up where the estimate of both responses passes the bound."""
    slowly = [piece for event in THOUGHTS for piece in (event, 0.02)]
    model = Refusing([message_start(usage={"input_tokens": 100, "output_tokens": 1}), *slowly, 60.0])
    given = {**REQUEST, "on_truncated": "continue_input", "max_total_tokens": 500, "on_budget": "cut"}
    result = await eagerstream.run(model.transport(), **given, tools=Desk().tools())
    assert (result.status, result.limit, len(model.asked)) == (RunStatus.LIMIT, "max_total_tokens", 1)


async def test_a_run_that_is_cancelled_meanwhile() -> None:
    """What has been used for both responses counts."""
    gate = Gate()
    model = Refusing([message_start(usage={"input_tokens": 100, "output_tokens": 1}), *THOUGHTS, gate])
    run = eagerstream.run(
        model.transport(), **REQUEST, on_truncated="continue_input", tools=[Desk().save, Desk().write]
    )
    async with run, anyio.create_task_group() as tasks:
        tasks.start_soon(run.finish)
        await gate.reached.wait()
        await all_tasks_blocked()
        run.cancel()
    assert run.result.status is RunStatus.CANCELLED
    assert (run.result.usage["input_tokens"], run.result.usage["output_tokens"]) == (200, CUT_AT + 1)
    assert run.result.usage["uncounted_output_tokens"] == 999


class Thinking(CutModel):
    """Thinks before it writes the rest.

    Args:
        thoughts: The block for that.
        behind: What comes behind the block of the cut input.
    """

    def __init__(self, thoughts: Sequence[Piece], behind: Sequence[Piece] = ()) -> None:
        super().__init__(FILE, (CUT_AT, False))
        self.thoughts = thoughts
        self.behind = behind

    def body_for(self, exchange: Exchange) -> Any:
        body: Any = super().body_for(exchange)
        if is_asked(exchange.body):
            moved = [{**event, "index": 1} if "index" in event else event for event in body[1:]]
            return [body[0], *self.thoughts, *moved]
        return body if self.exchanges else [*body[:-2], *self.behind, *body[-2:]]


async def test_a_slow_answer_is_no_silence() -> None:
    """Nothing of its thoughts is handed on, and they are progress."""
    slowly = [piece for event in THOUGHTS for piece in (event, 0.01)]
    model = Thinking([*slowly, block_stop(0)])
    _, desk = await told(model, limits=Limits(progress_timeout_s=0.2))
    assert (len(model.asked), desk.seen) == (1, [FILE])


async def test_pings() -> None:
    """They show, also behind a cut block and in the answer."""
    pings: list[Piece] = [{"type": "ping"}, 0.01]
    model = Thinking([*pings * 3, *THOUGHTS, block_stop(0)], behind=pings * 3)
    run = eagerstream.run(model.transport(), **REQUEST, on_truncated="continue_input", tools=Desk().tools(), pings=True)
    async with run:
        assert [type(event) async for event in run].count(Ping) >= 6


class Ended(CutModel):
    """Ends its first response inside the input, by silence or otherwise."""

    def __init__(self, by: Piece) -> None:
        super().__init__(FILE, (CUT_AT, True))
        self.by = by

    def body_for(self, exchange: Exchange) -> Any:
        body: Any = super().body_for(exchange)
        return body if self.exchanges else [self.by if type(piece) is Broken else piece for piece in body]


@pytest.mark.parametrize(
    "answers",
    [None, [60.0], [message_start(), 60.0], [message_start(), *([{"type": "ping"}, 0.01] * 30)]],
    ids=["input", "before the rest", "rest", "pings"],
)
async def test_a_silence_is_a_loss(answers: Any) -> None:
    """A peer that is silent inside the input, or when it is asked for the rest, is asked once more."""
    model = Ended(60.0) if answers is None else Refusing(answers)
    _, desk = await told(model, limits=Limits(idle_timeout_s=0.05, progress_timeout_s=0.1))
    assert (len(model.asked), desk.seen) == (1 if answers is None else 2, [FILE])


async def test_an_error_of_a_silence() -> None:
    """It names the request, as any error of a response."""
    with pytest.raises(StreamInterrupted, match=r"no byte came for 0\.1 s") as raised:
        await told(Ended(60.0), limits=Limits(idle_timeout_s=0.1), on_interrupt="raise")
    assert raised.value.request_id == "req_local"


async def test_a_message_in_a_silence() -> None:
    """A message of the user ends the whole response, and not only the wait for its next byte."""
    gate = Gate()
    model = Refusing([message_start(), gate])
    desk = Desk()
    run = eagerstream.run(model.transport(), **REQUEST, on_truncated="continue_input", tools=desk.tools())
    async with run, anyio.create_task_group() as tasks:
        tasks.start_soon(run.finish)
        await gate.reached.wait()
        run.say("Stop.", "now")
    assert run.result.status is RunStatus.COMPLETED
    assert validate_history(run.result.messages) == []
    assert len(model.asked) == 1


async def test_our_own_pause_is_no_silence() -> None:
    """The peer is not given up for the time that we wait after a loss."""
    options = {"limits": Limits(idle_timeout_s=0.1), "restart_delay_s": 0.4}
    _, desk = await told(CutModel(FILE, (CUT_AT, True)), **options)
    assert desk.seen == [FILE]


async def test_the_rest_starts_again() -> None:
    """A gateway that starts the second response again has lost it: it is requested once more."""
    again = [message_start(), tool_start(0, "continue_input"), input_delta(0, '{"te'), message_start(id="msg_again")]
    model = Refusing([*again, tool_start(0, "continue_input")])
    _, desk = await told(model)
    assert (len(model.asked), desk.seen) == (2, [FILE])


async def test_a_result_of_the_api_s_own_call() -> None:
    """A response that continues another one may bring the result of its search. The request for the rest has it, too."""
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    model = CutModel(FILE, (CUT_AT, False), before=[{**block_start(0, "x"), "content_block": found}, block_stop(0)])
    messages = [*REQUEST["messages"], {"role": "assistant", "content": [search]}]
    tools = [*Desk().tools(), {"type": "web_search_20250305", "name": "web_search"}]
    given = {**REQUEST, "messages": messages, "on_truncated": "continue_input"}
    result = await eagerstream.run(model.transport(), **given, tools=tools)
    assert result.status is RunStatus.COMPLETED
    assert "web_search_tool_result" in [block["type"] for block in model.exchanges[1].body["messages"][-2]["content"]]
