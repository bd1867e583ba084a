"""The cases of `packages/wire/conformance/sse.json`, by the sentences of the HTML standard."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from .building import sse_case
from .dice import Dice

Case = tuple[str, str, Sequence[bytes]]

_LINE_ENDS: Final = {"lf": b"\n", "cr": b"\r", "crlf": b"\r\n"}
_BOM: Final = b"\xef\xbb\xbf"
_EVENT: Final = b"event: e\ndata: x\n\n"


def cases() -> list[dict[str, Any]]:
    """Return all cases, in order."""
    families = (_line_ends, _byte_order_marks, _fields, _data, _types, _ids, _retries, _text, _ends, _bodies, _mixed)
    return [sse_case(*case) for family in families for case in family()]


def _line_by_line(body: bytes) -> list[bytes]:
    return re.findall(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", body)


def _line_ends() -> Iterator[Case]:
    for name, end in _LINE_ENDS.items():
        why = "A line ends with LF, CR or CRLF. An event is dispatched by the byte that ends its blank line."
        body = b"event: a\ndata: 1\n\ndata: 2\ndata: 3\n\n:c\n\nid: 9\ndata: 4\n\n".replace(b"\n", end)
        yield f"line_ends/{name}", why, _line_by_line(body)
        yield f"line_ends/{name}-at-once", why, [body]
        for other, second in _LINE_ENDS.items():
            yield f"line_ends/{name}-then-{other}", why, [b"data: x", end, second, b"data: y", second, end]
            yield f"line_ends/line-{name}-blank-{other}", why, [b"data: x" + end + second, b"data: y" + end + second]
    why = "A CR ends its line at once, and a LF that follows belongs to it, also in a later chunk."
    yield "line_ends/cr-at-chunk-end", why, [b"data: x\r", b"\n\r", b"\ndata: y\r", b"\r", b"data: z\r\n\r", b"\n"]
    yield "line_ends/crlf-cut-then-event", why, [b"data: x\r\n\r", b"\ndata: y\r\n\r", b"\n"]
    yield "line_ends/cr-then-empty-chunk-then-lf", why, [b"data: x\r", b"", b"\n", b"\ndata: y\n\n"]
    yield "line_ends/cr-then-text", why, [b"data: x\r", b"data: y\r", b"\rdata: z\r\r"]
    yield "line_ends/cr-lf-lf", why, [b"data: x\r\n\n", b"data: y\r", b"\n\n"]
    yield "line_ends/lf-cr", why, [b"data: x\n\r", b"data: y\n\r"]
    yield "line_ends/cr-cr-lf", why, [b"data: x\r\r", b"\ndata: y\n\n"]
    yield "line_ends/event-after-cr-event-at-once", why, [b"data: x\r\rdata: y\n\n", b"data: z\r\r"]
    why = "One CR among lines that end with LF ends its line, too."
    yield "line_ends/cr-in-data-line", why, [b"event: a\ndata: x\rdata: y\n\n", _EVENT]
    yield "line_ends/cr-in-name-line", why, [b"event: a\rid: 1\ndata: x\n\n" + _EVENT]
    yield "line_ends/cr-after-data", why, [_EVENT + b"event: a\ndata: x\r\n\n" + _EVENT]
    yield "line_ends/cr-cr-in-data-line", why, [_EVENT, b"event: a\ndata: x\r\rdata: y\n\n" + _EVENT]
    yield "line_ends/cr-before-lf-events", why, [b"data: x\r", b"\n\nevent: a\ndata: y\n\n" + _EVENT]
    yield "line_ends/cr-at-the-end-of-lf-events", why, [_EVENT + b"data: x\n\r", b"\nevent: a\ndata: y\n\n"]
    yield "line_ends/unfinished-event-then-lf-events", why, [b"data: 1\r", b"event: a\ndata: y\n\n" + _EVENT]
    yield "line_ends/only-line-ends", "Blank lines alone dispatch nothing.", [b"\n", b"\r", b"\r\n", b"\n\n\r\r\r\n"]
    yield (
        "line_ends/many-blank-lines",
        "Further blank lines dispatch nothing.",
        [_EVENT + b"\n\n\r\n", b"\r\n" + _EVENT],
    )
    for name, text in {
        "vertical-tab": "\x0b", "form-feed": "\x0c", "file-separator": "\x1c", "group-separator": "\x1d",
        "record-separator": "\x1e", "next-line": "\x85", "line-separator": "\u2028", "paragraph-separator": "\u2029",
        "nul": "\0", "escape": "\x1b",
    }.items():  # fmt: skip
        why = "No other character ends a line."
        yield f"line_ends/not-{name}", why, [f"data: a{text}b{text}\n\n".encode()]
        yield f"line_ends/not-{name}-in-front", why, [f"data: x\n{text}\n\n".encode()]


def _byte_order_marks() -> Iterator[Case]:
    why = "One byte order mark at the start of the stream is no part of the first line."
    yield "byte_order_marks/at-start", why, [_BOM + _EVENT]
    yield "byte_order_marks/own-chunk", why, [_BOM, _EVENT]
    yield "byte_order_marks/cut", why, [_BOM[:1], _BOM[1:2], _BOM[2:] + _EVENT]
    yield "byte_order_marks/cut-late", why, [_BOM[:2], _BOM[2:], b"data: x\n", b"\n"]
    yield "byte_order_marks/empty-chunk-first", why, [b"", _BOM + _EVENT]
    yield "byte_order_marks/before-line-end", why, [_BOM + b"\n" + _EVENT]
    yield "byte_order_marks/before-cr", why, [_BOM + b"\r", b"\n" + _EVENT]
    yield "byte_order_marks/before-comment", why, [_BOM + b":c\n" + _EVENT]
    yield "byte_order_marks/alone", why, [_BOM]
    yield "byte_order_marks/cut-by-the-end", why, [_BOM[:2]]
    why = "Any other byte order mark is text."
    yield "byte_order_marks/twice", why, [_BOM + _BOM + b"data: x\n\n", b"data: y\n\n"]
    yield "byte_order_marks/second-event", why, [b"data: x\n\n", _BOM + b"data: y\n\ndata: z\n\n"]
    yield "byte_order_marks/after-named-event", why, [_EVENT, _BOM + b"data: y\n\ndata: z\n\n"]
    yield "byte_order_marks/after-named-events", why, [_EVENT + _EVENT, _BOM + _EVENT, _BOM[:1], _BOM[1:] + _EVENT]
    yield "byte_order_marks/second-line", why, [b"data: x\n" + _BOM + b"data: y\n\n"]
    yield "byte_order_marks/in-value", why, [b"data: " + _BOM + b"\n\n"]
    yield "byte_order_marks/after-line-end", why, [b"\n" + _BOM + b"data: x\n\n" + _EVENT]
    yield "byte_order_marks/after-comment", why, [b":\n", _BOM + b"data: x\n", b"\n" + _EVENT]
    why = "Bytes that only start like a byte order mark are text."
    for cut in (1, 2):
        yield f"byte_order_marks/first-{cut}-bytes", why, [_BOM[:cut], b"data: x\n\n", _EVENT]
        yield f"byte_order_marks/first-{cut}-bytes-then-line-end", why, [_BOM[:cut] + b"\n" + _EVENT]
    yield "byte_order_marks/other-last-byte", why, [b"\xef\xbb", b"\xbedata: x\n\n" + _EVENT]
    yield "byte_order_marks/utf-16", why, [b"\xff\xfed\0a\0t\0a\0\n\n" + _EVENT]


def _fields() -> Iterator[Case]:
    forms = {
        "no-colon": "{}", "colon": "{}:", "space": "{}: ", "value": "{}: 7", "no-space": "{}:7", "two-spaces": "{}:  7",
        "space-after": "{}: 7 ", "tab": "{}:\t7", "two-colons": "{}::7", "colon-in-value": "{}: a:b", "space-before": " {}: 7",
        "space-before-colon": "{} : 7", "longer": "{}s: 7", "shorter": "{:.2}: 7", "equals": "{}=7", "no-break-space": "{}:\u00a07",
        "only-space-value": "{}:   ",
    }  # fmt: skip
    for field in ("data", "event", "id", "retry"):
        for name, form in forms.items():
            why = (
                "A name ends at the first colon. One space after it is no part of the value. Unknown names are ignored."
            )
            line = form.format(field).encode()
            yield f"fields/{field}-{name}", why, [b"data: 1\n" + line + b"\n", b"\n", b"data: 2\n\n"]
        for name, text in {"capital": field.title(), "capitals": field.upper()}.items():
            why = "Names of fields are compared letter by letter."
            yield f"fields/{field}-{name}", why, [f"{text}: 7\ndata: 1\n\n".encode()]
    why = "A line that starts with a colon is a comment."
    yield "fields/comment", why, [b": c\n", b":data: x\n", b":\n", _EVENT]
    yield "fields/comment-in-event", why, [b"data: x\n: c\ndata: y\n", b"\n"]
    yield "fields/comment-then-blank", why, [b": keep-alive\n\n", b": keep-alive\r\n\r\n", _EVENT, b":\n\n", _EVENT]
    yield "fields/comment-between-name-and-data", why, [b"event: e\n: c\ndata: x\n\n" + _EVENT]
    yield "fields/comment-in-pieces", why, [b":", b" data", b": x\n", b"data: y\n", b"\n"]
    yield "fields/space-line", "A line of one space is a field with an unknown name.", [b"data: x\n \n", b"\n" + _EVENT]
    yield "fields/unknown-only", "An event of unknown fields only is none.", [b"foo: bar\n\n", b"foo\n\n", _EVENT]
    yield "fields/name-in-pieces", "A chunk may end in a name.", [b"da", b"ta", b": x\nev", b"ent: e\n", b"\n"]
    yield "fields/colon-in-own-chunk", "A chunk may end around the colon.", [b"data", b":", b" ", b" x", b"\n\n"]


def _data() -> Iterator[Case]:
    why = "Data lines are joined by line feeds. One final line feed is removed."
    for name, body in {
        "two-lines": b"data: a\ndata: b\n\n", "three-lines": b"data: a\ndata: b\ndata: c\n\n",
        "empty-line-between": b"data: a\ndata:\ndata: b\n\n", "empty-first": b"data\ndata: b\n\n",
        "empty-last": b"data: a\ndata\n\n", "one-empty": b"data\n\n", "one-empty-with-colon": b"data:\n\n",
        "two-empty": b"data\ndata\n\n", "three-empty": b"data\ndata:\ndata: \n\n", "spaces": b"data:  a \ndata:   \n\n",
        "leading-spaces": b"data:     indented\n\n", "json": b'data: {"a": 1,\ndata:  "b": [2]}\n\n',
        "looks-like-field": b"data: data: x\ndata: event: y\n\n", "looks-like-comment": b"data: : c\n\n",
    }.items():  # fmt: skip
        yield f"data/{name}", why, _line_by_line(body)
        yield f"data/{name}-twice-at-once", why, [body + body]
        yield f"data/{name}-in-named-event", why, [_EVENT, b"event: e\n" + body + _EVENT]
    why = "A chunk that looks like an event may be the end of another one."
    yield "data/event-after-unfinished-value", why, [b"data: q", b"event: e\ndata: x\n\n" + _EVENT]
    yield "data/event-after-data-line", why, [b"data: q\n", b"event: e\ndata: x\n\n" + _EVENT]
    yield "data/event-after-cr-line", why, [b"data: q\r", b"event: e\ndata: x\n\n" + _EVENT]
    yield "data/event-after-comment-start", why, [b":", b"event: e\ndata: x\n\n" + _EVENT]
    yield "data/in-pieces", "A value may come in any number of chunks.", [b"data: a", b"b", b"", b"c", b"\n", b"\n"]
    long = b"event: content_block_delta\ndata: " + b"0123456789" * 30 + b"\n\n"
    yield "data/long", "A long line is read like a short one.", [long[:100], long[100:200] + b"", long[200:] + long]


def _types() -> Iterator[Case]:
    why = "The last event line names the event. An empty one, or none, means `message`."
    yield "types/named", why, [b"event: a\ndata: x\n\n"]
    yield "types/after-data", why, [b"data: x\nevent: a\n\n", b"data: y\n\n"]
    yield "types/last-wins", why, [b"event: a\nevent: b\ndata: x\n\n"]
    yield "types/emptied", why, [b"event: a\nevent:\ndata: x\n\n"]
    yield "types/emptied-without-colon", why, [b"event: a\nevent\ndata: x\n\n"]
    yield "types/none", why, [b"data: x\n\n"]
    yield "types/reset", "A name counts for one event.", [b"event: a\ndata: x\n\ndata: y\n\n"]
    yield "types/reset-by-event-without-data", "It is reset, too, if there was no data.", [b"event: a\n\ndata: y\n\n"]
    yield (
        "types/without-data",
        "An event without a data line is not dispatched.",
        [b"event: a\n", b"\n", b"data: x\n\n"],
    )
    yield (
        "types/without-data-then-same",
        "An event without a data line is none.",
        [b"event: a\n\nevent: a\ndata: x\n\n"],
    )
    yield "types/spaces-kept", "Only one space is removed.", [b"event:  a b \ndata: x\n\n"]
    yield "types/message", "A name may be the default one.", [b"event: message\ndata: x\n\n"]
    yield "types/data-first-then-two-names", why, [b"data: x\nevent: a\ndata: y\nevent: b\n\n", _EVENT]
    yield "types/named-event-between-unnamed", why, [b"data: 1\n\n" + _EVENT + b"data: 2\n\n"]
    yield (
        "types/blocks-of-three-lines",
        why,
        [_EVENT + b"event: e\ndata: x\ndata: y\n\nevent: f\nid: 1\ndata: z\n\n" + _EVENT],
    )
    yield "types/two-names-then-data-at-once", why, [_EVENT + b"event: a\nevent: b\ndata: x\n\n" + _EVENT]
    yield "types/other-line-before-data-at-once", why, [_EVENT + b"eventual: a\ndata: x\n\nid: b\ndata: y\n\n" + _EVENT]
    yield "types/no-space-at-once", why, [_EVENT + b"event:a\ndata:x\n\nevent: b\ndata:y\n\n" + _EVENT]
    yield "types/data-then-name-at-once", why, [_EVENT + b"data: x\nevent: a\n\n" + _EVENT]
    yield "types/name-without-data-at-once", why, [_EVENT + b"event: a\n\n" + b"data: x\n\n" + _EVENT]
    yield "types/empty-data-at-once", why, [_EVENT + b"event: a\ndata: \n\n" + b"event: b\ndata:\n\n" + _EVENT]
    yield "types/empty-name-at-once", why, [_EVENT + b"event: \ndata: x\n\n" + _EVENT]


def _ids() -> Iterator[Case]:
    why = "The last event id stays until another id line changes it."
    yield "ids/stays", why, [b"id: 1\ndata: x\n\n", b"data: y\n\n", b"id: 2\ndata: z\n\n"]
    yield "ids/emptied", why, [b"id: 1\ndata: x\n\nid\ndata: y\n\nid: 2\n\nid:\ndata: z\n\n"]
    yield "ids/last-wins", why, [b"id: 1\nid: 2\ndata: x\n\n"]
    yield "ids/after-data", why, [b"data: x\nid: 1\n\n"]
    yield "ids/without-data", "An id counts even if its event has no data.", [b"id: 1\n\n", b"data: x\n\n"]
    yield "ids/with-named-events-at-once", why, [b"id: 5\ndata: x\n\n" + _EVENT + b"id: 6\n" + _EVENT + _EVENT]
    yield "ids/any-text", "An id is any text.", ["id: \u00e9 a:b \ndata: x\n\n".encode()]
    for name, value in {"nul": b"a\0b", "nul-first": b"\0a", "nul-last": b"a\0", "nul-alone": b"\0"}.items():
        why = "An id that contains NUL is ignored."
        yield f"ids/{name}", why, [b"id: 1\ndata: x\n\nid: " + value + b"\ndata: y\n\n"]
    yield "ids/unfinished", "An unfinished line sets no id.", [b"id: 1\ndata: x\n\nid: 2"]


def _retries() -> Iterator[Case]:
    for name, value in {
        "digits": "3000", "zero": "0", "leading-zeros": "007", "one-digit": "5", "beyond-doubles": "9007199254740993",
        "plus": "+5", "minus": "-5", "underscore": "1_000", "point": "1.5", "exponent": "1e3", "hex": "0x10",
        "space-inside": "1 0", "space-after": "10 ", "two-spaces-before": " 10", "letter-after": "10s", "letters": "soon",
        "arabic-digits": "\u0663", "superscript": "\u00b2", "full-width": "\uff11", "empty": "", "nul": "1\0", "comma": "1,0",
    }.items():  # fmt: skip
        why = "A retry line counts if its value has ASCII digits only."
        yield f"retries/{name}", why, [f"retry: 12\ndata: x\n\nretry: {value}\ndata: y\n\n".encode()]
    why = "The reconnection time is the stream's: it counts at once, also without data."
    yield "retries/without-data", why, [b"retry: 5\n\n", b"data: x\n\n"]
    yield "retries/last-wins", why, [b"retry: 5\nretry: 6\ndata: x\n\n"]
    yield "retries/stays", why, [b"retry: 5\ndata: x\n\ndata: y\n\n" + _EVENT]
    yield "retries/unfinished-event", why, [b"retry: 5\n"]
    yield "retries/unfinished-line", why, [b"retry: 5"]
    yield "retries/wrong-after-right", why, [b"retry: 5\nretry: x\ndata: x\n\n"]


def _text() -> Iterator[Case]:
    valid = {
        "two-bytes": "\u00e9", "three-bytes": "\u20ac", "four-bytes": "\U0001f600", "first-of-two": "\x80", "last-of-two": "\u07ff",
        "first-of-three": "\u0800", "before-surrogates": "\ud7ff", "after-surrogates": "\ue000", "last-of-three": "\uffff",
        "first-of-four": "\U00010000", "last": "\U0010ffff", "combining": "e\u0301", "replacement": "\ufffd", "nul": "\0",
    }  # fmt: skip
    for name, text in valid.items():
        why = "A character may be cut anywhere."
        encoded = f"data: a{text}b".encode()
        yield f"text/{name}", why, [encoded[:7], *(encoded[at : at + 1] for at in range(7, len(encoded))), b"\n", b"\n"]
    invalid = {
        "ff": b"\xff", "fe": b"\xfe", "continuation-alone": b"\x80", "two-continuations": b"\x80\xbf", "lead-of-two": b"\xc3",
        "lead-of-three": b"\xe2", "two-of-three": b"\xe2\x82", "lead-of-four": b"\xf0", "two-of-four": b"\xf0\x9f",
        "three-of-four": b"\xf0\x9f\x98", "overlong-two": b"\xc0\x80", "overlong-three": b"\xe0\x80\x80",
        "overlong-four": b"\xf0\x80\x80\x80", "surrogate": b"\xed\xa0\x80", "surrogate-pair": b"\xed\xa0\xbd\xed\xb8\x80",
        "beyond-unicode": b"\xf4\x90\x80\x80", "five-bytes": b"\xf8\x88\x80\x80\x80", "lead-then-lead": b"\xe2\xe2\x82\xac",
    }  # fmt: skip
    for name, part in invalid.items():
        why = "Each maximal part that is no UTF-8 becomes one U+FFFD, also right before a line end."
        yield f"text/invalid-{name}", why, [b"data: a" + part, b"b\n\n", b"data: " + part + b"\n\n"]
    why = "Names of events and ids are decoded in the same way."
    yield "text/invalid-in-event", why, [b"event: a\xffb\ndata: x\n\n" + b"event: \xe2\x82\ndata: y\n\n"]
    yield "text/invalid-in-id", why, [b"id: a\xffb\ndata: x\n\n"]
    yield "text/invalid-in-name", "A name with a wrong byte is unknown.", [b"da\xffta: x\ndata: y\n\n"]
    yield "text/invalid-then-line-end-bytes", why, [b"data: \xe2\x82\ndata: \xac\n\n"]
    yield "text/letters-in-event", why, ["event: \u00e9\ndata: \u00e9\n\nevent: \U0001f600\ndata: y\n\n".encode()]


def _ends() -> Iterator[Case]:
    why = "An event without its blank line is discarded at the end of the stream."
    for name, body in {
        "after-data-line": b"data: x\n", "in-data-line": b"data: x", "after-name": b"event: e\n", "in-name": b"da",
        "after-two-lines": b"event: e\ndata: x\n", "after-cr": b"data: x\r", "after-crlf": b"data: x\r\n",
        "in-comment": b": c", "after-id": b"id: 7\n", "in-character": b"data: \xe2\x82",
    }.items():  # fmt: skip
        yield f"ends/{name}", why, [_EVENT, body]
        yield f"ends/{name}-at-once", why, [_EVENT + body]
    yield "ends/empty", "An empty stream has no event.", []
    yield "ends/empty-chunk", "An empty chunk is no event.", [b""]
    yield "ends/empty-chunks-between", "Empty chunks change nothing.", [b"", b"data", b"", b": x\n", b"", b"\n", b""]


def _bodies() -> Iterator[Case]:
    body = (
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","content":[]}}\n\n'
        b'event: ping\ndata: {"type": "ping"}\n\n'
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\xc3\xa9"}}\n\n'
        b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    )
    why = "A body of the Messages API, in chunks as the network cuts it."
    yield "bodies/whole", why, [body]
    for size in (7, 31, 64, 100, 163, 250):
        yield f"bodies/chunks-of-{size}", why, [body[at : at + size] for at in range(0, len(body), size)]
    yield "bodies/event-by-event", why, [event + b"\n\n" for event in body.split(b"\n\n")[:-1]]
    yield "bodies/blank-line-late", why, re.findall(rb"\n?.*?\n(?=\n)|\n$", body, re.DOTALL)
    yield "bodies/crlf", why, [body.replace(b"\n", b"\r\n")[:200], body.replace(b"\n", b"\r\n")[200:]]
    yield "bodies/comments-between", why, [body.replace(b"\n\n", b"\n\n: keep-alive\n\n")]
    yield "bodies/one-crlf-event-inside", why, [body, b"event: e\r\ndata: x\r\n\r\n", body]
    yield "bodies/begins-inside-an-event", why, [body[:30], body[30:], body]
    yield "bodies/ends-inside-an-event", why, [body + b"event: e\nda", b"ta: x\n\n" + body[:40]]


def _mixed() -> Iterator[Case]:
    spices = (
        b"\r", b"\n", b"\r\n", b"\n\n", b"\n\n", b"\r\n\r\n", b"data: x\n", b"data\n", b"data: y\r", b"event: e\n", b"id: 7\n", b"id\n",
        b"retry: 3\n", b"retry: +5\n", b": c\n", b"x: y\n", b"data:", b"event:", b" ", b":", b"\0", b"\xff", b"\xc3\xa9", b"\xe2\x80\xa8",
        b"\xef\xbb\xbf", b"event: e\ndata: z\n\n", b"event: e\ndata: z\n\n", b"data: {}\n\n", b"id: \0\n", b"Data: x\n",
    )  # fmt: skip
    for number in range(80):
        dice = Dice(f"sse {number}")
        body = b"".join(dice.pick(spices) for _ in range(4 + dice.below(14)))
        yield (
            f"mixed/{number:03d}",
            "Any mix of lines and bytes is read by the same rules.",
            dice.cut(body, 1 + dice.below(5)),
        )
