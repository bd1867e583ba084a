"""`WrittenResponse`: the response under way, and the part of it that is in the journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerstream_wire import JSONObject, MessageAssembler, Outcome
from eagerstream_wire._assistant_message import AssistantMessage, Block, blocks_of

from ..calls._turn import Turn
from ..tools._call import ToolCall
from ._interruption import message_of


class WrittenResponse:
    """The response of a turn, which is written block by block.

    Args:
        turn: The turn.
        assembler: Reads the response.
        blocks: Number of its blocks that are in the journal.
        is_cut: The last of them was written as cut off, and is written again.
    """

    def __init__(self, turn: Turn, assembler: MessageAssembler[Any], blocks: int = 0, *, is_cut: bool = False) -> None:
        self.turn = turn
        self._assembler = assembler
        self._blocks = blocks - is_cut
        self._is_cut = is_cut

    def restart(self) -> None:
        """Note that the peer has started the response again."""
        self._blocks, self._is_cut = 0, False

    def cut(self, message: AssistantMessage) -> JSONObject:
        """Return an entry with the blocks that have not been written, and with the last one, which was cut off."""
        content = blocks_of(message)
        self._is_cut, self._blocks = True, min(self._blocks, len(content) - 1)
        entry = self._entry(message, content) | {"is_cut": True}
        self._blocks -= 1
        return entry

    def up_to(self, call: ToolCall) -> list[JSONObject]:
        """Return an entry with the blocks that have not been written, up to that of a call; none if there are none."""
        message = message_of(self.turn, self._assembler)
        content = blocks_of(message)
        ids = [block.get("id") for block in content]
        entry = self._entry(message, content[: ids.index(call.input.echo_id) + 1])
        return [entry] if entry["blocks"] else []

    def rest(self, message: AssistantMessage) -> JSONObject:
        """Return the entry with the rest of the blocks of a response that has ended or broken off."""
        is_whole = message.get("stop_reason") is not None
        return self._entry(message, blocks_of(message)) | {"is_whole": is_whole}

    def _entry(self, message: AssistantMessage, content: Sequence[Block]) -> JSONObject:
        fields = {name: value for name, value in message.items() if name != "content"}
        place: JSONObject = {"at": self._blocks} if self._is_cut else {}
        new, self._blocks = content[self._blocks :], max(self._blocks, len(content))
        # Those of the calls, too: after a restart of the peer that is not followed, the assembler has others.
        made = (*self._assembler.inputs.values(), *(call.input for call in self.turn.calls))
        inputs = {input.echo_id: input for input in made if input.kind == "tool_use"}
        blocks: list[JSONObject] = []
        for block in new:
            if block.get("type") != "tool_use":
                blocks.append({"block": dict(block)})
            elif (input := inputs.get(str(block.get("id")))) is None:  # it was cut by a restart, and has no call
                blocks.append({"block": {**block, "input": {}}, "raw": "", "is_closed": False})
            else:
                # As it came, with the text of its input: the same repairs are made again.
                is_closed = input.outcome not in (None, Outcome.INCOMPLETE)
                raw = input.raw if input.chars else ""
                saved: JSONObject = {"block": dict(input.block), "raw": raw, "is_closed": is_closed}
                blocks.append(saved | {"is_damaged": True} if input.is_damaged else saved)
        return {"kind": "response", "turn": self.turn.number, "blocks": blocks, "message": fields, **place}
