"""`Decide`, `Say`, `Cancel`: the actions by which people reach a run, here or from another process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, get_args

from eagerstream.loop import When

if TYPE_CHECKING:
    from ._hub import Hub

MAX_REASON_CHARS: Final = 2_000
"""Maximum length of a reason that comes over a network. The model reads it."""


@dataclass(frozen=True, slots=True)
class Decide:
    """Let a call run that waits for a person, or refuse it. See `Hub.decide`.

    Attributes:
        block: The number of the call's block.
        approved: If true, the call may run.
        reason: Given to the model if the call is refused.
    """

    block: int
    approved: bool
    reason: str | None = field(default=None, repr=False)

    def do(self, hub: Hub, run_id: str) -> None:
        """Do it to a run of this process."""
        hub.decide(run_id, self.block, approved=self.approved, reason=self.reason)


@dataclass(frozen=True, slots=True)
class Say:
    """Say something to the model. See `Hub.say`.

    Attributes:
        message: The text.
        when: The time, see `When`.
    """

    message: str = field(repr=False)
    when: When = "next_turn"

    def do(self, hub: Hub, run_id: str) -> None:
        """Do it to a run of this process."""
        hub.say(run_id, self.message, self.when)


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel the run, or one call of it. See `Hub.cancel` and `Hub.cancel_call`.

    Attributes:
        block: The number of the call's block; None for the run.
        reason: Told to the model, if it is a call.
    """

    block: int | None = None
    reason: str | None = field(default=None, repr=False)

    def do(self, hub: Hub, run_id: str) -> None:
        """Do it to a run of this process."""
        if self.block is None:
            hub.cancel(run_id)
        else:
            hub.cancel_call(run_id, self.block, self.reason or "")


Action: TypeAlias = Decide | Say | Cancel


def _decision(fields: Mapping[str, Any]) -> Decide:
    match fields:
        case {"block": int(block), "approved": bool(approved)} if not isinstance(block, bool):
            return Decide(block, approved, read_reason(fields.get("reason")))
    raise ValueError("A decision has a number block, and approved: true or false.")


def _message(fields: Mapping[str, Any]) -> Say:
    match fields:
        case {"message": str(message)} if message.strip():
            when = fields.get("when", "next_turn")
            if when in get_args(When):
                return Say(message, cast("When", when))
            raise ValueError(f"when is one of {', '.join(get_args(When))}.")
    raise ValueError("A message has a text message, and perhaps when.")


def _cancellation(fields: Mapping[str, Any]) -> Cancel:
    match fields.get("block"):
        case int() | None as block if not isinstance(block, bool):
            return Cancel(block, read_reason(fields.get("reason")))
    raise ValueError("block is the number of a call's block.")


def read_reason(reason: object) -> str | None:
    """Return a reason that a peer gives; None for an empty one.

    Raises:
        ValueError: It is no text, or too long; the text is for the peer.
    """
    if reason is not None and not (isinstance(reason, str) and len(reason) <= MAX_REASON_CHARS):
        raise ValueError(f"A reason is a text of at most {MAX_REASON_CHARS} characters.")
    return reason or None


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Action]]] = {
    "decide": _decision,
    "messages": _message,
    "cancel": _cancellation,
}
"""By the last part of their path in `web_app`."""
ACTION_PATHS: Final = tuple(_READERS)
_PATHS: Final[Mapping[type[Action], str]] = {Decide: "decide", Say: "messages", Cancel: "cancel"}


def read_action(path: str, fields: Mapping[str, Any]) -> Action:
    """Return an action that a peer asks for. Unknown fields are ignored.

    Raises:
        KeyError: There is no such path.
        ValueError: A field is missing or of another form; the text is for the peer.
    """
    return _READERS[path](fields)


def written_action(action: Action) -> tuple[str, dict[str, Any]]:
    """Return the path and the fields from which `read_action` makes an equal action."""
    return _PATHS[type(action)], asdict(action)
