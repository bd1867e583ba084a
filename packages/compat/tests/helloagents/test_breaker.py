"""`CircuitBreaker` by the names of HelloAgents: states, times and words."""

from __future__ import annotations

import pytest

from eagerstream import UsageError
from eagerstream_compat.helloagents import CircuitBreaker, ToolErrorCode, ToolResponse

FAILED = ToolResponse.error(ToolErrorCode.EXECUTION_ERROR, "no")
WRONG = ToolResponse.error(ToolErrorCode.INVALID_PARAM, "not so")
HALF = ToolResponse.partial("half")
DONE = ToolResponse.success("yes")


class Clock:
    """A clock that is set by hand."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_script_of_states() -> None:
    """Errors of any kind add up, anything else begins the count anew, the third one in a row opens."""
    breaker = CircuitBreaker()
    counts = []
    for response in (FAILED, WRONG, HALF, WRONG, FAILED, DONE, FAILED, WRONG):
        breaker.record_result("tool", response)
        counts.append(breaker.get_status("tool")["failure_count"])
    assert counts == [1, 2, 0, 1, 2, 0, 1, 2]
    assert not breaker.is_open("tool")
    breaker.record_result("tool", WRONG)
    assert breaker.is_open("tool")
    assert not breaker.is_open("other")  # each has a count of its own


def test_recovery() -> None:
    """It is closed after more than the time, not at it; the count begins at 0."""
    clock = Clock()
    breaker = CircuitBreaker(clock=clock)
    for _ in range(3):
        breaker.record_result("tool", FAILED)
    clock.now_s = 1300.0
    assert breaker.is_open("tool")
    assert breaker.get_status("tool")["recover_in_seconds"] == 0
    clock.now_s = 1300.001
    assert not breaker.is_open("tool")
    assert breaker.get_status("tool") == {"state": "closed", "failure_count": 0}


def test_status() -> None:
    """All tools that were called; asking for another one does not make it known."""
    clock = Clock()
    breaker = CircuitBreaker(failure_threshold=1, recovery_timeout=10.5, clock=clock)
    breaker.record_result("good", DONE)
    breaker.record_result("bad", FAILED)
    clock.now_s += 3
    assert breaker.get_status("unknown") == {"state": "closed", "failure_count": 0}
    every = breaker.get_all_status()
    assert set(every) == {"good", "bad"}
    assert every["good"] == {"state": "closed", "failure_count": 0}
    assert every["bad"] == {
        "state": "open",
        "failure_count": 1,
        "open_since": every["bad"]["open_since"],
        "recover_in_seconds": 8,
    }
    assert every["bad"]["open_since"] > 1_700_000_000  # by the wall clock


def test_by_hand() -> None:
    """It can be opened and closed; what is refused says for how long."""
    clock = Clock()
    breaker = CircuitBreaker(clock=clock)
    assert breaker.refusal("tool") is None
    breaker.open("tool")
    clock.now_s += 60
    refusal = breaker.refusal("tool")
    assert refusal is not None
    assert refusal.code == "CIRCUIT_OPEN"
    assert refusal.text == "工具 'tool' 当前被禁用，由于连续失败。240 秒后可用。"
    assert refusal.context == {"tool_name": "tool", "circuit_status": breaker.get_status("tool")}
    breaker.close("tool")
    assert not breaker.is_open("tool")
    assert breaker.get_status("tool") == {"state": "closed", "failure_count": 0}


def test_one_that_is_switched_off() -> None:
    """Nothing counts, nothing opens, also where it is switched off while a circuit is open."""
    breaker = CircuitBreaker(enabled=False)
    for _ in range(5):
        breaker.record_result("tool", FAILED)
    breaker.open("tool")
    assert not breaker.is_open("tool")
    assert breaker.get_all_status() == {}
    breaker = CircuitBreaker(failure_threshold=1)
    breaker.record_result("tool", FAILED)
    breaker.enabled = False
    assert not breaker.is_open("tool")
    assert breaker.refusal("tool") is None


def test_only_errors_of_the_tool() -> None:
    """As the library's own breaker counts."""
    breaker = CircuitBreaker(1, count_codes="tool")
    breaker.record_result("tool", WRONG)
    assert not breaker.is_open("tool")
    breaker.record_result("tool", FAILED)
    assert breaker.is_open("tool")


def test_settings() -> None:
    """By the older names, in the older order; what makes no sense is refused."""
    breaker = CircuitBreaker(5, 1, True)
    assert (breaker.failure_threshold, breaker.recovery_timeout, breaker.enabled) == (5, 1, True)
    breaker.recovery_timeout = 2.5
    assert breaker.recovery_timeout_s == 2.5
    with pytest.raises(UsageError, match="failure_threshold"):
        CircuitBreaker(0)
