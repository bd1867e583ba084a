"""Secrets masked, and what acts on a terminal removed: `eagerstream._support.redaction`."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from time import process_time
from typing import Any

import pytest
from hypothesis import assume, example, given, strategies as st

from eagerstream._support.redaction import is_secret_name, printable, redact, redact_headers, redact_text, secret_spans
from eagerstream._support.secrets import forms, windows, words
from eagerstream._support.secrets.pem import MAX_KEY_CHARS
from tests.fuzz.cost import executed_lines
from tests.fuzz.redaction import PIECES, check_text
from tests.tables import rows

_JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"

SECRETS = {
    "api key": "sk-ant-api03-Zx9_abc-DEF",
    "oauth": "sk-ant-oat01-Zx9_abc-DEF",
    "admin": "sk-ant-admin01-Zx9_abc-DEF",
    "cut off at its end": "sk-ant-api03-Z",
    "cut off in front": "api03-Zx9_abc-DEF0123456789",
    "jwt": _JWT,
    "google": "ya29.a0AfH6SMBx.y-z_1",
    "google key": "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
    "aws id": "AKIAIOSFODNN7EXAMPLE",
    "aws session": "ASIAIOSFODNN7EXAMPLE",
    "github": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "slack": "xoxb-123456789012-abcdefGHIJKL",
    "other": "sk-proj-abcdefghijkl",
}


@rows("secret", SECRETS.values())
@rows("around", ["{}", "the key {} is wrong", '{{"a":"{}"}}', "({}),", "a={};", "'{}'", "\n{}\n"])
def test_secrets_are_known_by_their_form(secret: str, around: str) -> None:
    """Wherever they stand, nothing of them stays, and everything around them does."""
    assert redact_text(around.format(secret)) == around.format("[redacted]")


@rows(
    "text, shown",
    [
        (f"Bearer {_JWT}", "Bearer [redacted]"),
        ("bearer ya29.a0.b-c ok", "bearer [redacted] ok"),
        ("'Bearer abc.def.ghi'", "'Bearer [redacted]'"),
        ("Basic dXNlcjpwYXNz", "Basic [redacted]"),
        ("Authorization: Bearer abc, and more\nnext", "Authorization: [redacted]\nnext"),
        ("curl -H 'Authorization: Basic abc' -d x", "curl -H 'Authorization: [redacted]' -d x"),
        ("x-api-key: hunter2", "x-api-key: [redacted]"),
        ("Cookie: a=1; b=2\r\nAccept: */*", "Cookie: [redacted]\r\nAccept: */*"),
        ("Set-Cookie: a=1; Path=/", "Set-Cookie: [redacted]"),
        ("aws_secret_access_key = wJalr/K7+x=", "aws_secret_access_key = [redacted]"),
        ("AWS_SESSION_TOKEN=abc x", "AWS_SESSION_TOKEN=[redacted] x"),
        ('"SecretAccessKey": "wJalr/K7", "x": 1', '"SecretAccessKey": "[redacted]", "x": 1'),
        (
            f"Credential=AKIAIOSFODNN7EXAMPLE/2026/us, SignedHeaders=a;b, Signature={'0a' * 32}",
            "Credential=[redacted], SignedHeaders=a;b, Signature=[redacted]",
        ),
        ("?X-Amz-Security-Token=abc&x=1", "?X-Amz-Security-Token=[redacted]&x=1"),
        ("https://me:hunter2@host/path", "https://me:[redacted]@host/path"),
        ("{'client_secret': 'a b'}", "{'client_secret': '[redacted]'}"),
        (r'{"password": "a\"b", "n": 1}', '{"password": "[redacted]", "n": 1}'),
        (r'"{\"password\": \"a\\\"b\", \"n\": 1}"', r'"{\"password\": \"[redacted]\", \"n\": 1}"'),
        (r'{"text": "password=\"open"}', r'{"text": "password=\"[redacted]"}'),
        ('{"password": "cut o', '{"password": "[redacted]'),
        ('"password": 1234}', '"password": [redacted]}'),
        ("[(b'x-api-key', b'abc'), (b'a', b'b')]", "[(b'x-api-key', b'[redacted]'), (b'a', b'b')]"),
        ("--api-key abc --model m", "--api-key [redacted] --model m"),
        ("os.environ['API_KEY'] = 'abc'", "os.environ['API_KEY'] = '[redacted]'"),
        ("API key: abc", "API key: [redacted]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END", "-----BEGIN RSA PRIVATE KEY-----[redacted]-----END"),
        ("https://h/x?key=0123456789ab&b=1", "https://h/x?key=[redacted]&b=1"),
        ("https://h/x?sv=2020&sig=abcDEF%2B1%3D&se=1", "https://h/x?sv=2020&sig=[redacted]&se=1"),
        ("https://h/cb?code=4/0AX4XfWjAB&state=1", "https://h/cb?code=[redacted]&state=1"),
        ("?X-Amz-Signature=deadbeef&x=1", "?X-Amz-Signature=[redacted]&x=1"),
        ("https://y/x?api%5Fkey=abc", "https://y/x?api%5Fkey=[redacted]"),
        ("postgres://u:p@ss:w0rd#1@db:5432/x", "postgres://u:[redacted]@db:5432/x"),
        ("https://token1234567890abcdef@host/x.git", "https://[redacted]@host/x.git"),
        ("curl -u me:hunter2 https://h", "curl -u me:[redacted] https://h"),
        ("DB_PASS=hunter2 MYSQL_PWD=a; Pwd=b;", "DB_PASS=[redacted] MYSQL_PWD=[redacted]; Pwd=[redacted];"),
        ("<password>hunter2</password>", "<password>[redacted]</password>"),
        ("password: >-\n  hunter2\n  and 3\nuser: x", "password: >-\n  [redacted]\nuser: x"),
        ('password = """hunter2"""', 'password = """[redacted]"""'),
        ("password\uff1ahunter2", "password\uff1a[redacted]"),
        ('[["x-api-key", "hunter2"], ["accept", "y"]]', '[["x-api-key", "[redacted]"], ["accept", "y"]]'),
        ('{"env": [{"value": "hunter2", "name": "API_KEY"}]}', '{"env": [{"value": "[redacted]", "name": "API_KEY"}]}'),
        ('{"credentials": {"user": "me", "pw": 1', '{"credentials": {"user": "[redacted]", "pw": [redacted]'),
        (r'{"pass\u0077ord": "hunter2"}', r'{"pass\u0077ord": "[redacted]"}'),
        (r'{"body": "{\"secrets\": [\"a\"]}"}', r'{"body": "{\"secrets\": [\"[redacted]\"]}"}'),
        (r'"\uD83Dx00AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abCd \u00e9"', r'"\uD83D[redacted] \u00e9"'),
        (r'"{\"password\": \"hunter2\"}"', r'"{\"password\": \"[redacted]\"}"'),
        ('{"okta": "00AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abCd"}', '{"okta": "[redacted]"}'),
    ],
)
def test_secrets_are_known_by_what_stands_before_them(text: str, shown: str) -> None:
    """A scheme, or the name of a field, in headers, JSON, JSON inside JSON, Python, shells and URLs."""
    assert redact_text(text) == shown


@rows(
    "text",
    [
        '{"max_tokens": 1024, "input_tokens": 5, "token_count": 3, "stop_token": "x", "next_page_token": "abc"}',
        "max_tokens=1024 tokens: 3",
        '{"type":"thinking","signature":"EqoBCkgIAR=="}',
        "Bearer tokens are used; basic usage, Basic authentication",
        "keys begin with sk-ant-",
        '"required": ["password", "email"], "password": null, "show_password": true',
        "def login(password: str, token: None = None)",
        "PWD=/home/me monkey: see OLDPWD=/home bypass=1",
        "https://host:8080/path?page=2&sort=key&code=404 a@b",
        "docker run -u 1000:1000 image; List<Token> tokens = new ArrayList<Token>();",
        '{"anyOf": [{"required": ["password", "email"]}], "name": "HOME", "value": "/", "pairs": [["a", "b"]]}',
        "LinkedIn, representation; adobe: photoshop",
        "npm_config_user_agent and hf_hub_download",
        '"id":"toolu_01A09q90qw90lq917835lq9","request_id":"req_011CSHoEeqs5C35K2UUqR7Fy"',
        "",
    ],
)
def test_innocent_texts_stay(text: str) -> None:
    """What only looks like a secret at the first glance is left alone."""
    assert redact_text(text) == text


_KEY_LINES = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "Y2hlY2sgdGhlIHdob2xlIGJsb2Nr", "QUJDREVG"]


@rows("kind", ["", "RSA ", "ENCRYPTED ", "OPENSSH ", "PGP "])
@rows("line", ["{}", "> {}", "# {}", "+{}", "   12\t{}", "    {}", '"{}\\n"', "{}\r", "{} \\", "DEK-Info: {}"])
@rows("is_cut", [False, True])
def test_a_private_key_ends_at_its_end_line(kind: str, line: str, is_cut: bool) -> None:
    """Whatever an editor, a diff, a quotation or a program puts before, behind and between its lines."""
    kind = f"{kind}PRIVATE KEY{' BLOCK' if kind == 'PGP ' else ''}"
    lines = [f"-----BEGIN {kind}-----", "Proc-Type: 4,ENCRYPTED", "", *_KEY_LINES]
    text = "before\n" + "\n".join(line.format(text) for text in lines)
    after = "" if is_cut else "\n" + line.format(f"-----END {kind}-----") + "\nafter"
    shown = redact_text(text + after)
    assert not any(text in shown for text in _KEY_LINES)
    assert shown.startswith("before\n")
    assert is_cut or shown.endswith("\nafter")
    assert redact_text(shown) == shown


def test_a_private_key_without_an_end_has_a_bound() -> None:
    """A text that only mentions the first line does not vanish as a whole."""
    text = "-----BEGIN PRIVATE KEY-----" + "A" * MAX_KEY_CHARS + " and more"
    assert redact_text(text) == "-----BEGIN PRIVATE KEY-----[redacted] and more"
    assert redact_text(redact_text(text)) == redact_text(text)


_OTHERS = ("basic ", "max_", "cookie", "authorization", ";", "/", "(", ".", "_", "-", "AKIA", "Signature=", "a", "A1")
_PIECES = st.sampled_from([*SECRETS.values(), *PIECES, *_OTHERS])
_TEXTS = st.lists(_PIECES | st.text(max_size=3), max_size=12).map("".join)


@given(_TEXTS)
@example("password=[redacted]x")
def test_what_masking_promises_of_any_text(text: str) -> None:
    """A text may come by more than one place that masks, and long ones are searched in windows."""
    check_text(text, b"")


@given(_TEXTS, st.sampled_from(sorted(SECRETS.values())), _TEXTS)
def test_nothing_around_a_secret_hides_it(before: str, secret: str, after: str) -> None:
    """Whatever a text has before and behind a key, the key does not stay."""
    assume(secret not in f"{before} {after}")  # there it may be stuck to a word, which is another one then
    assert secret not in redact_text(f"{before} {secret} {after}")


_LONG_SECRETS = [
    *SECRETS.values(),
    "password: hunter2",
    '"token": "a b"',
    "https://u:hunter2@h",
    "okta='00" + "aB3" * 14,
]
_LONG_SECRETS += [
    "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----",
    "curl -u me:hunter2 x",
    "?key=0123456",
]


@rows("secret", _LONG_SECRETS)
def test_windows_change_nothing(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long text is searched in windows. A secret is found wherever it stands in them, and so it is if it spans many."""
    text = "".join(f"{'x' * number} {secret} . " for number in range(40)) + secret * 3
    whole = list(secret_spans(text))
    with monkeypatch.context() as patched:
        for module in (windows, words, forms):
            patched.setattr(module, "WINDOW_CHARS", 36)
        assert list(secret_spans(text)) == whole


