"""Secrets with a form of their own: those that are shorter than other tokens, consist of words, or follow a sign.

A text may be cut anywhere, so the start of a key is enough here. Each secret includes the complete word around it: the
rest of a text never depends on its masked neighbors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

from .spans import SecretSpan
from .windows import WINDOW_CHARS, run_end, search

_START: Final = r"(?<![A-Za-z0-9])"
# Prose mentions bearer tokens and basic things. A credential is not a plain word, or is a very long one.
_CREDENTIAL: Final = r"(?![A-Za-z]?[a-z]{0,14}+(?![A-Za-z0-9._~+/=-]))(?=[A-Za-z0-9._~+/=-]"


class Form(NamedTuple):
    """The written form of one kind of secret.

    Attributes:
        words: In lower case. A text without any of them has no such secret.
        head: Pattern for its start, of bounded length. An empty group, if there is one, marks the first character to
            mask.
        tail: The characters that it continues with, as inside brackets.
        behind: A word that must stand shortly before it.
    """

    words: tuple[str, ...]
    head: str
    tail: str
    behind: str = ""


def _form(words: str, head: str, tail: str = "A-Za-z0-9_-", *, behind: str = "") -> Form:
    return Form(tuple(words.split(" ")), head, tail, behind)


FORMS: Final = (
    _form("sk-ant-", r"sk-ant-(?=[A-Za-z0-9_-])"),
    # The same, without its start.
    _form("api0 oat0 ort0 sid0 admin0", rf"{_START}(?:ant-)?(?:api|oat|ort|sid|admin)0[0-9]-[A-Za-z0-9_-]{{16}}"),
    _form("sk%2dant", rf"{_START}sk%2[dD]ant%2[dD]", "A-Za-z0-9_%-"),
    _form("sk-", rf"{_START}sk-(?:[a-z]{{2,10}}-)?[A-Za-z0-9]{{12}}"),  # may be letters only
    _form("xox xapp-", rf"{_START}(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{{8}}"),
    _form("sg.", rf"{_START}SG\.[A-Za-z0-9_-]{{16,64}}+\.(?=[A-Za-z0-9_-])"),
    _form(":aa", r"(?<![0-9])[0-9]{8,10}+:AA[A-Za-z0-9_-]{20}"),  # bots of Telegram
    # Who knows the path of a webhook may call it.
    _form("hook", r"://[^\s/?#\"'<>\\]{0,256}(?i:hook)[^\s/?#\"'<>\\]{0,256}/()(?=[^\s\"'<>\\])", r"^\s\"'<>\\"),
    _form("/webhooks/", r"discord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks/[0-9]{1,25}+/()(?=[A-Za-z0-9_-])"),
    _form("bearer", rf"{_START}(?i:bearer)[ \t]{{1,100}}+(){_CREDENTIAL})", "A-Za-z0-9._~+/=-"),
    _form("basic", rf"{_START}(?i:basic)[ \t]{{1,100}}+(){_CREDENTIAL}{{6}})", "A-Za-z0-9._~+/=-"),
    _form("eyj", r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{6,4000}+\.(?=[A-Za-z0-9_-])", "A-Za-z0-9_.-"),  # a JWT
    _form("ya29.", rf"{_START}ya29\.(?=[A-Za-z0-9_-])", "A-Za-z0-9_.-"),  # Google's access tokens
    _form("akia asia abia acca", rf"{_START}(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}"),  # may be letters only
    _form("signature=", r"(?i:signature=)()[0-9a-fA-F]{16}"),  # SigV4; the `"signature"` of thinking is another
    _form(  # in the query of an address
        "key= sig= signature= code= auth= pass= pwd= credential=",
        r"(?:[?&]|&amp;)(?i:key|sig|signature|code|auth|pass|pwd|x-(?:amz|goog)-(?:signature|credential))=()"
        r"(?=[^\s\"'<>&#\\()\[\]{},]{6})",
        r"^\s\"'<>&#\\()\[\]{},",
    ),
    _form("://", r"://[^\s/?#@:\"'<>]{0,256}+:()[^\s/?\"'<>]{1,512}(?=@)", ""),  # the password in an address
    _form("://", r"://()(?=[A-Za-z_-]{0,64}+[0-9])[A-Za-z0-9_-]{16,256}+(?=@)"),  # a token in the place of the user
    _form(
        "curl",
        r"(?<=[ \t])(?:-u|--user)(?:[ \t]{1,9}|=)[\"']?[^\s:\"']{1,99}+:()(?=[^\s\"'\[])",
        r"^\s\"'",
        behind="curl",
    ),
    _form("-p", r"(?<=[ \t])-p[ \t]{1,9}()(?=[^\s\"'\[])", r"^\s\"'", behind="login"),
    _form("identified by", r"(?i:identified by) [\"']()(?=[^\s\"'\[])", r"^\s\"'"),  # SQL
    _form("$apr1$ $1$ $5$ $6$ $y$ $2", r"\$(?:apr1|[156y]|2[abxy])\$()[A-Za-z0-9./$]{16}", "A-Za-z0-9./$"),  # of crypt
    _form("private-lines:", r"Private-Lines: [0-9]{1,4}+[\r\n]{1,2}()(?=[A-Za-z0-9+/])", r"A-Za-z0-9+/=\r\n"),  # PuTTY
)
_NEAR_CHARS: Final = 512


def by_form(text: str, windows: Sequence[set[str]]) -> list[Iterator[SecretSpan]]:
    """Return the secrets of each form, in order.

    Args:
        text: Of any length.
        windows: The words of all forms, and others, that start in each window of the text.
    """
    return [
        _of_form(form, text, windows) for form in FORMS if any(not words.isdisjoint(form.words) for words in windows)
    ]


def _of_form(form: Form, text: str, windows: Sequence[set[str]]) -> Iterator[SecretSpan]:
    head, tail = _compiled(form)
    done = 0
    for number, words in enumerate(windows):
        if words.isdisjoint(form.words):
            continue
        done = max(number * WINDOW_CHARS - _NEAR_CHARS, done)
        until = (number + 1) * WINDOW_CHARS + _NEAR_CHARS
        while (found := search(head, text, done, until)) is not None:
            done = found.end()
            start = found.start(head.groups)
            if not form.behind or text.rfind(form.behind, max(0, start - _NEAR_CHARS), start) >= 0:
                done = run_end(tail, text, done) if tail else done
                yield SecretSpan(start, done)


@cache  # when the first text needs it: all of them take 20 ms
def _compiled(form: Form) -> tuple[re.Pattern[str], re.Pattern[str] | None]:
    return re.compile(form.head), re.compile(f"[{form.tail}]*+") if form.tail else None
