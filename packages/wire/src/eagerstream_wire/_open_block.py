"""`OpenBlock`: a content block while it is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._assistant_message import Block
from ._echo import repaired
from ._tool_input import ToolInput
from ._values import encodable


class OpenBlock:
    """A block and everything appended to it.

    Pieces wait in a list until the message is read. `text += piece` on a field of a dict copies the text each time:
    1.28 MB in pieces of 8 characters took 33 s, and 11 ms with a list.
    """

    __slots__ = ("_appended", "_citations", "_echoed", "block", "index", "input")

    def __init__(self, index: int, block: Mapping[str, Any]) -> None:
        self.index = index
        # A copy: the event of the block may be recorded, or shown to an observer, after this has changed.
        self.block: Block = repaired(block)
        self.input: ToolInput | None = None
        self._appended: dict[str, list[str]] = {}
        self._citations: list[Any] | None = None
        self._echoed: dict[str, Any] | None = None  # the input, once it is settled

    def pieces(self, name: str) -> list[str]:
        """Return the list of what the field consists of so far, for appending to it."""
        pieces = self._appended.get(name)
        if pieces is None:
            start = self.block.get(name)
            pieces = self._appended[name] = [start] if isinstance(start, str) else []
        return pieces

    def cite(self, citation: Any) -> None:
        if self._citations is None:  # a separate list: the one in the event belongs to the peer
            start = self.block.get("citations")
            self._citations = self.block["citations"] = [*start] if isinstance(start, list) else []
        self._citations.append(citation)

    def assembled(self) -> Block:
        """Return the block so far: the same dict each time, so that it keeps its identity in events and message."""
        for name, pieces in self._appended.items():
            if len(pieces) > 1:
                pieces[:] = ["".join(pieces)]
            self.block[name] = pieces[0] if pieces else ""
        # With the ids that the API accepts back. The block is echoed, and the answer of the call uses the same id.
        if self.input is not None:
            self.block["id"] = self.input.echo_id
            self.block["name"] = self.input.echo_name
            if self.input.outcome is not None:
                # As it can be sent: half of a surrogate pair has no form in UTF-8, and no client would send it.
                if self._echoed is None:
                    wrapped = self.input.wrapped
                    self._echoed = encodable(wrapped) if self.input._has_surrogates else wrapped
                self.block["input"] = self._echoed
        return self.block
