"""`ClientMemory`: one value for each client, and for its copies."""

from __future__ import annotations

import gc

from anthropic import AsyncAnthropic

from eagerstream.transports import HTTPTransport
from eagerstream.transports._memory import ClientMemory


def test_copies_of_a_client_share_it() -> None:
    """A client that was changed for one request knows what the client knows."""
    memory: ClientMemory[list[int]] = ClientMemory(list)
    client = AsyncAnthropic(api_key="any")
    assert memory.of(client) is memory.of(client.with_options(max_retries=0))
    assert memory.of(client) is not memory.of(AsyncAnthropic(api_key="any"))


def test_it_goes_with_the_client() -> None:
    """A client that nobody uses any more leaves nothing behind."""
    memory: ClientMemory[list[int]] = ClientMemory(list)
    transport = HTTPTransport(base_url="http://127.0.0.1:1")
    memory.of(transport).append(1)
    assert memory.of(transport) == [1]
    gc.freeze()  # the collection need not look at what other tests left
    del transport
    gc.collect()
    assert not memory._values


def test_what_has_no_hash_has_a_value_of_its_own_each_time() -> None:
    """Nothing can be remembered of it, and nothing fails."""
    memory: ClientMemory[list[int]] = ClientMemory(list)
    assert memory.of([]) is not memory.of([])
