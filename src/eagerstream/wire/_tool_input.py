"""`ToolInput`: one tool's input while it is written, and what it turned out to be.

Two readings, kept apart. While the text grows, `partial` is the best that can be shown, and is wrong in nothing but
that it is unfinished. At its end, `outcome` is strict, and only `VALID` inputs have a `value`. The anthropic client has
one reading for both: an unescaped quote in `{"cmd":"echo "hi" && rm"}` gives it `{'cmd': 'echo '}` without an error,
and its tool runner executes that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Self

from ..errors import UsageError
from ..limits import DEFAULT_LIMITS, Limits
from ._echo import has_json_form, legal_id, legal_name, stand_in_id
from ._json_scalars import ParseFault
from ._mypyc import mypyc_attr
from ._parser import Parser
from ._partial_json import PartialJSON
from ._patch import Patch, finite
from ._server_tools import SERVER_CALLS
from ._values import MISSING, JSONObject, Path, copy_json, encodable, find, has_colliding_keys, is_deeper
from ._watchers import Watchers

INVALID_JSON: Final = "INVALID_JSON"
"""The default key under which an input that is not usable goes back to the model, verbatim."""

_BLOCK_CHARS: Final = 1_024
"""Characters that may wait for the parser. It reads so many in half a millisecond, whatever is written there.

