"""Check of a request before the proxy passes it on or reads anything else of it.

A request is passed on only if

- the rule of all servers admits it,
- its path stays below that of the upstream, for every server that reads it on the way,
- its path starts with the proxy's token, if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from eagerstream._support.serving.access import Access, Refused, header

MAX_HEAD_BYTES: Final = 64 * 1024
"""Maximum total size of the target and the headers of a request."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_MEDIA_TYPES: Final = frozenset({"application/json", "multipart/form-data"})
"""Media types of the bodies that API clients send: parameters, and files."""
_SEGMENT: Final = re.compile(rb"[A-Za-z0-9._~!$&'()*+,=:@-]+")
"""Pattern of a path segment, decoded once. It has no `%`, which might be decoded again. It has no `;`, at which some
servers cut a path, and no backslash."""


class Admission:
    """Admission rules of one proxy.

    Args:
        access: The rule of all servers. Its token is the first segment of every path.
    """

    def __init__(self, access: Access) -> None:
        self._access = access

    def path_of(self, scope: Mapping[str, Any]) -> bytes:
        """Return the path to pass on, without the token.

        Raises:
            Refused: The request must not be passed on.
        """
        path: bytes = scope["raw_path"]
        size_bytes = len(path) + len(scope["query_string"]) + sum(len(n) + len(v) for n, v in scope["headers"])
        if size_bytes > MAX_HEAD_BYTES:
            raise Refused(431, f"the headers are longer than {MAX_HEAD_BYTES} bytes")
        self._access.check(scope)
        if scope["method"] not in _METHODS:
            raise Refused(405, "the proxy passes on no such method")
        length, coding = header(scope, b"content-length"), header(scope, b"transfer-encoding")
        if length and coding:  # RFC 9112, section 6.1: a sign of request smuggling
            raise Refused(400, "a request has a length or comes in chunks, not both")
        media_type = header(scope, b"content-type").partition(";")[0].strip()
        if (coding or length not in ("", "0")) and media_type not in _MEDIA_TYPES:
            raise Refused(415, f"the proxy passes on bodies with the content type {' or '.join(sorted(_MEDIA_TYPES))}")
        # Every reader of the path must find a place below that of the upstream. A slash at the end is allowed. So is an
        # escaped slash, as in Bedrock's model ids: the text on each side of it is checked as its own segment.
        root, *parts = path.split(b"/")
        checked = parts[:-1] if parts[-1:] == [b""] else parts
        segments = [segment for part in checked for segment in unquote_to_bytes(part).split(b"/")]
        if root or not parts or not all(_SEGMENT.fullmatch(segment) and segment.strip(b".") for segment in segments):
            raise Refused(400, "the proxy passes on paths without empty parts and dots as parts")
        if self._access.token is None:
            return path
        _, given, *rest = path.decode("ascii").split("/", 2)
        self._access.check_token([given])
        return b"/" + "".join(rest).encode()
