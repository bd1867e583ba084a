"""What is said where a client of another platform lacks a package of its own."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any

import anthropic
import pytest

from eagerstream.errors import EagerStreamError, MissingExtraError
from eagerstream.transports._failures import missing_extra
from eagerstream_testing import reply, text
from tests.streaming.streams import error_of
from tests.support import LocalAPI, anthropic_http_library

pytestmark = pytest.mark.anyio

HELLO = reply(text("Hello."))
_SIGNED = {"aws_access_key": "a", "aws_secret_key": "s", "aws_region": "eu-west-1"}


def _client(name: str, options: Mapping[str, str], api: LocalAPI | None = None) -> Any:
    client = getattr(anthropic, name, None)
    if client is None or not options.keys() <= inspect.signature(client).parameters.keys():
        pytest.skip(f"anthropic {anthropic.__version__} has no {name} with {', '.join(options)}")
    http_client = (api or LocalAPI([HELLO])).client(anthropic_http_library())
    return client(**options, base_url="http://local", max_retries=0, http_client=http_client)


def _hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """As if they were not installed; what has been imported of them already comes back after the test."""
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)
        for module in [module for module in sys.modules if module.startswith(package + ".")]:
            monkeypatch.setitem(sys.modules, module, None)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("AsyncAnthropicBedrock", _SIGNED),
        ("AsyncAnthropicBedrockMantle", _SIGNED),
        ("AsyncAnthropicAWS", {**_SIGNED, "workspace_id": "w"}),
    ],
)
async def test_signatures_of_aws(name: str, options: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """All three sign with botocore, and none says how to get it."""
    _hide(monkeypatch, "boto3", "botocore")
    error = await error_of(_client(name, options), MissingExtraError)
    assert (error.extra, error.module.partition(".")[0]) == ("bedrock", "botocore")
    assert "pip install 'eagerstream[bedrock]'" in str(error)
    assert isinstance(error.__cause__, ModuleNotFoundError)


async def test_one_package_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """botocore alone is often there, from other tools, and does not do."""
    _hide(monkeypatch, "boto3")
    error = await error_of(
        _client("AsyncAnthropicBedrock", {**_SIGNED, "aws_session_token": "its own session"}), MissingExtraError
    )
    assert (error.extra, error.module) == ("bedrock", "boto3")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("AsyncAnthropicVertex", {"region": "global", "project_id": "p"}),
        ("AsyncAnthropicGoogleCloud", {"project": "p", "workspace_id": "w"}),
    ],
)
async def test_tokens_of_google(name: str, options: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Both get their tokens from google-auth, each version with another exception where it is missing."""
    _hide(monkeypatch, "google.auth")
    error = await error_of(_client(name, options), MissingExtraError)
    assert error.extra == "vertex"
    assert "pip install 'eagerstream[vertex]'" in str(error)
    assert error.__cause__ is not None
    assert not isinstance(error.__cause__, EagerStreamError)


def test_other_imports() -> None:
    """A package that no extra of ours brings is not promised by one."""
    for error in (ModuleNotFoundError("no", name="numpy"), ImportError("no"), RuntimeError("boto3")):
        assert missing_extra(error) is None
