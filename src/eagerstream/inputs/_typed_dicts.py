"""Conversion of TypedDicts for pydantic, which on Python 3.11 accepts only those of `typing_extensions`."""

from __future__ import annotations

import sys
import typing
from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typing_extensions


def readable(hint: Any) -> Any:
    """Return an annotation in which every `typing.TypedDict` is replaced by its twin of `typing_extensions`.

    One that contains itself is left unchanged, and pydantic reports that it cannot read it.
    """
    return hint if sys.version_info >= (3, 12) else _readable(hint, ())


def typed_dict_of(name: str, fields: dict[str, Any]) -> Any:
    """Return a TypedDict whose fields are only known at run time."""
    make: Any = typing_extensions.TypedDict  # mypy reads only TypedDicts written out
    return make(name, fields)


def _readable(hint: Any, within: tuple[Any, ...]) -> Any:
    if typing.is_typeddict(hint) and hint not in within:
        fields: dict[str, Any] = {}
        for name, field in get_type_hints(hint, include_extras=True).items():
            is_required = name in hint.__required_keys__
            if get_origin(field) in (typing.Required, typing.NotRequired):
                is_required = get_origin(field) is typing.Required  # missing from the keys if annotations are texts
                field = get_args(field)[0]
            kind = typing_extensions.Required if is_required else typing_extensions.NotRequired
            fields[name] = kind[_readable(field, (*within, hint))]
        twin = typed_dict_of(hint.__name__, fields)
        twin.__doc__ = hint.__doc__
        twin.__module__ = hint.__module__
        return twin
    arguments = get_args(hint)
    if not arguments or get_origin(hint) is typing.Literal:
        return hint
    if get_origin(hint) is Annotated:
        return Annotated[(_readable(hint.__origin__, within), *hint.__metadata__)]
    replaced = tuple(_readable(argument, within) for argument in arguments)
    if replaced == arguments:
        return hint
    if hasattr(hint, "copy_with"):
        return hint.copy_with(replaced)
    origin = get_origin(hint)
    return reduce(or_, replaced) if origin is UnionType else origin[replaced]
