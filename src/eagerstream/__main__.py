"""`python -m eagerstream`, the same as the `eagerstream` command."""

from __future__ import annotations

from ._command import main

if __name__ == "__main__":
    main()
