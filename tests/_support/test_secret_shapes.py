"""The keys of 118 services and tools, made by chance: none stays. And what the API really sends: it stays."""

from __future__ import annotations

import base64
import json
import re
import string
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import pytest

from eagerstream._support.redaction import redact, redact_text
from eagerstream._support.secrets import finding_also
from tests.streams import needs_recordings, real_recordings
from tests.tables import rows

_LETTERS: Final = string.ascii_letters + string.digits
_ALPHABETS: Final = {
    "A": _LETTERS,
    "h": "0123456789abcdef",
    "l": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + string.digits,
    "d": string.digits,
    "B": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
    "b": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
}
_CHANCE: Final = re.compile(r"<([A-Za-z])([0-9]+)>")

SHAPES: Final = {
    "anthropic oat": "sk-ant-oat01-<A80>",
    "anthropic admin": "sk-ant-admin01-<A80>",
    "openai proj": "sk-proj-<A74>T3BlbkFJ<A74>",
    "openai svcacct": "sk-svcacct-<A60>",
    "openai admin": "sk-admin-<A60>",
    "openrouter": "sk-or-v1-<h64>",
    "gemini": "AIzaSy<A33>",
    "gemini new AQ.": "AQ.<A50>",
    "groq": "gsk_<A52>",
    "xai": "xai-<A80>",
    "perplexity": "pplx-<A48>",
    "hf": "hf_<A34>",
    "replicate": "r8_<A37>",
    "nvidia": "nvapi-<A64>",
    "tavily": "tvly-<A32>",
    "tavily dev": "tvly-dev-<A32>",
    "firecrawl": "fc-<h32>",
    "langfuse": "sk-lf-<h8>-<h4>-<h4>-<h4>-<h12>",
    "langsmith": "lsv2_pt_<h32>_<h10>",
    "pinecone": "pcsk_<A6>_<A60>",
    "supabase secret": "sb_secret_<A22>_<A8>",
    "supabase pat": "sbp_<h40>",
    "github fine": "github_pat_<A22>_<A59>",
    "ghs": "ghs_<A36>",
    "gitlab routable": "glpat-<A27>.01.<A9>",
    "npm": "npm_<A36>",
    "docker pat": "dckr_pat_<A27>",
    "atlassian": "ATATT3xFfGF0<A180>",
    "figma": "figd_<A40>",
    "notion ntn": "ntn_<A46>",
    "slack xapp": "xapp-1-A<U10>-<d13>-<h64>",
    "slack xoxe": "xoxe.xoxp-1-<A140>",
    "aws akia": "AKIA<B16>",
    "aws session": "IQoJb3JpZ2luX2Vj<A300>",
    "bedrock ABSK": "ABSKQmVkcm9ja0FQSUtleS<A110>=",
    "azure storage": "AccountKey=<x64>",
    "azure sas": "https://x.blob.core.windows.net/c?sv=2022&sig=<A43>%3D",
    "aad secret": "<A3>8Q~<A34>",
    "google oauth": "ya29.<A120>",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.<A40>.<A43>",
    "sentry": "sntrys_eyJ<A100>_<A43>",
    "posthog": "phx_<A43>",
    "stripe": "sk_live_<A40>",
    "stripe rk": "rk_live_<A40>",
    "1password": "ops_eyJ<A250>",
    "age": "AGE-SECRET-KEY-1<b58>",
    "tailscale": "tskey-auth-<A12>CNTRL-<A32>",
    "doppler": "dp.pt.<A43>",
    "pulumi": "pul-<h40>",
    "fly": "FlyV1 fm2_<A200>",
    "heroku": "HRKU-AA<A58>",
    "netlify": "nfp_<A36>",
    "circleci": "CCIPAT_<A22>_<h40>",
    "terraform": "<A14>.atlasv1.<A67>",
    "grafana": "glsa_<A32>_<h8>",
    "newrelic": "NRAK-<U27>",
    "airtable": "pat<A14>.<h64>",
    "hubspot": "pat-na1-<h8>-<h4>-<h4>-<h4>-<h12>",
    "mapbox": "sk.eyJ<A60>.<A22>",
    "together": "tgp_v1_<A43>",
    "fireworks": "fw_<A24>",
    "e2b": "e2b_<h40>",
    "modal": "as-<A22>",
    "deepseek": "sk-<h32>",
    "cerebras": "csk-<l48>",
    "jina": "jina_<A60>",
    "apify": "apify_api_<A36>",
    "browserbase": "bb_live_<A27>",
    "daytona": "dtn_<h64>",
    "resend": "re_<A8>_<A24>",
    "mailgun": "key-<h32>",
    "planetscale": "pscale_tkn_<A43>",
    "neon": "napi_<l64>",
    "render": "rnd_<A28>",
    "elevenlabs": "sk_<h48>",
    "voyage": "pa-<A43>",
    "rubygems": "rubygems_<h48>",
    "honeycomb": "hcaik_<l58>",
    "cursor": "key_<h64>",
    "linear oauth": "lin_oauth_<h64>",
    "vercel new": "vcp_<A56>",
    "cloudflare new": "cfut_<A40>",
    "clickhouse": "4b1d<A38>",
    "discord bot": "M<A25>.<A6>.<A38>",
    "presigned s3": "https://b.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=<h64>",
    "teams webhook": "https://x.webhook.office.com/webhookb2/<A36>@<A36>/IncomingWebhook/<h32>/<A36>",
    "npmrc": "//registry.npmjs.org/:_authToken=<A36>",
    "wireguard": "PrivateKey = <x32>",
    "putty": "Private-Lines: 1\n<A64>",
    "shadow": "root:$6$<A16>$<A86>:19000:0:99999:7:::",
    "magic link": "https://x.com/login?token=<A40>",
    "cookie hdr": "Cookie: session=<A40>",
    "basic url": "https://me:<A16>@host/x",
    "MCP bearer": '"Authorization": "Bearer <A40>"',
    "env export": "export FOO_API_KEY=<A30>",
    "json camel": '{"apiKey":"<A30>"}',
    "json clientSecret": '{"clientSecret":"<A30>"}',
    "query key": "https://x/?key=<A30>",
    "x-goog": "x-goog-api-key: <A39>",
    "oauth code": "https://x/cb?code=<A40>&state=1",
    "refresh": "refresh_token=<A40>",
    "id_token": "id_token=<A40>",
    "pgpassword": "PGPASSWORD=<A16> psql",
    "docker -p": "docker login -u me -p <A20>",
    "curl -u": "curl -u me:<A16> x",
    "kubectl token": "kubectl --token <A40>",
    "gh auth": "echo gho_<A36> | gh auth",
    "ansible": "ansible_password: <A16>",
    "ini spaced": "secret key = <A20>",
    "conn str": "mongodb+srv://u:<A16>@c.net/x",
    "redis url": "redis://:<A16>@h:6379",
    "amqp": "amqp://u:<A12>@h",
    "jdbc": "jdbc:postgresql://h/d?user=u&password=<A16>",
    "snowflake": "--private-key-passphrase <A16>",
    "telegram": "123456789:AA<A33>",
    "slack hook": "https://hooks.slack.com/services/T<A8>/B<A8>/<A24>",
    "discord hook": "https://discord.com/api/webhooks/123456789012345678/<A68>",
    "zapier": "https://hooks.zapier.com/hooks/catch/123/<A7>",
}
"""The form of each key: `<h32>` are 32 characters by chance, of the alphabet `h`; `<x32>` are 32 bytes in Base64."""


