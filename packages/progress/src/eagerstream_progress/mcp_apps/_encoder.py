"""`MCPAppsEncoder`: turns the records of a run into notifications for the apps of its calls. No I/O, no clock.

The notifications of a call follow a small table of stages:

========  ============================================================================  =========
stage     what is sent                                                                  next stage
========  ============================================================================  =========
WRITING   `tool-input-partial`, if the input has grown enough                           WRITING
WRITING   `tool-input`, if the input is valid, or the tool ran with it all the same     GIVEN
WRITING   `tool-cancelled`, if the call ends in any other way                           OVER
GIVEN     `tool-result` if the tool ran to its end, `tool-cancelled` otherwise          OVER
OVER      nothing
========  ============================================================================  =========

Each partial has all arguments so far. One for each fragment would cost the square of the input's length: 25 million
characters for an input of 20,000 characters in 2,500 fragments. A partial is therefore sent only if the input has grown
by `GROWTH` since the last one. The lengths of the partials then grow as a geometric series, and all of them together
have at most 1 + 1 / GROWTH = 51 times as many characters as the input, whatever its length.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final, TypedDict, cast

from eagerstream import apply_patch, copy_json
from eagerstream._support.inspecting import without_middle

from .._fold import CallFold, RunFold
from .._record import InputDeltaRecord, InputStartRecord, Record
from ._result import text_of, to_call_tool_result

GROWTH: Final = 0.02
"""Share by which an input grows between two partials. At 20,000 characters this is once in 400: 1 s of writing."""

MAX_PARTIAL_CHARS: Final = 1_000_000
"""Maximum length of an input that is shown while it grows. A longer one comes once, when it is complete."""

_MAX_REASON_CHARS: Final = 2_000

_RESTARTED: Final = "The response was restarted."
_INTERRUPTED: Final = "The run was interrupted."
_NOT_KEPT: Final = "The arguments are no longer kept."


class AppMessage(TypedDict):
    """A notification for the app of one call.

    Attributes:
        block: The number of the call's block. No other call of the run has it.
        call: The API's id of the call.
        tool: The name of the tool.
        resourceUri: The URI of the app, as the host reads it from the MCP server.
        notification: The JSON-RPC notification: `{"jsonrpc": "2.0", "method": ..., "params": {...}}`.
    """

    block: int
    call: str
    tool: str
    resourceUri: str
    notification: dict[str, Any]


class _Stage(Enum):
    WRITING = "writing"
    GIVEN = "given"
    OVER = "over"


class MCPAppsEncoder:
    """Turns the records of one run, in order, into notifications for the apps of its calls.

    ::

        encoder = MCPAppsEncoder({"draw_chart": "ui://charts/chart.html"})
        async with log.watch() as watcher:
            async for batch in watcher:
                for message in encoder.encode(batch.records):
                    await views[message["block"]].send(message["notification"])

    The first message of a call is a partial with the arguments that are there, perhaps none: a host can load the app
    while the model writes. Partials come at most once for each call of `encode`, and only if the input has grown by 2%.
    The host must keep the messages back until the app has sent `ui/notifications/initialized`.

    Args:
        resources: Maps the names of tools to the URIs of their apps, see `ui_resources`. Other tools are left out. It
            is read when a call starts, so it may change.
    """

    def __init__(self, resources: Mapping[str, str]) -> None:
        self._resources = resources
        self._run: RunFold[CallFold] = RunFold(self._start_call)
        self._open: dict[int, _AppCall] = {}  # calls whose app waits for more, by block
        self._out: list[AppMessage] = []

    def encode(self, records: Iterable[Record]) -> list[AppMessage]:
        """Return the messages for the next records. They share no container that changes.

        Raises:
            ValueError: A patch does not fit its input, for example because a file was edited.
        """
        for record in records:
            call = self._run.feed(record)
            if isinstance(call, _AppCall):
                self._tell(call)
            match record["type"]:
                case "restarted" | "message_start":
                    self._cancel_removed(_RESTARTED)
                case "run_resumed" | "turn_start":
                    self._cancel_removed(_INTERRUPTED)
                case "run_stop" if record["status"] != "waiting":  # the calls of a run that waits come again
                    self._cancel_all(f"The run ended: {record['status']}.")
                case _:
                    pass
        for call in self._open.values():
            if call.is_due:
                self._send(call, "tool-input-partial", arguments=call.show())
        out, self._out = self._out, []
        return out

    def _start_call(self, record: InputStartRecord) -> CallFold:
        head = record["block"], record["id"], record["name"], record["kind"], self._run.turn, record["at_s"]
        uri = self._resources.get(record["name"])
        if uri is None:
            return CallFold(*head)
        call = self._open[record["block"]] = _AppCall(*head)
        call.resource_uri = uri
        call.arguments = copy_json(record["input"] or {})
        return call

    def _tell(self, call: _AppCall) -> None:
        """Send what the new state of a call allows."""
        if call.outcome is None or call.block not in self._open:
            return  # a result that comes before the end of the input waits for it
        result = call.result
        # A tool with `repair` or `accepts_invalid_input` has run with an input that is no JSON. Its app gets the
        # best-effort arguments.
        is_usable = call.outcome == "valid" or (result is not None and result.ran and not result.is_error)
        if call.stage is _Stage.WRITING and is_usable:
            if call.omitted_chars or not isinstance(call.arguments, dict):
                self._cancel(call, _NOT_KEPT)
                return
            call.stage = _Stage.GIVEN
            self._send(call, "tool-input", arguments=call.arguments)
            call.arguments = {}
        if result is None:
            return
        if call.stage is _Stage.GIVEN and result.ran:
            self._end(call, "tool-result", **to_call_tool_result(result))
        else:
            self._cancel(call, text_of(result))

    def _cancel_removed(self, reason: str) -> None:
        """Cancel the calls that the run no longer has."""
        for call in list(self._open.values()):
            if self._run.current.get(call.block) is not call:
                self._cancel(call, reason)

    def _cancel_all(self, reason: str) -> None:
        for call in list(self._open.values()):
            self._cancel(call, reason)

    def _cancel(self, call: _AppCall, reason: str) -> None:
        self._end(call, "tool-cancelled", reason=without_middle(reason, _MAX_REASON_CHARS))

    def _end(self, call: _AppCall, name: str, /, **params: Any) -> None:
        call.stage = _Stage.OVER
        del self._open[call.block]
        self._send(call, name, **params)

    def _send(self, call: _AppCall, name: str, /, **params: Any) -> None:
        notification = {"jsonrpc": "2.0", "method": f"ui/notifications/{name}", "params": params}
        message: AppMessage = {
            "block": call.block,
            "call": call.id,
            "tool": call.name,
            "resourceUri": call.resource_uri,
            "notification": notification,
        }
        self._out.append(message)


class _AppCall(CallFold):
    """A call whose tool has an app.

    Attributes:
        resource_uri: The URI of the app.
        stage: See the table above.
        arguments: The best-effort arguments. They grow in place, until they are complete.
    """

    resource_uri = ""
    stage = _Stage.WRITING
    arguments: Any = None
    _chars = 0
    _shown_chars = -1  # at the last partial; -1 if there was none

    def grow(self, record: InputDeltaRecord) -> None:
        """Add a delta to the input."""
        super().grow(record)
        if not self.omitted_chars:  # patches after an omitted text do not fit
            self._chars += len(record["fragment"])
            self.arguments = apply_patch(self.arguments, record["patch"])

    @property
    def is_due(self) -> bool:
        """True if the app should get the arguments so far."""
        if self.outcome is not None or self.omitted_chars or not isinstance(self.arguments, dict):
            return False
        is_grown = self._chars > self._shown_chars and self._chars >= self._shown_chars * (1 + GROWTH)
        return is_grown and self._chars <= MAX_PARTIAL_CHARS

    def show(self) -> dict[str, Any]:
        """Return a copy of the arguments, for a partial."""
        self._shown_chars = self._chars
        return cast("dict[str, Any]", copy_json(self.arguments))
