"""The cases of `packages/wire/conformance/partial_json.json`: families of texts, and odd ones made by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from .building import json_case
from .dice import Dice
from .json_texts import HAND, LONG, SLIPS, mixed_text

Case = tuple[str, str, Sequence[str]]

_PLACES: Final = {"root": ("", ""), "item": ("[", "]"), "member": ('{"a":', "}")}
_NUMBERS: Final = {
    "zero": "0",
    "minus-zero": "-0",
    "integer": "1203",
    "negative": "-45",
    "fraction": "10.25",
    "zero-fraction": "0.5",
    "negative-fraction": "-0.125",
    "exponent": "1e5",
    "capital-exponent": "2E3",
    "zero-capital-exponent": "0E2",
    "fraction-capital-exponent": "1.5E3",
    "zero-minus-exponent": "0.0e-1",
    "plus-exponent": "1e+2",
    "minus-exponent": "25e-3",
    "fraction-exponent": "1.5e-7",
    "zero-exponent": "0e1",
    "leading-zeros-in-exponent": "1e007",
    "trailing-zeros": "1.500",
    "beyond-doubles-integer": "12345678901234567890",
    "negative-beyond-doubles-integer": "-9007199254740993",
    "long-fraction": "0.30000000000000004",
    "tiny": "1e-400",
}
_WRONG_NUMBERS: Final = {
    "leading-zero": "01",
    "two-zeros": "00",
    "negative-leading-zero": "-01",
    "minus-alone": "-",
    "two-minus": "--1",
    "plus": "+1",
    "point-first": ".5",
    "negative-point-first": "-.5",
    "point-last": "1.",
    "two-points": "1.2.3",
    "point-then-e": "1.e5",
    "e-last": "1e",
    "sign-last": "1e+",
    "two-signs": "1e+-2",
    "two-e": "1e5e3",
    "point-in-exponent": "1e5.0",
    "zero-then-e-last": "0e",
    "hex": "0x1F",
    "underscore": "1_000",
    "letter": "12a",
    "minus-inside": "1-2",
    "minus-letter": "-a",
    "arabic-digits": "\u0661",
    "superscript": "1\u00b2",
    "nan": "NaN",
    "infinity": "Infinity",
    "minus-infinity": "-Infinity",
    "string-after": '1"',
    "bracket-after": "1[",
    "brace-after": "1{",
    "literal-after": "1true",
    "colon-after": "1:",
    "no-break-space-after": "1\u00a0",
    "form-feed-after": "1\f",
}
_LITERALS: Final = ("true", "false", "null")
_WRONG_LITERALS: Final = {
    "capital": "True",
    "all-capitals": "NULL",
    "wrong-second": "tree",
    "wrong-last": "trux",
    "wrong-false": "fals_",
    "false-early": "fa1se",
    "wrong-null": "nuil",
    "cut-by-delimiter": "tru,",
    "cut-by-bracket": "nul]",
    "cut-by-brace": "fals}",
    "cut-by-space": "t rue",
    "cut-by-quote": 'nul"',
    "too-long": "nulll",
    "two": "truefalse",
    "undefined": "undefined",
    "none": "None",
    "digit-after": "true1",
}
_ESCAPES: Final = {
    "quote": '\\"',
    "backslash": "\\\\",
    "slash": "\\/",
    "backspace": "\\b",
    "form-feed": "\\f",
    "line-feed": "\\n",
    "carriage-return": "\\r",
    "tab": "\\t",
    "unicode": "\\u0041",
    "unicode-null": "\\u0000",
    "unicode-hex-letters": "\\uabCD",
    "unicode-quote": "\\u0022",
    "unicode-backslash": "\\u005c",
    "unicode-before-surrogates": "\\ud7ff",
    "unicode-after-surrogates": "\\ue000",
    "unicode-last": "\\uFFFF",
    "pair": "\\ud83d\\ude00",
    "pair-capital": "\\uD83D\\uDE00",
    "pair-first": "\\ud800\\udc00",
    "pair-last": "\\udbff\\udfff",
    "two-pairs": "\\ud83d\\ude00\\ud83d\\ude01",
    "high-alone": "\\ud83d",
    "low-alone": "\\ude00",
    "first-low-alone": "\\udc00",
    "last-low-alone": "\\udfff",
    "high-then-letter": "\\ud83dx",
    "high-then-escape": "\\ud83d\\n",
    "high-then-quote-escape": '\\ud83d\\"',
    "high-then-unicode": "\\ud83d\\u0041",
    "high-then-high": "\\ud83d\\ud83d",
    "high-then-first-high": "\\ud83d\\ud800",
    "high-then-last-high": "\\ud83d\\udbff",
    "high-then-pair": "\\ud83d\\ud83d\\ude00",
    "low-then-high": "\\ude00\\ud83d",
    "pair-then-low": "\\ud83d\\ude00\\ude00",
    "high-then-emoji": "\\ud83d\U0001f600",
    "high-then-after-surrogates": "\\ud83d\\ue000",
    "high-then-before-surrogates": "\\ud83d\\ud7ff",
}
_WRONG_ESCAPES: Final = {
    "letter-x": "\\x41",
    "letter-capital-n": "\\N",
    "letter-a": "\\a",
    "digit": "\\0",
    "single-quote": "\\'",
    "space": "\\ ",
    "line-feed": "\\\n",
    "capital-u": "\\U0041",
    "hex-first": "\\ug000",
    "hex-second": "\\u0g00",
    "hex-third": "\\u00g0",
    "hex-fourth": "\\u000g",
    "hex-quote": '\\u00"',
    "hex-space": "\\u 041",
    "hex-sign": "\\u+041",
    "hex-underscore": "\\u0_41",
    "hex-full-width": "\\u004\uff11",
    "braces": "\\u{41}",
}
_CHARACTERS: Final = {
    "delete": "\x7f",
    "c1-control": "\x85",
    "no-break-space": "\u00a0",
    "soft-hyphen": "\u00ad",
    "line-separator": "\u2028",
    "byte-order-mark": "\ufeff",
    "last-of-plane-0": "\uffff",
    "emoji": "\U0001f600",
    "last": "\U0010ffff",
    "accent": "e\u0301",
    "brackets": "{[]},:",
    "comment": "// /* */",
    "single-quotes": "'a'",
    "spaces": "   ",
}
_CONTROLS: Final = (0x00, 0x01, 0x08, 0x09, 0x0A, 0x0C, 0x0D, 0x1B, 0x1F)


def cases() -> list[dict[str, Any]]:
    """Return all cases, in order."""
    families = (_numbers, _literals, _strings, _keys, _by_hand, _slips, _ends, _after_errors, _long, _mixed)
    return [json_case(*case) for family in families for case in family()]


def _numbers() -> Iterator[Case]:
    for place, (before, after) in _PLACES.items():
        for name, number in _NUMBERS.items():
            why = "A number shows when its delimiter or the end of the text proves that it is complete."
            yield f"numbers/{place}-{name}", why, [*before, *number, *(after or "\n")]
        for name, number in _WRONG_NUMBERS.items():
            why = "A number that RFC 8259 does not allow is wrong at its first wrong character, and never shows."
            yield f"wrong_numbers/{place}-{name}", why, [*filter(None, [before]), *number, after or " "]
    for name, delimiter in {"comma": ",", "space": " ", "tab": "\t", "line-feed": "\n", "return": "\r"}.items():
        why = "Each delimiter shows the number before it."
        yield f"numbers/before-{name}", why, ["[1", f"{delimiter}", f"{'' if name == 'comma' else ','}2]"]
        yield (
            f"numbers/in-one-fragment-before-{name}",
            why,
            ['{"a":-1.5', f'{delimiter}{"" if name == "comma" else ","}"b":20]'[:-1] + "}"],
        )
    why = "The wrong bracket does not end a number: the text is wrong there."
    yield "wrong_numbers/item-before-brace", why, ["[", "1", "}"]
    yield "wrong_numbers/member-before-bracket", why, ['{"a":', "1", "]"]
    yield "wrong_numbers/item-before-brace-at-once", why, ["[1}"]
    yield "wrong_numbers/member-before-bracket-at-once", why, ['{"a":1]']
    yield "wrong_numbers/inner-object-in-array", why, ['[{"a":1', "]", "}"]
    yield "wrong_numbers/array-after-inner-object", why, ['[{"a":1}', ",2", "}"]
    yield "wrong_numbers/object-after-inner-array", why, ['{"a":[1],"b":2', "]"]
    yield "wrong_numbers/root-before-comma", "A comma cannot follow the root.", ["1", ","]
    yield "wrong_numbers/root-before-bracket", "A bracket cannot follow the root.", ["1]"]
    why = "A number beyond doubles is JSON. It becomes infinity, as in most parsers."
    for place, (before, after) in _PLACES.items():
        yield f"numbers/{place}-infinite", why, [f"{before}1e4", f"00{after or ' '}"]
        yield f"numbers/{place}-minus-infinite", why, [f"{before}-1e400{after or ' '}"]


def _literals() -> Iterator[Case]:
    for place, (before, after) in _PLACES.items():
        for word in _LITERALS:
            why = "A literal shows at its last letter, not before and not later."
            yield f"literals/{place}-{word}", why, [*filter(None, [before]), *word, after or " "]
            yield f"literals/{place}-{word}-in-one-fragment", why, [before + word, after or "\n"]
            yield f"literals/{place}-{word}-cut-once", why, [before + word[:2], word[2:] + after]
        for name, word in _WRONG_LITERALS.items():
            why = "A literal is wrong at its first wrong letter, and never shows."
            yield f"wrong_literals/{place}-{name}", why, [*filter(None, [before]), *word, after or " "]
            yield f"wrong_literals/{place}-{name}-in-one-fragment", why, [before + word + after]


def _strings() -> Iterator[Case]:
    for name, escape in _ESCAPES.items():
        why = "Half of an escape or of a surrogate pair never shows. The document's own lone surrogates stay."
        yield f"escapes/member-{name}", why, ['{"a":"x', *escape, 'y"', "}"]
        yield f"escapes/root-{name}", why, [f'"{escape}', '"']
        yield f"escapes/item-{name}-cut-once", why, [f'["{escape[:1]}', f'{escape[1:]}"]']
        yield f"escapes/member-{name}-cut-late", why, [f'{{"a":"{escape[:-1]}', f'{escape[-1:]}z"}}']
        yield f"escapes/item-{name}-in-one-fragment", why, ["[", f'"x{escape}y{escape}"', "]"]
        yield f"escapes/key-{name}", "A key may have escapes, and shows with its value only.", [
            '{"k', *escape, '":', "1", "}",
        ]  # fmt: skip
        yield (
            f"escapes/key-{name}-in-one-fragment",
            "A key may have escapes.",
            [f'{{"{escape}":tru', f'e,"{escape}k":[]}}'],
        )
    for name, escape in _WRONG_ESCAPES.items():
        why = "An escape is wrong at its first character that RFC 8259 does not allow."
        yield f"wrong_escapes/member-{name}", why, ['{"a":"x', *escape, 'y"}']
        yield f"wrong_escapes/item-{name}-in-one-fragment", why, [f'["ab", "x{escape}y"]']
        yield f"wrong_escapes/key-{name}", why, ['{"a":1,"', f'x{escape}":2}}']
    for name, text in _CHARACTERS.items():
        why = "Every character from U+0020 on, except the quote and the backslash, stands for itself."
        yield f"characters/member-{name}", why, ['{"a":"x', text, f'{text}y"', "}"]
        yield f"characters/item-{name}-in-one-fragment", why, [f'["{text}","{text}"]']
        yield f"characters/key-{name}", why, [f'{{"{text}', f'":"{text}"}}']
    for code in _CONTROLS:
        why = "A control character in a string is wrong, also a line feed, which models like to write."
        yield f"controls/member-{code:02x}", why, ['{"a":"x', chr(code), 'y"}']
        yield f"controls/item-{code:02x}-in-one-fragment", why, [f'["ab{chr(code)}y"]']
        yield f"controls/key-{code:02x}", why, [f'{{"x{chr(code)}', '":1}']
        yield f"controls/after-escape-{code:02x}", why, [f'"a\\n{chr(code)}"']
        yield f"controls/after-odd-character-{code:02x}", why, [f'["\u00a0{chr(code)}"]']


def _keys() -> Iterator[Case]:
    why = "A path is a JSON pointer, which escapes `~` and `/`."
    for name, key in {
        "slash": "a/b", "tilde": "m~n", "both": "~1/~0", "empty": "", "digits": "0", "space": " ", "emoji": "\U0001f600",
        "proto": "__proto__", "constructor": "constructor", "length": "length", "number-tag": "number", "dots": "a.b",
    }.items():  # fmt: skip
        yield f"pointers/{name}", why, [f'{{"{key}":', '"x', 'y",', f'"o":{{"{key}":[1,', f'{{"{key}":"z', '"}]}}']


def _by_hand() -> Iterator[Case]:
    for family, (why, texts) in HAND.items():
        for name, fragments in texts.items():
            yield f"{family}/{name}", why, fragments


def _slips() -> Iterator[Case]:
    for name, text in SLIPS.items():
        why = "A text is wrong at the first character with which no document continues."
        yield f"slips/{name}", why, [*text]
        yield f"slips/{name}-in-one-fragment", why, [text]


def _ends() -> Iterator[Case]:
    text = '{"a": [1, -2.5e3, "x\\n\\ud83d\\ude00", tru' + 'e], "b": {"c": null}}'
    for end in range(1, len(text)):
        why = "A text that stops early is incomplete. Everything that it shows stays."
        yield f"ends/after-{end:02d}-characters", why, [text[: end // 2], text[end // 2 : end]]


def _after_errors() -> Iterator[Case]:
    why = "After a wrong character, further fragments change nothing."
    for name, wrong in {
        "comma": ['{"a":[1,2', ",]", ",3]}"], "quote": ['{"a":"x"', '"', ':"y"}'], "trailing": ['{"a":1}', "}", '{"b":2}'],
        "string": ['["x', "\n", 'y"]'], "root": ["[]", "[", "1]"], "first": ["x", '{"a":1}'], "number": ["[1,-", "x", "2]"],
        "string-growth": ['{"a":"x\\q', "zzz", '"}'], "key": ['{"a":1,', "b", '":2}'], "literal": ["[nul", "t", "l]"],
    }.items():  # fmt: skip
        yield f"after_errors/{name}", why, wrong


def _long() -> Iterator[Case]:
    for name, (why, fragments) in LONG.items():
        yield f"long/{name}", why, fragments


def _mixed() -> Iterator[Case]:
    for number in range(160):
        dice = Dice(f"mixed {number}")
        text = mixed_text(dice)
        why = "Any document, with a slip or cut in some of them, is read by the same rules."
        yield f"mixed/{number:03d}", why, dice.cut(text, 2 + dice.below(4))
