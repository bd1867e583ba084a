"""`ClientMemory`: one value for each client, and for its copies."""

from __future__ import annotations

import gc

from anthropic import AsyncAnthropic

from eagerstream.transports import HTTPTransport
from eagerstream.transports._memory import ClientMemory


def test_copies_of_a_client_share_it() -> None:
    memory: ClientMemory[list[int]] = ClientMemory(list)
    client = AsyncAnthropic(api_key="any")
    assert memory.of(client) is memory.of(client.with_options(max_retries=0))
    assert memory.of(client) is not memory.of(AsyncAnthropic(api_key="any"))


def test_it_goes_with_the_client() -> None:
    memory: ClientMemory[list[int]] = ClientMemory(list)
    transport = HTTPTransport(base_url="http://127.0.0.1:1")
    memory.of(transport).append(1)
    assert memory.of(transport) == [1]
    del transport
    gc.collect()
    assert not memory._values


def test_what_has_no_hash_has_a_value_of_its_own_each_time() -> None:
    memory: ClientMemory[list[int]] = ClientMemory(list)
    assert memory.of([]) is not memory.of([])
