"""Secrets that follow a name: `x-api-key: ...`, `"password": "..."`, `--token ...`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from .spans import SecretSpan
from .windows import matches, run_end, search

_MAX_NAME_CHARS: Final = 128
_MAX_BLOCK_CHARS: Final = 4_096

_SECRET_ENDINGS: Final = (
    *("apikey", "apikeys", "accesskey", "accesskeyid", "secretkey", "privatekey", "signingkey", "encryptionkey"),
    *("subscriptionkey", "masterkey", "authkey", "accountkey", "keydata"),
    *("password", "passwords", "passwd", "passphrase", "passcode", "passwort", "secret", "secrets", "token"),
    *("authorization", "cookie", "cookies", "credential", "credentials", "auths", "connectionstring", "licensekey"),
    *("mnemonic", "recoverycode", "recoverycodes", "seedphrase", "sessionid"),
)
# Tokens that grant nothing: places in a list, and the units of models.
_HARMLESS_TOKENS: Final = tuple(
    f"{kind}token"
    for kind in (
        *("page", "next", "continuation", "sync", "stop", "eos", "bos", "pad", "unk", "mask", "sep", "cls", "special"),
        *("per", "max", "min", "first", "last"),
    )
)
# As words of their own: `DB_PASS`, `MYSQL_PWD`, `Pwd`. Not `bypass`, and not `PWD` or `OLDPWD`, the folders of a shell.
_SHORT: Final = re.compile(r"(?:.*[_.-])?(?:pass|PASS|Pass|pwd|Pwd)|.*(?:[_.-]PWD|[a-z]pwd|Pwd|pwd)", re.DOTALL)


@lru_cache(maxsize=2048)
def is_secret_name(name: str) -> bool:
    """Tell whether a field of this name is secret: `x-api-key`, `DB_PASSWORD`, `ClientSecret`, but not `max_tokens`."""
    name = name[-_MAX_NAME_CHARS:]
    compact = re.sub(r"[^a-z0-9]", "", name.lower().replace("%5f", "").replace("%2d", "")).rstrip("0123456789")
    if compact.endswith(_SECRET_ENDINGS):
        return not compact.endswith(_HARMLESS_TOKENS)
    return _SHORT.fullmatch(name) is not None


# A name and the characters between it and its value. The value is searched only if the name is that of a secret.
_HEAD: Final = re.compile(
    r"""
    (?<![A-Za-z0-9_.$%-])
    (?:
        (?P<option> --[A-Za-z0-9_-]{1,1000}+ ) [ ]{1,100}+ (?!-)
      | (?P<name> (?: (?i:api|access|private|secret) [ ] )? [A-Za-z0-9_.$%-]{1,1000}+ )
        (?:
            (?P<quoted> \\{0,100}+ ["'] )? \]? [ \t]{0,100}+ (?: => | := | ==? | [:\uff1a] ) [ \t]{0,100}+
          | (?P<pair> ["'], ) [ \t]{0,100}+ (?= b?["'] )
        )
    )
  | < (?P<tag> [A-Za-z0-9_.:-]{1,100}+ ) > (?= [^<\s] [^<\0]{0,1000}+ </ )
    """,
    re.VERBOSE,
)
_OPENING: Final = re.compile(r'''[bBrRfFuU]{0,2}(\\{0,100}+)("""|\'\'\'|["'])''')
_CLOSING: Final = {'"': re.compile(r'(?<!\\)\\{0,100}+"|[\r\n]'), "'": re.compile(r"(?<!\\)\\{0,100}+'|[\r\n]")}
_TRIPLE: Final = {quotes: re.compile(f"{quotes}|\0") for quotes in ('"""', "'''")}
_NUMBER: Final = re.compile(r"-?[0-9][0-9.eE+-]{0,1000}+(?![^\s,}\]])")
_MASKED: Final = re.compile(r"\[redacted\]")
_BARE: Final = re.compile(r"""(?:[^\s"',;&<>(){}\[\]\\]|\\(?!["'\\nrt]))*+""")
_LINE: Final = re.compile(r"""(?:[^\r\n"'\\]|\\(?!["'\\nrt]))*+""")
_CONTENT: Final = re.compile(r"[^<\0]*+")
_BLOCK: Final = re.compile(r"[|>][+-]?[0-9]?[ \t]{0,100}\r?\n(?=[ \t])")  # of YAML: the lines that are indented follow
_INDENTED: Final = re.compile(r"[ \t]{1,1000}+[^\r\n]{0,4000}+(?:\r?\n)?")
_NO_VALUES: Final = frozenset({"null", "none", "true", "false", "undefined", "nil", "str", "string", "int", "bool"})
_PAIR_STARTS: Final = ("('", '("', "b'", 'b"')


def by_name(text: str) -> Iterator[SecretSpan]:
    """Yield the values after the names of secrets, in order."""
    at = 0
    while (head := search(_HEAD, text, at)) is not None:
        at = head.end()
        if head["pair"] and text[max(0, head.start() - 3) : head.start()][-2:] not in _PAIR_STARTS:
            continue
        if is_secret_name(head["option"] or head["name"] or head["tag"]):
            span = _value(text, head)
            if span is not None:
                yield span
                at = span.end


def _value(text: str, head: re.Match[str]) -> SecretSpan | None:
    """Return the place of the value after a name; None if there is none, or if it says nothing."""
    start = head.end()
    if head["tag"]:
        return _said(text, start, run_end(_CONTENT, text, start))
    opening = _OPENING.match(text, start)
    if opening is not None:
        end = _end_of_string(text, opening)
        return SecretSpan(opening.end(), end) if end > opening.end() else None
    if head["quoted"] and (number := _NUMBER.match(text, start)) is not None:
        return SecretSpan(start, number.end(), "9")
    block = _BLOCK.match(text, start)
    if block is not None:
        start = end = block.end()
        while end < block.end() + _MAX_BLOCK_CHARS and (line := _INDENTED.match(text, end)) is not None:
            end = line.end()
        while start < end and text[start] in " \t":
            start += 1
        return _said(text, start, end)
    # A header continues to the end of its line: `Cookie: a=1; b=2`.
    is_line = not head["quoted"] and str(head["name"]).lower().endswith(("authorization", "cookie"))
    masked = _MASKED.match(text, start)
    return _said(text, start, run_end(_LINE if is_line else _BARE, text, masked.end() if masked else start))


def _said(text: str, start: int, end: int) -> SecretSpan | None:
    while end > start and text[end - 1].isspace():
        end -= 1
    says_nothing = end == start or (end - start < 10 and text[start:end].lower() in _NO_VALUES)
    return None if says_nothing else SecretSpan(start, end)


def _end_of_string(text: str, opening: re.Match[str]) -> int:
    r"""Return the end of a string: a quote with the escapes of its opening quote, or the end of the line or text.

    JSON inside JSON has `\"` for its quotes, and `\\\"` for a quote inside. A quote with fewer escapes belongs to the
    text around it.
    """
    if opening[2] in _TRIPLE:
        found = search(_TRIPLE[opening[2]], text, opening.end(), opening.end() + _MAX_BLOCK_CHARS)
        return min(opening.end() + _MAX_BLOCK_CHARS, len(text)) if found is None else found.start()
    depth = len(opening[1])
    for found in matches(_CLOSING[opening[2]], text, opening.end()):
        escapes = len(found[0]) - 1
        if text[found.start()] in "\r\n" or escapes < depth:
            return found.start()
        if escapes % (2 * depth + 2) == depth:
            return found.end() - 1 - depth
    return len(text)
