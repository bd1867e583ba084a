"""Secrets without a name: tokens that look made by chance, of any service.

A word of at least 20 characters is masked if it consists of more than words, numbers and short names. That is a list of
what is harmless, so a key of a service that nobody has heard of is masked like the others:

- words and numbers, joined by signs or by capital letters: `claude-opus-4-7-20260101`, `getElementById`
- numbers, dates, versions, UUIDs, the ids of the API
- file paths, and the paths of URLs
- hashes behind a name for hashes, and what the API itself has signed or encrypted: `"signature": "..."`
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .spans import SecretSpan
from .windows import run_end, search

MIN_CHARS: Final = 20
_MIN_ODD_CHARS: Final = 10
_PART_CHARS: Final = 512
"""A long token is judged in parts of so many characters: it is masked if one of them is odd."""
_CONTEXT_CHARS: Final = 48

_CHARS: Final = "A-Za-z0-9_+/.~%-"
_TOKEN: Final = re.compile(rf"(?<![{_CHARS}])[{_CHARS}]{{{MIN_CHARS}}}")
_REST: Final = re.compile(rf"[{_CHARS}]*+")
_PADDING: Final = re.compile(r"={0,2}")  # of base64
_PREFIXED: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{1,7}_(?:[a-z]{18,}|[A-Z]{18,})")
_SIGNS: Final = re.compile(r"%[0-9A-Fa-f]{2}|[^A-Za-z0-9]+")

_HARMLESS: Final = re.compile(
    r"""
      [0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}  # a UUID; the ids of runs have no signs
    | [0-9.,:_+TZ-]*+  # numbers and times
    | sha[0-9]{1,3} - [A-Za-z0-9+/]*+  # the integrity of a file
    | [0-9a-f]{2} - [0-9a-f]{32} - [0-9a-f]{16} - [0-9a-f]{2}  # the header traceparent
    # Ids of this API, and of those that gateways speak to.
    | (?: [a-z]{1,12}_ )? (?: msg | toolu | srvtoolu | mcptoolu | req | container | file | msgbatch ) _ \w*+
    | (?: call | resp | rs | fc ) _ \w*+ | (?: chatcmpl | cmpl | gen ) - [\w-]*+
    """,
    re.VERBOSE | re.ASCII,
)
_PIECE: Final = re.compile(
    r"""
      [0-9]*+(?:[eE][0-9]*+)?  # numbers of any length
    | [a-z]{1,24} | [A-Z]{1,15}
    | [0-9]{1,8}[A-Za-z]{1,4} | (?: [A-Z]?[a-z]{1,12} | [A-Z]{1,8} ) [0-9]{1,6} [a-z]?  # 5th, 20px; utf8, ISO8601, v2b
    | [0-9]{8}T[0-9]{6}Z?  # a time
    """,
    re.VERBOSE,
)
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_MIN_WORD_CHARS: Final = 3.2
"""Mean length of the words in names of programs. Of letters by chance, 2.6 look like a word."""
_OF_PATH: Final = re.compile(r"(?:~|\.{1,2})?/[A-Za-z_.-]{1,64}/|//")  # of a file, or the rest of a URL
_HEX: Final = re.compile(r"[0-9a-fA-F]++")
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,30}+://[^\s\"'<>?#]*+\Z")
_HARMLESS_NAMES: Final = re.compile(
    r"""
    (?<![a-z]) [a-z_]{0,20}
    (?: sha-?[0-9]{1,3} | md5 | hash | digest | checksum | fingerprint | integrity | etag | commit | revision | tree
      | (?:trace|span)_?id )
    [\\"']{0,4} \s? [:=\s-] \s? [\\"']{0,4} (?: sha[0-9]{1,3}[:-] )? \Z
    """,
    re.VERBOSE | re.IGNORECASE,
)
_OF_THE_API: Final = re.compile(r"(?:signature|encrypted_content|encrypted_index)[\\\"']{0,4}\s?:\s?[\\\"']{0,4}\Z")
_MEDIA: Final = re.compile(r"(?<![A-Za-z])data[\\\"']{0,4}\s?:\s?[\\\"']{0,4}\Z")
_MIN_MEDIA_CHARS: Final = 120


def by_token(text: str) -> Iterator[SecretSpan]:
    """Yield the tokens of a text that may be secrets, in order."""
    at = 0
    while (found := search(_TOKEN, text, at)) is not None:
        start = found.start()
        at = run_end(_REST, text, found.end())
        at = run_end(_PADDING, text, at)
        token = text[start:at]
        before = text[max(0, start - _CONTEXT_CHARS) : start]
        if _is_known(before, token) or not _is_made_by_chance(token):
            continue
        # The address and the path of a URL may have tokens: its secrets are in its query.
        if _URL.search(text, max(0, start - _PART_CHARS), start) is None:
            yield SecretSpan(start, at)


def keeps_tokens(name: str) -> bool:
    """Return True if a field of this name may have a token that is no secret: a hash, a signature, an image."""
    return _is_known(f"{name}: ", "0" * _MIN_MEDIA_CHARS)


def _is_known(before: str, token: str) -> bool:
    """Return True if a token is a hash, or the API has signed or encrypted it, or it is an image or a document."""
    if _OF_THE_API.search(before):
        return True
    if len(token) >= _MIN_MEDIA_CHARS and _MEDIA.search(before):
        return True
    return _HARMLESS_NAMES.search(before) is not None and _HEX.fullmatch(token) is not None


def _is_made_by_chance(token: str) -> bool:
    token = token.rstrip("=.-_/")
    if len(token) < MIN_CHARS or _OF_PATH.match(token):
        return False
    if len(token) <= _PART_CHARS and _HARMLESS.fullmatch(token):
        return False
    if _PREFIXED.fullmatch(token):
        return True
    for start in range(0, len(token), _PART_CHARS):
        pieces = _SIGNS.split(token[start : start + _PART_CHARS])
        if sum(len(piece) for piece in pieces if not _is_word(piece)) >= _MIN_ODD_CHARS:
            return True
    return False


def _is_word(piece: str) -> bool:
    if _PIECE.fullmatch(piece):
        return True
    return piece.isalpha() and len(piece) >= _MIN_WORD_CHARS * len(_WORDS.findall(piece))