def test_no_step_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads run between two calls of `re`: each looks at one window, and not at the whole text."""
    seen: list[int] = []
    real = windows.AHEAD_CHARS

    class Counted(int):
        def __radd__(self, until: int) -> int:
            seen.append(until)
            return until + real

    monkeypatch.setattr(windows, "AHEAD_CHARS", Counted(real))
    text = "password: x The quick brown fox. " * 3_000
    assert len(list(secret_spans(text))) == 3_000
    assert len(seen) > len(text) / windows.WINDOW_CHARS
    steps = sorted(set(seen))
    assert all(late - early <= windows.WINDOW_CHARS for early, late in pairwise(steps))


@given(_TEXTS)
def test_spans_are_in_order(text: str) -> None:
    """Spans can be cut out one after the other."""
    at = -1
    for start, end, fill in secret_spans(text):
        assert at < start < end <= len(text)
        assert fill in ("*", "9")
        at = end


@pytest.mark.slow
@rows(
    "piece",
    [
        *("sk-ant-", "eyJaaaaaaa.", "://a:", "Bearer ", "Basic a", "--", "'('", "-----BEGIN PRIVATE KEY-----", "AKIA"),
        *("a=", "password=", 'password="', 'password=\\"', "authorization: ", "--api-key ", "api ", "secret", "a:\n"),
        *(
            "\\",
            '\\"',
            "\\'",
            " ",
            "x",
            "[redacted]",
            "'x', ",
            "signature=",
            "A" * 19,
            "github_pat_",
            "okta",
            "sk",
            "s.",
        ),
        *(
            "-----BEGIN PRIVATE KEY-----A",
            "-----BEGIN PRIVATE KEY-----A-----END PRIVATE KEY-----",
            "curl -u a:b ",
            "<password>",
        ),
        *("[", '{"a":', '{"name":"API_KEY","value":{', '{"value":{"a":"bcdefgh","name":"API_KEY"},', '[["token","x"],'),
        *('"', "\\u0041", "?key=", "password: |\n a\n", 'password = """', "okta=" + "'" * 5, "://a:" + "x" * 500),
    ],
)
@rows("start", ["", 'password="', '{"a":"'])
def test_time_is_linear(start: str, piece: str) -> None:
    """A text made to be slow is not: four times the length takes about four times as long, and not sixteen times."""

    def seconds(chars: int) -> float:
        text = start + piece * (chars // len(piece))
        begin_s = process_time()
        redact_text(text)
        return process_time() - begin_s

    # Tried again, because a machine with other work may take five times as long for a moment.
    assert any(seconds(60_000) < 8 * seconds(15_000) + 0.1 for _ in range(4))


@rows("name", ["x-api-key", "ApiKey", "DB_PASSWORD", "client secret", "accessToken", "set-cookie", "db_pwd"])
def test_secret_names(name: str) -> None:
    """However a name is written."""
    assert is_secret_name(name)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["password", "text", "n"]) | st.integers() | st.binary(max_size=3), inner, max_size=3
        )
    ),
    max_leaves=10,
)


