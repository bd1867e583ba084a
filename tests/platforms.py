"""The clients of every platform, unmodified, made for an embedded server that speaks their dialect."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import anthropic
import pytest

from eagerstream_testing import Platform, ReplayServer
from tests.support import anthropic_http_library

_AWS_KEYS: Final = {"aws_access_key": "AKIAEXAMPLEEXAMPLE00", "aws_secret_key": "example", "aws_region": "us-east-1"}
_AWS_KEY: Final = {"api_key": "k", "aws_region": "us-east-1"}


@dataclass(frozen=True)
class PlatformClient:
    """A client, and the arguments that it takes apart from its address: all that its user has to know.

    Attributes:
        platform: Whom it speaks to.
        name: Its class in the anthropic package.
        arguments: Of its constructor.
    """

    platform: Platform
    name: str
    arguments: Mapping[str, Any]

    def client(self, server: ReplayServer, **options: Any) -> Any:
        """The client, for a server; it has to be closed. Without certificates to load: nothing here is encrypted."""
        http_client = anthropic_http_library().AsyncClient(verify=False)
        options = {"max_retries": 0, "http_client": http_client, **options}
        made: Any = getattr(anthropic, self.name)
        return made(base_url=server.url_of(self.platform), **self.arguments, **options)

    @property
    def is_there(self) -> bool:
        """The installed version of the anthropic package has it, with these arguments."""
        made = getattr(anthropic, self.name, None)
        return made is not None and set(self.arguments) <= set(inspect.signature(made).parameters)


def _token() -> str:
    return "token"


CLIENTS: Final = (
    PlatformClient(Platform.ANTHROPIC, "AsyncAnthropic", {"api_key": "k"}),
    PlatformClient(Platform.BEDROCK, "AsyncAnthropicBedrock", _AWS_KEYS),
    PlatformClient(Platform.BEDROCK, "AsyncAnthropicBedrock", _AWS_KEY),
    PlatformClient(Platform.BEDROCK_MANTLE, "AsyncAnthropicBedrockMantle", _AWS_KEYS),
    PlatformClient(Platform.BEDROCK_MANTLE, "AsyncAnthropicBedrockMantle", _AWS_KEY),
    PlatformClient(Platform.AWS, "AsyncAnthropicAWS", {"workspace_id": "w", **_AWS_KEYS}),
    PlatformClient(Platform.AWS, "AsyncAnthropicAWS", {"workspace_id": "w", **_AWS_KEY}),
    PlatformClient(
        Platform.VERTEX, "AsyncAnthropicVertex", {"region": "global", "project_id": "p", "access_token": "t"}
    ),
    PlatformClient(Platform.FOUNDRY, "AsyncAnthropicFoundry", {"api_key": "k"}),
    PlatformClient(
        Platform.GOOGLE_CLOUD,
        "AsyncAnthropicGoogleCloud",
        {"project": "p", "workspace_id": "w", "token_provider": _token},
    ),
)
"""Each client with each kind of credentials that needs no other service."""


def _param(client: PlatformClient) -> Any:
    kind = "" if client.arguments.get("api_key") or "aws_access_key" not in client.arguments else "-signed"
    absent = pytest.mark.skipif(not client.is_there, reason=f"this version of anthropic has no such {client.name}")
    return pytest.param(client, id=f"{client.platform}{kind}", marks=absent)


each_client = pytest.mark.parametrize("platform_client", [_param(client) for client in CLIENTS])
"""Runs a test with each client, as its argument `platform_client`."""

each_platform = pytest.mark.parametrize(
    "platform_client",
    [_param(next(client for client in CLIENTS if client.platform is platform)) for platform in Platform],
)
"""Runs a test with one client of each platform, as its argument `platform_client`."""
