"""Settings of an agent, its model with the client, and the messages of its history."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import BaseModel, ConfigDict

from eagerstream._support.logs import logger_of
from eagerstream.errors import UsageError

from .._clients import KeptClient, default_model
from .._departed import departed_attribute

_log = logger_of(__name__)


class Config(BaseModel):
    """Settings of HelloAgents that have an effect here. Defaults are those of HelloAgents.

    Other settings are accepted and kept as attributes. If one of them is given and not falsy, a warning with its name
    is logged.

    Attributes:
        trace_enabled: Write a trace of each run.
        trace_dir, trace_sanitize: See `TraceLogger`.
        max_concurrent_tools: Maximum number of tools that run at once.
        circuit_enabled, circuit_failure_threshold, circuit_recovery_timeout: See `CircuitBreaker`. They apply to
            registries that an agent makes, not to registries that it is given.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    trace_enabled: bool = True
    trace_dir: str = "memory/traces"
    trace_sanitize: bool = True
    max_concurrent_tools: int = 3
    circuit_enabled: bool = True
    circuit_failure_threshold: int = 3
    circuit_recovery_timeout: float = 300

    def model_post_init(self, _: Any) -> None:
        """Log the names of settings without effect, never their values: one of them may be a key."""
        unused = sorted(name for name, value in (self.model_extra or {}).items() if value)
        if unused:
            _log.warning("settings without effect: %s", ", ".join(unused))

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield the settings that have an effect. One of the others may be a key."""
        yield from self.to_dict().items()

    @classmethod
    def from_env(cls) -> Self:
        """Return the defaults. The settings that HelloAgents reads from the environment have no effect here."""
        return cls()

    def to_dict(self) -> dict[str, Any]:
        """Return the settings that have an effect, as plain data."""
        return self.model_dump(include=set(type(self).model_fields))


_MAX_TOKENS: Final = 4096
"""The number that HelloAgents sends to the Messages API."""


class HelloAgentsLLM:
    """Model of the Messages API, for agents.

    The client is made when an agent first needs it. Agents share it if they share this object.

    A key from `api_key` or `LLM_API_KEY` is sent to `base_url` or `LLM_BASE_URL`. Without one, the anthropic client
    reads `ANTHROPIC_API_KEY` and `ANTHROPIC_BASE_URL`, and `LLM_BASE_URL` is ignored. So a key of Anthropic never goes
    to the address in `LLM_BASE_URL`.

    Args:
        model: Id of the model. Default: `LLM_MODEL_ID`, `ANTHROPIC_MODEL`, or a current Claude model.
        api_key, base_url: See above. The address must speak the Messages API.
        temperature: Sent if given. Some models accept none, so there is no default.
        max_tokens: Maximum number of tokens of a response.
        timeout: Time limit of the client, in seconds. Default: `LLM_TIMEOUT`, or the client's own.
        client: Any client that `eagerstream.run` accepts. It replaces the key and the address.
        **kwargs: Kept as an attribute, without effect.

    Raises:
        ValueError: `LLM_TIMEOUT` is not a number.
    """

    def __init__(
        self,
        model: str | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        timeout: float | None = None,
        *,
        client: Any = None,
        **kwargs: Any,
    ) -> None:
        self.model: str = model or os.environ.get("LLM_MODEL_ID") or default_model()
        self.api_key: str | None = api_key or os.environ.get("LLM_API_KEY") or None
        own_url = os.environ.get("LLM_BASE_URL") if self.api_key else None
        self.base_url: str | None = base_url or own_url or None
        self.temperature = temperature
        self.max_tokens: int = max_tokens or _MAX_TOKENS
        seconds = os.environ.get("LLM_TIMEOUT")
        self.timeout: float | None = timeout or (float(seconds) if seconds else None)
        self.client = client
        self.kwargs = kwargs
        self._kept = KeptClient()

    def __getattr__(self, name: str) -> Any:
        raise departed_attribute(self, name)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy, which makes its own client."""
        return {**self.__dict__, "_kept": KeptClient()}

    def opened(self) -> AbstractAsyncContextManager[Any]:
        """Return the client for one run, as a context manager."""
        return self._kept.opened(self.client, self._made)

    def request(self, **parameters: Any) -> dict[str, Any]:
        """Return the arguments of `eagerstream.run` that describe the model. `parameters` override them."""
        given = {} if self.temperature is None else {"temperature": self.temperature}
        return {"model": self.model, "max_tokens": self.max_tokens, **given, **parameters}

    def _made(self) -> Any:
        import anthropic

        given: dict[str, Any] = {"api_key": self.api_key, "base_url": self.base_url, "timeout": self.timeout}
        return anthropic.AsyncAnthropic(**{name: value for name, value in given.items() if value is not None})


@dataclass
class Message:
    """Text that the user or the model wrote.

    Attributes:
        content: The text.
        role: `"user"` or `"assistant"`. HelloAgents has further roles, which the Messages API does not accept.
        timestamp: Local time of the message.
        metadata: Any further data.

    Raises:
        UsageError: The role is another one.
    """

    content: str = field(repr=False)
    role: Literal["user", "assistant"]
    timestamp: datetime | None = field(default_factory=datetime.now, kw_only=True)
    metadata: dict[str, Any] | None = field(default_factory=dict, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if self.role not in ("user", "assistant"):
            raise UsageError(
                f"a message's role is user or assistant, not {self.role!r:.80}: "
                "give an agent its instructions as system_prompt"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the message as plain data, with the time in ISO format."""
        time = self.timestamp.isoformat() if self.timestamp else None
        return {"role": self.role, "content": self.content, "timestamp": time, "metadata": self.metadata}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return a message from the data of `to_dict`."""
        time = data.get("timestamp")
        timestamp = datetime.fromisoformat(time) if isinstance(time, str) else time
        return cls(data["content"], data["role"], timestamp=timestamp, metadata=data.get("metadata"))

    def to_text(self) -> str:
        """Return `[role] content`."""
        return f"[{self.role}] {self.content}"

    def __str__(self) -> str:
        return self.to_text()
