"""Texts for the cases of `partial_json`: odd ones made by hand, long ones, and a grammar for mixed ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from .dice import Dice

HAND: Final[dict[str, tuple[str, dict[str, Sequence[str]]]]] = {
    "roots": (
        "The root may be any value, with white space around it.",
        {
            "empty-text": [""],
            "no-fragment": [],
            "white-space-only": [" ", "\t\r\n"],
            "empty-object": ["{", "}"],
            "empty-array": ["[", "]"],
            "empty-string": ['"', '"'],
            "empty-object-in-one-fragment": ["{}"],
            "empty-array-in-one-fragment": ["[]"],
            "empty-string-in-one-fragment": ['""'],
            "white-space-around": [" \n", "\t{", "\r", "}", " ", "\n"],
            "white-space-after-number": ["12", " ", "\n"],
            "empty-fragments": ["", "{", "", '"a"', "", ":", "", '"x', "", 'y"', "", "}", ""],
            "number-then-nothing": ["1", "2", ".5"],
            "zero": ["0"],
            "minus-then-nothing": ["-"],
            "point-then-nothing": ["1."],
            "exponent-then-nothing": ["1e"],
            "exponent-sign-then-nothing": ["1e-"],
            "exponent-at-the-end": ["1e", "2"],
            "literal-then-nothing": ["fals"],
            "string-then-nothing": ['"ab'],
            "string-with-dangling-escape": ['"ab\\'],
            "string-growth": ['"ab', "c", "d", '"'],
        },
    ),
    "objects": (
        "A key shows together with its value, a container from its opening bracket on.",
        {
            "key-piece-by-piece": ["{", '"', "na", "me", '"', " ", ":", " ", '"', "x", '"', "}"],
            "two-members": ['{"a"', ":tr", 'ue,"', 'b":', "[", "]", "}"],
            "members-in-one-fragment": ['{"a":1,"b":"x","c":null,"d":[],"e":{}}'],
            "nested": ['{"a":', '{"b":', '{"c":', "1", "}", "}", "}"],
            "nested-in-one-fragment": ['{"a":{"b":{"c":[{"d":1}]}}}'],
            "container-then-scalar": ['{"a":{', '"x":1}', ',"b":', "2", "}"],
            "scalar-then-container": ['{"a":1,', '"b":{"c":', "false", "},", '"d":2}'],
            "white-space-everywhere": [
                " { ",
                '"a" ',
                ": ",
                "[ ",
                "1 ",
                ", ",
                "2 ",
                "] ",
                ", ",
                '"b" ',
                ": ",
                "{ ",
                "} ",
                "} ",
            ],
            "white-space-kinds": ['{\t"a"\n:\r[\t1\n,\r2\t]\n,\r"b"\t:\n"x"\r}\t'],
            "long-key": ['{"' + "k" * 40, "k" * 40, '":', "1}"],
            "order-of-keys": ['{"b":1,"a":', '2,"0":3', ',"10":4,"9":5}'],
            "empty-values": ['{"a":""', ',"b":[]', ',"c":{}', ',"d":null}'],
            "key-like-text-in-string": ['{"a":"\\"b\\":', '1}"', "}"],
            "comma-waits": ['{"a":"x"', ",", ' "b"', ":", "1", "}"],
        },
    ),
    "arrays": (
        "Items show in order. An array shows from its opening bracket on.",
        {
            "items-one-by-one": ["[", "1", ",", '"x"', ",", "true", ",", "null", "]"],
            "items-in-one-fragment": ['[1,"x",true,null,[],{},-0.5]'],
            "nested": ["[", "[", "[", "1", "]", ",", "[", "]", "]", "]"],
            "nested-in-one-fragment": ["[[[1],[]],[2,[3,[4]]]]"],
            "strings-grow": ['["a', 'b", "', "c", '"]'],
            "objects": ['[{"a":1}', ',{"a":', "2", "}", ",{}]"],
            "mixed-depth": ['{"a":[{"b":["', "x", '"]},', '{"b":[]}', "]}"],
            "white-space": ["[ ", "1", " ,", " 2", "\n]", " "],
            "index-after-container": ["[[],", "{}", ",1", ",[2", "],3]"],
            "many-items": ["[0,1,2,3,4,5,6,7,8,9,", "10,11", ",12]"],
            "strings-in-object-in-array": ['[{"a":"x', "y", '","b":"', "z", '"}]'],
        },
    ),
    "repeated_keys": (
        "Of a repeated key the last value wins. The old value stays until the new one starts to show.",
        {
            "numbers": ['{"a":1', ',"a":', "2", "}"],
            "numbers-in-one-fragment": ['{"a":1,"a":2}'],
            "after-the-root": ["{", '"a":1,"a":2}'],
            "string-starts-anew": ['{"a":"old"', ',"a":', '"n', 'ew"', "}"],
            "container-starts-anew": ['{"a":{"x":1}', ',"a":', "{", '"y":2', "}}"],
            "array-for-string": ['{"a":"x",', '"a":[', "1", "]}"],
            "string-for-array": ['{"a":[1,2],', '"a":"', 'x"}'],
            "literal": ['{"a":true,"a":nu', "ll}"],
            "in-an-inner-object": ['{"o":{"a":1,', '"a":', '"x', '"}}'],
            "escaped-key": ['{"ab":1,"\\u0061b":', "2", "}"],
            "three-times": ['{"a":1,"a":2,', '"a":3', "}"],
            "between-others": ['{"a":1,"b":2,', '"a":3,"c":4', "}"],
            "then-wrong": ['{"a":1,"a":', "x", "}"],
            "then-incomplete": ['{"a":1,"a":', "2"],
            "containers-in-one-fragment": ["{", '"a":{"x":[1]},"a":{"y":[2]}', "}"],
            "string-twice-in-one-fragment": ['{"b":0', ',"a":"one","a":"two"', ',"a":"three', '"}'],
            "in-objects-of-an-array": ['[{"a":1,"a":2},', '{"a":3,"a":"', 'x"}]'],
        },
    ),
    "changes": (
        "A fragment's changes are the fewest operations: one for each new value, and one for the growth of a string.",
        {
            "several-strings-in-one-fragment": ['{"a":"x', 'y","b":"z', 'w","c":"', '"}'],
            "growth-then-new-values": ['{"a":"x', 'y","b":1,"c":[1,2],"d":{"e":"', 'f"},"g":null}'],
            "new-container-includes-its-content": ['{"a":', '{"b":[1,{"c":"x', 'y"}],"d":"z', '"}', "}"],
            "items-of-an-old-array": ['{"a":[', '1,"x",[2,', '3],{"b":', "4}", "]}"],
            "escape-appends-nothing-yet": ['{"a":"x', "\\", "n", "\\u00", "41", '"}'],
            "nothing-visible": ['{"a":', " ", " tr", "u", "e", " ", "}"],
            "growth-of-a-new-string-in-a-new-container": ['{"a":["', "x", 'y", "', "z", '"]}'],
            "two-growing-strings": ['{"a":"', "b", '", "c":"', "d", '"}'],
            "growth-around-escapes": ['{"a":"x', "y\\nz\\tw", "\\\\", '"}'],
            "deep-path": ['{"a":[{"b":{"c":["', "x", "y", '"]}}]}'],
            "back-to-the-outer-container": ['{"a":{"b":1', "}", ',"c":2', ',"d":{"e":3}', ',"f":4', "}"],
            "same-key-in-two-objects": ['{"a":{"k":1},', '"b":{"k":2},', '"k":3}'],
            "item-after-item": ['{"a":[1,', "2,", "3,", "4]}"],
            "sibling-arrays": ['{"a":[1', ',2],"b":[', "3", ",4", "]}"],
        },
    ),
    "tool_inputs": (
        "An input as a model writes it, in fragments as the API sends them.",
        {
            "write-file": [
                '{"path": "',
                "notes/todo",
                '.md"',
                ', "content": "# To',
                " do\\n\\n- bu",
                "y milk\\n- call ",
                'Ann\\n"',
                "}",
            ],
            "weather": ["", '{"city"', ': "Par', 'is, France"', ', "unit": "cel', 'sius"', "}"],
            "edits": [
                '{"edits": [{"line',
                '": 3, "text": "a = 1',
                '"}, {"line": 1',
                '4, "text": "b',
                ' = \\"x\\""}',
                "]",
                "}",
            ],
            "query": ['{"sql": "SELECT *\\nFROM t', " WHERE a = 'x'", ' AND b <> \\"y\\""', ', "limit": 10', "0}"],
            "cut-in-content": ['{"path": "a.txt", "content": "line one', "\\nline tw"],
            "unescaped-quote": ['{"cmd": "echo "', "hi", ' && rm"}'],
            "bare-word": ['{"keywords": ', "Dave", "}"],
            "second-object": ['{"a": 1}', '{"b": 2}'],
            "closing-brace-too-many": ['{"path": "a.txt"', "}", "}"],
            "missing-comma": ['{"a": [1', " 23]", "}"],
            "bare-number-at-the-end": ['{"n": 12', "34"],
            "raw-line-feed": ['{"content": "line one', '\nline two"}'],
            "numbers": ['{"x": -1', "2.", "5, ", '"y": 1e', '3, "z": 0', "}"],
            "booleans": ['{"deep": tr', 'ue, "dry_run": false', ', "user": nul', "l}"],
            "surrogates-cut": ['{"emoji": "\\ud83d', '\\ude00"', ', "again": "\\ud8', "3d\\u", 'de00"}'],
            "list-of-texts": ['{"lines": ["first', '", "sec', 'ond", "', 'third"', "]}"],
            "nested-schema": ['{"filter": {"and": [{"eq": ["a", 1]', '}, {"in": ["b", [2, 3', ']]}]}, "limit"', ": 5}"],
        },
    ),
}
"""Family to its rule, and to its texts, cut as given."""

SLIPS: Final = {
    "comma-last-in-array": "[1,]",
    "comma-last-in-object": '{"a":1,}',
    "comma-first-in-array": "[,1]",
    "comma-first-in-object": '{,"a":1}',
    "comma-alone-in-array": "[,]",
    "comma-alone-in-object": "{,}",
    "two-commas-in-array": "[1,,2]",
    "two-commas-in-object": '{"a":1,,"b":2}',
    "no-comma-in-array": "[1 2]",
    "no-comma-between-strings": '["a" "b"]',
    "no-comma-between-containers": "[[][]]",
    "no-comma-in-object": '{"a":1 "b":2}',
    "no-comma-after-string-value": '{"a":"x" "b":2}',
    "no-colon": '{"a" 1}',
    "no-colon-at-all": '{"a"}',
    "two-colons": '{"a"::1}',
    "comma-for-colon": '{"a",1}',
    "equals-for-colon": '{"a"=1}',
    "colon-in-array": "[1:2]",
    "no-value": '{"a":}',
    "no-value-before-comma": '{"a":,"b":1}',
    "no-value-after-comma": '{"a":1,"b"}',
    "bare-key": "{a:1}",
    "single-quoted-key": "{'a':1}",
    "number-as-key": "{1:2}",
    "array-as-key": '{["a"]:1}',
    "literal-as-key": "{true:1}",
    "object-as-key": '{{"a":1}:1}',
    "number-as-second-key": '{"a":1,2:3}',
    "single-quoted-string": "['a']",
    "wrong-bracket-in-array": "[}",
    "wrong-bracket-in-object": "{]",
    "wrong-bracket-after-string": '["a"}',
    "wrong-bracket-after-member": '{"a":"b"]',
    "wrong-bracket-after-container": "[[1]}",
    "wrong-bracket-outside": '{"a":[1]]',
    "wrong-bracket-inside": '[{"a":1]}',
    "closing-bracket-first": "]",
    "closing-brace-first": "}",
    "comma-first": ",",
    "colon-first": ":",
    "closing-bracket-after-root": "[]]",
    "closing-brace-after-root": "{}}",
    "second-object": "{}{}",
    "second-array": "[1][2]",
    "second-number": "1 2",
    "second-string": '"a""b"',
    "string-after-object": '{}"a"',
    "letter-after-object": "{} x",
    "letter-after-string": '"a"b',
    "comma-after-root": "{},",
    "literal-after-literal": "true false",
    "nul-after-root": "{}\x00",
    "cut-literal-then-true": "[tru,true",
    "cut-literal-then-false": "[f,false",
    "cut-literal-then-null": '{"a":nul,"b":null',
    "comment": "/* */{}",
    "comment-in-object": '{"a":1, // x\n"b":2}',
    "byte-order-mark": "\ufeff{}",
    "no-break-space": "\u00a0{}",
    "no-break-space-in-array": "[1,\u00a02]",
    "form-feed": "[\f1]",
    "vertical-tab": '{"a":\v1}',
    "line-separator": '{"a":1,\u2028"b":2}',
    "next-line": "[1]\x85",
    "zero-width-space": "[\u200b]",
    "nul": "\x00",
    "letter": "hello",
    "markup": "<x/>",
    "backslash": "\\",
    "escaped-quote-outside": '{\\"a\\":1}',
    "single-quote": "'",
    "parenthesis": "(1)",
    "three-dots": "[1, ...]",
    "code-fence": '```json\n{"a":1}\n```',
}
"""Texts that are no JSON."""


def _records(count: int, *, flaw: str = "") -> str:
    records = [
        {"id": number, "name": f"n{number}", "ok": number % 2 == 0, "tags": ["x", None], "at": {"x": number / 4}}
        for number in range(count)
    ]
    return json.dumps(records)[:-1] + flaw + "]"


_TEXT: Final = "The quick brown fox jumps over the lazy dog, again and again. "
_CODE: Final = 'def f(x):\\n\\tprint(\\"x\\\\y\\")\\n\\u0041\\ud83d\\ude00 '
_LIST: Final = ", ".join(f'"s{number}", {number}, -{number}.5' for number in range(30))
_MEMBERS: Final = ", ".join(f'"k{number}": {number}' for number in range(60))

LONG: Final[dict[str, tuple[str, Sequence[str]]]] = {
    name: ("The length of a fragment changes nothing, although a reader may take longer ones another way.", fragments)
    for name, fragments in {
        "records": [_records(8)],
        "records-cut": ['{"records": ' + _records(5)[:200], _records(5)[200:], "}"],
        "records-then-comma": [_records(6, flaw=",")],
        "records-then-two-values": [_records(6, flaw=", 1 2")],
        "records-then-wrong-bracket": [_records(6)[:-1] + "}"],
        "records-then-bare-key": [_records(6, flaw=", {a: 1}")],
        "records-then-nan": [_records(6, flaw=", NaN")],
        "records-then-leading-zero": [_records(6, flaw=", 01")],
        "records-then-control": [_records(6, flaw=', "\n"')],
        "records-then-wrong-escape": [_records(6, flaw=', "\\x"')],
        "records-then-exponent": [_records(6, flaw=", 1e3, 2")],
        "records-then-infinite": [_records(6, flaw=", 1e999, 2")],
        "records-then-lone-surrogate": [_records(6, flaw=', "\\ud83d", 2')],
        "records-then-long-number": [_records(6, flaw=f", {'9' * 130}, 2")],
        "records-then-long-fraction": [_records(6, flaw=f", 0.{'1' * 130}, 2")],
        "records-then-empty-run": [_records(6, flaw=", , 1")],
        "records-then-deeper": [_records(6, flaw=', [[[1, [2]], {"a": {"b": {"c": [3]}}}]], 4')],
        "records-without-spaces": [_records(8).replace(" ", "")],
        "records-with-more-space": [_records(6).replace(" ", " \n\t ")],
        "list": [f"[{_LIST}]"],
        "list-open": [f"[{_LIST}", ", 5", "]"],
        "list-open-after-comma": [f"[{_LIST},", " 5", "]"],
        "list-open-in-number": [f"[{_LIST}, 12", "3", "]"],
        "list-open-in-literal": [f"[{_LIST}, tr", "ue", "]"],
        "list-open-in-string": [f'[{_LIST}, "abc', 'd"', "]"],
        "list-open-in-key": [f'[{_LIST}, {{"ab', 'c": 1', "}]"],
        "list-missing-comma": [f"[{_LIST} {_LIST}]"],
        "list-wrong-bracket-after-number": [f"[{_LIST}, 7}}"],
        "list-in-object": [f'{{"a": [{_LIST}], "b": [{_LIST}]}}'],
        "list-colon": [f'[{_LIST}, "a": 1]'],
        "list-two-commas": [f"[{_LIST},, 1]"],
        "list-comma-first": [f"[, {_LIST}]"],
        "list-comma-first-without-space": [f"[,{_LIST}]"],
        "list-comma-first-then-exponent": [f"[,1e5, {_LIST}]"],
        "list-spaced-comma-first-then-exponent": [f"[ , 1e5, {_LIST}]"],
        "list-two-commas-then-exponent": [f"[1e2,,1e5, {_LIST}]"],
        "list-two-spaced-commas-then-exponent": [f"[1e2, , 1e5, {_LIST}]"],
        "list-two-commas-in-front": [f"[1,,{_LIST}]"],
        "list-two-commas-in-the-middle": [f"[{_LIST},,{_LIST}]"],
        "list-two-spaced-commas": [f"[{_LIST}, , {_LIST}]"],
        "list-comma-first-in-fragment": ["[1", f",,{_LIST}]"],
        "list-exponent-first-in-fragment": ["[", f"1e5, {_LIST}", "]"],
        "list-exponents-between": ["[", f"1e5, {_LIST}, 2E-3, {_LIST}, -1.5e2", f", {_LIST}", "]"],
        "list-of-lists-with-exponents": ["[", f"[{_LIST}], [1e3], [{_LIST}], [[2e1, {_LIST}]]", "]"],
        "members-exponent-first-in-fragment": ["{", f'"z": 1e5, {_MEMBERS}', "}"],
        "members-comma-first": [f"{{, {_MEMBERS}}}"],
        "members-two-commas": [f'{{"z": 1,, {_MEMBERS}}}'],
        "members-two-commas-in-the-middle": [f"{{{_MEMBERS},,{_MEMBERS.replace('k', 'l')}}}"],
        "list-comma-last": [f"[{_LIST},]"],
        "list-cut-anywhere": [f"[{_LIST}]"[:150], f"[{_LIST}]"[150:500], f"[{_LIST}]"[500:]],
        "members": [f"{{{_MEMBERS}}}"],
        "members-open": [f"{{{_MEMBERS}", ', "z": 1', "}"],
        "members-open-after-comma": [f"{{{_MEMBERS},", ' "z": 1', "}"],
        "members-open-in-key": [f'{{{_MEMBERS}, "z', '": 1', "}"],
        "members-open-in-number": [f'{{{_MEMBERS}, "z": 1', "2", "}"],
        "members-comma-last": [f"{{{_MEMBERS},}}"],
        "members-missing-colon": [f'{{{_MEMBERS}, "a" 1}}'],
        "members-wrong-bracket": [f"{{{_MEMBERS}]"],
        "members-repeated": [f'{{{_MEMBERS}, "k3": "x", "k3": [1]}}'],
        "members-repeated-later": [f"{{{_MEMBERS},", f'"k1": "old", {_MEMBERS}', ', "k2": "new', '"}'],
        "members-of-containers": ["{" + ", ".join(f'"k{n}": {{"a": [{n}, "x"], "b": null}}' for n in range(15)) + "}"],
        "members-values-missing": [f'{{{_MEMBERS}, "a": , "b": 1}}'],
        "text": [f'{{"a": "{_TEXT * 8}', _TEXT * 5, f'{_TEXT}", "b": 1}}'],
        "text-with-escapes": [f'{{"a": "{_CODE * 12}', _CODE * 8, f'{_CODE}", "b": "{_CODE * 3}"}}'],
        "text-with-escape-cut": [f'{{"a": "{_CODE * 10}\\u00', f"41{_CODE * 8}\\", f'n{_CODE}"}}'],
        "text-with-pair-cut": [f'{{"a": "{_CODE * 10}\\ud83d', f'\\ude00{_CODE * 8}"}}'],
        "text-with-lone-surrogates": [f'["{_CODE * 10}\\ud83d{_CODE * 8}\\ude00{_CODE}"]'],
        "text-with-high-before-quote": [f'["{_CODE * 10}\\ud83d"]'],
        "text-with-wrong-escape": [f'["{_CODE * 10}\\x{_CODE}"]'],
        "text-with-wrong-hex": [f'["{_CODE * 10}\\u00g0{_CODE}"]'],
        "text-with-line-feed": [f'["{_CODE * 10}\n{_CODE}"]'],
        "text-with-tab-after-escapes": [f'["{_CODE * 3}{_TEXT * 6}\t{_CODE}"]'],
        "text-without-printable-characters": ['["' + "\u00a0\u2028\x7f" * 120 + '", "' + "\u00a0" * 300 + '"]'],
        "text-of-emoji": ['["' + "\U0001f600" * 150, "\U0001f601" * 150 + '"]'],
        "text-as-key": [f'{{"{_TEXT * 6}": 1, "{_CODE * 10}": 2}}'],
        "text-as-key-cut": [f'{{"{_CODE * 6}', f'{_CODE * 6}": 1}}'],
        "text-of-backslashes": ['["' + "\\\\" * 200 + '", "' + "\\\\" * 150, "\\\\" * 150 + '"]'],
        "text-of-unicode-escapes": ['["' + "\\u00e9" * 60 + '"]'],
        "text-of-pairs": ['["' + "\\ud83d\\ude00" * 40 + '"]'],
        "text-at-the-root": [f'"{_CODE * 12}', f'{_TEXT * 6}"'],
        "white-space": [" " * 300 + "[" + "\n" * 300 + "1" + "\t" * 300 + "]" + "\r" * 300],
        "numbers": ["[" + ", ".join(str(number * 37) for number in range(90)) + "]"],
        "exponents": ["[" + ", ".join(f"{number}e{number}" for number in range(50)) + "]"],
        "literals": ["[" + ", ".join(["true", "false", "null"] * 25) + "]"],
        "wrong-literals": ["[" + ", ".join(["true", "false", "null"] * 20) + ", trux]"],
        "brackets": ["[" + "[], {}, " * 60 + "[]]"],
        "deep": ["[" * 100, "1", "]" * 100],
        "deep-in-one-fragment": ['{"a":' * 90 + "[1]" + "}" * 90],
        "deep-then-wrong": ["[" * 90 + '"x"' + "]" * 89 + "}"],
        "deep-members": ['{"b": 1, "a": [' * 40 + "2" + "]}" * 40],
        "digits": ["[" + "1" * 300, "2" * 100, ", 0." + "3" * 300 + "]"],
        "digits-at-the-root": ["1" * 200, "2" * 200],
        "long-integer-after-list": [f"[{_LIST}, {'8' * 101}]"],
        "brackets-in-strings": ['["' + "[{" * 100 + '", "' + "}]," * 100 + '"]'],
        "quotes-in-strings": ['["' + '\\"' * 200 + '"]'],
        "after-error": [f"[{_LIST},]", _LIST, "]"],
        "trailing": [f"[{_LIST}] ", f"[{_LIST}]"],
    }.items()
}
"""Name to rule and fragments, each of some hundred characters."""

_UNITS: Final = (
    "a", "b ", "\u00e9", "\u00a0", "\u2028", "\x7f", "\U0001f600", "{", "]", ",", ":", "0", "xyz", "\\n", '\\"', "\\\\",
    "\\/", "\\u0041", "\\u0000", "\\ud83d\\ude00", "\\uD83D ", "\\ude00",
)  # fmt: skip
_NUMBERS: Final = ("0", "-0", "1", "12", "-7", "0.5", "-0.25", "1e5", "1E+2", "-1.5e-3", "12345678901234567890", "100")
_SPACES: Final = ("", "", "", " ", "\n", "\t \r")
_INTRUDERS: Final = "{}[],:\"\\ \n019.eE+-tfnx/\x00\x1f\u00a0N'"


def mixed_text(dice: Dice) -> str:
    """Return a document; one in three has a slip, one in five is cut."""
    text = _value(dice, 0)
    if dice.below(3) == 0:
        at = dice.below(len(text) + 1)
        intruder = dice.pick(("", dice.pick(_INTRUDERS), dice.pick(_INTRUDERS)))
        # Not right after a high surrogate: whether its proof as a lone one is that wrong character is open.
        if not text[:at].endswith(("\\uD83D", "\\ud83d")):
            text = text[:at] + intruder + text[at + dice.below(2) :]
    return text[: dice.below(len(text)) + 1] if dice.below(5) == 0 else text


def _value(dice: Dice, depth: int) -> str:
    kind = dice.below(10) if depth else dice.below(6)
    if depth > 4:
        kind = 9
    if kind < 4:
        members = (
            f"{_space(dice)}{_key(dice)}{_space(dice)}:{_space(dice)}{_value(dice, depth + 1)}{_space(dice)}"
            for _ in range(dice.below(4))
        )
        return "{" + (",".join(members) or _space(dice)) + "}"
    if kind < 6:
        items = (f"{_space(dice)}{_value(dice, depth + 1)}{_space(dice)}" for _ in range(dice.below(4)))
        return "[" + (",".join(items) or _space(dice)) + "]"
    if kind < 8:
        return _string(dice)
    return dice.pick(_NUMBERS) if kind == 8 else dice.pick(("true", "false", "null"))


def _space(dice: Dice) -> str:
    return dice.pick(_SPACES)


def _key(dice: Dice) -> str:
    return dice.pick(('"a"', '"b"', '"\\u0061"', '""', '"a/b"')) if dice.below(4) else _string(dice)


def _string(dice: Dice) -> str:
    return '"' + "".join(dice.pick(_UNITS) for _ in range(dice.below(6))) + '"'
