"""The maintained rules for secrets: each is usable, bounded, and knows a key that is made for it."""

from __future__ import annotations

import random
import re
import string
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from eagerstream._support.redaction import redact_text
from eagerstream._support.secrets.forms import FORMS
from eagerstream._support.secrets.names import _HEAD
from eagerstream._support.secrets.rules import NEAR_CHARS, Rule, entropy, rules_by_word
from eagerstream._support.secrets.windows import AHEAD_CHARS
from eagerstream._support.secrets.words import MAX_WORD_CHARS, Words, lowered
from tests.tables import rows

from ..secret_rules import translated

RULES = {rule.id: rule for rules in rules_by_word().values() for rule in rules}
# Their words stand near the secret, and not in their own expression.
_WORDS_BESIDE = {
    "airtable-personnal-access-token": "airtable",
    "facebook-access-token": "facebook",
    "new-relic-user-api-key": "newrelic",
}


@rows("name", sorted(RULES))
def test_each_rule_knows_a_key_made_for_it(name: str) -> None:
    """A rule that is translated wrongly matches nothing, and nobody would notice."""
    rule = RULES[name]
    made = (_made(rule, seed) for seed in range(200))
    text, secret = next(found for found in made if found is not None)
    shown = redact_text(f"see {_WORDS_BESIDE.get(name, '')} {text} .")
    assert secret not in shown
    assert "[redacted]" in shown


def _made(rule: Rule, seed: int) -> tuple[str, str] | None:
    """A text that a rule takes for one with a secret, and the secret."""
    text = _example(parser.parse(rule.pattern.pattern, re.ASCII), random.Random(seed))
    found = rule.pattern.search(text)
    place = found and rule.place(found)
    return (text, text[slice(*place)]) if place else None


def _example(parsed: Any, chance: random.Random) -> str:
    made = ""
    for kind, value in parsed:
        match str(kind):
            case "LITERAL":
                made += chr(value)
            case "IN":
                chars = "".join(_chars(part) for part in value)
                made += chance.choice(chars)
            case "ANY":
                made += "."  # as rules write it: most mean a dot
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, inner = value
                times = chance.randint(least, min(most, least + 3))
                made += "".join(_example(inner, chance) for _ in range(times))
            case "SUBPATTERN":
                made += _example(value[3], chance)
            case "BRANCH":
                made += _example(chance.choice(value[1]), chance)
            case _:  # a boundary, or what follows
                assert str(kind) in ("AT", "ASSERT", "ASSERT_NOT"), kind
    return made


_CATEGORIES = {
    "CATEGORY_DIGIT": string.digits,
    "CATEGORY_WORD": string.ascii_letters + string.digits + "_",
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_SPACE": string.ascii_letters,
}


def _chars(part: tuple[Any, Any]) -> str:
    match str(part[0]):
        case "LITERAL":
            return chr(part[1])
        case "RANGE":
            return "".join(map(chr, range(part[1][0], part[1][1] + 1)))
        case "CATEGORY":
            return _CATEGORIES[str(part[1])]
        case _:
            return ""


def test_between_two_words_that_are_far() -> None:
    """A text that could be a key, as a commit's name could, is one near a word only, also between two of them."""
    commit = "0a1b2c3d4e5f60718293" * 2
    for dots, is_near in ((NEAR_CHARS - 20, True), (NEAR_CHARS + 20, False)):
        shown = redact_text(f"sourcegraph {'.' * dots} {commit} {'.' * dots} sourcegraph")
        assert (commit not in shown) is is_near


def test_what_a_rule_looks_at_is_bounded() -> None:
    """A match depends on few characters: windows give the same result as the whole text, in linear time."""
    patterns = [rule.pattern.pattern for rule in RULES.values()] + [form.head for form in FORMS]
    for pattern in patterns:
        assert parser.parse(pattern).getwidth()[1] < AHEAD_CHARS - NEAR_CHARS, pattern
    assert parser.parse(_HEAD.pattern, re.VERBOSE).getwidth()[1] < AHEAD_CHARS
    assert all(len(word) < MAX_WORD_CHARS for word in rules_by_word())


def test_all_words_of_a_text_are_found() -> None:
    """Also those that begin, or overlap, another; in any case, behind a letter that has two in lower case."""
    words = Words(["sk", "sk-proj", "k-pro", "asks"])
    assert words.windows("İ Asks SK-PROJ") == [{"asks", "sk", "sk-proj", "k-pro"}]
    assert words.windows("") == []
    every = "".join(map(chr, range(0x110000)))
    assert len(every.lower()) == len(every) + 1, "İ is the only letter that has two"
    assert lowered("xİSK", 1) == "isk"


def test_entropy() -> None:
    """Bits for each character."""
    assert [entropy(text) for text in ("aaaa", "abab", "abcd")] == [0, 1, 2]


@rows(
    "regex, translation",
    [
        (r"a(?i)b[a-z]", r"a(?i:b[a-z])"),
        (r"(?i)a|b", r"(?i:a|b)"),
        (r"(a(?i)b)c", r"(a(?i:b))c"),
        (r"[[:alnum:]]{3,}\z", r"[A-Za-z0-9]{3,1000}\Z"),
        (r"x+[a+]\+y*?", r"x{1,1000}[a+]\+y{0,1000}?"),
        ("(?i)[\\w.-]{0,50}?(?:k)([a-z]{9})(?:[\\x60'\"\\s;]|\\\\[nr]|$)", "(?i:(?:k)([a-z]{9})(?![A-Za-z0-9_]))"),
    ],
)
def test_translating(regex: str, translation: str) -> None:
    """From Go's expressions to Python's."""
    assert translated({"id": "x", "regex": regex, "keywords": ["K"]}) == {
        "id": "x",
        "words": ["k"],
        "regex": translation,
    }


def test_what_cannot_be_translated() -> None:
    """A flag in the middle of a group that goes on behind an alternative: told, and not written wrong."""
    with pytest.raises(ValueError, match="alternative"):
        translated({"id": "x", "regex": r"a(?i)b|c", "keywords": []})
