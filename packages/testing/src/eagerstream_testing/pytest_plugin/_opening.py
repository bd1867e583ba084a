"""`opened`: the conversation of a test, with the environment that points clients at it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from eagerstream.errors import UsageError
from eagerstream.tools import watch_failures

from ._conversation import Conversation, Double
from ._recorded import folder_of, label_of, load, stale_notes
from ._script import Script
from ._settings import Settings

_PREFIX = "ANTHROPIC_"
_HERE = "127.0.0.1"


@contextmanager
def opened(item: pytest.Item) -> Iterator[Conversation]:
    """Open the conversation of a test. Its server runs, and the environment points at it, until the block ends.

    A setting that does not fit fails the setup of the test.
    """
    conversation = _conversation(item)
    with ExitStack() as stack:
        stack.callback(conversation.close)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        variables = conversation.environment()
        if "ANTHROPIC_AUTH_TOKEN" not in variables:
            patch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)  # clients would send it beside the key
        for name, value in variables.items():
            if name.startswith(_PREFIX):  # the others stay: the test may use them
                patch.setenv(name, value)
        # Clients would ask a proxy that the environment names even for this machine.
        for name in ("NO_PROXY", "no_proxy"):
            patch.setenv(name, ",".join(filter(None, (os.environ.get(name), _HERE))))
        stack.callback(watch_failures(conversation.tool_failures.append))
        yield conversation
        conversation.check_late()


def _conversation(item: pytest.Item) -> Conversation:
    try:
        return _made(item)
    except UsageError as error:
        fault = str(error)
    pytest.fail(f"claude: {fault}", pytrace=False)


def _made(item: pytest.Item) -> Conversation:
    settings = Settings.of(item)
    if not settings.recorded:
        return Double(settings, Script())
    folder = folder_of(item)
    if item.config.getoption("--claude-record"):
        from ..capture._command import default_upstream
        from ._recorder import Recorder

        upstream = item.config.getini("claude_upstream") or default_upstream(os.environ)
        return Recorder(settings, folder, label_of(item), upstream)
    script = Script(load(folder), is_recorded=True)
    return Double(settings, script, lambda: stale_notes(label_of(item), script.replies))
