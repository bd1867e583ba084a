"""The type variables of the events; in a separate file, because they are made in two ways.

The standard library's TypeVar takes defaults only from Python 3.13 on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from ._tool_input import ToolInput

    InputT = TypeVar("InputT", bound=ToolInput, default=ToolInput)
    InputT_co = TypeVar("InputT_co", bound=ToolInput, default=ToolInput, covariant=True)
else:
    from typing import TypeVar

    InputT = TypeVar("InputT")
    InputT_co = TypeVar("InputT_co", covariant=True)
