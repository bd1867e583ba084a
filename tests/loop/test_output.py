"""The output of a run: that of its last response, whatever came before, and in a saved result."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

import eagerstream
from eagerstream import Conversation, Outcome, OutputDelta, Restarted, RunResult, RunStatus, StreamInterrupted
from eagerstream.errors import UsageError
from eagerstream.inputs import InputError
from eagerstream.recordings import Recording
from eagerstream_testing import http_error, reply, text, thinking, tool_use
from tests.loop.serial import Listed, now
from tests.streams import REQUEST, block_start, block_stop, message_delta, message_start, text_delta
from tests.support import Broken, LocalAPI, Piece

pytestmark = pytest.mark.anyio


class Answer(BaseModel):
    city: str
    degrees: int = 0


ANSWER = Answer(city="Oslo", degrees=4)
JSON = ANSWER.model_dump_json()
CALL = tool_use("now", {}, id="t1")
PROSE = text("Let me look.")


@pytest.fixture
def anyio_backend() -> str:
    """Nothing here depends on the event loop."""
    return "asyncio"


async def result_of(*replies: Recording, output: Any = Answer, **options: Any) -> tuple[RunResult[Any], list[Any], Any]:
    """The result of a run through the anthropic client; its events, and the bodies it sent."""
    api = Listed(*replies)
    async with eagerstream.run(api.anthropic(), **REQUEST, output=output, tools=[now], **options) as run:
        events = [event async for event in run]
    return run.result, events, api.bodies


def fragments(events: list[Any]) -> str:
    return "".join(event.fragment for event in events if isinstance(event, OutputDelta))


@pytest.mark.parametrize("blocks", [(CALL,), (PROSE, CALL), (text(JSON), CALL), (thinking("hm"), text('{"a'), CALL)])
async def test_the_output_is_that_of_the_last_turn(blocks: Any) -> None:
    """The text before a call is no answer, even if it is JSON that fits."""
    result, events, bodies = await result_of(reply(*blocks), reply(thinking("hm"), text(JSON)))
    assert (result.status, result.turns) == (RunStatus.COMPLETED, 2)
    assert (result.output, result.output_outcome, result.output_error) == (ANSWER, Outcome.VALID, None)
    assert result.output_text == JSON
    assert fragments(events).endswith(JSON)
    formats = [body["output_config"]["format"]["type"] for body in bodies]
    assert formats == ["json_schema"] * 2, "each request asks for it"


async def test_a_run_that_never_answers() -> None:
    """At a limit of turns there are calls and results, and no output."""
    result, _, _ = await result_of(reply(text(JSON), CALL), max_turns=1)
    assert result.status is RunStatus.LIMIT
    assert (result.output, result.output_outcome) == (None, Outcome.INCOMPLETE)
    assert "called a tool" in str(result.output_error)
    with pytest.raises(UsageError, match="called a tool"):
        result.output_as(Answer)


@pytest.mark.parametrize(
    ("answer", "status", "outcome"),
    [
        (reply(text(JSON[:9]), stop_reason="max_tokens"), RunStatus.TRUNCATED, Outcome.INCOMPLETE),
        (reply(text(JSON), stop_reason="refusal"), RunStatus.REFUSED, Outcome.INCOMPLETE),
        (reply(text("Four degrees.")), RunStatus.COMPLETED, Outcome.INVALID),
        (reply(text('{"city": 4}')), RunStatus.COMPLETED, Outcome.INVALID),
        (reply(text("")), RunStatus.COMPLETED, Outcome.INCOMPLETE),
    ],
)
async def test_outcomes(answer: Recording, status: RunStatus, outcome: Outcome) -> None:
    """A run raises nothing because of its output: the result says how it ended."""
    result, _, _ = await result_of(answer)
    assert (result.status, result.output, result.output_outcome) == (status, None, outcome)
    assert result.output_error


async def test_a_response_that_is_requested_again() -> None:
    """The first attempt is void, and its growing output says so; the second one counts."""
    first, second = reply(text(JSON[:9]), stop_reason="max_tokens"), reply(text(JSON))
    result, events, _ = await result_of(first, second, on_truncated="retry")
    at = next(place for place, event in enumerate(events) if isinstance(event, Restarted))
    (void,) = {event.output for event in events[:at] if isinstance(event, OutputDelta)}
    assert void.outcome is Outcome.INCOMPLETE
    assert fragments(events[at:]) == JSON
    assert result.output == ANSWER


def broken(raw: str) -> list[Piece]:
    return [message_start(), block_start(0, "text", text=""), text_delta(0, raw), Broken()]


@pytest.mark.parametrize("end", [[], [block_stop(0), message_delta("end_turn")]])
async def test_a_connection_that_is_lost(end: list[Piece]) -> None:
    """The request is sent again. If that is lost too, there is no output, even behind the last bracket."""
    lost = [*broken(JSON)[:-1], *end, Broken()]
    api = LocalAPI(lost, [reply(text(JSON))])
    async with api.anthropic() as client:
        async with eagerstream.run(client, **REQUEST, output=Answer, restart_delay_s=0) as run:
            events = [event async for event in run]
    assert run.result.output == ANSWER
    outputs = list(dict.fromkeys(event.output for event in events if isinstance(event, OutputDelta)))
    assert [output.outcome for output in outputs] == [Outcome.INCOMPLETE, Outcome.VALID]
    async with LocalAPI(lost).anthropic() as client:
        with pytest.raises(StreamInterrupted):
            async with eagerstream.run(client, **REQUEST, output=Answer, max_restarts=0) as run:
                await run.finish()
    assert (run.result.output, run.result.output_outcome) == (None, Outcome.INCOMPLETE)
    assert run.result.output_error == "the response broke off"


async def test_a_run_without_a_response() -> None:
    """The request was refused."""
    async with LocalAPI([http_error(400, "invalid_request_error", "no")], status=400).anthropic() as client:
        with pytest.raises(eagerstream.APIError):
            async with eagerstream.run(client, **REQUEST, output=Answer) as run:
                await run.finish()
    assert (run.result.output, run.result.output_outcome) == (None, Outcome.INCOMPLETE)


async def test_cancelled_inside_the_output() -> None:
    """What was written is no value, whoever ended it."""
    async with LocalAPI(answered := broken(JSON[:-1])).anthropic() as client:
        async with eagerstream.run(client, **REQUEST, output=Answer) as run:
            async for event in run:
                if isinstance(event, OutputDelta):
                    run.cancel()
    assert answered
    assert (run.result.status, run.result.output) == (RunStatus.CANCELLED, None)
    assert run.result.output_outcome is Outcome.INCOMPLETE


# --- the request ------------------------------------------------------------------------------------------------------


async def test_the_hook_before_a_request_keeps_the_format() -> None:
    """It may change the effort; the schema is added after it."""

    def choose(request: Any, turn: int) -> dict[str, Any]:
        return {"output_config": {"effort": "low" if turn == 1 else "max"}}

    _, _, bodies = await result_of(reply(CALL), reply(text(JSON)), next_request=choose)
    assert [body["output_config"]["effort"] for body in bodies] == ["low", "max"]
    assert all(body["output_config"]["format"]["type"] == "json_schema" for body in bodies)


async def test_prompted() -> None:
    """Nothing is sent, and the fenced block of the last response is the output."""
    prose = reply(text("```json\n{}\n```"), CALL)
    result, _, bodies = await result_of(
        prose, reply(text(f"So:\n```json\n{JSON}\n```\n")), output_mode="prompted", output_config={"effort": "low"}
    )
    assert (result.output, result.output_text.strip()) == (ANSWER, JSON)
    assert [body["output_config"] for body in bodies] == [{"effort": "low"}] * 2


def test_usage_errors_come_at_once() -> None:
    """Before anything is sent."""
    format: Any = {"format": {"type": "json_schema", "schema": {"type": "string"}}}
    client = LocalAPI([]).transport()
    with pytest.raises(UsageError, match="both give a format"):
        eagerstream.run(client, **REQUEST, output=Answer, output_config=format)
    with pytest.raises(UsageError, match="no type"):
        eagerstream.run(client, **REQUEST, output=3)  # type: ignore[call-overload]  # no type
    with pytest.raises(UsageError, match="but no output"):
        eagerstream.run(client, **REQUEST, output_mode="native")


async def test_step_by_step() -> None:
    """A conversation driven by hand has the same output, with or without the stream's own."""
    api = LocalAPI([reply(PROSE, CALL)], [reply(text(JSON))])
    conversation = Conversation(**REQUEST, tools=[now], output=Answer)
    async with api.anthropic() as client:
        while not conversation.ended:
            async with eagerstream.stream(client, **conversation.request(), output=Answer) as stream:
                await stream.finish()
            turn = conversation.take(stream)
            await conversation.execute(turn)
            assert stream.output == conversation.result.output
    assert conversation.result.output == ANSWER


