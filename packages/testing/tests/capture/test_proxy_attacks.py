"""A `RecordingProxy` among strangers: pages, other users' programs, and upstreams that mean harm. On real sockets."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import httpx
import pytest
from packages.testing.tests.capture.proxies import HI, JSON, TIMEOUT_S, Wire, exchange, load, post, wire
from tests.tables import rows

from eagerstream.errors import UsageError
from eagerstream_testing.capture import RecordingFolder, RecordingProxy
from eagerstream_testing.capture._admission import MAX_HEAD_BYTES

PASSWORD = "hun ter2"
BASIC = b"authorization: basic bwu6ahvuihrlcji="
KEY = "sk-ant-api03-Zx9_abc-DEF"


def with_password(upstream: Wire) -> str:
    return upstream.url.replace("//", "//me:hun%20ter2@") + "/base"


def path_of(proxy: RecordingProxy) -> bytes:
    """What stands before the paths of clients."""
    return httpx.URL(proxy.base_url).raw_path.rstrip(b"/")


def refused(answer: bytes, status: int) -> str:
    """The message of a refusal in the shape of the API's."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), head
    said = json.loads(body)
    assert said["type"] == "error"
    return str(said["error"]["message"])


# --- pages and names ----------------------------------------------------------------------------------------------------

# tests/_support/serving/test_every_server.py has what all servers refuse.


def test_strangers_are_not_passed_on(tmp_path: Path) -> None:
    """Nothing of what is refused reaches the upstream, or a recording. The refusal is an error as the API's."""
    with wire(HI) as upstream, RecordingProxy(upstream.url, tmp_path, origins=["https://app.example"]) as proxy:
        answer = exchange(proxy, post(b"/v1/messages").replace(b"Host: proxy", b"Host: evil.example:%d" % proxy.port))
        assert "not known as evil.example" in refused(answer, 421)
        for method in (b"POST", b"GET", b"OPTIONS"):
            asked = post(b"/v1/messages", b"Origin: https://evil.example").replace(b"POST", method, 1)
            assert "other origins" in refused(exchange(proxy, asked), 403), method
        assert upstream.received == []
    assert load(tmp_path) == []


def test_a_body_that_any_page_may_send(tmp_path: Path) -> None:
    """A browser asks nobody for consent to these; clients of the API say that theirs are JSON."""
    with wire(HI) as upstream, RecordingProxy(upstream.url, tmp_path) as proxy:
        for kind in [
            b"Content-Type: text/plain",
            b"Content-Type: application/x-www-form-urlencoded",
            b"Content-Type: application/jsonp",
            b"Content-Type: text/plain; application/json",
            b"Content-Type: text/plain\r\nContent-Type: application/json",
            b"X-Nothing: 1",
        ]:
            answer = exchange(proxy, post(b"/v1/messages").replace(JSON, kind))
            chunked = post(b"/v1/messages", body=b"0\r\n\r\n").replace(JSON, kind)
            chunked = chunked.replace(b"Content-Length: 5", b"Transfer-Encoding: chunked")
            assert exchange(proxy, chunked).startswith(b"HTTP/1.1 415"), kind
            assert "application/json" in refused(answer, 415), kind
            assert upstream.received == [], kind


def test_bodies_of_clients(tmp_path: Path) -> None:
    """JSON with a charset, files, and none at all."""
    with wire(*[HI] * 3) as upstream, RecordingProxy(upstream.url, tmp_path) as proxy:
        assert exchange(proxy, post(b"/v1/messages").replace(JSON, JSON + b"; charset=utf-8")).endswith(b"hi")
        files = b"Content-Type: multipart/form-data; boundary=x"
        assert exchange(proxy, post(b"/v1/files").replace(JSON, files)).endswith(b"hi")
        assert exchange(proxy, post(b"/v1/x/cancel", body=b"").replace(JSON, b"X-Nothing: 1")).endswith(b"hi")


# --- paths --------------------------------------------------------------------------------------------------------------