def made(shape: str, random: Random) -> str:
    """A key of a form."""

    def chosen(found: re.Match[str]) -> str:
        kind, count = found[1], int(found[2])
        if kind == "x":
            return base64.b64encode(random.randbytes(count)).decode()
        return "".join(random.choice(_ALPHABETS[kind]) for _ in range(count))

    return _CHANCE.sub(chosen, shape)


def secret_of(text: str) -> str:
    """The longest word of a key, which must not stay."""
    words: list[str] = re.findall(r"[A-Za-z0-9+/%]{7,}", text)
    return max(words, key=len)


@rows("seed", range(4))
@rows("name, shape", SHAPES.items())
def test_no_key_stays(name: str, shape: str, seed: int) -> None:
    """Alone, in prose, in JSON, and as a value."""
    text = made(shape, Random(f"{name} {seed}"))
    secret = secret_of(text)
    for said in (text, f"the value {text} was used", json.dumps({"note": text})):
        assert secret not in redact_text(said)
    assert secret not in json.dumps(redact({"note": text}))


def test_keys_in_places_that_look_harmless() -> None:
    """Behind a name for hashes, at the end of a long word, after a sign of a path."""
    random = Random(7)
    for shape in ("hash: <A40>", "tree <A40>", "etag=<A40>", "a session_<A40>", "/<A40>", "data: <A60>"):
        for _ in range(50):
            text = made(shape, random)
            assert secret_of(text) not in redact_text(text), text
    long = ".".join(["words"] * 150) + "." + made("<A40>", random)
    assert redact_text(long) == "[redacted]"


