"""Tools for `run(tools=[...])`. No other part of the library depends on them.

- Tools with the API's schemas: `Bash`, `TextEditor`, `Memory`, `Computer` (with a `ComputerHandler` of your own),
  `BrowserToolset`.
- Tools with our own schemas, whose inputs stream eagerly: `EagerTextEditor`, `Files`, `SQL`, `BraveSearch`,
  `WikipediaSearch`, `Calculator`.
- `CodeTool`: code of the model that calls your tools, and runs while it is being written.

Each name is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagerstream._support.lazy import lazy_exports

__all__: list[str]

if TYPE_CHECKING:
    from ._bash.tool import Bash as Bash
    from ._browser_toolset import BrowserToolset as BrowserToolset
    from ._calculator import Calculator as Calculator
    from ._code.monty import MontySandbox as MontySandbox
    from ._code.process import ProcessSandbox as ProcessSandbox
    from ._code.sandbox import CodeSandbox as CodeSandbox
    from ._code.tool import CodeTool as CodeTool
    from ._computer import Computer as Computer
    from ._computer_handler import ComputerHandler as ComputerHandler, Point as Point, Region as Region
    from ._files.edit import Edit as Edit, MultiEdit as MultiEdit
    from ._files.read import Read as Read
    from ._files.shared import FileWords as FileWords
    from ._files.toolset import Files as Files
    from ._files.write import Write as Write
    from ._jail import Jail as Jail
    from ._memory import Memory as Memory
    from ._search.brave import BraveSearch as BraveSearch
    from ._search.tool import SearchTool as SearchTool
    from ._search.wikipedia import WikipediaSearch as WikipediaSearch
    from ._sql.tool import SQL as SQL, DBAPIConnection as DBAPIConnection
    from ._text_editor.eager import EagerTextEditor as EagerTextEditor
    from ._text_editor.tool import TextEditor as TextEditor
    from ._truncation import truncate_output as truncate_output, truncate_results as truncate_results
else:  # otherwise type checkers would accept any name
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "._bash.tool": ("Bash",),
            "._browser_toolset": ("BrowserToolset",),
            "._calculator": ("Calculator",),
            "._code.monty": ("MontySandbox",),
            "._code.process": ("ProcessSandbox",),
            "._code.sandbox": ("CodeSandbox",),
            "._code.tool": ("CodeTool",),
            "._computer": ("Computer",),
            "._computer_handler": ("ComputerHandler", "Point", "Region"),
            "._files.edit": ("Edit", "MultiEdit"),
            "._files.read": ("Read",),
            "._files.shared": ("FileWords",),
            "._files.toolset": ("Files",),
            "._files.write": ("Write",),
            "._growing_file": ("GrowingFile",),
            "._jail": ("Jail",),
            "._memory": ("Memory",),
            "._search.brave": ("BraveSearch",),
            "._search.tool": ("SearchTool",),
            "._search.wikipedia": ("WikipediaSearch",),
            "._sql.tool": ("SQL", "DBAPIConnection"),
            "._text_editor.eager": ("EagerTextEditor",),
            "._text_editor.tool": ("TextEditor",),
            "._truncation": ("truncate_output", "truncate_results"),
        },
    )
