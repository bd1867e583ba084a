"""`Message`: one message of an agent's history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, Self

from ...errors import UsageError

_ROLES: Final = ("user", "assistant")


@dataclass
class Message:
    """A text that the user or the model wrote.

    Attributes:
        content: The text.
        role: `"user"` or `"assistant"`. HelloAgents has further roles, which the Messages API does not take.
        timestamp: Local time of the message.
        metadata: Any further data.

    Raises:
        UsageError: The role is another one.
    """

    content: str
    role: Literal["user", "assistant"]
    timestamp: datetime | None = field(default_factory=datetime.now, kw_only=True)
    metadata: dict[str, Any] | None = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        if self.role not in _ROLES:
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
        """Make a message of what `to_dict` returned."""
        time = data.get("timestamp")
        timestamp = datetime.fromisoformat(time) if isinstance(time, str) else time
        return cls(data["content"], data["role"], timestamp=timestamp, metadata=data.get("metadata"))

    def to_text(self) -> str:
        """Return `[role] content`."""
        return f"[{self.role}] {self.content}"

    def __str__(self) -> str:
        return self.to_text()
