"""Typed dicts of the standard library, which pydantic does not read on every Python."""

from __future__ import annotations

import typing
from typing import Annotated, NotRequired

import pytest
from pydantic import Field

from eagerstream.inputs import InputError
from eagerstream.tools import tool


class Place(typing.TypedDict):
    """Where."""

    city: Annotated[str, Field(description="The city.")]
    country: NotRequired[str]


class Trip(Place, total=False):
    stops: typing.Required[list[Place]]
    days: int | None


def test_typed_dicts_of_the_standard_library() -> None:
    """On Python 3.11 pydantic takes only those of typing_extensions: nobody who writes a tool need know."""

    @tool
    async def plan(trip: Trip, others: list[Trip] | None = None, by_name: dict[str, Place] = {}) -> None:  # noqa: B006
        """Plan."""

    definitions = plan.input_schema["$defs"]
    assert definitions["Place"]["required"] == ["city"]
    assert definitions["Place"]["description"] == "Where."
    assert definitions["Place"]["properties"]["city"] == {"type": "string", "description": "The city."}
    assert sorted(definitions["Trip"]["required"]) == ["city", "stops"]
    value = {"trip": {"city": "Oslo", "stops": [{"city": "Bergen", "country": "Norway"}], "days": None}}
    assert plan.check(value) == value
    with pytest.raises(InputError, match=r"Missing required 'trip.stops\[0\].city' parameter"):
        plan.check({"trip": {"city": "Oslo", "stops": [{}]}})