One bound for two things. A string of 8 characters takes 60 bytes, so 16 MB in fragments of that length took 150 MB. A
look, or the end of the input, never has more than this to parse.
"""

_WHITE_SPACE: Final = re.compile(rb"[ \t\n\r]*+")
_NO_OBJECT: Final = ParseFault("the input that came with the start of the call is not an object", 0, "")


class Outcome(StrEnum):
    """The way in which the text of an input ended. Each member equals its value: `outcome == "valid"`."""

    VALID = "valid"
    """The block was closed on one whole JSON object, or on no text at all in a reply that went on."""
    INVALID = "invalid"
    """Not JSON, not an object, something after the object, a number beyond floats, over a limit, or known to lack a
    fragment."""
    INCOMPLETE = "incomplete"
    """The text stops inside the object: cut off by a limit of tokens, a lost connection, a block never closed."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ToolInput:
    """The input of one tool call, while it is written and after.

    Only what is looked at is paid for: a fragment is kept, and read by the parser when somebody looks, or with a block
    of others: 0.2 us for one that nobody looks at, and 0.6 to 2 us if it is parsed. Nothing that grows is copied.

    Attributes:
        index: Block index in the message. If the peer uses an index twice, the later block gets the next free one.
        id: The API's id of the call; opaque. The same as `echo_id` if the peer gave none that can be printed, and for
            calls that the API runs.
        name: The tool, as the model wrote it.
        kind: `"tool_use"`, `"server_tool_use"` or `"mcp_tool_use"`.
        block: The block as received at its start.
        chars: Characters written so far.
        fragments: Pieces in which it came so far, empty ones not counted.
        outcome: None until the input is settled.
        echo_id: The id under which the call is echoed and answered. It differs from `id` if the API would refuse that
            in a history: illegal characters, or the id of another call.
        echo_name: The name under which the call is echoed: `name`, or legal characters in its place, at most 64.
        repeats_id: An earlier call of the message has the same id.
    """

    def __init__(
        self,
        index: int,
        block: Mapping[str, Any],
        *,
        parser: Parser,
        limits: Limits,
        invalid_key: str = INVALID_JSON,
    ) -> None:
        self.index = index
        self.kind = str(block.get("type", ""))
        name = block.get("name")
        self.name: str = name if isinstance(name, str) else ""
        self.echo_name = legal_name(name, self.kind)
        id = block.get("id")
        self.echo_id = legal_id(id, self.kind)
        # Two ids, because they have two readers. `id` is for the program, which may have seen it in the API's log. The
        # echo is for the API, which refuses a whole history for one illegal id. Nobody answers a call of the API's own:
        # it has one id, that of its result.
        has_own = isinstance(id, str) and self.kind not in SERVER_CALLS and (id == self.echo_id or encodable(id) == id)
        self._own_id: str = str(id) if has_own else ""
        self.repeats_id = False
        self.block = block
        self.outcome: Outcome | None = None
        self.invalid_key = invalid_key
        self._parser = parser
        self._max_chars = limits.max_input_chars
        self.chars = 0
        # The text: whole blocks in UTF-8, a byte for most characters; then the newest fragments. One character beyond
        # U+FFFF makes each character of a `str` take four bytes.
        self._blocks: list[bytes] = []
        self._blocks_chars = 0
        self._raw: str | None = None  # once it is settled, and was asked for
        self._tail: list[str] = []
        self.fragments = 0
        self._parsed = 0  # fragments of the tail that the parser has read
        # From so many characters on there is more to do than to keep a fragment: 0 if somebody watches. One comparison
        # stands for all questions that would else be asked of each fragment.
        self._due_chars = _BLOCK_CHARS
        self._fault: ParseFault | None = None
        self._damage: ParseFault | None = None  # the first loss of a part of the text
        self._watchers = Watchers()
        self._reports_all = False  # the changes of each fragment are asked for
        # A call made from code that the API runs brings its whole input along. Of any other call the `{}` in the start
        # is a placeholder. Fragments win if both come: they are what the model wrote, in its own words.
        given = block.get("input")
        self._given: Any = None if given == {} else given
        self._max_depth = limits.max_depth
        # Checked before anything recurses into it: json.dumps fails on some that json.loads has just read.
        self._too_deep = False
        if self._given is not None:
            self._too_deep = isinstance(given, (dict, list)) and is_deeper(given, limits.max_depth)
            if not isinstance(given, dict) and given not in ("", []):
                self._fault = _NO_OBJECT  # known from the start: no tool begins on the fragments that may follow

    @property
    def id(self) -> str:
        """The id of the call; see the attributes of the class."""
        return self._own_id or self.echo_id

    @property
    def raw(self) -> str:
        """The JSON text so far, joined when asked for; O(length), so not for every delta.

        What lies beyond `Limits.max_input_chars` is counted in `chars` but not kept. An input that came whole at the
        start of its block has no text of its own: it is written as JSON here, unless it is beyond `Limits.max_depth`.
        """
        if self._given is not None and not self.chars:
            return "" if self._too_deep else json.dumps(self._given, ensure_ascii=False, default=str)
        blocks = self._blocks  # before `_raw` is looked at: a tool in a thread may ask at the same time
        if self._raw is not None:
            return self._raw
        text = b"".join(blocks).decode("utf-8", "surrogatepass") + "".join(self._tail)
        if self.outcome is None:
            return text[: self._max_chars]
        self._raw = text  # nothing more will come: from now on in this form alone
        self._blocks = []
        return text

    @property
    def partial(self) -> JSONObject:
        """The best-effort object as of the last fragment, unfinished strings included; `{}` while nothing shows.

        Live: it grows in place when it is looked at again. `copy_json` makes a copy that stays.
        """
        if self._given is not None and not self.chars:
            return self._given if isinstance(self._given, dict) else {}
        value = self._caught_up().value
        return value if isinstance(value, dict) else {}

    @property
    def open_path(self) -> Path | None:
        """The path of the value that is being written, `("lines_of_text", 1)` for example.

        `()` before the object opens, or between its values; None once the object is complete, or the input is settled.
        """
        return None if self.outcome is not None else self._caught_up().open_path

    @property
    def value(self) -> JSONObject | None:
        """The whole input, by a strict reading; None unless `outcome` is `VALID`.

        A lone surrogate stays in it. Tools, requests and logs get U+FFFD in its place. Keys that would become one key
        by that make the input invalid.
        """
        return self.partial if self.outcome is Outcome.VALID else None

    @property
    def wrapped(self) -> JSONObject:
        """The object to hand on and to echo: the value of a valid input, `{"INVALID_JSON": raw}` of any other.

        The key is `invalid_key`.

        Raises:
            UsageError: The input is not settled yet.
        """
        if self.outcome is None:
            raise UsageError("the input is still being written: it has no final form yet")
        return self.partial if self.outcome is Outcome.VALID else {self.invalid_key: self.raw}

    @property
    def error(self) -> ParseFault | None:
        """What is wrong with the text and where, known at the offending character; None while nothing is wrong."""
        return self._fault or self._caught_up().error

    @property
    def is_damaged(self) -> bool:
        """A part of the text is known to be lost. The input is, or will be, `INVALID`."""
        return self._damage is not None

    def is_finished(self, *path: str | int) -> bool:
        """True once the value at `path` is finished: it can no longer change, except under a repeated key."""
        if not self.chars and (self._given is not None or self.outcome is Outcome.VALID):
            return find(self.partial, path) is not MISSING
        # What stands in a list at the root is no part of an input.
        parser = self._caught_up()
        return isinstance(parser.value, dict) and parser.is_finished(path)

    def watch(self, *path: str | int, callback: Callable[[Any], object]) -> None:
        """Call `callback(value)` once, when the value at `path` is finished; at once where it already is.

        For those without an event loop. The call comes from inside `feed`, and an exception in it comes out there. A
        value that never comes is never told of: `outcome` says when to stop waiting.
        """
        if self.is_finished(*path):
            callback(find(self.partial, path))
        elif self.outcome is None:
            self._watchers.add(self._watchers.on_finish, path, callback)
            self._report()

    def whole_patch(self) -> Patch:
        """Return the patch that makes `partial` of nothing, for those who missed its beginning; O(size)."""
        value = self._caught_up().value
        return finite([{"op": "add", "path": "", "value": copy_json(value)}]) if isinstance(value, dict) else []

    def __repr__(self) -> str:
        # Never the input itself: what a model wrote does not belong in a log.
        state = self.outcome.value if self.outcome else "open"
        return f"<{type(self).__name__} {self.index} {self.name!r:.80} {state}, {self.chars} chars>"

    def to_dict(self) -> dict[str, Any]:
        """A settled input as plain data, from which `from_dict` makes it again."""
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
        """The input that `to_dict` told of.

        Raises:
            KeyError, ValueError, TypeError: It is none.
        """
        room = len(plain["raw"]) + 1  # no less than there was: the outcome is known
        # One that came whole has no text, and the depth that it may have everywhere.
        depth = max(room, DEFAULT_LIMITS.max_depth)
        limits = Limits(max_input_chars=room, max_depth=depth, max_integer_digits=room)
        key = plain.get("invalid_key", INVALID_JSON)
        input = cls(plain["index"], plain["block"], parser=PartialJSON(limits=limits), limits=limits, invalid_key=key)
        input.echo_id = plain.get("echo_id", input.echo_id)
        text = plain["raw"]
        if plain.get("damage") is not None:
            fault = ParseFault(*plain["damage"])
            input._append(text[: fault.offset_chars])  # what came before the loss still shows
            input._lose(fault.message)
            text = text[fault.offset_chars :]
        if text:
            input._append(text)
        if plain["outcome"] is not None:
            outcome = Outcome(plain["outcome"])
            input._finish(whole=outcome is not Outcome.INCOMPLETE)
            # By the limits of that time: a saved call that ran must not become one that could not have run.
            input.outcome = outcome
        return input

    # --- for the accumulator ------------------------------------------------------------------------------------------

    def _stand_in(self, seed: str) -> None:
        """Echo the call under another id: it has none, or that of another call."""
        self.echo_id = stand_in_id(seed, self.kind)

    def _lose(self, reason: str) -> None:
        """A part of the text is lost: the input can only be invalid. What was read before the loss stays, as usual."""
        if self._damage is None and self.outcome is None:
            self._caught_up()  # before the flag, which keeps the parser from reading on
            self._damage = self._fault = ParseFault(reason, self.chars, "")
            self._attend()

    def _append(self, fragment: str) -> None:
        self._tail.append(fragment)
        self.fragments += 1
        self.chars += len(fragment)
        if self.chars >= self._due_chars:
            self._attend()

    def _attend(self) -> None:
        """Do what a fragment makes due: look for who waits for its changes, and make a block of many fragments."""
        if not self._due_chars:  # somebody watches: every fragment is parsed when it comes
            parser = self._caught_up()
            if parser.error is not None or self._fault is not None:
                self._fail_watchers()
            watchers = self._watchers
            # Nearly every fragment finishes nothing that anybody waits for, and most watchers wait for nothing else. If
            # nobody waits, the paths of what it finished are not made: a hub would cost 1.37 times a run then, not 1.3.
            waits = watchers.on_finish or watchers.on_growth or watchers.on_item
            finished = parser.finished_in(watchers.max_depth) if parser.ended and waits else ()
            if finished or watchers.on_growth or watchers.on_item or watchers.on_text or watchers.due:
                self._call_watchers(finished)
            elif not (self._reports_all or watchers.on_finish):
                self._stop_tracking()
        if self.chars - self._blocks_chars >= _BLOCK_CHARS:
            self._compact()
            if self._due_chars:
                self._due_chars = self._blocks_chars + _BLOCK_CHARS

    def _call_watchers(self, finished: Sequence[tuple[Path, str | int | None]]) -> None:
        watchers, parser = self._watchers, self._parser
        watchers.finish(finished, self._finished_at)
        if watchers.on_growth or watchers.on_item:
            open_path = parser.open_path
            if open_path is not None:
                # The value of a tolerant parser is dear.
                watchers.grow(parser.value if watchers.on_item else None, open_path)
        if not (watchers.call() or self._reports_all):
            self._stop_tracking()

    def _stop_tracking(self) -> None:
        """Nobody waits any more: fragments are kept, and read when somebody looks.

        A tool often waits for one field at the beginning of a long input. The rest then costs what it costs unwatched.
        """
        self._parser.tracks = False
        self._due_chars = self._blocks_chars + _BLOCK_CHARS

    def _fail_watchers(self) -> None:
        """The text is wrong: values that are not finished never will be."""

    def _report(self) -> None:
        """Have the parser read each fragment when it comes, and track what it finishes, while anybody waits."""
        self._caught_up().tracks = True
        self._due_chars = 0

    def _report_all(self) -> None:
        """Have it report all changes, whether anybody waits or not, for `InputDelta.patch`."""
        self._reports_all = True
        self._report()
        self._parser.reports = True

    def _finished_at(self, path: Path) -> Any:
        """Return the value at a path; `MISSING` if it is not finished."""
        return find(self.partial, path) if self.is_finished(*path) else MISSING

    def _caught_up(self) -> Parser:
        """The parser, when it has read everything."""
        waiting = len(self._tail) - self._parsed
        if waiting:
            # One text for all that waits: the parser reads long texts at a fraction of the cost per character.
            text = self._tail[-1] if waiting == 1 else "".join(self._tail[self._parsed :])
            self._parsed += waiting
            if self._damage is None:  # after a loss, further text means nothing
                self._parser.feed(text)
        return self._parser

    def _compact(self) -> None:
        """Make a block of the fragments; what is over the limit is not kept.

        "surrogatepass", because a wire event may carry half a pair, and `raw` gives back exactly what came.
        """
        if not self._tail:
            return
        self._caught_up()
        room = self._max_chars - self._blocks_chars
        if room > 0:
            self._blocks.append("".join(self._tail)[:room].encode("utf-8", "surrogatepass"))
        self._blocks_chars = self.chars
        self._tail.clear()
        self._parsed = 0

    @property
    def _is_empty(self) -> bool:
        """No text at all: whether there is none, or whether it was cut off, only what follows can tell.

        A damaged input is never empty: it is known to lack something.
        """
        return not self.chars and self._given is None and self._damage is None

    def _finish(self, *, whole: bool) -> None:
        """Decide the outcome; `whole` says that what is there was not cut off (the block was closed, and so on)."""
        self._compact()
        parser = self._parser
        parser.close()
        # In this order: a text that was wrong before it was cut could not have become right. An object that is closed
        # is not enough to be `VALID`: without the end of its block, more may have followed it.
        self._fault = self._fault or self._find_fault()
        if self._fault is not None:
            self.outcome = Outcome.INVALID
        elif whole and (parser.complete or not self.chars):  # a tool without arguments gets no text at all
            self.outcome = Outcome.VALID
        else:
            self.outcome = Outcome.INCOMPLETE
            self._fault = ParseFault("the input was cut off", self.chars, "")
        # An empty text that is `{}` was finished by no fragment, and so was an input that came whole.
        ends = [(path[:-1], path[-1] if path else None) for path in self._watchers.on_finish]
        self._watchers.finish(ends, self._finished_at)
        self._watchers.call()
        self._watchers.on_finish.clear()

    def _find_fault(self) -> ParseFault | None:
        if self._given is not None and not self.chars:
            # Some gateways write "" or [] in place of `{}`. Without fragments, that is no input either.
            if not isinstance(self._given, dict):
                return _NO_OBJECT
            if self._too_deep:
                return ParseFault(f"nested deeper than {self._max_depth}", 0, "")
            # It was decoded with its event, by a reader that takes infinities. The API refuses them in a history.
            if not has_json_form(self._given):
                return ParseFault("a number that cannot be sent back", 0, "")
        fault = self._fault_of_text()
        # U+FFFD replaces lone surrogates in what a tool gets. If that makes one key of two, a value would be lost.
        if fault is None and self._may_have_surrogates and has_colliding_keys(self.partial):
            return ParseFault("two keys that are the same once lone surrogates are replaced by U+FFFD", 0, "")
        return fault

    @property
    def _may_have_surrogates(self) -> bool:
        """Lone surrogates, that is; found without looking at each value."""
        # An escape of any character, maybe split between two blocks of text, or the bytes of a surrogate itself.
        return self._given is not None or any(
            b"\\u" in block or block.endswith(b"\\") or b"\xed" in block for block in self._blocks
        )

    def _fault_of_text(self) -> ParseFault | None:
        # The first character tells an object, before the parser is asked: `[1,2]` and `"x"` are JSON, and the anthropic
        # client hands them on. The API answers 400 when they come back as an `input`.
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
        if self._parser.error is None and self._parser.overflow_chars is not None:
            offset = self._parser.overflow_chars
            return ParseFault("a number too large to be sent back", offset, self.raw[offset : offset + 1])
        return self._parser.error
