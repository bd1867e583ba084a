"""`with_defaults`: options of a typed dictionary, completed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

OptionsT = TypeVar("OptionsT", bound=Mapping[str, Any])


def with_defaults(options: OptionsT, **defaults: Any) -> OptionsT:
    """Return the options, with defaults for those that are missing or `None`."""
    given = {name: value for name, value in options.items() if value is not None or name not in defaults}
    return cast("OptionsT", {**defaults, **given})
