"""The languages in which builtin tools word their results."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from ..wire import check_choice

Language: TypeAlias = Literal["en", "zh"]
"""English, or Chinese in the words of HelloAgents."""


def check_language(language: str) -> None:
    """A language that is known.

    Raises:
        UsageError: It is not.
    """
    check_choice("language", language, get_args(Language))
