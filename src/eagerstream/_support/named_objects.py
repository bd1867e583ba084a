"""`load_named`: the object of the user's program that a command line names."""

from __future__ import annotations

import pkgutil
import sys
from pathlib import Path
from typing import Final

from eagerstream_wire import UsageError

from .redaction import redact_excerpt
from .wording import visible

_MAX_SHOWN_CHARS: Final = 2_000


def load_named(place: str) -> object:
    """Return the object with this name, `module:name`. Its module is imported; it may lie in the current folder.

    Raises:
        UsageError: The name has another form, or it cannot be loaded.
    """
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    module, _, name = place.partition(":")
    if not module or not name:
        raise UsageError(f"{place!r} is not of the form module:name")
    try:
        return pkgutil.resolve_name(place)
    except (Exception, SystemExit) as error:  # a user's module may do anything when it is imported
        raise UsageError(
            f"{place} cannot be loaded: {type(error).__name__}: {visible(redact_excerpt(str(error), _MAX_SHOWN_CHARS))}"
        ) from error
