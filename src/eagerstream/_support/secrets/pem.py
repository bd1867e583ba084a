"""Private keys in PEM: all text between their first line and their last."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .spans import REDACTED, SecretSpan
from .windows import search

MAX_KEY_CHARS: Final = 65_536
"""Maximum number of characters to mask if a key has no last line."""

_BEGIN: Final = re.compile(r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----")
_END: Final = re.compile(r"-----END[ A-Z0-9_-]{0,100}PRIVATE KEY")
_CUT_END: Final = re.compile(r"-----END[ A-Z0-9_-]{0,100}\s?\Z")


def private_keys(text: str) -> Iterator[SecretSpan]:
    """Yield the contents of private keys.

    A key ends at its END line, whatever is before it: headers, the signs of a diff, numbers of lines, quotes. Without
    an END line, it ends after `MAX_KEY_CHARS`, at the end of the text, or at a NUL, which no key contains.
    """
    at = 0
    while (begin := search(_BEGIN, text, at)) is not None:
        start = begin.end()
        bound = min(start + MAX_KEY_CHARS, len(text))
        apart = text.find("\0", start, bound)
        bound = bound if apart < 0 else apart
        end = search(_END, text, start, bound)
        if end is not None:
            at = end.end()
            bound = end.start()
        elif text.startswith(REDACTED, start):
            at = start  # it was masked already, and its original end is unknown
            continue
        else:
            at = bound
            cut = _CUT_END.search(text, max(start, bound - 120), bound)
            bound = cut.start() if cut else bound
        if bound > start:
            yield SecretSpan(start, bound)
