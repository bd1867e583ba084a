"""Write the rules for secrets anew: `python -m tests.secret_rules SOURCE VERSION`, or `make secret-rules`.

SOURCE is the `gitleaks.toml` of a release of gitleaks, or any file that contains it: its program, or a wheel with that
program. The rules were written for Go's regular expressions, which take linear time. Here they are translated for
Python's, and made fit for texts instead of files:

- The part in front of a rule's own words, which only shows the surroundings, is dropped.
- A secret may be followed by any character that is not of a word, not by some only.
- Every repetition has an upper bound. So each rule looks at a bounded number of characters.
- Allow-lists are dropped. They are about files, and about examples; what is in doubt is masked.
"""

from __future__ import annotations

import io
import json
import re
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any, Final

TARGET: Final = Path(__file__).parents[1] / "src/eagerstream/_support/secrets/rules.json"
_MOST_REPEATED: Final = 1_000

LEFT_OUT: Final = {
    **dict.fromkeys(("anthropic-api-key", "anthropic-admin-api-key"), "forms.py knows keys of any length"),
    **dict.fromkeys(("curl-auth-header", "curl-auth-user"), "forms.py has them in linear time"),
    **dict.fromkeys(("freemius-secret-key", "kubernetes-secret-yaml", "nuget-config-password", "pkcs12-file"), "for some files"),
    **dict.fromkeys(("generic-api-key", "hashicorp-tf-password"), "names.py knows the names of fields"),
    "jwt": "forms.py knows those that are cut off",
    "private-key": "pem.py ends at the right line",
}  # fmt: skip
"""Rules that are not taken, and why."""

_WHOLE_MATCH: Final = ("jwt-base64", "microsoft-teams-webhook")  # their groups hold a part of the secret

_SURROUNDINGS: Final = (r"(?i)[\w.-]{0,50}?", r"[\w.-]{0,50}?(?i:[\w.-]{0,50}?")
_ENDINGS: Final = re.compile(r"""\(\?:\[\\x60'"\\s;\]\|\\\\\[nr\]\|\$(?:\|\\b)?\)""")
_END: Final = "(?![A-Za-z0-9_])"
_REPETITION: Final = re.compile(r"\{(\d+),\}|[*+]")

_LICENSE: Final = """MIT License

Copyright (c) 2019 Zachary Rice

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated \
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the \
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit \
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the \
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE \
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR \
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR \
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."""


def main() -> int:
    """See the module."""
    source, version = sys.argv[1:]
    config = tomllib.loads(_config(Path(source).read_bytes()))
    rules = [translated(rule) for rule in config["rules"] if rule["id"] not in LEFT_OUT]
    head = {
        "source": f"the default rules of gitleaks {version}, translated by tests/secret_rules.py",
        "license": _LICENSE,
    }
    written = ",\n".join(f"  {json.dumps(rule)}" for rule in rules)
    TARGET.write_text(json.dumps(head, indent=1)[:-2] + f',\n "rules": [\n{written}\n ]\n}}\n', encoding="ascii")
    sys.stdout.write(f"{len(rules)} rules\n")
    return 0


def _config(content: bytes) -> str:
    """The text of `gitleaks.toml` inside a file."""
    if zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as wheel:
            content = max((wheel.read(name) for name in wheel.namelist()), key=len)
    start = content.index(b'title = "gitleaks config"')
    text = content[start : start + 1_000_000].decode(errors="replace")
    strange = re.search(r"[^\t\n\x20-\x7e]", text)  # the program goes on
    text = text[: strange.start()] if strange else text
    return text[: text.rindex("\n") + 1]


def translated(rule: dict[str, Any]) -> dict[str, Any]:
    """A rule as it is written here: its id, its words in small letters, and its expression for Python.

    Raises:
        ValueError: It has something that this program cannot translate.
    """
    regex = rule["regex"]
    for surroundings in _SURROUNDINGS:
        if regex.startswith(surroundings):
            regex = {0: "(?i)", 1: "(?i:"}[_SURROUNDINGS.index(surroundings)] + regex.removeprefix(surroundings)
    regex = _ENDINGS.sub(lambda _: _END, regex)
    regex = regex.replace("[[:alnum:]]", "[A-Za-z0-9]").replace(r"\z", r"\Z").replace("$", r"\Z")
    if rule["id"] in _WHOLE_MATCH:
        regex = re.sub(r"\((?:\?P<\w+>|(?!\?))", "(?:", regex)
    regex = _bounded(_scoped(regex))
    re.compile(regex, re.ASCII)
    made = {"id": rule["id"], "words": sorted({word.lower() for word in rule["keywords"]}), "regex": regex}
    known = {name: rule[key] for name, key in (("group", "secretGroup"), ("entropy", "entropy")) if key in rule}
    return made | known


def _scoped(regex: str) -> str:
    """`(?i)` holds to the end of its group in Go; Python knows that as `(?i:...)`, which is closed there."""
    made: list[str] = []
    scopes = [0]  # how many end with each open group
    inside: list[bool] = [False]  # of each open group: a scope begins behind the first token
    for token in re.findall(r"\\.|\[(?:\\.|[^\]\\])+\]|\(\?i\)|\((?:\?(?:P<\w+>|[a-z-]*:))?|.", regex, re.DOTALL):
        if token == "(?i)":
            scopes[-1] += 1
            inside[-1] |= bool(made) and not made[-1].startswith("(")
            token = "(?i:"
        elif token[0] == "(":
            scopes.append(0)
            inside.append(False)
        elif token == ")":
            inside.pop()
            made.append(")" * scopes.pop())
        elif token == "|" and inside[-1]:
            raise ValueError(f"an alternative behind (?i) in the same group: {regex}")
        made.append(token)
    return "".join(made) + ")" * scopes.pop()


def _bounded(regex: str) -> str:
    """Every repetition without an upper bound gets one."""

    def bound(token: re.Match[str]) -> str:
        if token[0] in "*+":
            return f"{{{int(token[0] == '+')},{_MOST_REPEATED}}}"
        return f"{{{token[1]},{_MOST_REPEATED}}}" if token[1] else token[0]

    return re.sub(r"\\.|\[(?:\\.|[^\]\\])+\]|\{(\d+),\}|[*+]|.", bound, regex)


if __name__ == "__main__":
    sys.exit(main())
