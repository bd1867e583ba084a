"""The checks of arguments that the wire core has, for the packages above the core."""

from __future__ import annotations

from eagerstream_wire._checks import check_choice, check_count, check_fraction, check_positive, check_seconds
from eagerstream_wire._places import check_block_count

__all__ = ["check_block_count", "check_choice", "check_count", "check_fraction", "check_positive", "check_seconds"]
