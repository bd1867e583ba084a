"""Names of this machine, and tokens. `test_every_server.py` tries the rule over sockets."""

from __future__ import annotations

import pytest

from eagerstream._support.serving.access import Access, Address, Refused, is_loopback, new_token, parse_host
from eagerstream.errors import UsageError
from tests.tables import rows


@rows(
    "host, expected",
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("example.com", False),
    ],
)
def test_which_hosts_are_this_machine(host: str, expected: bool) -> None:
    """Only there the names of this machine are known, and requests by other names refused."""
    assert is_loopback(host) is expected


@rows(
    "value, address",
    [
        ("localhost", Address("localhost", None)),
        ("LocalHost:80", Address("localhost", 80)),
        ("127.0.0.1:49152", Address("127.0.0.1", 49152)),
        ("[::1]:8080", Address("::1", 8080)),
        ("[::1]", Address("::1", None)),
        ("localhost.", Address("localhost", None)),
        ("localhost.:80", Address("localhost", 80)),
        ("a" * 253, Address("a" * 253, None)),
        ("a" * 255, None),
        ("[::1].", None),
        ("::1", None),
        ("", None),
        (":80", None),
        ("user@localhost:80", None),
        ("localhost:80:80", None),
        ("localhost:", None),
        ("localhost:+80", None),
        ("localhost, evil.test", None),
        ("evil.test/localhost", None),
        ("local\thost", None),
        ("localhost\n", None),
        ("\u24dbocalhost", None),
    ],
)
def test_the_value_of_a_host_header(value: str, address: Address | None) -> None:
    """A name and a port, and nothing that another reader could take for something else."""
    assert parse_host(value) == address


def test_tokens() -> None:
    """New ones differ and are well-formed. A malformed one is refused; comparing takes any text."""
    token = new_token()
    assert token != new_token()
    access = Access(token=token)
    access.check_token(["x", token])
    for given in ((), ("",), (token[:-1],), (f"{token}x",), ("\u24db",)):
        with pytest.raises(Refused):
            access.check_token(given)
    Access().check_token([])
    assert not Access().is_token("")
    for text in ("", "short", "x" * 257, "with a space in it", f"{token}\n", "\u24db" * 20):
        with pytest.raises(UsageError):
            Access(token=text)


@rows(
    "headers, status",
    [
        ([], 421),
        ([(b"host", b"127.0.0.1"), (b"host", b"127.0.0.1")], 421),
        ([(b"Host", b"evil.example"), (b"host", b"127.0.0.1")], 421),
        ([(b"host", b"127.0.0.1"), (b"origin", b"http://127.0.0.1"), (b"Origin", b"http://127.0.0.1")], 403),
    ],
)
def test_what_servers_of_others_pass(headers: list[tuple[bytes, bytes]], status: int) -> None:
    """Some let a doubled header through."""
    with pytest.raises(Refused) as refused:
        Access().check({"type": "http", "method": "GET", "path": "", "headers": headers})
    assert refused.value.status == status


def test_any_name() -> None:
    """On request, if the application around it checks them. Pages from elsewhere are refused all the same."""
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"any.example")]}
    Access(hosts=None).check(scope)
    with pytest.raises(Refused):
        Access(hosts=None).check({**scope, "headers": [*scope["headers"], (b"origin", b"https://evil.example")]})
