"""Attributes one by one: what peers and models control is bounded, and what is of the wrong kind is left out."""

from __future__ import annotations

from typing import Any

from tests.tables import rows

from eagerstream import APIError, StreamInterrupted
from eagerstream_adapters.otel import _conventions as names
from eagerstream_adapters.otel._attributes import (
    bounded,
    error_type,
    peer_attributes,
    request_attributes,
    usage_attributes,
)


def test_the_names_of_the_installed_release() -> None:
    """They are those that the package of the conventions has; our own are apart from them."""
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
    from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
    from opentelemetry.semconv.schemas import Schemas

    modules = (gen_ai_attributes, gen_ai_metrics)
    released = {value for module in modules for value in vars(module).values() if isinstance(value, str)}
    used = {value for value in vars(names).values() if isinstance(value, str) and value.startswith("gen_ai.")}
    assert used
    assert used <= released
    assert names.INSTALLED.cache_write in released
    assert names.LATEST.cache_write not in released
    assert names.INSTALLED.schema_url in {schema.value for schema in Schemas}


@rows(
    "environment, expected",
    [
        ({}, names.INSTALLED),
        ({names.OPT_IN: "http"}, names.INSTALLED),
        ({names.OPT_IN: "gen_ai_latest_experimental"}, names.LATEST),
        ({names.OPT_IN: "http/dup, GEN_AI_LATEST_EXPERIMENTAL ,x"}, names.LATEST),
    ],
)
def test_which_names(environment: dict[str, str], expected: names.Conventions) -> None:
    """As the variable says."""
    assert names.conventions(environment) is expected


def _client(name: str, base_url: str) -> Any:
    import anthropic

    options: dict[str, Any] = {"base_url": base_url, "api_key": "k"}
    if "Vertex" in name:
        options = {"base_url": base_url, "region": "global", "project_id": "p", "access_token": "t"}
    elif "Bedrock" in name:
        options = {"base_url": base_url, "aws_region": "us-east-1", "aws_access_key": "a", "aws_secret_key": "s"}
    return getattr(anthropic, name)(**options)


@rows(
    "name, provider",
    [
        ("AsyncAnthropic", "anthropic"),
        ("AsyncAnthropicBedrock", "aws.bedrock"),
        ("AsyncAnthropicVertex", "gcp.vertex_ai"),
    ],
)
def test_platforms(name: str, provider: str) -> None:
    """By the class of the client, one that is derived from it, too."""
    client = _client(name, "https://example.com:8443/v1")
    derived = type("Mine", (type(client),), {})
    client.__class__ = derived
    assert peer_attributes(client) == {
        "gen_ai.provider.name": provider,
        "server.address": "example.com",
        "server.port": 8443,
    }


@rows(
    "base_url, address",
    [
        ("https://api.anthropic.com", {"server.address": "api.anthropic.com", "server.port": 443}),
        ("http://user:secret@[::1]/v1", {"server.address": "::1", "server.port": 80}),
        ("http://host:99999", {}),
        ("", {}),
        (None, {}),
    ],
)
def test_addresses(base_url: Any, address: dict[str, Any]) -> None:
    """Never with credentials; of what is no address, nothing."""

    class Client:
        pass

    client = Client()
    client.base_url = base_url  # type: ignore[attr-defined]
    assert peer_attributes(client) == {"gen_ai.provider.name": "anthropic", **address}


def test_requests_of_the_wrong_kind() -> None:
    """What is refused later, or stands for nothing, is no attribute."""
    from anthropic import NOT_GIVEN

    request = {"max_tokens": True, "temperature": NOT_GIVEN, "top_p": "1", "top_k": None, "stop_sequences": "#"}
    assert request_attributes({**request, "output_config": 5}, names.LATEST) == {"gen_ai.request.stream": True}
    stops = request_attributes(
        {"stop_sequences": ["x" * 1000, 5, "sk-ant-api03-abcdefghijklmnop"] * 100}, names.INSTALLED
    )
    listed = stops["gen_ai.request.stop_sequences"]
    assert isinstance(listed, list)
    assert len(listed) < 33
    assert set(listed) == {"x" * 256, "[redacted]"}


def test_an_output_format() -> None:
    """The conventions have a word for it."""
    config = {"format": {"type": "json_schema", "schema": {}}, "effort": "high"}
    assert request_attributes({"output_config": config}, names.INSTALLED)["gen_ai.output.type"] == "json"
    assert "gen_ai.request.reasoning.level" not in request_attributes({"output_config": config}, names.INSTALLED)


def test_usage() -> None:
    """All input tokens together, as the conventions count; of a reply that broke off no output."""
    usage = {
        "input_tokens": 1,
        "cache_read_input_tokens": 10,
        "cache_creation_input_tokens": 100,
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 3},
    }
    counts = {
        "gen_ai.usage.input_tokens": 111,
        "gen_ai.usage.cache_read.input_tokens": 10,
        "gen_ai.usage.cache_creation.input_tokens": 100,
    }
    output = {"gen_ai.usage.output_tokens": 5, "gen_ai.usage.reasoning.output_tokens": 3}
    assert usage_attributes(usage, names.INSTALLED) == {**counts, **output}
    assert usage_attributes(usage, names.INSTALLED, whole=False) == counts


@rows("usage", [None, 5, {}, {"input_tokens": -1}, {"input_tokens": 2**63}, {"output_tokens": True}])
def test_usage_of_the_wrong_kind(usage: object) -> None:
    """A peer may send anything."""
    assert usage_attributes(usage, names.INSTALLED) == {}


class Odd(Exception):
    """An error of a module."""


@rows(
    "error, expected",
    [
        (APIError("words", status_code=529, error_type="overloaded_error"), "overloaded_error"),
        (APIError("words", status_code=502), "502"),
        (APIError("words", status_code=400, error_type="all that was said"), "400"),
        (APIError("words", status_code=200), "eagerstream.errors.APIError"),
        (StreamInterrupted("words"), "eagerstream.errors.StreamInterrupted"),
        (ValueError("words"), "ValueError"),
        (Odd("words"), f"{__name__}.Odd"),
        (type("a name with words", (Exception,), {})(), "_OTHER"),
        (type("x" * 1000, (Exception,), {})(), "_OTHER"),
    ],
)
def test_names_of_errors(error: BaseException, expected: str) -> None:
    """Few, and never words."""
    assert error_type(error) == expected


def test_what_is_bounded() -> None:
    """Names and ids are cut, and can be encoded."""
    assert len(bounded("x" * 10_000)) == 256
    assert bounded("\ud800") == "\ufffd"
    assert bounded(None) == "None"
