"""`Contents`: entries as bytes, and back; encrypted if there is a key."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from eagerstream import JSONObject
from eagerstream._support.plain_json import load_json
from eagerstream._support.redaction import redact
from eagerstream.errors import JournalError, MissingExtraError, UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NOTES: Final = "notes"
"""Field of an entry that resuming does not need. Secrets in it are masked."""

_KEY_BYTES: Final = 32
_NAME_BYTES: Final = 4
_NONCE_BYTES: Final = 12
_FORM: Final = b"\x01"  # AES-256-GCM; JSON begins with "{"
_CHECK: Final = b"eagerstream"

SEALED_BYTES: Final = len(_FORM) + _NAME_BYTES + _NONCE_BYTES + 16
"""So much larger is what is encrypted: GCM has a tag of 16 bytes."""


class Contents:
    """Turns entries and messages into bytes, and back.

    Args:
        key: 32 bytes, or the same as 43 or 44 characters of URL-safe Base64; of a sequence of keys, the first one
            encrypts and all decrypt. None for plain JSON.

    Raises:
        UsageError: It is no such key.
        MissingExtraError: There is a key, and the package `cryptography` is missing.
    """

    def __init__(self, key: bytes | str | Sequence[bytes | str] | None) -> None:
        given: object = key
        is_one = isinstance(given, bytes | str) or not isinstance(given, Iterable)
        keys: list[object] = [] if key is None else [key] if is_one else [*key]
        if key is not None and not keys:
            raise UsageError("key: an empty sequence; give None for a journal without encryption")
        self._ciphers: dict[bytes, AESGCM] = {}
        for raw in map(_key_bytes, keys):
            try:
                from cryptography.hazmat.primitives.ciphers.aead import AESGCM
            except ImportError as error:
                raise MissingExtraError("encryption", "cryptography", package="eagerstream-durable") from error
            self._ciphers.setdefault(hashlib.sha256(raw).digest()[:_NAME_BYTES], AESGCM(raw))

    def sealed(self, data: bytes, *place: object) -> bytes:
        """Return the bytes to store.

        Args:
            data: JSON.
            place: The kind of row, the run and the number. Only there the bytes can be opened again.
        """
        if not self._ciphers:
            return data
        name, cipher = next(iter(self._ciphers.items()))
        nonce = os.urandom(_NONCE_BYTES)
        return _FORM + name + nonce + cipher.encrypt(nonce, data, _name_of(place))

    def opened(self, stored: object, *place: object) -> bytes:
        """Return the JSON that was sealed for a place.

        Raises:
            JournalError: It was encrypted with another key, or for another place, or was changed.
        """
        if not isinstance(stored, bytes):  # SQLite stores anything in any column
            raise JournalError("the journal is damaged: a part is missing, or of the wrong type")
        is_encrypted = stored[:1] == _FORM
        if is_encrypted and not self._ciphers:
            raise JournalError("the journal is encrypted: it needs its key")
        if not is_encrypted:
            if self._ciphers:
                raise JournalError("a part of the journal is not encrypted: somebody else wrote it")
            return stored
        cipher = self._ciphers.get(stored[1 : 1 + _NAME_BYTES])
        if cipher is None:
            raise JournalError("the key is not the one that the journal was encrypted with")
        start = 1 + _NAME_BYTES + _NONCE_BYTES
        from cryptography.exceptions import InvalidTag

        try:
            return cipher.decrypt(stored[1 + _NAME_BYTES : start], stored[start:], _name_of(place))
        except (InvalidTag, ValueError) as error:
            raise JournalError("a part of the journal was changed, or moved to another place") from error

    def check(self) -> bytes | None:
        """Return the text by which `fits` recognizes the key later; None without a key."""
        return self.sealed(_CHECK, "check") if self._ciphers else None

    def fit(self, check: bytes | None) -> None:
        """Check that the key is the one of the journal that has this text.

        Raises:
            JournalError: It has another key, or none although this is one, or the reverse.
        """
        if check is not None:
            self.opened(check, "check")
        elif self._ciphers:
            raise JournalError("the journal is not encrypted: use it without a key, or make a new one with a key")


def encoded(entry: Mapping[str, Any], what: str) -> bytes:
    """Return an entry as JSON, with secrets in its notes masked.

    Raises:
        UsageError: It has no JSON form.
    """
    if entry.get(NOTES):
        entry = {**entry, NOTES: redact(entry[NOTES])}
    try:
        # Half a surrogate pair has no UTF-8. The reader makes the same string of these bytes.
        text = json.dumps(entry, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{what} has no JSON form: {type(error).__name__}") from error


def decoded(data: bytes) -> JSONObject:
    """Return the entry that `encoded` was given.

    Raises:
        JournalError: The bytes are no JSON object: the file is damaged.
    """
    try:
        entry = load_json(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise JournalError("the journal is damaged: an entry is not JSON") from error
    if not isinstance(entry, dict):
        raise JournalError("the journal is damaged: an entry is not an object")
    return cast("JSONObject", entry)


def _name_of(place: Sequence[object]) -> bytes:
    return json.dumps(place).encode()


def _key_bytes(key: object) -> bytes:
    if isinstance(key, bytes) and len(key) == _KEY_BYTES:
        return key
    text = key.encode("utf-8", "replace") if isinstance(key, str) else key
    if isinstance(text, bytes) and len(text) in (43, 44):
        try:
            raw = base64.urlsafe_b64decode(text.rstrip(b"=") + b"=")
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) == _KEY_BYTES:
            return raw
    raise UsageError("key: must be 32 random bytes, or these in URL-safe Base64, as `Fernet.generate_key` makes them")
