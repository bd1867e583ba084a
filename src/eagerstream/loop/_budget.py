"""`Budget`: the tokens and the money that a run may use, together with the runs that its tools start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, TypeAlias

from eagerstream_wire import MessageAssembler, total_tokens
from eagerstream_wire._assistant_message import blocks_of, uncounted_tokens

from ..errors import UsageError

Price: TypeAlias = Callable[[Mapping[str, Any], str], float]
"""The cost of a response, from its usage and its model, in any currency."""

_UNCOUNTED: Final = "uncounted_output_tokens"


class Budget:
    """Counts what the responses of a run use.

    Args:
        max_total_tokens: Tokens at most; None for no bound.
        max_cost: Cost at most; None for no bound.
        price: The cost of a response; None: costs are not counted.

    Raises:
        UsageError: `max_cost` has no `price`.

    Attributes:
        tokens: All tokens so far: input, from and for the cache, output, and estimates of what was cut.
        cost: The cost so far.
        parent: The budget of the run whose tool has started this one: what is used here is used there.
    """

    def __init__(self, max_total_tokens: int | None, max_cost: float | None, price: Price | None) -> None:
        if max_cost is not None and price is None:
            raise UsageError("max_cost needs price=, a function that gives the cost of a response")
        self._max_total_tokens = max_total_tokens
        self._max_cost = max_cost
        self._price = price
        self.tokens: int = 0
        self.cost: float = 0.0
        self.parent: Budget | None = None

    def spend(self, usage: Mapping[str, Any], model: str) -> None:
        """Count a response."""
        usage = _estimated(usage)
        self.tokens += total_tokens(usage)
        self.cost += self._cost(usage, model)
        if self.parent is not None:
            self.parent.spend(usage, model)

    def exceeded(self, usage: Mapping[str, Any] | None = None, model: str = "") -> str | None:
        """Return the name of a bound that is reached, here or above; None if there is none.

        Args:
            usage: Of a response that is under way.
            model: Its model.
        """
        usage = _estimated(usage or {})
        if self._max_total_tokens is not None and self.tokens + total_tokens(usage) >= self._max_total_tokens:
            return "max_total_tokens"
        if self._max_cost is not None and self.cost + (self._cost(usage, model) if usage else 0) >= self._max_cost:
            return "max_cost"
        return None if self.parent is None else self.parent.exceeded(usage, model)

    @property
    def is_bounded(self) -> bool:
        """True if there is a bound, here or above."""
        has_own = self._max_total_tokens is not None or self._max_cost is not None
        return has_own or (self.parent is not None and self.parent.is_bounded)

    def _cost(self, usage: Mapping[str, Any], model: str) -> float:
        if self._price is None:
            return 0.0
        try:
            return _checked(self._price(usage, model))
        except BaseException:
            self._price = None  # the error ends the run, and must not come again while its end is counted
            raise

    # --- for journals -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the counts as plain data."""
        return {"tokens": self.tokens, "cost": self.cost}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from counts that `state` returned; from 0 if there are none."""
        self.tokens, self.cost = state.get("tokens", 0), state.get("cost", 0.0)


def usage_so_far(assembler: MessageAssembler[Any]) -> dict[str, Any]:
    """Return the usage of a response that is being read: its counts, and an estimate of the output from its text."""
    message = assembler.message
    usage: dict[str, Any] = {**(message.get("usage") or {})}
    written = sum(input.chars for input in assembler.inputs.values() if input.outcome is None)
    usage[_UNCOUNTED] = uncounted_tokens(blocks_of(message), usage.get("output_tokens"), written)
    return usage


def _estimated(usage: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the usage with the estimate of a response that was cut among its output tokens."""
    uncounted, counted = usage.get(_UNCOUNTED), usage.get("output_tokens", 0)
    if type(uncounted) is not int or type(counted) is not int:
        return usage
    return {**usage, "output_tokens": counted + uncounted, _UNCOUNTED: 0}


def _checked(cost: object) -> float:
    if (type(cost) is int or type(cost) is float) and isfinite(cost) and cost >= 0:
        return float(cost)
    raise UsageError(f"price must return a cost, not {cost!r:.80}")
