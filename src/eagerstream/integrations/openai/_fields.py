"""Objects and plain dicts, read alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def field_of(holder: object, name: str) -> Any:
    """A field of an object of a client, or of a mapping; None where there is none."""
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
