"""Mutants that no vector can notice, each with its reason. They are tried, too: a reason counts only for a survivor."""

from __future__ import annotations

import re
from typing import Final

from .mutations import Mutation

_MESSAGE: Final = "the text of an error is for people"
_BOUND: Final = "a bound of this library, not a rule of the format"
_MISUSE: Final = "the answer to a call after the end"
_QUERY: Final = "a query that is no part of the vectors"
_SWITCH: Final = "reports and tracks are switches of this library"
_FASTER: Final = "a short cut with the same result"
_SET_FIRST: Final = "another value is set before it is read"
_MIRRORS: Final = "typed values are no part of the vectors"

_REASONS: Final = (
    ("_decoder", "", "^T = ", _MESSAGE),
    ("_decoder", r"Decoder\.(_refuse|__init__)", "", _MISUSE),
    ("_decoder", "", "_failure|_closed|_forget|_refuse|not events|^raise", _MISUSE),
    ("_sse", r"ServerSentEvent", "", _MESSAGE),
    ("_sse", "", "_MAX_RETRY_DIGITS|media_type", _BOUND),
    ("_sse", r"EventStreamDecoder\._(check_size|check_values|count|is_data|forget)$", "", _BOUND),
    ("_sse", "", "_values|_max_uncounted_bytes|self._count|is_short", _BOUND),
    ("_sse", "", "_pieces_bytes|_check_size|> self._max_event_bytes|< self._max_event_bytes", _BOUND),
    (
        "_sse",
        r"EventStreamDecoder\._take_line",
        r"event_bytes = self._event_bytes|^if not name: => if False|^return => pass",
        _BOUND,
    ),
    ("_sse", r"EventStreamDecoder\._take$", r"end = chunk\.find|^if end >= 2|^if not self._between_events", _FASTER),
    (
        "_sse",
        r"EventStreamDecoder\._take$",
        r"=> if (False|_CR not in chunk and .*|self._between_events and _CR not in chunk):",
        _FASTER,
    ),
    ("_sse", r"EventStreamDecoder\._feed_blocks$", "if rest: => if True", _FASTER),
    ("_sse", r"EventStreamDecoder\._feed_block$", r"=> if False|endswith|rpartition", _FASTER),
    ("_sse", r"EventStreamDecoder\.", r"self._event_bytes = 0 => ", _FASTER),
    ("_sse", r"EventStreamDecoder\._feed_lines", "^if (pieces|unfinished|self._event_bytes): => if True", _FASTER),
    (
        "_sse",
        r"EventStreamDecoder\._feed_lines",
        r"_between_events = .* => (pass|.*not \(self._pieces or self._event_bytes\))",
        _FASTER,
    ),
    (
        "_sse",
        r"EventStreamDecoder\._feed_lines",
        r"< len\(_BOM\) and .*=> if (len|_BOM)",
        "no event has fewer than three bytes",
    ),
    (
        "_sse",
        r"EventStreamDecoder\.__init__",
        "_after_cr = False => self._after_cr = True",
        "a blank line in front is none",
    ),
    ("_sse", "", "event is not None: => if True", "this decoder makes an event of all data"),
    ("_sse", r"EventStreamDecoder\._feed_lines", r"data\[0\]", _FASTER),
    ("_sse", r"SSEDecoder\._dispatched", r"last_id = .*'replace'\)$", _FASTER),
    ("_json_changes", r"Changes$", "__slots__", _FASTER),
    (
        "_json_changes",
        r"Changes\.patch",
        r"escaped\(key\)\)?\}?'?\)?$|\{escaped\(step\)\}",
        "the escaped text of an index is its digits",
    ),
    ("_json_changes", r"Changes\.__init__", "_(node|pointer|key|path)", _SET_FIRST),
    ("_json_changes", r"Changes\.clear", "=> if True", _FASTER),
    ("_json_changes", r"Changes\.patch", r"self._key = key => pass|=> if True|'path': self._path", _FASTER),
    ("_json_changes", r"Changes\.add", r"=> if True", "no other value becomes a container or grows"),
    ("_json_changes", r"Changes\.lengthen", r"'x', \[piece\]", "the pieces replace it"),
    ("_json_scalars", r"ParseFault", "", _MESSAGE),
    ("_json_scalars", "", "^EXPECTED", _MESSAGE),
    ("_json_scalars", r"ScalarReader\._expected_after", "", _MESSAGE),
    (
        "_json_scalars",
        r"ScalarReader\.__init__",
        "_(literal|literal_at|number|number_start|hex|base|quote)[: ]",
        _SET_FIRST,
    ),
    ("_json_scalars", "", "_UNIT|_ALWAYS_CONVERTED_DIGITS|_short_digits", _FASTER),
    (
        "_json_scalars",
        r"ScalarReader\._begin_number",
        r"^return at if|(following is None|at < end): => |_parts = \[text",
        _FASTER,
    ),
    ("_json_scalars", "", "_number_start|_checked", _QUERY),
    ("_json_scalars", r"ScalarReader\._read_number", r"if at > start: => if (True|at >= start)|text\[:at\]", _FASTER),
    (
        "_json_scalars",
        r"ScalarReader\._read_text",
        r"_quote < at: => if True|=> while at <= end|escaped is None: => if True|=> escaped = None",
        _FASTER,
    ),
    ("_json_scalars", r"ScalarReader\._fail", "^return self._length", "reading stops there"),
    ("_json_scalars", "", "_max_digits|beyond|convert|_MAX_LONG_INTEGERS|_long_integers", _BOUND),
    ("_json_scalars", "", "overflow_chars", _QUERY),
    ("_json_scalars", "", "_failed_in", _QUERY),
    ("_json_builder", "", "^(VALUE|FAILED): ", "any other number does"),
    ("_json_builder", r"JSONBuilder\.(finished_in|finished_fields|strict_value)", "", _QUERY),
    ("_json_builder", r"JSONBuilder\.finished", r"self.ended or \(\)", _QUERY),
    ("_json_builder", r"JSONBuilder\.(reports|tracks)", "", _SWITCH),
    ("_json_builder", r"JSONBuilder\.__init__", "if reports", _SWITCH),
    ("_json_builder", "", "mirror", _MIRRORS),
    ("_json_builder", r"JSONBuilder\._end_value", "^value = ", "the vectors have the places of finished values only"),
    ("_json_builder", r"JSONBuilder\._grow_mirrored", "", _MIRRORS),
    ("_json_builder", r"JSONBuilder\._grow", "= None => pass", "a string with another owner is copied: slower"),
    ("_json_builder", "", "_max_depth|^return False", _BOUND),
    ("_json_builder", "", r"depth|len\(self._stack\)", _QUERY),
    ("_json_builder", "", "self.started", _QUERY),
    ("_json_builder", r"JSONBuilder\._push", "_key = None => pass", _SET_FIRST),
    ("_partial_json", r"PartialJSON\.(is_finished|open_path)", "", _QUERY),
    (
        "_partial_json",
        r"PartialJSON\.patch",
        r"type|overflow_chars|return \[\]",
        "changes are asked of objects without infinity only",
    ),
    ("_partial_json", r"PartialJSON\.feed$", r"\broom\b|self\.error", _BOUND),
    ("_partial_json", "", "_max_chars|_max_depth", _BOUND),
    ("_partial_json", "read_whole", "", _FASTER),
    ("_partial_json", "", "^_(JITER_DEPTH|PLAIN_DIGITS|LONG_INTEGER):", _FASTER),
    ("_partial_json", r"PartialJSON\.feed$", "'' not in fragment|=> if False|!= FAILED: => if True", _FASTER),
    ("_partial_json", r"PartialJSON\.close$", r"_end_number|_base", "the end has no place"),
    ("_partial_json", r"PartialJSON\._begin_value", r"=> if (quote > 0|quote >= 1|.*'' not in|False)", _FASTER),
    (
        "_partial_json",
        r"PartialJSON\._read_structure",
        r"self._state >=? DONE|^if quote < 0 .* => if (True|quote <= 0|quote < 1|.*'' in key)",
        _FASTER,
    ),
    ("_partial_json", r"PartialJSON\._parse", "FAILED|^return => pass", "a failed parser is fed no more"),
    ("_partial_json", r"PartialJSON\._parse", "_quote = |state <= TEXT", _FASTER),
    ("_partial_json", "", "_closed|UsageError|^raise", _MISUSE),
)
"""Module, name of the function, a part of the statement before or after: regular expressions, and the reason."""


def reason_for(module: str, mutation: Mutation) -> str:
    """Return why no vector notices a mutation, if none does; empty if one should."""
    for name, function, part, reason in _REASONS:
        if (
            name == module
            and re.match(function, mutation.function)
            and re.search(part, f"{mutation.before} => {mutation.after}")
        ):
            return reason
    return ""