# --- the result -------------------------------------------------------------------------------------------------------


async def test_a_saved_result() -> None:
    """The type is not saved, so the value is plain, and `output_as` makes the type of it."""
    result, _, _ = await result_of(reply(text(JSON)))
    saved = RunResult.from_json(result.to_json())
    assert saved.output == json.loads(JSON)
    assert (saved.output_outcome, saved.output_error, saved.output_text) == (Outcome.VALID, None, JSON)
    assert saved.output_as(Answer) == result.output_as(Answer) == ANSWER
    assert saved.to_dict() == result.to_dict()
    with pytest.raises(InputError, match="city"):
        saved.output_as(list[Answer])
    assert "Oslo" not in repr(result.output_error)
    assert "Oslo" not in repr(RunResult(RunStatus.COMPLETED, None, [], output=ANSWER, output_text=JSON))


async def test_a_saved_result_without_a_value() -> None:
    """The outcome and the reason stay readable."""
    result, _, _ = await result_of(reply(text("Four degrees.")))
    saved = RunResult.from_json(result.to_json())
    assert (saved.output, saved.output_outcome) == (None, Outcome.INVALID)
    assert saved.output_error == result.output_error
    plain = result.to_dict()
    for name in ("output_outcome", "output_error", "output_text"):
        del plain[name]
    assert RunResult.from_dict(plain).output_outcome is None, "a result that was saved before there were outputs"
    with pytest.raises(UsageError, match="not a saved run"):
        RunResult.from_dict({**plain, "output_outcome": "valid", "output_text": "{"})


async def test_a_plain_run_has_no_output() -> None:
    """Nothing is parsed if nobody asked."""
    result, events, bodies = await result_of(reply(text(JSON)), output=None)
    assert (result.output, result.output_outcome, result.output_error, result.output_text) == (None, None, None, "")
    assert not fragments(events)
    assert "output_config" not in bodies[0]
