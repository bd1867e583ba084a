"""`RunSummary`: the facts about a run that a list shows, without reading its entries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from eagerstream._support.redaction import redact
from eagerstream.errors import LimitError

from ._contents import decoded, encoded
from ._database import Rows

MAX_SUMMARY_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in a list.

    Attributes:
        run_id: The id of the run.
        status: A `RunStatus`, or `"waiting"`. `"running"` only says that the run has not ended: see `owner`.
        facts: The facts that the last owner noted when it gave the run up: model, turns, tokens. No contents.
        fence: The number of the last owner.
        beat: It grows while the owner lives.
        owner: `"none"`, `"alive"`, or `"silent"` if the last sign of life is older than the lease. It is an estimate
            by the clock of the database, for people. `Journal.open` finds out.
        idle_s: Seconds since the last change or sign of life, by the clock of the database.
        age_s: Seconds since the run was created, by the clock of the database.
        size_bytes: Size of the entries.
        messages: Number of messages in the inbox.
    """

    run_id: str
    status: str
    facts: Mapping[str, Any] = field(repr=False)
    fence: int
    beat: int
    owner: Literal["none", "alive", "silent"]
    idle_s: float
    age_s: float
    size_bytes: int
    messages: int

    @property
    def approvals(self) -> Sequence[Any]:
        """The approvals that the run waits for: `{"call": id, "name": name of the tool}` of each."""
        approvals = self.facts.get("approvals", ())
        return approvals if isinstance(approvals, list) else ()

    @property
    def is_due(self) -> bool:
        """True if a worker should continue the run.

        Its owner is gone, it was given up before its end, or a message has arrived for it, also after its end.
        """
        if self.owner == "none":
            return self.status == "running" or self.messages > 0
        return self.owner == "silent"

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain data."""
        names = ("run_id", "status", "fence", "beat", "owner", "idle_s", "age_s", "size_bytes", "messages")
        return {name: getattr(self, name) for name in names} | {"facts": dict(self.facts), "is_due": self.is_due}


def summaries(rows: Rows) -> list[RunSummary]:
    """Return the summaries of the rows of a query."""
    return [_summary(row) for row in rows]


def _summary(row: tuple[Any, ...]) -> RunSummary:
    run_id, status, facts, fence, beat, is_free, lease_s, idle_s, age_s, size_bytes, messages = row
    return RunSummary(
        run_id,
        status,
        decoded(facts.encode()),
        fence,
        beat,
        "none" if is_free else "alive" if idle_s < lease_s else "silent",
        max(idle_s, 0.0),
        max(age_s, 0.0),
        size_bytes,
        messages,
    )


def encoded_summary(facts: Mapping[str, Any]) -> str:
    """Return the facts as JSON, with secrets masked.

    Raises:
        UsageError: They have no JSON form.
        LimitError: They are larger than 65,536 bytes.
    """
    encoded(facts, "the summary of a run")
    text = json.dumps(redact(facts))  # in ASCII: PostgreSQL takes no half surrogates
    if len(text) > MAX_SUMMARY_BYTES:
        raise LimitError("MAX_SUMMARY_BYTES", MAX_SUMMARY_BYTES, "the summary of a run")
    return text
