"""The files that the page loads: compressed once, and cacheable for ever."""

from __future__ import annotations

import gzip
import hashlib
import re
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eagerstream._support.serving.access import Refused

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

STATIC: Final = resources.files(__package__) / "static"
MEDIA_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_CACHED: Final = {"cache-control": "public, max-age=31536000, immutable"}


class StaticFiles:
    """The files that the pages load. The folder in their address is the digest of all of them."""

    def __init__(self) -> None:
        self.files = {file.name: file.read_bytes() for file in STATIC.iterdir() if file.is_file()}
        names = sorted(self.files)
        self.digest = hashlib.sha256(b"".join(self.files[name] for name in names)).hexdigest()[:16]
        self._compressed = {name: gzip.compress(self.files[name], mtime=0) for name in names}

    def page(self, name: str) -> bytes:
        """Return a page that loads the files of this version."""
        return self.files[name].replace(b'"static/', b'"static/%s/' % self.digest.encode())

    async def get(self, request: Request) -> Response:
        """Answer a request. An address without the digest is not cached: another page may load a module from there."""
        from starlette.responses import Response

        name = request.path_params["name"]
        media_type = MEDIA_TYPES.get(Path(name).suffix)
        if (
            media_type is None
            or name not in self.files
            or request.path_params.get("digest", self.digest) != self.digest
        ):
            raise Refused(404, "Not found.")
        headers = {"vary": "accept-encoding", **(_CACHED if "digest" in request.path_params else {})}
        accepted = re.split(r"\s*,\s*", request.headers.get("accept-encoding", ""))
        if "gzip" not in accepted:
            return Response(self.files[name], media_type=media_type, headers=headers)
        return Response(self._compressed[name], media_type=media_type, headers={**headers, "content-encoding": "gzip"})