def strings_of(value: Any) -> Iterator[str]:
    """All texts of a value."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from strings_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings_of(inner)
    elif isinstance(value, str) and value:
        yield value


@pytest.mark.slow
@needs_recordings
def test_what_is_sent_stays() -> None:
    """Of the texts in real streams, which have no secrets, at most one in a hundred is changed."""
    changed: list[str] = []
    count = 0
    for path in real_recordings():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("data:"):
                try:
                    event = json.loads(line[5:])
                except ValueError:
                    continue
                before, after = [*strings_of(event)], [*strings_of(redact(event))]
                count += len(before)
                changed += [text for text, masked in zip(before, after, strict=True) if text != masked]
    assert len(changed) <= count / 100, changed[:20]


@rows(
    "text",
    [
        "claude-sonnet-4-5-20250929 and eu.anthropic.claude-opus-4-7-20260101-v1:0 are models",
        "see /usr/lib/python3.11/site-packages/x2b9f8e7d6c5b4a39/y.py and ./build/a1b2c3d4e5f6a7b8c9d0.js",
        "https://docs.example.com/d/1A2b3C4d5E6f7G8h9I0jKlMnOpQrStUv/edit?page=2#section-12",
        "id 123e4567-e89b-12d3-a456-426614174000, at 2026-11-28T22:13:31.123456Z, 20261128T221331Z",
        "sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        'commit 83f21f21f21f21f21f21f21f21f21f21f21f21f2, "etag": "33a64df551425fcc55e4d42a148795d9f25f89d4"',
        "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
        "document.getElementById, internationalization, SQLAlchemyConnectionPool, test_a_name_of_many_words",
        "1234567890123456789012345678901234567890 +49.30.1234567.8901234 3.14159265358979323846",
        "1e" + "0" * 600 + " " + "7" * 2_000 + " -1.5E+" + "0" * 30,
        '{"signature": "EqoBCkgIARABGAIiQL8abcDEF123+/xyzABC456defGHI789jklMNO012pqrSTU345vwx=="}',
        '{"encrypted_content": "EqoBCkgIARABGAIiQL8abcDEF123+/xyzABC456defGHI789jklMNO012pqrSTU345vwx=="}',
        '{"source": {"type": "base64", "data": "' + base64.b64encode(bytes(range(256))).decode() + '"}}',
        "msg_01P7nF1bmxyzFZjF8zwbUDBM toolu_bdrk_017QoD96fYwGzCWvLfaPADWg req_011CSHoEeqs5C35K2UUqR7Fy",
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        '{"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "span_id": "00f067aa0ba902b7"}',
        "20260301-report-final-version-2b.pdf IMG_20240301_123456.jpg utf8mb4_unicode_520_ci",
    ],
)
def test_what_is_known_to_be_harmless(text: str) -> None:
    """Words, numbers, paths, hashes, ids, and what the API has signed."""
    assert redact_text(text) == text
    if text.startswith("{"):
        assert redact(json.loads(text)) == json.loads(text)


def test_a_hook_of_the_user() -> None:
    """It finds more. If it fails, or finds nonsense, nothing of the text may be seen."""
    text = "the customer 4711 said hello"
    with finding_also(lambda text: [found.span() for found in re.finditer("[0-9]{4}", text)]):
        assert redact_text(text) == "the customer [redacted] said hello"
        assert redact({"a": {"b": text}}) == {"a": {"b": "the customer [redacted] said hello"}}
    with finding_also(lambda _: [(-5, 3), (25, 99), (9, 9), (8, 2)]):
        assert redact_text(text, keep_length=True) == "***" + text[3:25] + "***"

    def fails(_: str) -> Any:
        raise ValueError

    for wrong in (fails, lambda _: None, lambda _: [1], lambda _: [("a", "b")]):
        with finding_also(wrong):  # type: ignore[arg-type]
            assert redact_text(text) == "[redacted]"
    assert redact_text(text) == text
