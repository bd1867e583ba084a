"""`ToolUser` itself: its settings, its models, and where its client comes from."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import pytest
from packages.compat.tests.anthropic_tools.support import ANSWER, DONE, HELLO, AdditionTool, add, turn
from tests.loop.serial import Serial
from tests.tables import rows

from eagerstream.errors import MissingExtraError
from eagerstream_compat import _deprecation as deprecation
from eagerstream_compat.anthropic_tools import ToolUser
from eagerstream_testing import Platform, ReplayServer, Scenario


@pytest.fixture(autouse=True)
def _told_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecation, "_told", set())
    monkeypatch.delenv("ANTHROPIC_MODEL", raising=False)


def test_attributes() -> None:
    """Programs look at them."""
    tools = [AdditionTool()]
    user = ToolUser(tools, 0.3, 5)
    assert user.tools is tools
    assert (user.temperature, user.max_retries, user.first_party, user.client) == (0.3, 5, True, None)


def test_the_default_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of today, or what the environment says."""
    assert ToolUser([]).model == "claude-sonnet-4-6"
    monkeypatch.setenv("ANTHROPIC_MODEL", "claude-made-2")
    assert ToolUser([]).model == "claude-made-2"
    assert ToolUser([], model="claude-made-1").model == "claude-made-1"


@rows("model", ["claude-2.1", "claude-3-opus-20240229", "anthropic.claude-v2:1"])
def test_a_retired_model(model: str) -> None:
    """Told once, at the line that names it; it stays what it is."""
    with pytest.warns(DeprecationWarning, match=f"{model} is deprecated: it was retired") as told:
        users = [ToolUser([], model=model) for _ in range(2)]
    assert [user.model for user in users] == [model] * 2
    assert [warning.filename for warning in told] == [__file__]


@rows("retries", [-1, 2.5, True, None])
def test_retries_that_are_none(retries: Any) -> None:
    """Told when it is made."""
    with pytest.raises(ValueError, match="max_retries must be a whole number"):
        ToolUser([], max_retries=retries)


@pytest.mark.anyio
@pytest.mark.usefixtures("environment")
async def test_a_client_for_each_asynchronous_call(serial: Serial, anyio_backend: str) -> None:
    """It is closed with it: the next call may be in another loop."""
    async with serial.conversing(turn(1, add(8, 6)), DONE, DONE):
        user = ToolUser([AdditionTool()])
        for _ in range(2):
            assert await user.ause_tools(HELLO, execution_mode="automatic") == ANSWER
    assert user.client is None


@pytest.mark.usefixtures("environment")
def test_a_client_that_is_set_later(serial: Serial) -> None:
    """Programs may give it then."""
    user = ToolUser([])
    user.client = 7
    with pytest.raises(Exception, match="the client must be"):
        user.use_tools(HELLO)


# --- Bedrock ----------------------------------------------------------------------------------------------------------


def test_bedrock_needs_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the environment is the API's own."""
    monkeypatch.setenv("ANTHROPIC_MODEL", "claude-made-2")
    with pytest.raises(ValueError, match="With first_party=False a model is required"):
        ToolUser([], first_party=False)


@pytest.fixture
def bedrock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server that speaks as Bedrock does, and an environment that names it."""
    with ReplayServer(Scenario(turn(1, add(8, 6)), DONE)) as server:
        monkeypatch.setenv("ANTHROPIC_BEDROCK_BASE_URL", server.url_of(Platform.BEDROCK))
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            monkeypatch.setenv(name, "simulated")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        yield server


@pytest.mark.slow
def test_bedrock(bedrock: ReplayServer) -> None:
    """With any model of it, by its own client and its own frames."""
    user = ToolUser([AdditionTool()], first_party=False, model="anthropic.claude-made-1")
    assert user.use_tools(HELLO, execution_mode="automatic") == ANSWER
    assert len(bedrock.requests) == 2


def test_bedrock_without_its_packages(bedrock: ReplayServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install is said, when a request is made."""
    user = ToolUser([], first_party=False, model="anthropic.claude-made-1")
    for name in [name for name in sys.modules if name.partition(".")[0] in ("boto3", "botocore")] + [
        "boto3",
        "botocore",
    ]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"eagerstream\[bedrock\]"):
        user.use_tools(HELLO)


def test_nothing_is_made_before_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither key nor region."""
    for name in ("ANTHROPIC_API_KEY", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ToolUser([])
        ToolUser([], first_party=False, model="anthropic.claude-made-1")
