"""What is assumed of the API: the double does all of it, on every platform, and another answer is noticed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date
from typing import Any

import anthropic
import anyio
import pytest
from tests.source_tree import sources
from tests.tables import rows

from eagerstream.errors import APIError
from eagerstream_testing import ReplayServer, Scenario, http_error, reply, text, tool_use
from eagerstream_testing._assumptions import Answer, Assumption, assumption_table, faults
from eagerstream_testing._verifying import AssumedModel, verdict_of

TABLE = assumption_table()
ROWS: tuple[Assumption, ...] = TABLE["assumptions"]


def test_the_table() -> None:
    """Each row names what rests on it, and where it is from; each model and platform is known."""
    assert len({row.id for row in ROWS}) == len(ROWS) >= 60
    for row in ROWS:
        assert row.statement.endswith("."), row.id
        assert row.code, row.id
        assert [path for path in row.code if not (sources()[path.split("/")[0]].parent / path).is_file()] == [], row.id
        assert row.source.startswith(("https://", "recorded responses")), row.id
        assert date(2024, 1, 1) <= date.fromisoformat(row.date) <= date.fromisoformat(TABLE["stated_at"]), row.id
        assert row.model in (None, *TABLE["prices"]), row.id
        assert row.unfit_for(row.model or TABLE["model"], "anthropic") is None, row.id
        if row.answer["status"] != 200:
            assert row.answer["says"], row.id
    assert sum(row.tokens[1] for row in ROWS) < 5_000


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_double_does_what_is_assumed(anyio_backend: str) -> None:
    """Each row, through the client of the anthropic package."""
    with ReplayServer(Scenario.of(AssumedModel()), speed=math.inf) as server:
        async with anthropic.AsyncAnthropic(base_url=server.base_url, api_key="any", max_retries=0) as client:
            for row in ROWS:
                verdict = await verdict_of(client, row, model=row.model or TABLE["model"], platform="anthropic")
                assert (verdict.faults, verdict.skipped) == ((), None), row.id


_CALL = reply(tool_use("note", {"text": "hello"}))
_WRONG = [
    ("eager-field", http_error(400, "invalid_request_error", "eager_input_streaming: Extra inputs"), "status 400"),
    ("eager-field", reply(tool_use("note", '{"text": ')), "the inputs are cut"),
    ("eager-field", reply(text("No.")), "the stop reason is 'end_turn'; the inputs are none: []"),
    ("cut-input", _CALL, "the stop reason is 'tool_use'; the inputs are objects"),
    ("first-fragment", reply(text("No."), tool_use("other", {})), 'there is no {"type": "content_block_start"'),
    ("one-call", reply(tool_use("note", {"a": 1}), tool_use("note", {"a": 2})), "there are 2 calls"),
    ("no-call", _CALL, "there are 1 calls"),
    ("structured-output", reply(text("Paris")), "the text is no JSON: 'Paris'"),
    ("unanswered-call", reply(text("Noted.")), "status 200 instead of 400"),
    ("unanswered-call", http_error(400, "invalid_request_error", "messages: no"), "other words: invalid_request_error: "),
    ("stop-sequence", reply(text("1234"), stop_reason="stop_sequence"), "there is no"),
]  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(("id", "recording", "fault"), _WRONG)
async def test_an_api_that_does_something_else(id: str, recording: Any, fault: str, anyio_backend: str) -> None:
    """Any API but the assumed one is noticed, with the words to report."""
    (row,) = (row for row in ROWS if row.id == id)
    verdict = await verdict_of(recording, row, model=TABLE["model"], platform="anthropic")
    assert fault in "; ".join(verdict.faults)


@rows(
    "status, error_type",
    [(401, "authentication_error"), (403, "permission_error"), (404, "not_found_error"), (529, "overloaded_error")],
)
def test_an_api_that_cannot_be_asked(status: int, error_type: str) -> None:
    """It says nothing about an assumption, also about one of a refusal."""

    async def ask() -> None:
        (row,) = (row for row in ROWS if row.id == "unanswered-call")
        await verdict_of(http_error(status, error_type, "No."), row, model="m", platform="anthropic")

    with pytest.raises(APIError, match="No"):
        anyio.run(ask)


def test_which_models_can_show_it() -> None:
    """By the table of models, with the names of any platform."""
    by_id = {row.id: row for row in ROWS}
    old, new = "us.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-opus-4-7@20260416"
    assert by_id["thinking"].unfit_for(old, "bedrock") is None
    assert by_id["thinking"].unfit_for(new, "vertex") == "only for models with thinking enabled"
    assert by_id["temperature"].unfit_for(new, "vertex") == "only for models with sampling True"
    assert by_id["no-sampling"].unfit_for(new, "vertex") is None
    assert by_id["no-sampling"].unfit_for("own-name", "foundry") == "only for claude-opus-4-7 and the like"
    assert by_id["unknown-beta"].unfit_for(old, "bedrock") == "only for anthropic"


def test_headers_and_bodies() -> None:
    """Patterns by name."""
    expected: Mapping[str, Any] = {"status": 200, "headers": {"a": "x.*"}, "body": {"n": {"matches": "[0-9]+"}}}
    assert list(faults(expected, Answer(200, headers={"a": "xy"}, body={"n": 5, "m": None}))) == []
    assert list(faults(expected, Answer(200, headers={"a": "y"}, body={"n": None}))) == [
        "the header a is 'y'",
        'the body is {"n": null}',
    ]
    assert next(faults(expected, Answer(200))) == "the header a is None"
    assert re.match("status 500", next(faults(expected, Answer(500))))
