r"""What a trace may say: no keys, and not who is at home on the machine."""

from __future__ import annotations

import re
from typing import Any, Final

from ...._support.redaction import REDACTED, redact, redact_text
from ....wire import JSON
from .payload import plain

_HOMES: Final = re.compile(
    r"""
      ( / (?: Users | home ) / ) [^\s/\\"'<>:|]++
    | ( (?i: [a-z]:\\++users\\++ ) )  # more backslashes than one: JSON in a text
      (?: [^/\\\r\n"<>:|]{1,64}+ (?=\\) | [^\s/\\"'<>:|]++ )  # a name may have spaces, where it is seen to end
    """,
    re.VERBOSE,
)
_WORDS: Final = re.compile(r"(?<![A-Za-z0-9])(?:(Bearer\s++)[A-Za-z0-9._~+/=-]++|sk-[A-Za-z0-9][A-Za-z0-9_-]*+)")
"""What HelloAgents masks however short or plain it is, so that no trace shows more than it did there."""


def without_homes(text: str) -> str:
    r"""`text` with `***` for the names of users in paths: `/home/***/`, `/Users/***/`, `C:\Users\***\`.

    It takes time linear in the length of the text, whoever wrote it.
    """
    return _HOMES.sub(lambda found: f"{found[1] or found[2]}***", text)


def sanitized(value: Any) -> JSON:
    """A copy of anything as JSON, within the bounds of `plain`, without secrets and without names of users in paths.

    Secrets are known as in `eagerstream._support.redaction`, by their form or by the name in front of them, and become
    `[redacted]`; in a text that is cut, as many `*`. What is looked at is bounded, too, however large the value is.
    """
    masked: JSON = redact(plain(value, cut=_cut))
    return masked


def _cut(text: str, max_chars: int) -> str:
    if len(text) > max_chars:  # offsets stay what they are: nothing moves up from where it could not be judged
        text = redact_text(text, keep_length=True)[:max_chars]
    return without_homes(_WORDS.sub(lambda found: f"{found[1] or ''}{REDACTED}", text))
