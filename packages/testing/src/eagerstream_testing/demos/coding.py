"""A scripted session of a coding agent: ten turns with bash, a text editor and a memory, with concurrent calls.

The model's side is scripted. The tools really run, in a folder that the user chooses. The program that the session
writes has a fault, which its tests find.
"""

from __future__ import annotations

from typing import Any, Final

from eagerstream.recordings import Recording

from .. import Scenario, Timing, reply, text, tool_use

TASK: Final = "Write a program that counts the words of a text, with tests. Note down what you learn."

_PROGRAM: Final = '''\
"""Count the words of a text: python3 words.py FILE..."""

import re
import sys
from collections import Counter
from pathlib import Path

WORD = re.compile(r"[a-z]+")


def count_words(text):
    """How often each word stands in a text, capitals or not."""
    return Counter(WORD.findall(text))


def table(counts, most=10):
    """The words that stand there most often, a line each."""
    lines = []
    for word, count in counts.most_common(most):
        lines.append(f"{count:>6}  {word}")
    return "\\n".join(lines)


def main(paths):
    total = Counter()
    for path in paths:
        total += count_words(Path(path).read_text())
    print(table(total))


if __name__ == "__main__":
    main(sys.argv[1:])
'''

_TESTS: Final = """\
import unittest

from words import count_words, table


class WordsTest(unittest.TestCase):
    def test_counts(self):
        self.assertEqual(count_words("a b a"), {"a": 2, "b": 1})

    def test_capitals(self):
        self.assertEqual(count_words("The sea, the sea"), {"the": 2, "sea": 2})

    def test_nothing(self):
        self.assertEqual(table(count_words("")), "")


if __name__ == "__main__":
    unittest.main()
"""

_README: Final = """\
# words

Counts the words of texts.

    python3 words.py poem.txt

Capitals do not matter, and whatever is no letter separates words.
"""

_NOTES: Final = "# words\n- tests: python3 -m unittest -q\n"
RUN_TESTS: Final = "python3 -m unittest -q 2>&1"


def session(*, timing: Timing | None = None) -> Scenario:
    """Return the model's side of the session: a response for each of its ten turns.

    Args:
        timing: Arrival times for the bytes of the responses; `None` sends each response at once.
    """
    return Scenario(*_replies(), timing=timing)


def _replies() -> tuple[Recording, ...]:
    return (
        reply(
            text("I'll see what I noted earlier, and what there is."),
            _memory(command="view", path="/memories"),
            _bash("ls -A; python3 --version"),
        ),
        reply(
            text("An empty folder. The program and its tests:"),
            _edit(command="create", path="words.py", file_text=_PROGRAM),
            _edit(command="create", path="test_words.py", file_text=_TESTS),
        ),
        reply(text("Let me run the tests."), _bash(RUN_TESTS)),
        reply(
            text("Capitals are counted apart. Where is that?"),
            _edit(command="view", path="words.py", view_range=[8, 14]),
            _bash("grep -n findall words.py"),
        ),
        reply(
            text("The text has to be lowered first."),
            _edit(
                command="str_replace",
                path="words.py",
                old_str="WORD.findall(text)",
                new_str="WORD.findall(text.lower())",
            ),
            _memory(command="create", path="/memories/words.md", file_text=_NOTES),
        ),
        reply(text("Once more."), _bash(RUN_TESTS), _bash("for word in the sea The; do echo $word; done > poem.txt")),
        reply(
            text("They pass. A few words for those who use it."),
            _edit(command="create", path="README.md", file_text=_README),
            _edit(command="insert", path="test_words.py", insert_line=0, insert_text='"""Tests of words.py."""\n\n'),
            _bash("TEXT=poem.txt"),
            _bash("python3 words.py $TEXT"),
        ),
        reply(
            text("I'll note what I learned, and run everything a last time."),
            _memory(
                command="insert",
                path="/memories/words.md",
                insert_line=2,
                insert_text="- lower a text before words are looked for in it\n",
            ),
            _bash(RUN_TESTS),
        ),
        reply(
            text("One look at the result."),
            _memory(command="view", path="/memories/words.md"),
            _edit(command="view", path="test_words.py", view_range=[1, 5]),
            _bash("wc -l *.py *.md"),
        ),
        reply(text("words.py counts the words of a text; its tests pass, and README.md says how to use it.")),
    )


def _bash(command: str) -> Any:
    return tool_use("bash", {"command": command})


def _edit(**input: Any) -> Any:
    return tool_use("text_editor", input)


def _memory(**input: Any) -> Any:
    return tool_use("memory", input)
