"""The languages in which builtin tools word their results."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from ..errors import UsageError

Language: TypeAlias = Literal["en", "zh"]
"""English, or Chinese in the words of HelloAgents."""


def check_language(language: str) -> None:
    """A language that is known.

    Raises:
        UsageError: It is not.
    """
    if language not in get_args(Language):
        raise UsageError(f"language must be one of {', '.join(get_args(Language))}, not {language!r:.80}")
