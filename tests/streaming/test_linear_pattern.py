"""`linear`: patterns of others are matched in linear time or not at all."""

from __future__ import annotations

import re
import time

from hypothesis import given, strategies as st

from eagerstream.streaming._linear_pattern import linear
from tests.tables import rows


@rows(
    "pattern",
    [
        "^[a-z0-9-]+$", r"^\d{4}-\d{2}-\d{2}$", r"^.*\.txt$", "^(GET|POST)$", "^(?:a|b)$", "a|b", r"^\d+\.\d+\.\d+$",
        "^#[0-9a-fA-F]{6}$", "^https?://", "^x-", "^[A-Z]{2,3}$", r"^\+?[1-9]\d{1,14}$", r"^[\w.-]+$", r"\S", "", "^", "$",
        r"^[^@\s]+@example\.org$", "^é+$",
    ],
)  # fmt: skip
def test_common_patterns_are_matched(pattern: str) -> None:
    """A tool with such a pattern can rely on it."""
    assert linear(pattern) == re.compile(pattern)


@rows(
    "pattern",
    [
        "^(a+)+$", "(a|a)*$", "^(?:a|b)*$", "a*a*b", "^a*a*b", "^.*.*b", "[a-z]+$", ".*b", r"^\w?a+a+a\w$", "^a?a?a?a?aaaa$",
        r"^[^@]+@[^@]+\.[^@]+$", r"^(.)\1$", "(?=a)b", "(?i)a", "a+?b", "a++b", "a{2}{3}", "[a{1,30}]{30}b{30}", "^.*a{99}",
        r"\p{L}", "[z-a]", "(", "[a||b]", "a{,5}", "[]a]", "|".join("abcdefghijklmnopqrstuvwxyz"), "a" * 501, r"^a\$|(b)$",
    ],
)  # fmt: skip
def test_other_patterns_are_not_matched(pattern: str) -> None:
    """They are slow, or of another dialect, or of a form that nobody has proved to be quick."""
    assert linear(pattern) is None


_PIECES = [
    "a",
    "b",
    ".",
    "\\d",
    "\\w",
    "[ab]",
    "[^a]",
    "|",
    "^",
    "$",
    "*",
    "+",
    "?",
    "{1,3}",
    "{2}",
    "{0,16}",
    "{2,}",
    "(",
    ")",
]


@given(
    pattern=st.lists(st.sampled_from(_PIECES), max_size=12).map("".join), unit=st.sampled_from(["a", "ab", "a1", "1"])
)
def test_what_is_matched_is_matched_quickly(pattern: str, unit: str) -> None:
    """20,000 characters take 20 ms at most; a quadratic pattern takes 2 s, an exponential one never ends."""
    for form in (pattern, f"^{pattern}", f"{pattern}$", f"^{pattern}$"):
        if (matched := linear(form)) is not None:
            start = time.thread_time()
            matched.search(unit * (20_000 // len(unit)) + "!")
            assert time.thread_time() - start < 0.5