def test_paths_that_lead_elsewhere(tmp_path: Path) -> None:
    """To another place of the upstream, for whoever on the way decodes it once more, or to another server."""
    with wire(HI) as upstream, RecordingProxy(f"{upstream.url}/base", tmp_path) as proxy:
        for target in [
            b"/../admin",
            b"/v1/../../admin",
            b"/v1/..",
            b"/.",
            b"/v1/./messages",
            b"/%2e%2e/admin",
            b"/%2E./admin",
            b"/.%2e/admin",
            b"/%252e%252e/admin",
            b"/v1%2f..%2f..%2fadmin",
            b"/v1%2F%2Fmessages",
            b"/%2Fetc",
            b"/..%5cadmin",
            b"/..\\admin",
            b"/v1\\messages",
            b"/..;/admin",
            b"/..;x=1/admin",
            b"/%2e%2e%3b/admin",
            b"/...",
            b"//evil.test/b",
            b"/v1//messages",
            b"/v1/messages//",
            b"/v1/messages%00",
            b"/v1/messages%0d%0aX-A:1",
            b"/v1/%zz",
            b"/v1/%",
            b"/v1/%c0%ae%c0%ae/admin",
            b"/a#b",
            b'/a"<c>{}|^`',
            b"?a=b",
        ]:
            assert exchange(proxy, post(target)).startswith(b"HTTP/1.1 400"), target
            assert upstream.received == [], target


def test_paths_of_clients(tmp_path: Path) -> None:
    """They are passed on byte for byte, below the upstream's; so is a query, whatever it is."""
    targets = [
        b"/",
        b"/v1/messages",
        b"/v1/messages/batches/",
        b"/v1/models/claude-3.5..x~",
        b"/model/anthropic.claude-v1%3A0/invoke",
        b"/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fus.anthropic.claude/invoke",
        b"/v1/projects/p/models/m@1:streamRawPredict",
        b"/@evil.test/b",
        b"/v1/messages?beta=true&x=%2F..//%zz#?/../",
    ]
    with wire(*[HI] * len(targets)) as upstream, RecordingProxy(f"{upstream.url}/base", tmp_path) as proxy:
        for target in targets:
            assert exchange(proxy, post(target)).endswith(b"hi"), target
            assert upstream.received[-1].startswith(b"POST /base" + target + b" HTTP/1.1\r\n")


def test_methods_that_no_client_uses(tmp_path: Path) -> None:
    """`TRACE` would show what the proxy adds."""
    with wire(HI) as upstream, RecordingProxy(upstream.url, tmp_path) as proxy:
        for method in [b"CONNECT", b"TRACE", b"PROPFIND"]:
            answer = exchange(proxy, post(b"/v1/messages").replace(b"POST", method, 1))
            assert answer.startswith((b"HTTP/1.1 405", b"HTTP/1.1 400")), method
            assert upstream.received == [], method


def test_a_length_beside_chunks_in_a_request(tmp_path: Path) -> None:
    """The next server might go by the other one, and take a part of the body for a request of its own."""
    smuggled = b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    with wire(HI) as upstream, RecordingProxy(upstream.url, tmp_path) as proxy:
        answer = exchange(proxy, post(b"/v1/messages", b"Transfer-Encoding: chunked", body=smuggled))
    assert answer.startswith(b"HTTP/1.1 400")
    assert upstream.received == []


