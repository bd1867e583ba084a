"""`TolerantJSON`: the partial value by the rules of the `partial_json_parser` package, for users of its tolerance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._errors import UsageError
from ._limits import DEFAULT_LIMITS, ParsingLimits
from ._partial_json import PartialJSON
from ._values import JSON

if TYPE_CHECKING:
    from partial_json_parser import Allow


class TolerantJSON(PartialJSON):
    """A `PartialJSON` whose `value` comes from `partial_json_parser` until the document is complete.

    It shows values that ours holds back (`1` before `10`, `True` from `tru`). It continues after faults that stop ours,
    as far as `allow` permits. Each read of a new text parses all of it again, so reading after every fragment is
    quadratic. The outcome of the text is still strict: tolerance is for display, never for running a tool.

    Args:
        allow: The parts that may be incomplete, a `partial_json_parser.Allow`; all by default.
        limits: As for `PartialJSON`.

    Raises:
        UsageError: The package `partial-json-parser` is not installed.
    """

    def __init__(self, *, allow: Allow | None = None, limits: ParsingLimits = DEFAULT_LIMITS) -> None:
        try:
            import partial_json_parser  # only here: the wire core loads only requested parsers
        except ModuleNotFoundError as error:
            raise UsageError("TolerantJSON needs a package: pip install 'eagerstream-wire[tolerant]'") from error

        super().__init__(limits=limits)
        self._loads = partial_json_parser.loads
        self._allow = partial_json_parser.Allow.ALL if allow is None else allow
        self._text: list[str] = []
        self._seen_chars = 0
        self._tolerant: JSON = None

    def feed(self, fragment: str) -> None:
        """Do the same as `PartialJSON.feed`. Text beyond `max_input_chars` is dropped."""
        super().feed(fragment)
        if self._length <= self._max_chars:  # the bound protects the package too: it recurses, and reads all text
            self._text.append(fragment)

    @property
    def value(self) -> JSON:
        """The tolerant value of the text so far. If the package refuses the text, the last value that it accepted."""
        if self.complete:
            return super().value
        if len(self._text) > 1:
            self._text = ["".join(self._text)]
        if self._text and len(self._text[0]) != self._seen_chars:
            self._seen_chars = len(self._text[0])
            try:
                self._tolerant = self._loads(self._text[0], self._allow)
            except Exception:
                pass  # it raises if it cannot complete the text, and recurses; the last good value stays
        return self._tolerant
