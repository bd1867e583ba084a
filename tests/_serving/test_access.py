"""Names of this machine, and tokens."""

from __future__ import annotations

from eagerstream._serving.access import Address, is_loopback, is_token, new_token, parse_host, same_token
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
    """New ones differ and are well-formed; comparing takes any text."""
    token = new_token()
    assert is_token(token)
    assert token != new_token()
    assert same_token(token, token)
    assert not any(same_token(given, token) for given in ("", token[:-1], f"{token}x", "\u24db"))
    assert not any(
        is_token(text) for text in ("", "short", "x" * 257, "with a space in it", f"{token}\n", "\u24db" * 20)
    )
