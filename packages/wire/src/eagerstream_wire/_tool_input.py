"""`ToolInput`: one tool's input while it is written, and its outcome.

Two readings, kept separate. While the text grows, `partial` is the best value that can be shown: it is unfinished, and
otherwise right. At its end, `outcome` is strict, and only `VALID` inputs have a `value`. The anthropic client has one
reading for both: an unescaped quote in `{"cmd":"echo "hi" && rm"}` gives it `{'cmd': 'echo '}` without an error, and
its tool runner executes that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

from ._echo import legal_id, legal_name
from ._errors import UsageError
from ._json_scalars import ParseFault
from ._limits import DEFAULT_LIMITS, ParsingLimits
from ._mypyc import mypyc_attr
from ._parser import Parser, ParserFactory
from ._partial_json import PartialJSON, read_whole
from ._patch import finite, merge_patches
from ._server_tools import SERVER_CALLS
from ._value_count import ValueCount
from ._values import MISSING, JSONObject, Path, copy_json, encodable, find, has_colliding_keys, is_deeper
from ._watchers import Watchers

if TYPE_CHECKING:
    from ._patch_types import Patch

INVALID_JSON: Final = "INVALID_JSON"
"""The default key under which an unusable input goes back to the model, verbatim."""

_BLOCK_CHARS: Final = 1_024
"""Number of characters of fragments to keep before they become one block of bytes.

A string of 8 characters takes 60 bytes, so 16 MB in fragments of that length took 150 MB. Once somebody has looked at
an input, a block is also parsed, which takes 0.5 ms for any text: a later look never has more than this to parse.
"""

_UNREAD_CHARS: Final = 256 * 1_024
"""Number of characters up to which an input that nobody looks at is not parsed before its end.

