"""Short causes of what a library gets wrong in a family of cases, found by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REASONS: Final[Mapping[tuple[str, str], Mapping[str, str]]] = {}
