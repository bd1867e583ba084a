"""Names of the older libraries that are not here: whoever imports one is told what does the same."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from eagerstream.compat.departed import INSTEAD, INSTEAD_OF_ATTRIBUTES
from eagerstream.compat.helloagents import Config, HelloAgentsLLM, SimpleAgent

DEPARTED = [(package, name) for package, names in INSTEAD.items() for name in sorted(names)]


@pytest.mark.parametrize(("package", "name"), DEPARTED, ids=str)
def test_names_that_stayed_behind(package: str, name: str) -> None:
    """An import says what takes their place; none of them is there."""
    with pytest.raises(ImportError) as told:
        exec(f"from {package} import {name}", {})
    assert str(told.value) == f"{package} has no {name}: {INSTEAD[package][name]}"
    assert name not in importlib.import_module(package).__all__


@pytest.mark.parametrize("package", INSTEAD)
def test_names_that_never_were(package: str) -> None:
    """They are missing as from any module."""
    assert not hasattr(importlib.import_module(package), "Nobody")
    with pytest.raises(ImportError, match="cannot import name 'Nobody'"):
        exec(f"from {package} import Nobody", {})


@pytest.mark.parametrize("package", INSTEAD)
def test_what_is_exported(package: str) -> None:
    """Every name of the list is there and described, and the list is sorted."""
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if not getattr(module, name).__doc__] == []
    assert module.__all__ == sorted(module.__all__)


@pytest.mark.parametrize("name", INSTEAD_OF_ATTRIBUTES)
def test_methods_that_stayed_behind(name: str) -> None:
    """An agent or its model explains the replacement; other attributes are missing as from any object."""
    llm = HelloAgentsLLM("claude-made-1", client=object())
    owners: list[Any] = [llm, SimpleAgent("assistant", llm, config=Config(trace_enabled=False))]
    for owner in owners:
        with pytest.raises(AttributeError) as told:
            getattr(owner, name)
        assert str(told.value) == f"{type(owner).__name__} has no {name}: {INSTEAD_OF_ATTRIBUTES[name]}"
        assert not hasattr(owner, "nobody")