It is then parsed by jiter at 2 ns a character. If jiter refuses it, the parser reads all of it at once, at up to 0.2 us
a character for the worst text: this many take 50 ms. No model writes a longer input in one response.
"""

_WHITE_SPACE: Final = re.compile(rb"[ \t\n\r]*+")
_NO_OBJECT: Final = ParseFault("the input that came with the start of the call is not an object", 0, "")


class Outcome(StrEnum):
    """The way in which the text of an input ended. Each member equals its value: `outcome == "valid"`."""

    VALID = "valid"
    """One complete JSON object, or no text in a response that continued, and the end of the block. What proves as much
    counts as that end: the model itself ended the message, or another block started at the index."""
    INVALID = "invalid"
    """Not JSON, not an object, something after the object, a number beyond floats, over a limit, two keys that become
    one, or known to lack a fragment."""
    INCOMPLETE = "incomplete"
    """The text stops inside the object: cut by a limit of tokens, or by a lost connection."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ToolInput:
    """The input of one tool call, during and after its writing.

    A fragment is only kept, until somebody looks at the input: then the parser reads what has come, and from then on
    what comes. An input that nobody looks at is parsed once, at its end. Nothing that grows is copied.

    Attributes:
        index: Block index in the message. If the peer uses an index twice, the later block gets the next free one.
        id: The API's id of the call; opaque. It equals `echo_id` if the peer gave no printable id, and for calls that
            the API runs.
        name: The tool's name, as the model wrote it.
        kind: `"tool_use"`, `"server_tool_use"` or `"mcp_tool_use"`.
        block: The block as received at its start.
        chars: Number of characters written so far.
        fragments: Number of fragments so far, without empty ones.
        outcome: The outcome; None until the input is settled.
        echo_id: The id under which the call is echoed and answered. It differs from `id` if the API would refuse that
            in a history: illegal characters, or the id of another call.
        echo_name: The name under which the call is echoed: `name`, or a legal stand-in of at most 64 characters.
        repeats_id: True if an earlier call of the message has the same id.
        invalid_key: The key of `wrapped` for an unusable input.
    """

    # Slots: instances share the names of at most 30 attributes, so each input would have a dict of its own, which a
    # fragment reads in several places. In one event loop with 1,000 inputs, none of them is in a cache.
    # `GrowingInput` has none: a fragment reads nothing of it, and a compiled class gives no weak references to slots.
    __slots__ = (
        "_blocks",
        "_blocks_chars",
        "_damage",
        "_due_chars",
        "_fault",
        "_finished_fields",
        "_given",
        "_has_surrogates",
        "_limits",
        "_made_watchers",
        "_make_parser",
        "_own_id",
        "_parsed",
        "_parser",
        "_patches",
        "_raw",
        "_reports_all",
        "_tail",
        "_too_deep",
        "_values",
        "_whole",
        "block",
        "chars",
        "echo_id",
        "echo_name",
        "fragments",
        "index",
        "invalid_key",
        "kind",
        "name",
        "outcome",
        "repeats_id",
    )

    def __init__(
        self,
        index: int,
        block: Mapping[str, Any],
        *,
        parser: ParserFactory,
        limits: ParsingLimits,
        invalid_key: str = INVALID_JSON,
    ) -> None:
        self.index: int = index
        self.kind: str = str(block.get("type", ""))
        name = block.get("name")
        self.name: str = name if isinstance(name, str) else ""
        self.echo_name: str = legal_name(name, self.kind)
        id = block.get("id")
        self.echo_id: str = legal_id(id, self.kind)
        # Two ids, because they have two readers. `id` is for the program, which may have seen it in the API's log. The
        # echo is for the API, which refuses an entire history for one illegal id. The client does not answer the API's
        # own calls: such a call has one id, that of its result.
        has_own = isinstance(id, str) and self.kind not in SERVER_CALLS and (id == self.echo_id or encodable(id) == id)
        self._own_id: str = str(id) if has_own else ""
        self.repeats_id: bool = False
        self.block: Mapping[str, Any] = block
        self.outcome: Outcome | None = None
        self.invalid_key: str = invalid_key
        self._make_parser = parser
        self._parser: Parser | None = None  # once somebody has looked at the input, or it has ended
        self._whole: JSONObject | None = None  # if nobody had looked before its end
        self._limits = limits
        self._values: ValueCount | None = None  # of the blocks, once they are long enough for too many
        self.chars: int = 0
        # The text: complete blocks in UTF-8, a byte for most characters; then the newest fragments. A single character
        # beyond U+FFFF makes each character of a `str` take four bytes.
        self._blocks: list[bytes] = []
        self._blocks_chars = 0
        self._raw: str | None = None  # once the input is settled and `raw` was read
        self._tail: list[str] = []
        self.fragments: int = 0
        self._parsed = 0  # number of the tail's fragments that the parser has read
        # From this number of characters on, more is due than keeping a fragment: 0 if there is a watcher. One
        # comparison replaces all checks that each fragment would otherwise need.
        self._due_chars = _BLOCK_CHARS
        self._fault: ParseFault | None = None
        self._damage: ParseFault | None = None  # the first loss of a part of the text
        self._made_watchers: Watchers | None = None  # made for the first one: few inputs have any
        self._reports_all = False  # the changes were requested
        # What changed since the last call of `_take_changes`: the patch of each text that the parser has read.
        self._patches: list[Patch] = []
        self._finished_fields: list[str] = []
        # A call made from code that the API runs brings its complete input. For any other call the `{}` in the start is
        # a placeholder. If both come, the fragments win: they are the model's own words.
        given = block.get("input")
        self._given: Any = None if given == {} else given
        self._has_surrogates = False  # it may have lone ones; known once it is settled
        # Checked before anything recurses into it: json.dumps fails on some values that json.loads has just read.
        self._too_deep = False
        if self._given is not None:
            self._too_deep = isinstance(given, (dict, list)) and is_deeper(given, limits.max_depth)
            if not isinstance(given, dict) and given not in ("", []):
                self._fault = _NO_OBJECT  # known from the start: fragments that follow must not start a tool

    @property
    def _watchers(self) -> Watchers:
        if self._made_watchers is None:
            self._made_watchers = Watchers()
        return self._made_watchers

    @property
    def id(self) -> str:
        """The id of the call; see the attributes of the class."""
        return self._own_id or self.echo_id

    @property
    def raw(self) -> str:
        """The JSON text so far, joined when read; O(length), so do not read it for every delta.

        Text beyond `Limits.max_input_chars` is counted in `chars` but not kept. If an input came complete at the start
        of its block, it has no text: it is written as JSON here, or `""` if it is deeper than `Limits.max_depth`.
        """
        if self._given is not None and not self.chars:
            return "" if self._too_deep else json.dumps(self._given, ensure_ascii=False, default=str)
        blocks = self._blocks  # before `_raw` is read: a tool in a thread may read at the same time
        if self._raw is not None:
            return self._raw
        text = b"".join(blocks).decode("utf-8", "surrogatepass") + "".join(self._tail)
        if self.outcome is None:
            return text[: self._limits.max_input_chars]
        self._raw = text  # no more text will come: keep only this form
        self._blocks = []
        return text

    @property
    def partial(self) -> JSONObject:
        """The best-effort object up to the last fragment, with unfinished strings; `{}` while there is none.

        Live: it grows in place when it is read again. `copy_json` makes a copy that stays.
        """
        if self._whole is not None:
            return self._whole
        if self._given is not None and not self.chars:
            return self._given if isinstance(self._given, dict) else {}
        value = self._caught_up().value
        return value if isinstance(value, dict) else {}

    @property
    def open_path(self) -> Path | None:
        """The path of the value that is being written, for example `("lines_of_text", 1)`.

        `()` before the object opens, or between its values. None if the object is complete, or the input is settled.
        """
        return None if self.outcome is not None else self._caught_up().open_path

    @property
    def value(self) -> JSONObject | None:
        """The complete input, by strict rules; None unless `outcome` is `VALID`.

        It keeps lone surrogates. Tools, requests and logs get U+FFFD in their place. If that would make one key of two,
        the input is invalid.
        """
        return self.partial if self.outcome is Outcome.VALID else None

    @property
    def wrapped(self) -> JSONObject:
        """The object to pass on and to echo: the value of a valid input, otherwise `{"INVALID_JSON": raw}`.

        The key is `invalid_key`.

        Raises:
            UsageError: The input is not settled yet.
        """
        if self.outcome is None:
            raise UsageError("the input is still being written: it has no final form yet")
        return self.partial if self.outcome is Outcome.VALID else {self.invalid_key: self.raw}

    @property
    def error(self) -> ParseFault | None:
        """The fault of the text and its place, known from the offending character on; None if there is none."""
        return self._fault or (self._caught_up().error if self._whole is None else None)

    @property
    def is_damaged(self) -> bool:
        """True if a part of the text is known to be lost. The input is, or will be, `INVALID`."""
        return self._damage is not None

    def is_finished(self, *path: str | int) -> bool:
        """Return True if the value at `path` is finished: it can no longer change, except under a repeated key."""
        if self.outcome is Outcome.VALID or (self._given is not None and not self.chars):
            return find(self.partial, path) is not MISSING
        # If the root is a list, its contents are no part of an input.
        parser = self._caught_up()
        return isinstance(parser.value, dict) and parser.is_finished(path)

    def watch(self, *path: str | int, callback: Callable[[Any], object]) -> None:
        """Call `callback(value)` once, when the value at `path` is finished; immediately if it already is.

        Use it without an event loop. `feed` makes the call, and raises the exceptions of `callback`. If the value never
        comes, nothing is called: stop waiting when `outcome` is set.
        """
        if self.is_finished(*path):
            callback(find(self.partial, path))
        elif self.outcome is None:
            self._watchers.add(self._watchers.on_finish, path, callback)
            self._report()

    def whole_patch(self) -> Patch:
        """Return the patch that builds `partial` from nothing, for observers who missed its start; O(size)."""
        value = self._caught_up().value if self._whole is None else self._whole
        return finite([{"op": "add", "path": "", "value": copy_json(value)}]) if isinstance(value, dict) else []

    def __repr__(self) -> str:
        # Without the input itself: a model's text does not belong in a log.
        state = self.outcome.value if self.outcome else "open"
        return f"<{type(self).__name__} {self.index} {self.name!r:.80} {state}, {self.chars} chars>"

    def to_dict(self) -> dict[str, Any]:
        """Return the input as plain data, from which `from_dict` restores it."""
        return {
            "index": self.index,
            "block": self.block,
            "raw": self.raw if self.chars else "",
            "outcome": self.outcome and self.outcome.value,
            "damage": self._damage and list(self._damage),
            "echo_id": self.echo_id,
            "invalid_key": self.invalid_key,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Restore an input from the data that `to_dict` returned.

        Raises:
            KeyError, ValueError, TypeError: `plain` is no such data.
        """
        room = len(plain["raw"]) + 1  # no less than there was: the outcome is known
        # An input that came complete has no text, and may have the depth that is always allowed.
        depth = max(room, DEFAULT_LIMITS.max_depth)
        limits = ParsingLimits(max_input_chars=room, max_depth=depth, max_integer_digits=room, max_values=room)
        key = plain.get("invalid_key", INVALID_JSON)
        input = cls(plain["index"], plain["block"], parser=PartialJSON, limits=limits, invalid_key=key)
        input.echo_id = plain.get("echo_id", input.echo_id)
        text = plain["raw"]
        if plain.get("damage") is not None:
            fault = ParseFault(*plain["damage"])
            input._append(text[: fault.offset_chars])  # the text before the loss still shows
            input._lose(fault.message)
            text = text[fault.offset_chars :]
        if text:
            input._append(text)
        if plain["outcome"] is not None:
            outcome = Outcome(plain["outcome"])
            input._finish(whole=outcome is not Outcome.INCOMPLETE)
            # By the limits of that time: a saved call that ran must not become one that could not run.
            input.outcome = outcome
        return input

    # --- for the accumulator ------------------------------------------------------------------------------------------

    def _lose(self, reason: str) -> None:
        """Record the loss of a part of the text: the input becomes invalid. Values read before the loss stay."""
        if self._damage is None and self.outcome is None:
            self._caught_up()  # before the flag, which stops the parser
            self._damage = self._fault = ParseFault(reason, self.chars, "")
            self._attend()

    def _append(self, fragment: str) -> None:
        self._tail.append(fragment)
        self.fragments += 1
        self.chars += len(fragment)
        if self.chars >= self._due_chars:
            self._attend()

    def _attend(self) -> None:
        """Do the work that a fragment makes due: call watchers, and make a block of many fragments."""
        if not self._due_chars:  # there is a watcher: every fragment is parsed when it comes
            parser = self._caught_up()
            if parser.error is not None or self._fault is not None:
                self._fail_watchers()
            watchers = self._made_watchers
            assert watchers is not None  # made for the watcher
            # Nearly every fragment finishes no awaited value, and most watchers wait only for finished values.
            waits = watchers.on_finish or watchers.on_growth or watchers.on_item
            finished = parser.finished_in(watchers.max_depth) if parser.ended and waits else ()
            if finished or watchers.on_growth or watchers.on_item or watchers.on_text or watchers.due:
                watchers.finish(finished, self._finished_at)
                if watchers.on_growth or watchers.on_item:
                    open_path = parser.open_path
                    if open_path is not None:
                        # The value of a tolerant parser is expensive.
                        watchers.grow(parser.value if watchers.on_item else None, open_path)
                if not watchers.call():
                    self._stop_tracking()
            elif not watchers.on_finish:
                self._stop_tracking()
        if self.chars - self._blocks_chars >= _BLOCK_CHARS:
            self._compact()
            if self._due_chars:
                self._due_chars = self._blocks_chars + _BLOCK_CHARS

    def _stop_tracking(self) -> None:
        """Stop tracking after the last waiter: fragments are only kept, and parsed when the input is read.

        A tool often waits for one field at the start of a long input. The rest then costs as much as without a watcher.
        """
        self._caught_up().tracks = self._reports_all
        self._due_chars = self._blocks_chars + _BLOCK_CHARS

    def _fail_watchers(self) -> None:
        """Fail the watchers of unfinished values, because the text is wrong. Subclasses override it."""

    def _report(self) -> None:
        """Have the parser read each fragment when it comes, and track the values it finishes, while anybody waits."""
        self._caught_up().tracks = True
        self._due_chars = 0

    def _report_all(self, *, reports: bool) -> None:
        """Have the parser report all changes or not, even without a watcher, for `InputDelta.patch`."""
        parser = self._caught_up()
        self._reports_all = parser.reports = reports
        parser.tracks = reports or not self._due_chars
        self._patches.clear()
        self._finished_fields.clear()

    def _take_changes(self) -> tuple[Patch, Sequence[str]]:
        """Return the changes since the last call, and the names of the fields finished since then that still are."""
        parser = self._caught_up()
        patches, finished = self._patches, self._finished_fields
        patch = patches[0] if len(patches) == 1 else merge_patches(patches)
        patches.clear()
        if not finished:  # as nearly always
            return patch, ()
        self._finished_fields = []
        return patch, [name for name in finished if parser.is_finished((name,))]  # not one whose key comes again

    def _finished_at(self, path: Path) -> Any:
        """Return the value at a path; `MISSING` if it is not finished."""
        return find(self.partial, path) if self.is_finished(*path) else MISSING

    def _caught_up(self) -> Parser:
        """Return the parser after it has read all waiting fragments."""
        parser = self._parser
        if parser is None:
            blocks = self._blocks  # before `_raw`, as in `raw`
            parser = self._make_parser(limits=self._limits)
            raw = self._raw
            for text in [raw] if raw is not None else (block.decode("utf-8", "surrogatepass") for block in blocks):
                parser.feed(text)
            if self.outcome is not None:
                parser.close()
            self._parser = parser
        waiting = len(self._tail) - self._parsed
        if waiting:
            # One text for all waiting fragments: the parser reads long texts at a fraction of the cost per character.
            text = self._tail[-1] if waiting == 1 else "".join(self._tail[self._parsed :])
            self._parsed += waiting
            # After a loss, further text has no meaning. Of too many values, the first ones stay. An empty text instead:
            # the parser must not report the same changes again.
            is_read = self._damage is None and not self._has_too_many
            parser.feed(text if is_read else "")
            if self._reports_all:
                self._patches.append(parser.patch)
                if parser.ended:
                    self._finished_fields += parser.finished_fields
        return parser

    def _compact(self) -> None:
        """Make a block of the fragments. Text over the limit is dropped.

        "surrogatepass", because a wire event may contain half a pair, and `raw` returns exactly the received text.
        """
        if not self._tail:
            return
        max_chars = self._limits.max_input_chars
        if self._parser is not None or self.chars > min(_UNREAD_CHARS, max_chars):
            self._caught_up()
        room = max_chars - self._blocks_chars
        text = "".join(self._tail)
        self._blocks_chars = self.chars
        self._tail.clear()
        self._parsed = 0
        if room <= 0:
            return
        self._blocks.append(text[:room].encode("utf-8", "surrogatepass"))
        if self.chars <= self._limits.max_values or self._has_too_many:
            return
        # Count the values in the newest block, at first in all blocks. Too many are a fault: each later step looks at
        # all of them, the checks of a call, the copies for its tool, the next request.
        uncounted = self._blocks[-1:]
        if self._values is None:
            self._values = ValueCount()
            uncounted = self._blocks
        for block in uncounted:
            self._values.feed(block)
        if self._has_too_many:
            self._caught_up()  # the values so far; no further ones are read
            self._fault = self._fault or ParseFault(f"more than {self._limits.max_values} values", 0, "")

    @property
    def _has_too_many(self) -> bool:
        return self._values is not None and self._values.values > self._limits.max_values

    @property
    def _is_empty(self) -> bool:
        """True if there is no text at all. Only later events show whether it was cut off.

        A damaged input is never empty: it is known to lack something.
        """
        return not self.chars and self._given is None and self._damage is None

    @property
    def _is_complete(self) -> bool:
        """True if what has come is a complete object. It is no prefix of another one."""
        if self._fault is not None:
            return False
        if not self.chars:
            return self._given is not None
        parser = self._caught_up()
        return parser.complete and isinstance(parser.value, dict)

    def _finish(self, *, whole: bool) -> None:
        """Decide the outcome. `whole` means that the text was not cut (the block was closed, and so on)."""
        self._compact()
        if self._parser is None and self._fault is None and self._blocks and self._make_parser is PartialJSON:
            self._whole = read_whole(b"".join(self._blocks), self._limits)
        is_complete = self._whole is not None
        if not is_complete:
            parser = self._caught_up()
            parser.close()
            is_complete = parser.complete or not self.chars  # a tool without arguments gets no text at all
            # Lone surrogates are possible with an escape of any character, which may be split between two blocks, or
            # with the bytes of one. This is found without reading each value, and now: reading `raw` takes the blocks.
            self._has_surrogates = any(
                b"\\u" in block or block.endswith(b"\\") or b"\xed" in block for block in self._blocks
            )
            self._fault = self._fault or self._find_fault()
        # In this order: a text that was wrong before it was cut could not have become right. A closed object alone is
        # not `VALID`: without the end of its block, more may have followed it.
        if self._fault is not None:
            self.outcome = Outcome.INVALID
        elif whole and is_complete:
            self.outcome = Outcome.VALID
        else:
            self.outcome = Outcome.INCOMPLETE
            self._fault = ParseFault("the input was cut off", self.chars, "")
        # An empty text that means `{}` was finished by no fragment, and neither was an input that came complete.
        watchers = self._made_watchers
        if watchers is not None and (watchers.on_finish or watchers.on_text or watchers.due):
            ends = [(path[:-1], path[-1] if path else None) for path in watchers.on_finish]
            watchers.finish(ends, self._finished_at)
            watchers.call()
            watchers.on_finish.clear()

    def _find_fault(self) -> ParseFault | None:
        if self._given is not None and not self.chars:
            # Some gateways write "" or [] instead of `{}`. Without fragments, that is no input either.
            if not isinstance(self._given, dict):
                return _NO_OBJECT
            if self._too_deep:
                return ParseFault(f"nested deeper than {self._limits.max_depth}", 0, "")
            # It was decoded with its event, by a reader that accepts infinities. The API refuses them in a history.
            try:
                json.dumps(self._given, ensure_ascii=False, allow_nan=False).encode()
            except UnicodeEncodeError:
                self._has_surrogates = True
            except (ValueError, RecursionError, TypeError):
                return ParseFault("a value that cannot be sent back", 0, "")
        # The first character decides if it is an object, before the parser's error: `[1,2]` and `"x"` are JSON, and the
        # anthropic client passes them on. The API answers 400 when they come back as an `input`.
        offset = 0
        for block in self._blocks:
            blank = _WHITE_SPACE.match(block)
            start = blank.end() if blank else 0
            offset += start
            if start < len(block):
                if block[start : start + 1] != b"{":
                    character = block[start:].decode("utf-8", "surrogatepass")[0]
                    return ParseFault("a tool's input must be an object", offset, character)
                break
        parser = self._caught_up()
        if parser.error is not None:
            return parser.error
        if parser.overflow_chars is not None:
            offset = parser.overflow_chars
            return ParseFault("a number too large to be sent back", offset, self.raw[offset : offset + 1])
        # U+FFFD replaces lone surrogates for a tool. If that makes one key of two, a value would be lost.
        if self._has_surrogates and has_colliding_keys(self.partial):
            return ParseFault("two keys that are the same once lone surrogates are replaced by U+FFFD", 0, "")
        return None
