"""`lazy_exports`: a name is imported when it is first used, and kept from then on."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from eagerstream._support.lazy import lazy_exports


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package that exports `dumps` and `loads` of the standard library's json."""
    made = ModuleType("made_package")
    monkeypatch.setitem(sys.modules, "made_package", made)
    get, names, exported = lazy_exports("made_package", {"json": ["loads", "dumps"]})
    vars(made).update({"__getattr__": get, "__dir__": names, "__all__": exported})
    return made


def test_a_name_is_kept_once_it_was_used(package: ModuleType) -> None:
    """The second use costs as little as that of any attribute."""
    import json

    assert "loads" not in vars(package)
    assert package.loads is json.loads
    assert vars(package)["loads"] is json.loads
    assert "dumps" not in vars(package)


def test_all_names_are_listed_before_they_are_used(package: ModuleType) -> None:
    """For `dir`, completion and `import *`."""
    assert dir(package) == package.__all__ == ["dumps", "loads"]


def test_another_name_is_no_attribute(package: ModuleType) -> None:
    """As with any module."""
    with pytest.raises(AttributeError, match="module 'made_package' has no attribute 'load'"):
        _ = package.load