@given(_VALUES)
def test_redact_copies(value: Any) -> None:
    """The argument stays as it is, whatever its keys are, and masking twice is masking once."""
    before = repr(value)
    redacted = redact(value)
    assert repr(value) == before
    assert redact(redacted) == redacted
    if isinstance(value, dict | list):
        assert redacted is not value


def test_redact_by_name_and_by_form() -> None:
    """Fields are known by their names however they are written, texts by what is in them; the rest stays."""
    value = {
        "X-API-Key": "abc",
        "Api_Key": ["a", {"b": "c", "d": None, "e": True}],
        "max_tokens": 1024,
        "note": "Bearer a.b.c",
        "headers": [("Authorization", "x"), ("accept", "y")],
        "env": [{"name": "DB_PASSWORD", "value": "x"}, {"name": "HOME", "value": "/"}],
        "args": ["run", "--password", "x", "--token", "--max-tokens", "5", "-v"],
        "pairs": [["x-api-key", "x"], ["accept", "y"]],
        "body": '{"credentials": {"pw": "x"}}',
        "data": b"sk-ant-abc",
        "pin": {"password": 1234},
        1: "sk-ant-abc",
        "sk-ant-a": 1,
        "sk-ant-b": 2,
    }
    assert redact(value) == {
        "X-API-Key": "[redacted]",
        "Api_Key": ["[redacted]", {"b": "[redacted]", "d": None, "e": True}],
        "max_tokens": 1024,
        "note": "Bearer [redacted]",
        "headers": [["Authorization", "[redacted]"], ["accept", "y"]],
        "env": [{"name": "DB_PASSWORD", "value": "[redacted]"}, {"name": "HOME", "value": "/"}],
        "args": ["run", "--password", "[redacted]", "--token", "--max-tokens", "5", "-v"],
        "pairs": [["x-api-key", "[redacted]"], ["accept", "y"]],
        "body": '{"credentials": {"pw": "[redacted]"}}',
        "data": b"[redacted]",
        "pin": {"password": "[redacted]"},
        1: "[redacted]",
        "[redacted]": 1,
        "[redacted] 2": 2,
    }


