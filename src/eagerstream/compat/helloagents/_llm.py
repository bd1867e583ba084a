"""`HelloAgentsLLM`: a model, and the client that reaches it."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from .._clients import KeptClient, default_model
from .._departed import departed_attribute

_MAX_TOKENS: Final = 4096
"""The number that HelloAgents sends to the Messages API."""


class HelloAgentsLLM:
    """A model of the Messages API, for agents.

    The client is made when an agent first needs it. Agents share it if they share this object.

    If `api_key` or `LLM_API_KEY` gives a key, it is sent to `base_url` or `LLM_BASE_URL`. Without a key, the anthropic
    client reads `ANTHROPIC_API_KEY` and `ANTHROPIC_BASE_URL`, and `LLM_BASE_URL` is ignored: a key of Anthropic never
    goes to the address of another service.

    Args:
        model: Id of the model. Default: `LLM_MODEL_ID`, `ANTHROPIC_MODEL`, or a current Claude model.
        api_key, base_url: See above. The address must speak the Messages API.
        temperature: Sent if given. Some models accept none, so there is no default.
        max_tokens: Maximum number of tokens of a response.
        timeout: Time limit of the client, in seconds. Default: `LLM_TIMEOUT`, or the client's own.
        client: Any client that `eagerstream.run` accepts. It takes the place of the key and the address.
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
        self.model = model or os.environ.get("LLM_MODEL_ID") or default_model()
        self.api_key = api_key or os.environ.get("LLM_API_KEY") or None
        own_url = os.environ.get("LLM_BASE_URL") if self.api_key else None
        self.base_url = base_url or own_url or None
        self.temperature = temperature
        self.max_tokens = max_tokens or _MAX_TOKENS
        seconds = os.environ.get("LLM_TIMEOUT")
        self.timeout = timeout or (float(seconds) if seconds else None)
        self.client = client
        self.kwargs = kwargs
        self._kept = KeptClient()

    def __getattr__(self, name: str) -> Any:
        raise departed_attribute(self, name)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy, which makes a client of its own."""
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
