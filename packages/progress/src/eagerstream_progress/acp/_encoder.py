"""`ACPEncoder`: turns records of a run into session updates of ACP."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from eagerstream._support.json_values import encodable
from eagerstream._support.terms import NOT_RUN

from .._fold import RunFold
from .._pieces import Pieces
from .._record import InputStartRecord, Record
from ._call import EditorCall
from ._content import MAX_TEXT_CHARS
from ._tools import ACPTool, Places, ToolOf, Update, tool_for

STOP_REASONS: Final[Mapping[str, str]] = {
    "truncated": "max_tokens",
    "limit": "max_turn_requests",
    "refused": "refusal",
    "cancelled": "cancelled",
}
"""Maps the status of a run to a stop reason of ACP. All others end the turn: `end_turn`."""

_NO_RESULT: Final = "This call has no result."
_VOID: Final = "Void: the response with this call was restarted."
_RESTARTED: Final = "\n\n(The response was interrupted, and starts again.)\n\n"


class ACPEncoder:
    """Turns the records of one run into session updates of ACP, as dicts in their JSON form; no I/O.

        encoder = ACPEncoder(cwd="/home/ada/project")
        async with log.watch() as watcher:
            async for batch in watcher:
                for update in encoder.encode(batch.records):
                    await connection.session_update(session_id, update)

    - Text is `agent_message_chunk`, thinking is `agent_thought_chunk`.
    - A call is `tool_call` from its first fragment on, then `tool_call_update`. Its `rawInput` grows. It is sent again
      if it has grown by a quarter, up to 64 KiB, and once more at its end.
    - Only finished fields become a path in `locations`, and only in the folders of the session: an editor opens such
      files by itself. Diffs come with a valid input, and show the replaced piece.
    - A call that did not run has failed. ACP cannot take back text: if a response restarts, a chunk says so.

    Args:
        cwd: The folder of the session, to which paths are relative. Absolute.
        directories: Further folders in which files may be shown. Absolute.
        tools: Tool name to the way in which its calls are shown, or to a function that takes the finished fields of an
            input and returns that way. The tools of `eagerstream_toolkit` and those with the API's schemas are known.
            Of any other tool, the fields `path`, `file_path` and similar ones have paths.
        real_path: Takes a path as the model writes it and returns the path on this machine; None shows no file. Use it
            if a tool has a name of its own for its folder, for example `root_name` of `TextEditor`.
    """

    def __init__(
        self,
        *,
        cwd: str,
        directories: Sequence[str] = (),
        tools: Mapping[str, ACPTool | ToolOf] | None = None,
        real_path: Callable[[str], str | None] | None = None,
    ) -> None:
        self._places = Places(cwd, directories, real_path)
        self._tools = tools or {}
        self._out: list[Update] = []
        self._run: RunFold[EditorCall] = RunFold(self._begin_call)
        self._open: dict[int, EditorCall] = {}
        self._pieces = Pieces(MAX_TEXT_CHARS)
        self._has_text = False  # this turn
        self.stop_reason: str | None = None
        """The stop reason of ACP; None until the run has ended, and if an error ended it."""

    @property
    def asked(self) -> list[int]:
        """The blocks of the calls that wait for a person."""
        return [block for block, call in self._open.items() if call.is_asked]

    def question(self, block: int) -> Update:
        """Return the `toolCall` of a request for permission.

        Args:
            block: One of `asked`.
        """
        return self._open[block].question

    def encode(self, records: Iterable[Record]) -> list[Update]:
        """Return the updates of the next records. Several records at once make fewer updates.

        The first records may be the snapshot of a run that has already started. A later snapshot needs a new encoder.
        """
        for record in records:
            self._take(record)
        for call in self._open.values():
            call.flush()
        self._open = {block: call for block, call in self._open.items() if not call.has_ended}
        out, self._out = self._out, []
        return out

    def _take(self, record: Record) -> None:
        match record["type"]:
            case "turn_start" | "turn_stop" | "run_resumed":
                self._close(NOT_RUN, lambda call: not call.is_server_side)
                self._has_text = False
            case "message_start" if record["restarted"]:
                self._void()
            case "restarted":
                self._void()
            case "text_delta":
                self._has_text = True
                self._add_text("agent_message_chunk", record["block"], record["text"])
            case "thinking_delta":
                self._add_text("agent_thought_chunk", record["block"], record["thinking"])
            case "run_stop":
                self._close(_NO_RESULT, lambda _: True)
                if record["status"] != "error":
                    self.stop_reason = STOP_REASONS.get(record["status"], "end_turn")
            case _:
                pass
        self._run.feed(record)  # the call sends its own updates

    def _void(self) -> None:
        self._close(_VOID, lambda call: call.turn == self._run.turn)
        if self._has_text:
            self._has_text = False
            self._chunk("agent_message_chunk", f"{self._run.id}.restarted", _RESTARTED)

    def _close(self, why: str, concerns: Callable[[EditorCall], bool]) -> None:
        for call in self._open.values():
            if concerns(call):
                call.close(why)

    def _begin_call(self, record: InputStartRecord) -> EditorCall:
        block, name = record["block"], record["name"]
        call = self._open[block] = EditorCall(
            record,
            self._run.turn,
            tool_call_id=f"{self._run.id}.{block}",  # the API's id may come twice in a session
            tool_of=partial(tool_for, name, tools=self._tools),
            places=self._places,
            send=self._send,
        )
        return call

    def _add_text(self, type: str, block: int, text: str) -> None:
        for piece in self._pieces.cut(block, text):
            self._chunk(type, f"{self._run.id}.{block}", encodable(piece))

    def _chunk(self, type: str, message_id: str, text: str) -> None:
        self._send(type, content={"type": "text", "text": text}, messageId=message_id)

    def _send(self, type: str, **fields: Any) -> None:
        self._out.append({"sessionUpdate": type, **fields})
