"""Warnings that are logged once."""

from __future__ import annotations

import logging

import pytest

from eagerstream._support import warn_once as module
from eagerstream._support.warn_once import warn_once


def test_each_subject_is_logged_once_and_not_without_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_warned", set())
    log = logging.getLogger("eagerstream.test")
    for number in [*range(300), *range(300)]:
        warn_once(log, "a model, %s", str(number))
    assert caplog.messages == [f"a model, {number}" for number in range(200)]
