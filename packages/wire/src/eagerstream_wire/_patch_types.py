"""The types of patches; in a separate file, because no parser needs them, nor the package that they come from."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from typing_extensions import TypedDict  # pydantic checks patches, and takes no other before Python 3.12


class PatchOp(TypedDict):
    """One operation of a patch."""

    op: Literal["add", "replace", "append"]
    path: str
    value: Any


Patch: TypeAlias = list[PatchOp]
