"""Redaction: secrets that are planted in any text are gone, and everything that masking promises besides holds.

The first byte chooses what is masked: a text, a value, an input of a tool, or the body of a response.
"""

from __future__ import annotations

import json
from typing import Any, Final

from eagerstream._support.redaction import redact, redact_excerpt, redact_text, secret_spans
from eagerstream._support.secrets import forms, windows, words
from eagerstream.recordings import Recording
from eagerstream.recordings._redacted_body import redacted_body
from eagerstream_testing import reply, tool_use

from .choices import Choices
from .cost import executed_lines, is_sampled
from .json_text import json_text

SECRET: Final = "Zx9yHunter2Secret4Qw7TestOnly123"
"""Letters that no grammar here makes."""
_PLANTED: Final = (
    f"sk-ant-api03-{SECRET}",
    f"ghp_{SECRET}abcd",
    f"password={SECRET}",
    f"https://u:{SECRET}@host/",
    f"https://host/?sig={SECRET}&x=1",
    f"Authorization: Bearer {SECRET}",
    f"-----BEGIN RSA PRIVATE KEY-----\n> {SECRET}\n-----END RSA PRIVATE KEY-----",
)
_PLACES: Final = ("password", "API_KEY", "x-api-key", "credentials")
PIECES: Final = (
    *(
        "password",
        "token=",
        "api key: ",
        "x-api-key",
        "--token ",
        "okta",
        "curl -u ",
        "Bearer ",
        "sk-ant-",
        "eyJ",
        "://",
    ),
    *(
        "=",
        ": ",
        ":",
        '"',
        "'",
        "\\",
        '\\"',
        "\n",
        "\r",
        " ",
        ",",
        "@",
        "{",
        "}",
        "[",
        "]",
        '{"',
        '":"',
        "?key=",
        "<a>",
    ),
    *(
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----",
        "[redacted]",
        "*",
        "9",
        "\0",
        "é",
        "İ",
        "\ud800",
        "😀",
    ),
)
_WINDOW: Final = 8  # characters, in place of tens of thousands
_LINES_PER_CHAR: Final = 400


def check(data: bytes) -> None:
    """Mask a text, with or without a planted secret, in one of four ways."""
    choices = Choices(data)
    kind = choices.below(5)
    match kind:
        case 0:
            check_text(choices.rest().decode("utf-8", "surrogateescape"), data)
        case 1:
            _check_planted(_text(choices), choices.pick(_PLANTED), _text(choices))
        case 2:
            _check_structure(choices)
        case 3:
            _check_body(choices.rest())
        case _:
            check_text(json_text(choices), data)


def _text(choices: Choices) -> str:
    return "".join(choices.pick(PIECES) for _ in range(choices.below(12)))


def check_text(text: str, data: bytes) -> None:
    """Masking twice is masking once, the length is kept on request, and windows change nothing."""
    once = redact_text(text)
    assert redact_text(once) == once
    kept = redact_text(text, keep_length=True)
    assert len(kept) == len(text)
    assert redact_text(kept, keep_length=True) == kept
    assert len(redact_excerpt(text, 20)) <= 20 + 60
    whole = list(secret_spans(text))
    assert whole == _in_windows(text)
    if _is_json(text):
        assert _is_json(kept)
    if is_sampled(data, 50):
        lines = executed_lines(lambda: list(secret_spans(text)))
        assert lines <= _LINES_PER_CHAR * len(text) + 20_000, f"{lines} lines for {len(text)} characters"


def _in_windows(text: str) -> list[Any]:
    modules = (windows, words, forms)
    wide = windows.WINDOW_CHARS
    try:
        for module in modules:
            module.WINDOW_CHARS = _WINDOW  # type: ignore[attr-defined]
        return list(secret_spans(text))
    finally:
        for module in modules:
            module.WINDOW_CHARS = wide  # type: ignore[attr-defined]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _check_planted(before: str, secret: str, after: str) -> None:
    """Whatever stands around it, in lines of its own."""
    text = f"{before}\n\n{secret}\n\n{after}"
    assert SECRET not in redact_text(text)
    assert SECRET not in json.dumps(redact({"a": [text]}))


def _check_structure(choices: Choices) -> None:
    """A value that is secret by its place: `redact`, a saved run and a saved recording agree."""
    from eagerstream_progress._saved import redacted  # tests of the core alone use the rest of this module

    name = choices.pick(_PLACES)
    inner: Any = choices.pick((SECRET, [SECRET], {"a": {"b": SECRET}}))
    value: Any = choices.pick(
        ({name: inner}, {"name": name, "value": inner}, {"value": inner, "key": name}, {"h": [[name, SECRET]]})
    )
    for _ in range(choices.below(4)):
        value = {"a": json.dumps(value)} if choices.below(2) else {"b": [value, _text(choices)]}
    assert SECRET not in json.dumps(redact(value))
    written = (
        json.dumps(value, ensure_ascii=bool(choices.below(2)))
        .encode("utf-8", "surrogatepass")
        .decode("utf-8", "replace")
    )
    size = choices.pick((1, 2, 5, 1000))
    records: list[Any] = [
        {"type": "input_delta", "block": 0, "fragment": written[at : at + size]} for at in range(0, len(written), size)
    ]
    masked: list[Any] = [*redacted(records)]
    saved = "".join(record["fragment"] for record in masked)
    assert SECRET not in saved
    json.loads(saved)
    body = redacted_body(reply(tool_use("f", written, fragment_chars=size)).body)
    assert SECRET.encode() not in body
    _check_body(body)


def _check_body(body: bytes) -> None:
    """As long as it was, and masked once."""
    masked = redacted_body(body)
    assert len(masked) == len(body)
    assert redacted_body(masked) == masked
    assert masked.count(b"\n") == body.count(b"\n") or body[:1] in b"{["
    assert len(Recording.from_body(body).redacted().body) == len(body)