def test_thousands_of_keys_that_become_the_same() -> None:
    """Each has a number of its own. To try all numbers from 1 on for each key would take quadratic time."""

    def lines(count: int) -> int:
        return executed_lines(lambda: redact({f"sk-ant-api03-{number:08}": number for number in range(count)}))

    masked = redact({f"sk-ant-api03-{number:08}": number for number in range(600)})
    assert list(masked.values()) == list(range(600))
    assert list(masked)[:2] + list(masked)[-1:] == ["[redacted]", "[redacted] 2", "[redacted] 600"]
    assert lines(600) < 5 * lines(150)  # 7 times as many if all numbers were tried


def test_redact_has_a_bound() -> None:
    """Neither a deep value nor one that contains itself ends in a recursion, or never."""
    deep: Any = "sk-ant-abc"
    for _ in range(100_000):
        deep = [deep]
    redacted = repr(redact(deep))
    assert "too deep" in redacted
    assert "sk-ant" not in redacted
    itself: list[Any] = ["sk-ant-abc"]
    itself += [itself, itself]
    copied = redact(itself)
    assert copied[0] == "[redacted]"
    assert copied[1] is copied[2] is copied


def test_headers() -> None:
    """Credentials and the ids of who sent them go; what is needed to ask about a request stays."""
    headers = {
        "X-Api-Key": "abc",
        "Proxy-Authorization": "Basic abc",
        "set-cookie": "a=b",
        "anthropic-organization-id": "org",
        "location": "https://h/?token=abc",
        "request-id": "req_1",
        "anthropic-version": "2023-06-01",
    }
    assert redact_headers(headers) == {
        "X-Api-Key": "[redacted]",
        "Proxy-Authorization": "[redacted]",
        "set-cookie": "[redacted]",
        "anthropic-organization-id": "[redacted]",
        "location": "https://h/?token=[redacted]",
        "request-id": "req_1",
        "anthropic-version": "2023-06-01",
    }


