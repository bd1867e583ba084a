"""`Settings`: the arguments of the marker `claude`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

import pytest

from eagerstream import EagerSupport
from eagerstream.errors import UsageError

from .. import Fault, Faults, Timing


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the double in one test, and the choice of checks.

    Attributes:
        faults: A `Faults`, or its schedule `{turn: [fault, ...]}`. Attempts are counted anew in each test.
        timing: Pace of the replies. Default: each arrives at once.
        speed: Factor by which to play faster. Default: 1, and without any waiting for recorded responses.
        eager: The accepted ways to ask for eager inputs, as for `ReplayServer`.
        recorded: The test plays recorded responses, and `--claude-record` records them.
        check_histories: The test fails if it sent a history that the API refuses.
        check_replies: The test fails if a reply was not requested, or a request found no reply.
        check_calls: The test fails if a reply calls a tool that its request did not have. Claude calls no such tool, so
            the agent would be tested with what never happens; usually a name is misspelt.
        tool_errors: `"forbidden"`: the test fails if a tool that eagerstream ran raised an exception, other than a
            `ToolError`. The model gets its text, and usually answers something, so the test would pass.

    Raises:
        UsageError: A value has another type.
    """

    faults: Faults | Mapping[int, Sequence[Fault | None]] | None = None
    timing: Timing | None = None
    speed: float | None = None
    eager: EagerSupport | Mapping[str, EagerSupport] = "any"
    recorded: bool = False
    check_histories: bool = True
    check_replies: bool = True
    check_calls: bool = True
    tool_errors: Literal["forbidden", "allowed"] = "forbidden"

    def __post_init__(self) -> None:
        if not isinstance(self.faults, Faults | Mapping | None):
            raise UsageError(f"faults is a Faults or {{turn: [Fault(...), ...]}}, not {self.faults!r:.100}")
        if not isinstance(self.timing, Timing | None):
            raise UsageError(f"timing is a Timing, not {self.timing!r:.100}")
        for name in ("recorded", "check_histories", "check_replies", "check_calls"):
            if not isinstance(getattr(self, name), bool):
                raise UsageError(f"{name} is True or False, not {getattr(self, name)!r:.100}")
        if self.tool_errors not in ("forbidden", "allowed"):
            raise UsageError(f"tool_errors is 'forbidden' or 'allowed', not {self.tool_errors!r:.100}")

    @classmethod
    def of(cls, item: pytest.Item) -> Self:
        """Return the settings of a test. Of two markers, the one nearer to the test decides, argument by argument.

        Raises:
            UsageError: A marker has an unknown argument or a value of another type.
        """
        known = [field.name for field in fields(cls)]
        arguments: dict[str, Any] = {}
        for mark in item.iter_markers("claude"):
            if mark.args:
                raise UsageError(f"all arguments have names ({', '.join(known)}), unlike {mark.args[0]!r:.100}")
            for name, value in mark.kwargs.items():
                if name not in known:
                    raise UsageError(f"{name!r} is no argument; there are {', '.join(known)}")
                arguments.setdefault(name, value)
        return cls(**arguments)

    def fresh_faults(self) -> Faults | None:
        """Return the schedule of faults with no attempt counted.

        Raises:
            UsageError: A turn or a fault is malformed.
        """
        return Faults(self.faults) if isinstance(self.faults, Mapping) else self.faults and self.faults.fresh()
