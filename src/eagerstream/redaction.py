r"""What may be shown of a text: secrets masked, and nothing in it that acts on a terminal.

One place for logs, reprs, errors, traces and saved recordings. A secret is known by its own form (`sk-ant-...`, a
bearer token, a JWT, an AWS key id) or by the name in front of it (`x-api-key: ...`, `"password": "..."`). What masks
too much hides a word of a log; what masks too little hands out a key: in doubt it is masked.

Texts may be written to do harm: everything here takes time linear in the length of the text. The regular expressions
never look at a character twice from the same side (possessive quantifiers, and look-behinds that forbid to begin in the
middle of a run).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ._support.inspecting import head

REDACTED: Final = "[redacted]"
"""What stands in the place of a secret."""

_MAX_DEPTH: Final = 100
_MAX_PASSES: Final = 8
_MAX_NAME_CHARS: Final = 128
_OVERLAP_CHARS: Final = 512

# --- secrets by their form --------------------------------------------------------------------------------------------

# Each takes the whole word that it stands in: what is left of a text never depends on what was masked beside it.
_WORD: Final = r"[A-Za-z0-9_-]*+"
_START: Final = r"(?<![A-Za-z0-9])"
# Prose speaks of bearer tokens and of basic things; credentials are no plain words, or very long ones.
_CREDENTIAL: Final = r"(?![A-Za-z]?[a-z]{0,14}+(?![A-Za-z0-9._~+/=-]))[A-Za-z0-9._~+/=-]"

_FORMS: Final = tuple(
    re.compile(form)
    for form in (
        r"sk-ant-[A-Za-z0-9_-]++",
        # The same, cut off in front.
        rf"{_START}(?:ant-)?(?:api|oat|ort|sid|admin)[0-9]{{2}}-[A-Za-z0-9_-]{{16,}}+",
        rf"{_START}sk-(?:proj-|svcacct-|admin-|or-v1-|[A-Za-z0-9]{{12}})[A-Za-z0-9]{{8}}{_WORD}",
        rf"{_START}[rs]k_(?:live|test)_[A-Za-z0-9]{{8}}{_WORD}",
        rf"{_START}(?i:bearer)[ \t]++({_CREDENTIAL}++)",
        rf"{_START}(?i:basic)[ \t]++({_CREDENTIAL}{{6,}}+)",
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{6,}+\.[A-Za-z0-9_-][A-Za-z0-9_.-]*+",  # a JWT
        rf"{_START}ya29\.[A-Za-z0-9_-][A-Za-z0-9_.-]*+",  # Google's access tokens
        rf"{_START}AIza[A-Za-z0-9_-]{{20,}}+",
        rf"{_START}(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}{_WORD}",
        rf"{_START}(?:IQoJb3JpZ2lu|FwoGZXIvYXdz)[A-Za-z0-9+/=]{{20,}}+{_WORD}",  # session tokens of AWS
        r"(?i:signature=)([0-9a-fA-F]{16,}+[A-Za-z0-9_-]*+)",  # SigV4; the `"signature"` of thinking is another
        rf"{_START}(?:gh[pousr]_|github_pat_|glpat-|npm_|hf_)[A-Za-z0-9_-]{{16,}}+",
        rf"{_START}(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{{8,}}+{_WORD}",
        r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----([A-Za-z0-9+/=\\ \t\r\n]++)",
        r"://[^\s/?#@:\"'<>]*+:([^\s/?#@\"'<>]++)(?=@)",  # the password in a URL
    )
)


class SecretSpan(NamedTuple):
    """Where a secret stands.

    Attributes:
        start, end: Offsets, as in a slice.
        fill: What each of its characters is masked with where the length is kept: `"*"`, or `"9"` for a number in JSON,
            which stays JSON by it.
    """

    start: int
    end: int
    fill: str = "*"


def _by_form(text: str) -> Iterator[SecretSpan]:
    for form in _FORMS:
        for found in form.finditer(text):
            yield SecretSpan(*found.span(form.groups))


# --- secrets by their name --------------------------------------------------------------------------------------------

_SECRET_ENDINGS: Final = (
    *("apikey", "apikeys", "accesskey", "accesskeyid", "secretkey", "privatekey", "signingkey", "encryptionkey"),
    *("subscriptionkey", "masterkey", "authkey"),
    *("password", "passwords", "passwd", "passphrase", "passcode", "secret", "secrets", "token", "authorization"),
    *("cookie", "cookies", "credential", "credentials"),
)
# Tokens that open nothing: places in a list, and the units that models count in.
_HARMLESS_TOKENS: Final = tuple(
    f"{kind}token"
    for kind in (
        *("page", "next", "continuation", "sync", "stop", "eos", "bos", "pad", "unk", "mask", "sep", "cls", "special"),
        *("per", "max", "min", "first", "last"),
    )
)
_IDENTIFYING_HEADERS: Final = frozenset({"anthropic-organization-id", "anthropic-workspace-id", "openai-organization"})


@lru_cache(maxsize=2048)
def is_secret_name(name: str) -> bool:
    """A field of this name holds a secret: `x-api-key`, `ClientSecret`, `DB_PASSWORD`; not `max_tokens`."""
    compact = re.sub(r"[^a-z0-9]", "", name[-_MAX_NAME_CHARS:].lower()).rstrip("0123456789")
    if compact.endswith(_SECRET_ENDINGS):
        return not compact.endswith(_HARMLESS_TOKENS)
    return name.endswith("pwd")  # in small letters: `PWD` is the folder that a shell stands in


# A name and what separates it from its value; the value is looked for only where the name says that it is a secret.
_HEAD: Final = re.compile(
    r"""
    (?<![A-Za-z0-9_.$-])
    (?:
        (?P<option> --[A-Za-z0-9_-]++ ) [ ]++ (?!-)
      | (?P<name> (?: (?i:api|access|private|secret) [ ] )? [A-Za-z0-9_.$-]++ )
        (?:
            (?P<quoted> \\*+ ["'] )? \]? [ \t]*+ (?: => | := | ==? | : ) [ \t]*+
          | (?P<pair> ["'], ) [ \t]*+ (?= b?["'] )
        )
    )
    """,
    re.VERBOSE,
)
_OPENING: Final = re.compile(r"""b?(\\*+)(["'])""")
_CLOSING: Final = {'"': re.compile(r'(?<!\\)\\*+"|[\r\n]'), "'": re.compile(r"(?<!\\)\\*+'|[\r\n]")}
_NUMBER: Final = re.compile(r"-?[0-9][0-9.eE+-]*+(?![^\s,}\]])")
_BARE: Final = re.compile(r"""(?:\[redacted\])?(?:[^\s"',;&<>(){}\[\]\\]|\\(?!["'\\nrt]))*+""")
_LINE: Final = re.compile(r"""(?:[^\r\n"'\\]|\\(?!["'\\nrt]))*+""")
_NO_VALUES: Final = frozenset({"null", "none", "true", "false", "undefined", "nil", "str", "string", "int", "bool"})


def _by_name(text: str) -> Iterator[SecretSpan]:
    at = 0
    while (head := _HEAD.search(text, at)) is not None:
        at = head.end()
        if head["pair"] and text[max(0, head.start() - 3) : head.start()][-2:] not in _PAIR_STARTS:
            continue
        if is_secret_name(head["option"] or head["name"]):
            span = _value(text, head)
            if span is not None:
                yield span
                at = span.end


_PAIR_STARTS: Final = ("('", '("', "b'", 'b"')


def _value(text: str, head: re.Match[str]) -> SecretSpan | None:
    """The value behind a name; None where there is none, or none that says anything."""
    start = head.end()
    opening = _OPENING.match(text, start)
    if opening is not None:
        end = _end_of_string(text, opening)
        return SecretSpan(opening.end(), end) if end > opening.end() else None
    if head["quoted"] and (number := _NUMBER.match(text, start)) is not None:
        return SecretSpan(start, number.end(), "9")
    # A header goes on to the end of its line: `Cookie: a=1; b=2`.
    is_line = not head["quoted"] and str(head["name"]).lower().endswith(("authorization", "cookie"))
    found = (_LINE if is_line else _BARE).match(text, start)
    value = found[0].rstrip() if found else ""
    return SecretSpan(start, start + len(value)) if value and value.lower() not in _NO_VALUES else None


def _end_of_string(text: str, opening: re.Match[str]) -> int:
    r"""Where a string ends: at the quote that is escaped as its opening one is, at the end of the line or of the text.

    JSON inside JSON has `\"` for its quotes, and `\\\"` for a quote inside; a quote that is escaped less belongs to
    what is around it.
    """
    depth = len(opening[1])
    for found in _CLOSING[opening[2]].finditer(text, opening.end()):
        escapes = len(found[0]) - 1
        if text[found.start()] in "\r\n" or escapes < depth:
            return found.start()
        if escapes % (2 * depth + 2) == depth:
            return found.end() - 1 - depth
    return len(text)


# --- texts ------------------------------------------------------------------------------------------------------------


def secret_spans(text: str) -> list[SecretSpan]:
    """Where secrets stand in a text, in order; none overlaps or touches another."""
    spans: list[SecretSpan] = []
    for span in sorted((*_by_form(text), *_by_name(text))):
        if spans and span.start <= spans[-1].end:
            last = spans.pop()
            fill = last.fill if (last.start, last.end) == (span.start, span.end) else "*"
            span = SecretSpan(last.start, max(last.end, span.end), fill)
        spans.append(span)
    return spans


def redact_text(text: str, *, keep_length: bool = False) -> str:
    """`text` with `[redacted]` in the place of each secret; masking it once more changes nothing.

    Args:
        text: Anything; cut off anywhere, too.
        keep_length: Each character of a secret becomes a `*` instead, so that offsets stay what they are.
    """
    for _ in range(_MAX_PASSES):  # a second pass finds nothing new, except in texts made to hide one secret in another
        redacted = _masked(text, secret_spans(text), keep_length=keep_length)
        if redacted == text:
            break
        text = redacted
    return text


def _masked(text: str, spans: list[SecretSpan], *, keep_length: bool) -> str:
    parts: list[str] = []
    at = 0
    for start, end, fill in spans:
        parts += (text[at:start], fill * (end - start) if keep_length else REDACTED)
        at = end
    return "".join((*parts, text[at:]))


def redact_excerpt(text: str, max_chars: int) -> str:
    """Return the beginning of `text` without secrets, for logs and errors; no more than that, and a bit, is inspected.

    Args:
        text: Of a peer, of any length.
        max_chars: Of the text; a notice with the number of characters left out comes on top.
    """
    if len(text) <= max_chars:
        return redact_text(text)
    # With some characters more, the rules see as much of a secret at the cut as they need to know it.
    kept = redact_text(head(text, max_chars + _OVERLAP_CHARS))[:max_chars]
    return f"{kept}... ({len(text) - max_chars:,} characters left out)"


def without_middle(text: str, max_chars: int) -> str:
    """`text`, or its beginning and its end where it is longer than `max_chars`, with the number of what is left out."""
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    end = text[len(text) - half :]
    return f"{text[:half]}... ({len(text) - 2 * half} characters left out) ...{end}"


# --- values -----------------------------------------------------------------------------------------------------------


def redact(value: Any) -> Any:
    """A copy of nested mappings and lists without secrets: those of fields with a secret's name, and those in texts.

    Everything inside such a field is masked, except `None`, booleans and empty texts. Tuples and sets become lists;
    containers more than 100 deep become `"[too deep]"`; objects of other kinds stay what they are.
    """
    root: list[Any] = [None]
    copies: dict[tuple[int, bool], Any] = {}  # by container, and whether all in it is masked: it may contain itself
    pending: list[tuple[Any, Any, Any, bool, int]] = [(root, 0, value, False, 0)]
    while pending:
        target, place, item, is_secret, depth = pending.pop()
        if isinstance(item, Mapping | list | tuple | set | frozenset):
            known = (id(item), is_secret)
            if known not in copies and depth < _MAX_DEPTH:
                twin: Any = {} if isinstance(item, Mapping) else [None] * len(item)
                copies[known] = twin
                fields = _fields(item, is_secret=is_secret)
                repeated: Counter[Any] = Counter()
                for number, (key, inner, secret) in enumerate(fields):
                    key = _unused(key, twin, repeated) if isinstance(twin, dict) else number
                    twin[key] = None  # keeps the order
                    pending.append((twin, key, inner, secret, depth + 1))
            target[place] = copies.get(known, "[too deep]")
        else:
            target[place] = _scalar(item, is_secret=is_secret)
    return root[0]


def _fields(container: Any, *, is_secret: bool) -> list[tuple[Any, Any, bool]]:
    """The places of a container: the key, what stands there, and whether it is a secret by its name."""
    if isinstance(container, Mapping):
        # `{"name": "API_KEY", "value": "..."}`, as lists of headers and of environment variables have it.
        is_named = is_secret or _is_secret_key(container.get("name"))
        return [
            (
                redact_text(key) if isinstance(key, str) else key,
                item,
                is_secret or _is_secret_key(key) or (key == "value" and is_named),
            )
            for key, item in container.items()
        ]
    items = list(container)
    is_pair = isinstance(container, tuple) and len(items) == 2 and _is_secret_key(items[0])
    return [(None, item, is_secret or (is_pair and number == 1)) for number, item in enumerate(items)]


def _is_secret_key(key: object) -> bool:
    if isinstance(key, bytes):
        key = key.decode("latin-1")
    return isinstance(key, str) and is_secret_name(key)


def _unused(key: Any, twin: dict[Any, Any], repeated: Counter[Any]) -> Any:
    """Keys that hold secrets would be the same once they are masked: they are numbered.

    Args:
        key: The masked key.
        twin: What is taken.
        repeated: How often each key came so far; looked for one by one, thousands of numbers would take long.
    """
    free = key
    while free in twin:
        repeated[key] += 1
        free = f"{key} {repeated[key] + 1}"
    return free


def _scalar(item: Any, *, is_secret: bool) -> Any:
    if is_secret:
        return item if item is None or isinstance(item, bool) or item in ("", b"") else REDACTED
    if isinstance(item, str):
        return redact_text(item)
    if isinstance(item, bytes | bytearray):
        return redact_text(item.decode("latin-1")).encode("latin-1")
    return item


def redact_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """A copy of HTTP headers whose credentials, and ids of who sent them, are `[redacted]`; names stay as they are."""
    return {
        name: REDACTED
        if value and (is_secret_name(name) or name.lower() in _IDENTIFYING_HEADERS)
        else redact_text(value)
        for name, value in headers.items()
    }


# --- terminals --------------------------------------------------------------------------------------------------------

_ACTING: Final = re.compile(
    r"""
    # Strings of commands (the title of the window, the clipboard) with what they say, where they end: xterm's control
    # sequences, "OSC", "DCS" and their like.
      (?: \x1b[\]PX^_] | [\x90\x98\x9d-\x9f] ) [^\x00-\x1f\x7f-\x9f]*+ (?: \x07 | \x1b\\ | \x9c )
    | (?: \x1b\[ | \x9b ) [0-?]*+ [ -/]*+ [@-~]?  # CSI: ECMA-48, section 5.4
    | \x1b [ -/]{0,3}+ [0-~]?
    | [\x00-\x08\x0b-\x1f\x7f-\x9f]
    | [\u202a-\u202e\u2066-\u2069]  # turn the order of characters round
    | [\u180e\u200b\u2028\u2029\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]  # cannot be seen
    """,
    re.VERBOSE,
)


def printable(text: str) -> str:
    """`text` without anything that a terminal would act on, or would hide.

    Escape sequences go as a whole, as do all other control characters but line feeds and tabs, those that turn the
    writing direction, and those that nobody sees. What joins letters and emoji stays. Lone surrogates become U+FFFD.
    """
    if text.isprintable():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _ACTING.sub("", text)
