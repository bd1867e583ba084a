"""Growing inputs for async code: values to wait for, typed partial values, and checks against schemas."""

from __future__ import annotations

from ._faults import InputError, InputFaults
from ._growing_input import GrowingInput, TextPlace
from ._typed_partial import Partial, TypedPartial, adapter_of

__all__ = [
    "GrowingInput",
    "InputError",
    "InputFaults",
    "Partial",
    "TextPlace",
    "TypedPartial",
    "adapter_of",
]