# --- terminals ----------------------------------------------------------------------------------------------------------


@rows(
    "text, shown",
    [
        ("Lisboa, 東京,\t😀\n👩‍👩‍👧 می‌خواهم", "Lisboa, 東京,\t😀\n👩‍👩‍👧 می‌خواهم"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]52;c;aGVsbG8=\x1b\\x", "x"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r0m\x1b\\x\x1b_a\x9cy", "xy"),
        ("\x9b2Jx\x9d0;t\x9cy", "xy"),
        ("\x1bcx\x1b(0y", "xy"),
        ("\x1b\x1b[31m[32m", "[32m"),
        ("\x1b]0;never ends", "0;never ends"),
        ("a\r\nb\rc\x00\x08\x7f", "a\nbc"),
        ("user\u202etxt.exe\u2066\u2069", "usertxt.exe"),
        ("a\u200bb\ufeffc\U000e0041", "abc"),
        ("\ud800x\ud83d\ude00", "\ufffdx😀"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    """Whole sequences go, and other control characters; ordinary text of any script stays."""
    assert printable(text) == shown


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@given(
    st.lists(st.text() | st.sampled_from(["\x1b", "\x1b[", "\x1b]", "\x9b", "\x07", "\x1b\\", ";", "m"])).map("".join)
)
def test_nothing_that_acts_is_left(text: str) -> None:
    """Whatever sequences are cut, or put into one another."""
    shown = printable(text)
    assert not _CONTROL.search(shown)
    assert printable(shown) == shown
    json.dumps(shown, ensure_ascii=False).encode()


@rows("piece", ["\x1b", "\x1b]", "\x1b[", "\x1bP", "\x9d", "\x1b]0;a", "\x1b[1;", "\x1b[ ", "\x1b   "])
def test_printing_takes_linear_time(piece: str) -> None:
    """As for masking."""
    begin_s = process_time()
    printable(piece * 50_000)
    assert process_time() - begin_s < 2  # quadratic, it would be half a minute
