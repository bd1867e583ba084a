"""`eagerstream verify`: the double, or a server in the place of the API; its cost, its verdicts and its exit codes."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import typer
from tests.commands import eagerstream
from tests.tables import rows

from eagerstream.errors import UsageError
from eagerstream.recordings import Recording
from eagerstream_testing import Platform, ReplayServer, Scenario, reply, text
from eagerstream_testing._assumptions import assumption_table
from eagerstream_testing._commands.verify import verify
from eagerstream_testing._verifying import AssumedModel

COUNT = len(assumption_table()["assumptions"])


def _api(request: Mapping[str, Any]) -> Recording:
    """An API that has forgotten structured outputs."""
    return reply(text("Paris.")) if "output_config" in request else AssumedModel()(request)


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """That of this process, which the command changes, is what it was."""
    with mock.patch.dict(os.environ):
        yield


@pytest.fixture
def api() -> Iterator[dict[str, str]]:
    """A server of ours is the API, in the environment of this process and of others."""
    with ReplayServer(Scenario.of(_api), speed=math.inf) as server:
        variables = {"ANTHROPIC_API_KEY": "sk-ant-simulated", "ANTHROPIC_BASE_URL": server.base_url}
        os.environ.update(variables)
        yield variables


def test_the_double(capsys: pytest.CaptureFixture[str]) -> None:
    """All of it holds; nothing is asked before, and no key is needed."""
    verify()
    said = capsys.readouterr().out
    assert said.startswith("The double of the API answers.")
    assert said.endswith(f"{COUNT} hold, 0 do not, 0 were not asked.\n")


@pytest.mark.slow
@pytest.mark.parametrize("platform", Platform)
def test_each_platform(platform: Platform) -> None:
    """The double speaks its dialect to the platform's own client."""
    done = eagerstream("verify", "--platform", platform)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 do not, " in done.stdout


def test_live(api: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The cost comes first. What does not hold is told with its source, and is in the file."""
    file = tmp_path / "verdicts.json"
    with pytest.raises(typer.Exit) as ended:
        verify(live=True, yes=True, output=file)
    assert ended.value.exit_code == 1
    printed = capsys.readouterr()
    cost, *_ = (said := " ".join(printed.out.split())).split(" ✓ ")
    assert cost.startswith(f"{COUNT} requests to anthropic, to claude-haiku-4-5, claude-sonnet-4-6, claude-opus-4-7: ")
    assert "; $0.04 at most, by the prices of 2026-11-28. The others cost nothing." in cost
    assert "✗ structured-output: output_config.format makes the text JSON of the schema. the text is no JSON" in said
    assert "https://platform.claude.com/docs/en/build-with-claude/structured-outputs (2026-11-28)" in said
    assert said.endswith(f"{COUNT - 1} hold, 1 do not, 0 were not asked.")
    report = json.loads(file.read_text("utf-8"))
    assert report["asked"] == "anthropic"
    wrong = [verdict for verdict in report["verdicts"] if not verdict["holds"]]
    assert wrong == [{"id": "structured-output", "holds": False, "why": ["the text is no JSON: 'Paris.'"]}]
    assert "sk-ant" not in file.read_text("utf-8") + printed.out + printed.err


@pytest.mark.slow
def test_nothing_is_sent_without_a_yes(api: dict[str, str]) -> None:
    """Also if nobody can answer."""
    done = eagerstream("verify", "--live", **api)
    assert done.returncode == 1
    assert "Send them?" in done.stdout
    assert "✓" not in done.stdout


def test_one_of_them_with_another_model(api: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """Its price is not known; a model that cannot show it is not asked."""
    verify(live=True, yes=True, model="claude-opus-5", only=["thinking", "max-tokens"])
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("1 requests to anthropic, to claude-opus-5: 1 are answered")
    assert "its price is not known here, see https://" in said
    assert "- thinking: Thinking comes as thinking_delta fragments" in said
    assert said.endswith(
        "only for models with thinking enabled ✓ max-tokens: max_tokens ends a text with the stop reason max_tokens. "
        "1 hold, 0 do not, 1 were not asked."
    )


@rows(
    "options, said",
    [
        ({"live": True}, "--live needs the environment variable ANTHROPIC_API_KEY"),
        ({"live": True, "platform": Platform.VERTEX}, "--platform vertex --live needs --model"),
        ({"only": ["nothing"]}, "there is no assumption nothing; there are eager-field, "),
        ({"output": Path("/nowhere/verdicts.json")}, "the folder /nowhere does not exist"),
        ({"live": True, "yes": True, "platform": Platform.FOUNDRY, "model": "m"}, "AsyncAnthropicFoundry: "),
    ],
)
def test_what_cannot_be_asked(options: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told before anything is sent."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(UsageError, match=said):
        verify(**options)


@pytest.mark.slow
def test_an_api_that_is_not_there() -> None:
    """It ends at the first request: the others would say nothing either."""
    done = eagerstream(
        "verify", "--live", "--yes", ANTHROPIC_API_KEY="x", ANTHROPIC_BASE_URL="http://127.0.0.1:9", NO_PROXY="*"
    )
    assert done.returncode == 1
    assert "eagerstream: the API could not be reached" in done.stderr