def test_headers_that_are_too_long(tmp_path: Path) -> None:
    """What cannot be sent in one piece is refused before it is read; the bound is the same for all."""
    with wire(HI) as upstream, RecordingProxy(upstream.url, tmp_path) as proxy:
        answer = exchange(proxy, post(b"/v1/messages", b"X-A: " + b"a" * MAX_HEAD_BYTES))
        assert answer.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400"))
        assert upstream.received == []
        assert exchange(proxy, post(b"/v1/messages", b"X-A: " + b"a" * (MAX_HEAD_BYTES // 2))).endswith(b"hi")


# --- the upstream's password --------------------------------------------------------------------------------------------


def test_the_password_is_for_those_who_know_the_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is added to their requests, and shown nowhere.

    Nor is the token, to the upstream or in a recording, nor a path or a query, which may be the secret of the upstream.
    """
    caplog.set_level(logging.DEBUG)
    with wire(HI) as upstream, RecordingProxy(with_password(upstream), tmp_path) as proxy:
        token = path_of(proxy).decode().strip("/")
        assert exchange(proxy, post(path_of(proxy) + b"/v1/messages?key=" + KEY.encode())).endswith(b"hi")
        assert "hun" not in repr(proxy.upstream) + repr(proxy)
    assert BASIC in upstream.received[0].lower()
    assert upstream.received[0].startswith(b"POST /base/v1/messages?key=")
    assert token.encode() not in upstream.received[0]
    for said in (caplog.text, (tmp_path / "0001.jsonl").read_text()):
        for secret in ("hun", "bWU6aHVuIHRlcjI=", token, KEY, "/base"):
            assert secret not in said


def test_without_the_token(tmp_path: Path) -> None:
    """Other users' programs reach the port, too. The upstream sees nothing of them, and neither does the folder."""
    with wire(HI) as upstream, RecordingProxy(with_password(upstream), tmp_path) as proxy:
        token = path_of(proxy)[1:]
        wrong = token[:-1] + (b"x" if token[-1:] != b"x" else b"y")
        for path in (b"", b"/x", b"/" + wrong, b"/%s." % token, b"//" + token, b"/v1/" + token, b"/%2e/" + token):
            answer = exchange(proxy, post(path + b"/v1/messages"))
            assert answer.startswith((b"HTTP/1.1 401", b"HTTP/1.1 400")), path
            assert upstream.received == [], path
    assert load(tmp_path) == []


def test_a_client_with_an_authorization_of_its_own(tmp_path: Path) -> None:
    """It speaks for itself, and not in the name of the upstream's password."""
    with wire(*[HI] * 3) as upstream, RecordingProxy(with_password(upstream), tmp_path) as proxy:
        for own in [
            b"Authorization: Bearer mine",
            b"authorization:",
            b"Connection: authorization\r\nAuthorization: Bearer mine",
        ]:
            assert exchange(proxy, post(path_of(proxy) + b"/v1/messages", own)).endswith(b"hi"), own
            assert b"basic" not in upstream.received[-1].lower(), own


def test_a_key_beside_the_password(tmp_path: Path) -> None:
    """A gateway may ask for both: who may use it, and in whose name the API is asked."""
    with wire(HI) as upstream, RecordingProxy(with_password(upstream), tmp_path) as proxy:
        exchange(proxy, post(path_of(proxy) + b"/v1/messages", b"x-api-key: " + KEY.encode()))
    assert BASIC in upstream.received[0].lower()
    assert b"x-api-key: " + KEY.lower().encode() in upstream.received[0].lower()


def test_the_root_behind_the_token(tmp_path: Path) -> None:
    """With and without a slash."""
    with wire(HI, HI) as upstream, RecordingProxy(with_password(upstream), tmp_path) as proxy:
        for end in (b"", b"/"):
            assert exchange(proxy, post(path_of(proxy) + end)).endswith(b"hi")
    assert all(received.startswith(b"POST /base/ HTTP/1.1\r\n") for received in upstream.received)


def test_a_token_of_ones_own(tmp_path: Path) -> None:
    """For an address that stays the same; without a password none is needed, and none is made."""
    with wire(HI) as upstream, RecordingProxy(upstream.url, tmp_path, token="t" * 16) as proxy:
        assert proxy.base_url == f"http://127.0.0.1:{proxy.port}/{'t' * 16}"
        assert exchange(proxy, post(b"/v1/messages")).startswith(b"HTTP/1.1 401")
        assert exchange(proxy, post(b"/" + b"t" * 16 + b"/v1/messages")).endswith(b"hi")
    with RecordingProxy("http://127.0.0.1:9", tmp_path) as proxy:
        assert proxy.base_url == f"http://127.0.0.1:{proxy.port}"


@rows(
    "options",
    [
        {"token": "short"},
        {"token": "a/b" * 9},
        {"hosts": ["http://a.test"]},
        {"hosts": ["a.test/"]},
        {"hosts": "a.test"},
        {"origins": ["app.example"]},
        {"origins": ["https://app.example/"]},
        {"origins": ["null"]},
        {"origins": ["*"]},
        {"origins": "https://app.example"},
    ],
)
def test_settings_that_are_none(options: dict[str, Any], tmp_path: Path) -> None:
    """A typing error must not open the proxy, nor silently allow nothing."""
    with pytest.raises(UsageError):
        RecordingProxy("http://127.0.0.1:9", tmp_path, **options)


# --- compressed replies -------------------------------------------------------------------------------------------------


def answer_with(body: bytes, coding: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s" % (coding, len(body), body)


def test_compressed_all_the_same(tmp_path: Path) -> None:
    """The upstream is asked for plain replies. A packed one passes as it is, and its recording has what clients see."""
    packed = gzip.compress(b"data: {}\n\n") + gzip.compress(b"data: []\n\n")
    with wire(answer_with(packed, b"gzip")) as upstream, RecordingProxy(upstream.url, tmp_path) as proxy:
        got = exchange(proxy, post(b"/v1/messages", b"Accept-Encoding: gzip, br"))
    assert b"content-encoding: gzip" in got.lower()
    assert got.endswith(packed)
    assert b"accept-encoding: identity\r\n" in upstream.received[0].lower()
    (made,) = load(tmp_path)
    assert made.body == b"data: {}\n\ndata: []\n\n"
    assert "content-encoding" not in made.headers


@pytest.mark.parametrize(
    ("coding", "body", "told"),
    [
        (b"br", b"hi", "another compression"),
        (b"gzip, gzip", b"hi", "another compression"),
        (b"gzip\r\nContent-Encoding: gzip", b"hi", "another compression"),
        (b"gzip", b"hi", "damaged"),
    ],
)
def test_what_cannot_be_unpacked(
    coding: bytes, body: bytes, told: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It passes as it is, and is not recorded, which is said once."""
    answer = answer_with(body, coding)
    with wire(answer, answer) as upstream, RecordingProxy(upstream.url, tmp_path) as proxy:
        for _ in range(2):
            assert exchange(proxy, post(b"/v1/messages")).endswith(body)
    assert load(tmp_path) == []
    (record,) = caplog.records
    assert told in record.message


def test_a_reply_that_unpacks_to_much_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It passes packed, and the recorder stops at its bound: 200 kilobytes of it are 40 megabytes."""
    packer = zlib.compressobj(1, wbits=31)
    zeros = bytes(2**20)
    bomb = b"".join(packer.compress(zeros) for _ in range(40)) + packer.flush()
    folder = RecordingFolder(tmp_path, max_reply_bytes=2**20)
    with wire(answer_with(bomb, b"gzip")) as upstream, RecordingProxy(upstream.url, folder) as proxy:
        tracemalloc.start()
        try:
            assert exchange(proxy, post(b"/v1/messages")).endswith(bomb)
            folder.flush()
            peak_bytes = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert load(tmp_path) == []
    assert [record.message for record in caplog.records] == ["a response over 1048576 bytes is not recorded"]
    assert folder._held_bytes == 0
    assert peak_bytes < 12 * 2**20


def test_a_stranger_who_sends_without_end(tmp_path: Path) -> None:
    """What is refused is read to its end, so that its sender gets the answer, and none of it is kept."""
    with wire(HI) as upstream, RecordingProxy(upstream.url, tmp_path) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=TIMEOUT_S) as connection:
            connection.sendall(b"POST /v1/messages HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 16777216\r\n\r\n")
            tracemalloc.start()
            try:
                connection.sendall(bytes(2**24))
                answer = connection.recv(65_536)
                peak_bytes = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
    assert answer.startswith(b"HTTP/1.1 421")
    assert peak_bytes < 2**24 + 2**22  # what this test itself sends
    assert upstream.received == []
