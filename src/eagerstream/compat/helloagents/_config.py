"""`Config`: the settings of an agent."""

from __future__ import annotations

import logging
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

_log = logging.getLogger(__name__)


class Config(BaseModel):
    """The settings of HelloAgents that have an effect here. Defaults are those of HelloAgents.

    Other settings are accepted and kept as attributes. If one of them is given and not falsy, the log says once that it
    has no effect.

    Attributes:
        trace_enabled: Write a trace of each run, with an HTML page.
        trace_dir, trace_sanitize, trace_html_include_raw_response: See `TraceLogger`.
        max_concurrent_tools: Maximum number of tools that run at once.
        hook_timeout_seconds: Time limit of a hook.
        circuit_enabled, circuit_failure_threshold, circuit_recovery_timeout: See `CircuitBreaker`. They hold for
            registries that an agent makes, not for those that it is given.
    """

    model_config = ConfigDict(extra="allow")

    trace_enabled: bool = True
    trace_dir: str = "memory/traces"
    trace_sanitize: bool = True
    trace_html_include_raw_response: bool = False
    max_concurrent_tools: int = 3
    hook_timeout_seconds: float = 5.0
    circuit_enabled: bool = True
    circuit_failure_threshold: int = 3
    circuit_recovery_timeout: float = 300

    def model_post_init(self, _: Any) -> None:
        """Log the names of settings without effect, never their values: one of them may be a key."""
        unused = sorted(name for name, value in (self.model_extra or {}).items() if value)
        if unused:
            _log.warning("settings without effect: %s", ", ".join(unused))

    @classmethod
    def from_env(cls) -> Self:
        """Return the defaults. None of the settings that HelloAgents reads from the environment has an effect here."""
        return cls()

    def to_dict(self) -> dict[str, Any]:
        """Return the settings that have an effect, as plain data."""
        return self.model_dump(include=set(type(self).model_fields))
