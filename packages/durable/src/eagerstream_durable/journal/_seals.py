"""`Seal`: which entries a run has, so that none can be changed, removed, doubled or moved without notice.

The entries of a run are a chain. The link of an entry is the hash of the link before it, of the number of the entry and
of its bytes as they are stored. The row of the run has the last link. So any change is found when the entries are read
and their links are made again. With a key, nobody else can make the last link of other entries.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from eagerstream.errors import JournalError

from ._contents import Contents

_DAMAGED: Final = "the journal is damaged: nobody knows which entries or messages the run has"
_LINK_BYTES: Final = hashlib.sha256().digest_size


@dataclass(frozen=True, slots=True)
class Seal:
    """The end of the entries of a run.

    Attributes:
        next_seq: The number of the next entry.
        link: The link of the last entry; empty before the first one.
        settled_seq: The number of the last entry that took the place of others. The next such entry comes behind it.
        settled_link: The link of that entry.
        taken: The number of the last message that is in the entries.
    """

    next_seq: int = 0
    link: bytes = b""
    settled_seq: int = 0
    settled_link: bytes = b""
    taken: int = 0

    def with_entry(self, stored: bytes) -> Seal:
        """Return the seal after another entry, of which these bytes are stored."""
        digest = hashlib.sha256(self.link)
        digest.update(self.next_seq.to_bytes(8, "big"))
        digest.update(stored)
        return replace(self, next_seq=self.next_seq + 1, link=digest.digest())

    def up_to(self, seq: int) -> Seal:
        """Return the seal with this number for the next entry: the numbers before it are used."""
        return replace(self, next_seq=seq)

    def with_taken(self, number: int) -> Seal:
        """Return the seal after the messages up to a number were taken."""
        return replace(self, taken=max(self.taken, number))

    def back_to_settled(self) -> Seal:
        """Return the seal after all entries behind the settled one were removed. Their numbers are not used again."""
        return replace(self, link=self.settled_link)

    def settled(self) -> Seal:
        """Return the seal after its last entry has become the settled one."""
        return replace(self, settled_seq=self.next_seq - 1, settled_link=self.link)

    def stored(self, contents: Contents, run_id: str) -> bytes:
        """Return the bytes for the row of the run."""
        data = [self.next_seq, self.link.hex(), self.settled_seq, self.settled_link.hex(), self.taken]
        return contents.sealed(json.dumps(data).encode(), "entries", run_id)

    @classmethod
    def read(cls, contents: Contents, run_id: str, stored: object) -> Seal:
        """Return the seal of the bytes.

        Raises:
            JournalError: They are none, or cannot be read with this key.
        """
        data = contents.opened(stored, "entries", run_id)
        try:
            next_seq, link, settled_seq, settled_link, taken = json.loads(data)
            seal = cls(next_seq, bytes.fromhex(link), settled_seq, bytes.fromhex(settled_link), taken)
        except (ValueError, TypeError, RecursionError) as error:
            raise JournalError(_DAMAGED, run_id=run_id) from error
        numbers = (seal.settled_seq, seal.next_seq, seal.taken)
        if not all(type(number) is int for number in numbers) or not 0 <= seal.settled_seq < seal.next_seq:
            raise JournalError(_DAMAGED, run_id=run_id)
        if not len(seal.link) == len(seal.settled_link) == _LINK_BYTES:
            raise JournalError(_DAMAGED, run_id=run_id)
        return seal


def sealed_entry(contents: Contents, run_id: str, content: bytes, before: Seal) -> bytes:
    """Return the bytes to store of the entry behind `before`. With a key, they can be read in that place only."""
    return contents.sealed(content, "entry", run_id, before.next_seq, before.link.hex())


def opened_entry(contents: Contents, run_id: str, stored: object, before: Seal) -> bytes:
    """Return the content of the entry behind `before`.

    Raises:
        JournalError: Another entry was there when it was written, or it was changed, or has another key.
    """
    return contents.opened(stored, "entry", run_id, before.next_seq, before.link.hex())


def message_token(number: int, stored: bytes, name: str | None = None) -> str:
    """Return a unique name of a message, which also tells if its number or its bytes were changed.

    Args:
        number: Its number.
        stored: Its bytes.
        name: The first half of the token of a message that exists; None for a new one.
    """
    name = name or uuid4().hex
    return name + hashlib.sha256(f"{number} {name} ".encode() + stored).hexdigest()[: len(name)]


def is_token_of(token: object, number: int, stored: bytes) -> bool:
    """Return True if a message that is stored has the token that it was left with."""
    return isinstance(token, str) and token == message_token(number, stored, token[: len(token) // 2])


def stored_inbox(contents: Contents, run_id: str, next_message: int) -> bytes:
    """Return the bytes that say which number the next message gets."""
    return contents.sealed(str(next_message).encode(), "inbox", run_id)


def read_inbox_seal(contents: Contents, run_id: str, stored: object) -> int:
    """Return the number that the next message gets.

    Raises:
        JournalError: The bytes say none, or cannot be read with this key.
    """
    data = contents.opened(stored, "inbox", run_id)
    if not data.isdigit() or len(data) > 18:
        raise JournalError(_DAMAGED, run_id=run_id)
    return int(data)
