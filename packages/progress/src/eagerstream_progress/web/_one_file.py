"""`save_page`: saved runs and their page in one file, which a browser shows without a server."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from eagerstream._support.files import replacing
from eagerstream._support.redaction import FindSecrets, finding_also
from eagerstream.errors import UsageError

from .._exact import json_pieces
from .._record import Record
from .._run_summary import summary_of
from .._saved import redacted
from ._static import MEDIA_TYPES, STATIC

_IMPORT: Final = re.compile(r'(?<=from )"\./([\w.]+)"')


def save_page(path: Path, runs: Iterable[Sequence[Record]], *, redact: bool | FindSecrets = True) -> None:
    """Write a page with saved runs into one HTML file, which a browser shows without a server.

    It has all that the page of `serve` shows, and no way to act. It loads nothing. Only the owner may read the file.

    Args:
        path: The file. An existing file is replaced. A link is replaced too, not followed.
        runs: The records of each run, for example `[log.records()]`, or as `load_records` returns them.
        redact: Mask secrets, as for `save_records`.

    Raises:
        UsageError: There is no run, or the records of one do not start with it.
        OSError: The file cannot be written. `FileExistsError` if a folder, a device or a pipe is at `path`.
        ValueError: A record contains NaN or an infinity.
    """
    text = page_of(runs, redact=redact)
    with replacing(path) as file:
        file.write(text.encode())


def page_of(runs: Iterable[Sequence[Record]], *, redact: bool | FindSecrets = True) -> str:
    """Return the text of such a file."""
    with finding_also(redact if callable(redact) else None):
        saved = [redacted(records) if redact else list(records) for records in runs]
    if not saved:
        raise UsageError("a page needs a run to show")
    names = [file.name for file in STATIC.iterdir() if Path(file.name).suffix in MEDIA_TYPES]
    files = {name: (STATIC / name).read_text(encoding="utf-8") for name in names}
    # Addresses of data name no other module: the import map has them, and each module imports by a name in it.
    modules = {name: _IMPORT.sub(r'"\1"', text) for name, text in files.items() if name.endswith(".js")}
    imports = json.dumps({"imports": {name: _data_url(text, "text/javascript") for name, text in modules.items()}})
    start = 'import "page.js";'
    policy = (
        f"default-src 'none'; style-src {_hash(files['page.css'])}; img-src data:; "
        f"script-src data: {_hash(imports)} {_hash(start)}; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    icon = _data_url(files["icon.svg"], "image/svg+xml")
    page = (STATIC / "page.html").read_text(encoding="utf-8").replace("static/icon.svg", icon)
    inlined = {
        '(?<=<meta charset="utf-8">)': f'\n<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">',
        '<link rel="stylesheet" [^>]*>': f"<style>{_escaped(files['page.css'])}</style>",
        '<script [^>]*src="static/page.js"></script>': (
            f'<script type="importmap">{_escaped(imports)}</script>\n'
            f'<script id="saved" type="application/json">{_escaped(_json_of(saved))}</script>\n'
            f'<script type="module">{_escaped(start)}</script>'
        ),
    }
    for pattern, text in inlined.items():
        page, count = re.subn(pattern, text, page)
        assert count == 1, pattern
    return page


def _json_of(saved: Sequence[Sequence[Record]]) -> str:
    """Return the runs as JSON with marked numbers, without any character that ends the script around it."""
    runs: dict[str, dict[str, Any]] = {}
    for records in saved:
        first: Any = records[0] if records else {}
        if first.get("type") != "run_start":
            raise UsageError("the records of a run must start with the run")
        run = first["run"] if first["run"] not in runs else f"{first['run']}-{len(runs) + 1}"  # an edited copy
        runs[run] = {"summary": summary_of(first, records[-1], id=run), "records": records}
    return b"".join(json_pieces([*runs.values()])).decode("ascii").replace("<", "\\u003c")


def _escaped(text: str) -> str:
    """Return a text for `re.sub`."""
    return text.replace("\\", r"\\")


def _data_url(text: str, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(text.encode()).decode()}"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
