"""Callbacks that are all called, whatever one of them does."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from eagerstream._support.callbacks import call_all


def test_each_is_called_once(caplog: pytest.LogCaptureFixture) -> None:
    """One that raises is logged by its class alone, since its text may be a model's."""
    called: list[str] = []

    def fail() -> None:
        called.append("fail")
        raise ValueError("secret")

    callbacks: list[Callable[[], object]] = [lambda: called.append("first"), fail, lambda: called.append("last")]
    with caplog.at_level(logging.WARNING):
        call_all(callbacks)
        call_all(callbacks)
    assert called == ["last", "fail", "first"]
    assert [record.getMessage() for record in caplog.records] == ["a callback for the end of a run raised ValueError"]
