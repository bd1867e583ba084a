"""The time limit of a tool that ends its own work in time, and says why."""

from __future__ import annotations

from typing import Final

from ..tools import ToolOptions
from ..wire import check_positive

_TIMEOUT_S: Final = 30.0
_GRACE_S: Final = 5.0
"""To end what was begun, and to answer."""


def take_time_limit_s(options: ToolOptions) -> float:
    """Seconds that the tool's work may take: its option `timeout_s`, 30 by default.

    The option itself is set a little higher, for whoever runs the tool: a tool that is cancelled cannot answer.

    Raises:
        UsageError: It is no number, or not more than 0.
    """
    given_s = options.get("timeout_s")
    timeout_s = _TIMEOUT_S if given_s is None else given_s
    check_positive("timeout_s", timeout_s)
    options["timeout_s"] = timeout_s + _GRACE_S
    return timeout_s
